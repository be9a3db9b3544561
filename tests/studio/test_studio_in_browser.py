"""The studio in a real browser."""

import http.server
import json
import os
import re
import threading
import time
from functools import partial
from itertools import pairwise

import pytest
from client import serve
from test_studio_designer import VALID, ask, write_run
from toy_world import PLAN, ToyWorld

import envgen
from browser import View, expect
from envgen.designers.chat.offline import open_requests
from envgen.runs.store import lock_folder
from run_files import HOSTILE, make_hostile, write_comparison, write_cycle, write_json, write_train_run

MAX_DELAY = 2.0  # seconds until a change in a run directory is on the page
BUSY = 5  # times as long on a busy machine
INK = """canvas => {
  const { width, height } = canvas;
  const pixels = canvas.getContext("2d").getImageData(0, 0, width, height).data;
  let count = 0;
  for (let k = 3; k < pixels.length; k += 4) count += pixels[k] > 200;
  return count;
}"""
UNNAMED = """() => [...document.querySelectorAll("input, select, textarea, button, a, img, [tabindex='0']")]
  .filter(element => element.checkVisibility())
  .filter(element => !(element.labels?.length || element.getAttribute("aria-label") || element.textContent.trim()
    || element.title || element.hasAttribute("alt")))
  .map(element => element.outerHTML.slice(0, 200))"""


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    folder = write_comparison(tmp_path_factory.mktemp("runs"))
    with serve(folder) as client:
        yield client


def finish(view: View) -> None:
    """What every page must hold when a test is done with it."""
    assert view.problems == []
    assert view.outside_requests() == []


def append_progress(run_dir, steps: int, succeeded: int) -> None:
    result = {"episodes": 4, "return_sum": 4.0, "succeeded": [succeeded, 0, 0]}
    line = {"phase": "final", "steps": steps, "entropy": 1.0, "levels": [result], "seconds": 0.5, **result}
    with open(run_dir / "progress.jsonl", "a") as stream:
        stream.write(json.dumps(line) + "\n")


# --- runs


def test_a_run_in_progress_is_followed_without_a_reload(browser, tmp_path):
    run_dir = write_train_run(tmp_path / "run", finished=False)
    with lock_folder(run_dir), serve(tmp_path) as client, View(browser, client.server.url) as view:
        page = view.page
        card = page.locator("article.live-run")
        card.get_by_text("3 k of 3 k").wait_for()
        chart = card.locator("figure.chart")
        chart.locator("canvas").wait_for()
        view.wait_until(lambda: chart.locator("canvas").evaluate(INK) > 500)
        page.evaluate("window.marker = 1")
        page.get_by_label("Compare run").check()
        page.get_by_text("Connected", exact=True).or_(page.get_by_text("Live", exact=True)).wait_for()
        before = chart.get_by_role("img").get_attribute("aria-label")
        delays, start = [], time.monotonic()
        append_progress(run_dir, 4000, 4)
        card.get_by_text("4 k of 3 k").wait_for()
        page.wait_for_function(
            "label => document.querySelector('.live-run .plot').getAttribute('aria-label') !== label", arg=before
        )
        delays.append(time.monotonic() - start)
        start = time.monotonic()
        write_cycle(run_dir / "cycles" / "3", 3, 20.0, "NEWS")
        card.get_by_text("Levels of cycle 3").wait_for()
        card.get_by_text("teach NEWS").wait_for()
        delays.append(time.monotonic() - start)
        picture = card.get_by_role("img", name="Map of level 1: teach NEWS")
        picture.scroll_into_view_if_needed()
        page.wait_for_function("image => image.naturalWidth > 100", arg=picture.element_handle(), timeout=120_000)
        start = time.monotonic()
        write_train_run(tmp_path / "second", seed=1)
        page.get_by_role("row", name="second").get_by_text("finished", exact=True).wait_for()
        delays.append(time.monotonic() - start)
        assert min(delays) < MAX_DELAY
        assert max(delays) < BUSY * MAX_DELAY
        expect(page.get_by_label("Compare run")).to_be_checked()
        assert page.evaluate("window.marker") == 1
        finish(view)


def test_the_page_of_a_run_keeps_what_is_open(browser, tmp_path):
    run_dir = write_train_run(tmp_path / "run", finished=False)
    with lock_folder(run_dir), serve(tmp_path) as client, View(browser, client.server.url) as view:
        page = view.page
        page.get_by_role("row", name="run").get_by_role("link").click()
        page.get_by_text("All settings").click()
        page.get_by_text("Conversation with the language model").click()
        chart = page.locator("figure.chart").first
        chart.get_by_text("Data", exact=True).click()
        chart.get_by_role("button", name="training episodes").click()  # hides the curve
        write_cycle(run_dir / "cycles" / "2", 2, 20.0, "NEWS")
        page.get_by_text("teach NEWS").wait_for()
        append_progress(run_dir, 4000, 4)
        chart.get_by_role("rowheader", name="4 k", exact=True).first.wait_for()
        expect(chart.get_by_role("button", name="training episodes", pressed=False)).to_be_visible()
        expect(page.get_by_text("learner.num_envs")).to_be_visible()
        expect(page.locator(".conversation")).to_be_visible()
        write_train_run(tmp_path / "run", finished=True)
        page.get_by_text("finished", exact=True).wait_for()
        finish(view)


@pytest.mark.parametrize("selector", [".data summary", ".data .scroll", ".plot", ".legend button"])
def test_an_update_keeps_the_focus(browser, tmp_path, selector):
    run_dir = write_train_run(tmp_path / "run", finished=False)
    with lock_folder(run_dir), serve(tmp_path) as client, View(browser, client.server.url) as view:
        chart = view.page.locator("article.live-run figure.chart")
        chart.get_by_text("Data", exact=True).click()
        chart.locator(selector).first.focus()
        append_progress(run_dir, 4000, 4)
        chart.get_by_role("rowheader", name="4 k", exact=True).wait_for()
        expect(chart.locator(selector).first).to_be_focused()
        finish(view)


def test_an_element_that_is_moved_keeps_the_focus(browser, comparison):
    with View(browser, comparison.server.url) as view:
        view.page.get_by_label("Compare llm-1").focus()
        view.page.evaluate("""() => {
          const list = document.getElementById("list").cloneNode(true);
          const body = list.querySelector(".runs-table tbody");
          body.append(...[...body.children].reverse());
          update(list.outerHTML);
        }""")
        expect(view.page.get_by_label("Compare llm-1")).to_be_focused()
        finish(view)


def test_runs_are_compared_by_ticking(browser, comparison):
    with View(browser, comparison.server.url) as view:
        page = view.page
        for name in ("none-0", "none-1", "llm-0", "llm-1"):
            page.get_by_label(f"Compare {name}").check()
        page.get_by_text("4 runs are compared.").wait_for()
        page.get_by_role("heading", name="Difference from the baseline (none)").wait_for()
        expect(page.locator("#comparison").get_by_text("21.0 [20.0, 22.0]").first).to_be_visible()
        page.locator("#comparison figure.chart canvas").first.scroll_into_view_if_needed()
        page.reload()
        page.get_by_text("4 runs are compared.").wait_for()
        expect(page.get_by_label("Compare llm-1")).to_be_checked()
        page.get_by_label("Filter").fill("genenv")
        expect(page.locator(".runs-table tbody tr:visible")).to_have_count(2)
        page.get_by_label("Filter").fill("")
        for name in ("none-0", "none-1", "llm-0", "llm-1"):
            page.get_by_label(f"Compare {name}").uncheck()
        page.wait_for_function("() => document.getElementById('comparison').childElementCount === 0")
        finish(view)


def test_a_report_opens_and_works_in_its_sandbox(browser, comparison):
    address = f"{comparison.server.url}run?id={comparison.run_id('llm-0')}"
    with View(browser, address) as view:
        with view.context.expect_page() as opened:
            view.page.get_by_role("link", name="Report", exact=True).click()
        report = opened.value
        report.locator("figure.chart canvas").first.wait_for()
        assert report.evaluate("origin") == "null"
        finish(view)


# --- levels


def test_a_level_goes_through_the_editor_and_back(browser, tmp_path):
    with serve(tmp_path) as client, View(browser, client.server.url + "levels?world=toy") as view:
        page = view.page
        text = page.get_by_label("The level as JSON")
        is_drawn = "() => document.getElementById('map').naturalWidth > 0 && document.getElementById('map').complete"
        page.wait_for_function(is_drawn)
        first_map = page.locator("#map").get_attribute("src")
        page.get_by_label("width").fill("9")
        page.get_by_label("floor").select_option(label="very soft")
        page.get_by_label("speed").select_option(label="2")
        page.get_by_label("slope").fill("-0.25")
        page.get_by_label("signs").fill("to the\nright")
        page.get_by_label("left").check()
        page.locator("summary", has_text="items").click()
        page.get_by_label("lamp").check()
        page.get_by_text("1 changed").wait_for()
        expected = {
            "width": 9,
            "floor": "very soft",
            "speed": 2,
            "slope": -0.25,
            "doors": ["left", "right"],
            "signs": ["to the", "right"],
            "items": {"lamp": True},
        }
        has_text = "text => JSON.stringify(JSON.parse(document.getElementById('level-text').value)) === text"
        page.wait_for_function(has_text, arg=json.dumps(expected, separators=(",", ":")))
        page.wait_for_function("src => document.getElementById('map').getAttribute('src') !== src", arg=first_map)
        page.wait_for_function(is_drawn)
        page.get_by_text("All statistics").click()
        page.get_by_role("rowheader", name="initial agent").wait_for()

        page.get_by_label("File", exact=True).fill("my level")
        page.get_by_role("button", name="Save").click()
        page.get_by_text("Saved as").wait_for()
        assert json.loads((tmp_path / "my level.json").read_text()) == expected

        page.get_by_role("button", name="Reset all").click()
        page.wait_for_function(has_text, arg="{}")
        expect(page.get_by_label("width")).to_have_value("6")
        page.get_by_role("button", name="Save").click()  # the level of the form is another one now
        page.get_by_text("my level.json exists").wait_for()
        page.get_by_role("button", name="Load").click()
        page.wait_for_function(has_text, arg=json.dumps(expected, separators=(",", ":")))
        expect(page.get_by_label("width")).to_have_value("9")
        expect(page.get_by_label("lamp")).to_be_checked()
        expect(page.get_by_label("left")).to_be_checked()
        page.get_by_role("button", name="Save").click()
        page.get_by_role("button", name="Replace it").click()
        page.get_by_text("Saved as").wait_for()
        expect(page.get_by_role("button", name="Save")).to_be_focused()

        text.fill('{"width": 4, "items": {"coins": 3}}')
        page.wait_for_function("() => document.querySelector('[data-setting=width]').value === '4'")
        expect(page.get_by_label("coins")).to_have_value("3")
        expect(page.get_by_label("lamp")).not_to_be_checked()
        text.fill('{"widht": 4}')
        page.get_by_role("alert").get_by_text("did you mean 'width'?").wait_for()
        expect(page.get_by_role("button", name="Save")).to_be_disabled()
        text.fill("{}")
        page.wait_for_function("() => !document.getElementById('save').disabled")
        page.get_by_label("width").fill("99")
        page.get_by_role("alert").get_by_text("from 3 to 12").wait_for()
        upload = {"name": "x.json", "mimeType": "application/json", "buffer": b'{"floor": "very soft"}'}
        page.get_by_label("Open from this computer").set_input_files(upload)
        page.get_by_text("Opened x.json").wait_for()
        expect(page.get_by_label("floor")).to_have_value('"very soft"')
        finish(view)


def test_another_map_keeps_what_is_being_edited(browser, tmp_path):
    with serve(tmp_path) as client, View(browser, client.server.url + "levels?world=toy") as view:
        page, reseed = view.page, view.page.locator("#reseed")
        page.wait_for_function("() => document.getElementById('map').naturalWidth > 0")
        text, width = page.get_by_label("The level as JSON"), page.get_by_label("width")
        text.fill('{"width": ')
        page.get_by_role("alert").get_by_text("JSON").wait_for()
        reseed.click()
        page.get_by_role("alert").get_by_text("JSON").wait_for()
        expect(text).to_have_value('{"width": ')
        text.fill("{}")
        page.wait_for_function("() => !document.getElementById('save').disabled")
        width.fill("99")
        page.get_by_role("alert").get_by_text("from 3 to 12").wait_for()
        page.get_by_label("Seed").fill("7")
        page.wait_for_timeout(300)
        expect(width).to_have_value("99")
        page.evaluate("""() => {  // a change and another map within the delay of the check
          const width = document.querySelector("[data-setting=width]");
          width.value = "9";
          width.dispatchEvent(new Event("input", { bubbles: true }));
          document.getElementById("reseed").click();
        }""")
        page.wait_for_function("() => document.getElementById('level-text').value.includes('9')")
        expect(width).to_have_value("9")
        finish(view)


def test_a_level_is_played_with_the_keyboard(browser, tmp_path):
    with serve(tmp_path) as client, View(browser, client.server.url + 'levels?world=toy&level={"width":12}') as view:
        page = view.page
        page.wait_for_function("() => document.getElementById('level-text').value.includes('12')")
        page.get_by_role("button", name="Play", exact=True).focus()
        page.keyboard.press("Enter")
        page.get_by_text("step 0, return 0").wait_for()
        screen = page.get_by_role("application", name="Game")
        expect(screen).to_be_focused()
        frame = screen.locator("img").get_attribute("src")
        page.keyboard.press("ArrowRight")
        page.get_by_text("step 1, return 0").wait_for()
        expect(screen.locator("img")).not_to_have_attribute("src", frame)
        page.get_by_role("button", name="left", exact=True).click()
        page.get_by_text("step 2, return 0").wait_for()
        screen.focus()
        page.keyboard.press("Tab")  # is not caught by the game
        expect(screen).not_to_be_focused()
        screen.focus()
        keys = []
        page.on("request", lambda request: request.url.endswith("/key") and keys.append(request.post_data_json["key"]))
        for _ in range(12):  # more than the episode has
            page.keyboard.press("ArrowRight")
        end = re.search(r"The episode ended at step (\d+)", page.get_by_text("The episode ended").inner_text())
        page.get_by_role("button", name="Restart").click()
        page.get_by_text("step 0, return 0").wait_for()
        assert end is not None
        assert keys == (int(end[1]) - 2) * ["right"] + ["r"]  # none after the end
        screen.focus()
        page.keyboard.press("Escape")
        screen.wait_for(state="hidden")
        expect(page.get_by_role("button", name="Play", exact=True)).to_be_focused()
        finish(view)


def test_a_game_that_cannot_start_leaves_the_focus_on_its_button(browser, tmp_path):
    with serve(tmp_path) as client, View(browser, client.server.url + "levels?world=toy") as view:
        view.page.wait_for_function("() => document.getElementById('level-text').value === '{}'")
        view.page.route("**/play", lambda route: route.abort())
        button = view.page.get_by_role("button", name="Play", exact=True)
        button.focus()
        view.page.keyboard.press("Enter")
        view.page.get_by_text("envgen studio does not answer").wait_for()
        expect(button).to_be_focused()


def test_r_restarts_an_episode_that_has_ended_even_if_it_is_the_key_of_an_action(browser, tmp_path, monkeypatch):
    monkeypatch.setattr(ToyWorld, "key_bindings", {"left": "left", "r": "right"})
    with serve(tmp_path) as client, View(browser, client.server.url + 'levels?world=toy&level={"width":3}') as view:
        page = view.page
        page.wait_for_function("() => document.getElementById('level-text').value.includes('3')")
        page.get_by_role("button", name="Play", exact=True).click()
        page.get_by_text("step 0, return 0").wait_for()
        page.keyboard.press("r")
        page.get_by_text("The episode ended at step 1").wait_for()
        page.keyboard.press("r")
        page.get_by_text("step 0, return 0").wait_for()
        finish(view)


# --- requests that a person answers


def test_a_person_designs_the_levels_of_a_real_run(browser, tmp_path):
    """The run asks, the reply is written and sent in the page, and the run trains in its levels."""
    options = {
        "llm": {"llm": "manual", "revise": False}, "plan": PLAN, "preset": "quick", "folder": tmp_path / "run",
        "verbose": False, "hyperparameters": {"num_envs": 4, "num_steps": 32},
    }  # fmt: skip
    run = threading.Thread(target=envgen.train, args=(ToyWorld(), "llm"), kwargs=options, daemon=True)
    with serve(tmp_path) as client, View(browser, client.server.url + "designer") as view:
        page = view.page
        page.get_by_text("No run is waiting for a reply.").wait_for()
        run.start()
        page.get_by_role("link", name="Request 1 of run").click(timeout=90_000)
        page.locator("#newest").get_by_text("You design training levels").wait_for()
        reply, errors = page.locator("#reply"), page.locator("#reply-errors")
        reply.fill('{"levels": [{"purpose": "short", "skills": ["reach_end"], "level": {"widht": 3}}, {"level": {}}]}')
        errors.get_by_text("did you mean 'width'?").wait_for()
        page.get_by_role("button", name="Send").click()
        page.get_by_text("The reply has errors. The run would ask again.").wait_for()
        assert not list((tmp_path / "run" / "requests").glob("*.reply.md"))
        reply.fill(reply.input_value().replace("widht", "width"))
        errors.get_by_text("The reply is valid").wait_for()
        picture = page.get_by_role("img", name="Map of level 1: short")
        page.wait_for_function("image => image.naturalWidth > 0", arg=picture.element_handle())
        page.locator("#reply-levels .stats").first.get_by_text("All statistics").wait_for()
        page.get_by_role("button", name="Change this level").nth(1).click()
        dialog = page.get_by_role("dialog", name="Level 2")
        dialog.get_by_label("Purpose").fill("with a lamp")
        dialog.locator("summary", has_text="items").click()
        dialog.get_by_label("lamp").check()
        dialog.get_by_role("button", name="Put into the reply").click()
        page.get_by_role("img", name="Map of level 2: with a lamp").wait_for()
        assert json.loads(reply.input_value())["levels"][0]["level"] == {"width": 3}
        page.get_by_role("button", name="Send").click()
        page.get_by_text("accepted", exact=True).wait_for()
        expect(reply).to_be_disabled()
        run.join(60)
        assert not run.is_alive()
        levels = json.loads((tmp_path / "run" / "cycles" / "1" / "levels.json").read_text())["proposal"]["levels"]
        assert [item["level"] for item in levels] == [{"width": 3}, {"items": {"lamp": True}}]
        assert levels[1]["purpose"] == "with a lamp"
        finish(view)


def test_changing_a_level_keeps_the_rest_of_the_reply(browser, tmp_path):
    ask(write_run(tmp_path / "run", world="crafter", feedback="rich"), "FIRST")
    level, chain = {"level": {"trees": "common"}, "weight": 2}, {"chain": "collect_diamond", "weight": 0.5}
    value = {"reasoning": "Start with wood.", "levels": [level, chain]}
    changed = {**level, "purpose": "wood", "skills": []}
    with serve(tmp_path) as client, View(browser, client.server.url + "designer") as view:
        page = view.page
        page.get_by_role("link", name="Request 1 of run").click()
        reply, button = page.locator("#reply"), page.get_by_role("button", name="Change this level")
        for before, after in (("```json\n", "\n```"), ("Here are the levels: ", " They fit.")):
            reply.fill(before + json.dumps(value) + after)
            page.locator("#reply-errors").get_by_text("The reply is valid").wait_for()
            expect(button).to_have_count(1)  # a chain has no settings of its own
            button.click()
            dialog = page.get_by_role("dialog", name="Level 1")
            dialog.get_by_label("Purpose").fill("wood")
            dialog.get_by_role("button", name="Put into the reply").click()
            page.get_by_role("img", name="Map of level 1: wood").wait_for()
            expect(button).to_be_focused()
            assert json.loads(reply.input_value()) == {**value, "levels": [changed, chain]}
        text = json.dumps({"levels": [{**level, "purpose": "trees"}, chain]})
        reply.fill(text.replace("]}", "],}"))  # the run repairs such slips, but the page does not
        page.get_by_role("img", name="Map of level 1: trees").wait_for()
        page.locator("#reply-errors").get_by_text("The reply is valid").wait_for()
        expect(button).to_have_count(0)
        finish(view)


def test_a_draft_survives_a_reload_and_a_new_request_appears(browser, tmp_path):
    ask(write_run(tmp_path / "run"), "FIRST")
    with serve(tmp_path) as client, View(browser, client.server.url + "designer") as view:
        page = view.page
        page.get_by_role("link", name="Request 1 of run").click()
        page.get_by_text("The run is not running.").wait_for()
        page.get_by_role("button", name="Start with 2 levels").click()
        page.locator("#reply-errors").get_by_text("The reply is valid").wait_for()
        page.reload()
        page.locator("#reply-errors").get_by_text("The reply is valid").wait_for()
        expect(page.locator("#reply")).to_have_value(re.compile('"levels"'))
        page.locator("#reply").fill(json.dumps(VALID))
        page.locator("#reply-errors").get_by_text("The reply is valid").wait_for()
        page.get_by_role("button", name="Send").click()
        page.get_by_text("The run has not read it yet.").wait_for()
        ask(tmp_path / "run", "FIRST", "reply", "SECOND")
        page.get_by_role("link", name="Request 2").click()
        page.locator("#newest").get_by_text("SECOND").wait_for()
        finish(view)


def test_a_request_that_is_answered_elsewhere_closes_the_page(browser, tmp_path):
    ask(write_run(tmp_path / "run"), "FIRST")
    with serve(tmp_path) as client, View(browser, client.server.url + "designer") as view:
        page = view.page
        page.get_by_role("link", name="Request 1 of run").click()
        page.locator("#reply").fill(json.dumps(VALID))
        page.locator("#reply-errors").get_by_text("The reply is valid").wait_for()
        (request,) = open_requests(tmp_path / "run" / "requests")
        request.with_name(f"{request.stem}.reply.md").write_text("answered")
        page.reload()
        page.get_by_text("This request has already been answered.").wait_for()
        page.wait_for_timeout(300)
        expect(page.locator("#send-status")).to_have_text("This request has already been answered.")
        assert page.evaluate("() => Object.keys(sessionStorage).filter(key => key.startsWith('draft')).length") == 0
        finish(view)


def test_a_reply_typed_before_the_script_is_loaded_is_kept(browser, tmp_path):
    ask(write_run(tmp_path / "run"), "FIRST")
    held = []
    with serve(tmp_path) as client, View(browser, client.server.url + "designer") as view:
        page = view.page
        page.route("**/asset?name=designer.js", lambda route: held.append(route))
        page.get_by_role("link", name="Request 1 of run").click()
        view.wait_until(lambda: held)
        page.locator("#reply").fill(json.dumps(VALID))
        expect(page.get_by_role("button", name="Send")).to_be_disabled()
        held[0].continue_()
        page.locator("#reply-errors").get_by_text("The reply is valid").wait_for()
        page.get_by_role("button", name="Send").click()
        page.get_by_text("The run has not read it yet.").wait_for()
        finish(view)


# --- all pages


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """A folder with every kind of run."""
    folder = tmp_path_factory.mktemp("everything")
    write_train_run(folder / "in-progress", finished=False)
    write_train_run(folder / "finished")
    write_comparison(folder / "comparison")
    ask(write_run(folder / "asking"), "Design levels.", "A reply.", "Design better levels.")
    with lock_folder(folder / "in-progress"), serve(folder) as client:
        request = next((folder / "asking" / "requests").glob("1-*.md")).stem
        ids = {name: client.run_id(name) for name in ("in-progress", "finished", "asking", "comparison/genenv-1")}
        addresses = [
            "", "levels?world=toy", "designer", f"request?id={ids['asking']}&name={request}",
            *(f"run?id={run_id}" for run_id in ids.values()),
        ]  # fmt: skip
        yield [client.server.url + address for address in addresses]


@pytest.mark.parametrize(("width", "dark"), [(390, False), (390, True), (820, False), (1440, True)])
def test_every_page_fits_every_width_and_theme(browser, everything, width, dark):
    with View(browser, everything[0], width, dark) as view:
        for address in everything:
            view.page.goto(address)
            view.page.get_by_text("Live", exact=True).wait_for(state="attached")
            page_width = view.page.evaluate("document.documentElement.scrollWidth")
            assert page_width <= width, address
            assert view.page.evaluate(UNNAMED) == [], address
            levels = view.page.locator("h1, h2, h3, h4, h5").evaluate_all("all => all.map(h => Number(h.tagName[1]))")
            assert levels.count(1) == 1
            assert max((after - before for before, after in pairwise(levels)), default=0) <= 1, address
            background = view.page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (background == "rgb(14, 17, 21)") == dark
        finish(view)


def test_the_list_is_used_with_the_keyboard_alone(browser, everything):
    with View(browser, everything[0]) as view:
        page = view.page
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        page.keyboard.press("Enter")
        page.get_by_label("Compare finished").focus()
        page.keyboard.press("Space")
        page.get_by_role("status").get_by_text("One run is shown.").wait_for()
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "finished"
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="finished", level=1).wait_for()
        finish(view)


def test_the_page_says_when_the_studio_has_ended(browser, tmp_path):
    with serve(tmp_path) as client:
        view = View(browser, client.server.url)
        view.page.get_by_text("Live", exact=True).wait_for()
    with view:
        view.page.get_by_text("Not connected").wait_for()


# --- hostile content, and hostile pages


def test_hostile_texts_are_inert(browser, tmp_path):
    run_dir = write_train_run(tmp_path / "<img src=x onerror=window.hacked=5>", finished=False)
    for file in run_dir.rglob("*.json*"):
        if file.name != "run.json":
            lines = [json.loads(line) for line in file.read_text().splitlines() if line]
            file.write_text("".join(json.dumps(make_hostile(line)) + "\n" for line in lines))
    request = {"world": HOSTILE, "designer": {"name": HOSTILE}, "seed": 0, "plan": {"cycles": 2}}
    write_json(tmp_path / "other" / "run.json", {"format": 2, "request": request})
    text = HOSTILE.replace("\ud800", "")
    ask(write_run(tmp_path / "asking"), text, text, text)
    with serve(tmp_path) as client, View(browser, client.server.url) as view:
        page = view.page
        name = next((tmp_path / "asking" / "requests").glob("1-*.md")).stem
        addresses = ["", "designer", f"request?id={client.run_id('asking')}&name={name}"]
        addresses += [f"run?id={run.id}" for run in client.studio.folder.runs()]
        shown = 0
        for address in addresses:
            page.goto(client.server.url + address)
            for box in page.locator("input[name=run]").all():
                box.check()
            for element in page.locator("summary").all():
                element.evaluate("element => element.parentElement.open = true")
            page.mouse.move(400, 400)
            page.wait_for_timeout(400)
            shown += page.get_by_text("window.hacked").count()
            assert page.evaluate("window.hacked") is None, address
            expect(page.get_by_role("navigation")).to_have_count(1)
        assert shown > 10
        page.goto(client.server.url + addresses[2])
        reply = {"levels": [{"purpose": text, "level": {}}, {"level": {text: 1}}]}
        page.locator("#reply").fill(json.dumps(reply))
        page.locator("#reply-errors").get_by_text("window.hacked").wait_for()
        page.goto(client.server.url + "levels?world=toy&level=" + "%3Cimg src=x onerror=window.hacked=6%3E")
        page.get_by_role("alert").get_by_text("this is not JSON").wait_for()
        assert page.evaluate("window.hacked") is None
        finish(view)
        # the policy holds even if a text were not escaped
        page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.hacked=1\">')")
        page.wait_for_timeout(100)
        assert page.evaluate("window.hacked") is None


ATTACKS = """async address => {
  const results = {};
  const attempt = async (name, action) => {
    try { results[name] = await action(); } catch { results[name] = "refused"; }
  };
  const loads = (element, source) => new Promise(resolve => {
    element.onload = () => resolve("loaded");
    element.onerror = () => resolve("refused");
    element.src = source;
    document.body.append(element);
  });
  const body = JSON.stringify({ world: "toy", level: {}, name: "attack" });
  await attempt("read", async () => (await fetch(address)).status);
  await attempt("read blindly", async () => (await fetch(address, { mode: "no-cors" })).type);
  await attempt("write", async () => (await fetch(address + "level-file", { method: "POST", body,
    headers: { "Content-Type": "application/json" } })).status);
  await attempt("write blindly", async () => (await fetch(address + "level-file", { method: "POST", body,
    mode: "no-cors" })).type);
  await attempt("script", () => loads(document.createElement("script"), address + "asset?name=studio.js"));
  await attempt("image", () => loads(document.createElement("img"), address + "picture?name=x"));
  await attempt("events", () => new Promise(resolve => {
    const source = new EventSource(address + "events?view=runs");
    source.onmessage = () => resolve("read");
    source.onerror = () => { source.close(); resolve("refused"); };
  }));
  const frame = document.createElement("iframe");
  await attempt("frame", async () => {
    await loads(frame, address);
    try { return frame.contentDocument.title; } catch { return "refused"; }
  });
  return results;
}"""


def test_a_page_of_another_origin_can_do_nothing_even_with_the_token(browser, tmp_path, tmp_path_factory):
    strangers = tmp_path_factory.mktemp("strangers")
    (strangers / "index.html").write_text("<!doctype html><title>stranger</title><p>hello")
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=os.fspath(strangers))
    handler.log_message = lambda *args: None  # type: ignore[attr-defined]
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as stranger:
        threading.Thread(target=stranger.serve_forever, daemon=True).start()
        with serve(tmp_path) as client, View(browser, f"http://127.0.0.1:{stranger.server_port}/") as view:
            results = view.page.evaluate(ATTACKS, client.server.url)
            opaque = {"read blindly": "opaque", "write blindly": "opaque"}  # a response that cannot be read
            for name, result in results.items():
                assert result in ("refused", opaque.get(name)), name
            assert list(tmp_path.iterdir()) == []
        stranger.shutdown()
