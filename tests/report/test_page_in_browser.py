"""Reports in a real browser."""

import re
from itertools import pairwise

import numpy as np
import pytest
from test_page import write_hostile_runs

from browser import View, expect
from envgen.report.clips import Clip
from envgen.report.page import write_report
from run_files import write_comparison, write_train_run

MAX_FIRST_CHART = 300  # milliseconds after opening
INK = """canvas => {
  const { width, height } = canvas;
  const pixels = canvas.getContext("2d").getImageData(0, 0, width, height).data;
  const colors = new Set();
  for (let k = 0; k < pixels.length; k += 4) if (pixels[k + 3] > 200) colors.add(pixels[k] + "," + pixels[k + 1] + "," + pixels[k + 2]);
  return [...colors];
}"""  # noqa: E501


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    folder = write_comparison(tmp_path_factory.mktemp("runs"))
    return write_report([folder], folder / "report.html", clips=False)


def color_of(view: View, name: str) -> str:
    """A color of the theme as `r,g,b`."""
    text = view.page.evaluate(f"getComputedStyle(document.documentElement).getPropertyValue('{name}')").strip()
    return ",".join(str(int(text[k : k + 2], 16)) for k in (1, 3, 5))


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 820, 1440])
def test_charts_are_drawn_in_every_width_and_theme(browser, comparison, width, dark):
    with View(browser, comparison, width, dark) as view:
        figures = view.page.locator("figure.chart")
        assert figures.count() > 8
        for k in range(4):
            figures.nth(k).scroll_into_view_if_needed()
            canvas = figures.nth(k).locator("canvas")
            canvas.wait_for()
            curves = {color_of(view, "--c0"), color_of(view, "--c1")}
            view.wait_until(lambda canvas=canvas, curves=curves: curves <= set(canvas.evaluate(INK)))
        page_width = view.page.evaluate("document.documentElement.scrollWidth")
        assert page_width <= width  # wide tables scroll by themselves
        assert view.problems == []
        assert view.outside_requests() == []


def test_the_first_chart_is_drawn_at_once(browser, comparison):
    times = []
    while not times or (min(times) > MAX_FIRST_CHART and len(times) < 10):  # the machine may be busy
        with View(browser, comparison) as view:
            view.page.wait_for_function("performance.getEntriesByName('first-chart').length > 0")
            times.append(view.page.evaluate("performance.getEntriesByName('first-chart')[0].startTime"))
    assert min(times) < 3 * MAX_FIRST_CHART, times


def test_the_theme_can_be_chosen_and_charts_follow(browser, comparison):
    with View(browser, comparison) as view:
        canvas = view.page.locator("figure.chart canvas").first
        light = color_of(view, "--c1")
        view.page.get_by_role("button", name="Theme: system").click()
        view.page.get_by_role("button", name="Theme: light").click()
        view.page.get_by_role("button", name="Theme: dark").wait_for()
        dark = color_of(view, "--c1")
        assert dark != light
        view.wait_until(lambda: dark in (colors := canvas.evaluate(INK)) and light not in colors)


def test_charts_can_be_read_with_the_keyboard_and_by_screen_readers(browser, comparison):
    with View(browser, comparison) as view:
        figure = view.page.locator("figure.chart").first
        plot = figure.get_by_role("img")
        assert "Score in the original" in plot.get_attribute("aria-label")
        assert "llm (n=2) 21" in plot.get_attribute("aria-label")
        plot.focus()
        view.page.keyboard.press("End")
        expect(figure.locator("[aria-live]")).to_have_text("3 k steps: none (n=2) 15.5, llm (n=2) 21")
        view.page.keyboard.press("ArrowLeft")
        expect(figure.locator("[aria-live]")).to_contain_text(re.compile("^2 k steps"))
        view.page.keyboard.press("Tab")  # to the legend
        canvas, color = figure.locator("canvas"), color_of(view, "--c0")
        view.page.keyboard.press("Enter")
        expect(figure.get_by_role("button", pressed=False)).to_have_count(1)
        view.wait_until(lambda: color not in canvas.evaluate(INK))
        figure.get_by_text("Data", exact=True).click()
        expect(figure.get_by_role("row")).to_have_count(4)
        expect(figure.get_by_role("rowheader", name="2 k")).to_have_count(1)
        expect(figure.get_by_role("table", name=re.compile("^Data of Score in the original"))).to_be_visible()


def test_curves_differ_in_their_patterns_and_not_only_in_their_colors(browser, comparison):
    with View(browser, comparison) as view:
        samples = view.page.locator("figure.chart").first.locator(".legend line")
        expect(samples).to_have_count(2)
        assert samples.first.get_attribute("stroke-dasharray") != samples.last.get_attribute("stroke-dasharray")


def test_a_dark_page_is_printed_in_light_colors(browser, comparison):
    with View(browser, comparison, dark=True) as view:
        figure = view.page.locator("figure.chart").first
        figure.locator("canvas").wait_for()
        background = "getComputedStyle(document.documentElement).getPropertyValue('--surface')"
        view.page.evaluate(f"""() => addEventListener("beforeprint", () => {{
          window.printed = {background};
          window.drawn = ({INK})(document.querySelector("figure.chart canvas"));
        }})""")
        dark, curve = view.page.evaluate(background), color_of(view, "--c1")
        view.page.pdf()
        assert view.page.evaluate("window.printed") == "#ffffff" != dark
        assert curve not in view.page.evaluate("window.drawn")
        assert view.page.evaluate(background) == dark
        view.wait_until(lambda: curve in figure.locator("canvas").evaluate(INK))


def test_heat_cells_keep_their_colors_in_forced_colors(browser, comparison):
    with View(browser, comparison, forced_colors="active") as view:
        colors = "cells => new Set(cells.map(cell => getComputedStyle(cell).backgroundColor)).size"
        assert view.page.locator("td.heat").evaluate_all(colors) > 2
        assert view.page.locator(".swatch").evaluate_all(colors) == 2


def test_headings_do_not_skip_a_level(browser, tmp_path):
    """In a report of one run; that of several runs starts each task with a heading of its own."""
    report = write_report([write_train_run(tmp_path / "run")], tmp_path / "report.html", clips=False)
    with View(browser, report) as view:
        levels = view.page.locator("h1, h2, h3, h4, h5").evaluate_all("all => all.map(h => Number(h.tagName[1]))")
        assert levels[0] == 1
        assert max(after - before for before, after in pairwise(levels)) == 1


def test_links_open_the_run_that_they_name_and_show_its_levels(browser, comparison):
    with View(browser, comparison) as view:
        run = view.page.locator("details.run", has_text="llm-1")
        assert run.get_attribute("open") is None
        view.page.get_by_role("navigation").get_by_role("link", name="llm-1").click()
        picture = run.get_by_role("img", name="Map of level 1: teach wood").first
        picture.scroll_into_view_if_needed()
        view.page.wait_for_function("image => image.naturalWidth > 100", arg=picture.element_handle())
        picture.click()
        view.wait_until(lambda: view.page.locator("dialog img").evaluate("image => image.naturalWidth") > 100)
        view.page.keyboard.press("Escape")
        expect(view.page.locator("dialog")).to_be_hidden()
        assert view.problems == []


def test_hostile_texts_are_inert(browser, tmp_path):
    file = write_report([write_hostile_runs(tmp_path)], tmp_path / "report.html", clips=False)
    with View(browser, file) as view:
        for element in view.page.locator("summary").all():
            element.evaluate("element => element.parentElement.open = true")
        view.page.mouse.move(400, 400)
        view.page.wait_for_timeout(300)
        assert view.page.evaluate("window.hacked") is None
        expect(view.page.locator("main h2")).to_have_count(2)  # the page is whole
        view.wait_until(lambda: view.page.locator("text=window.hacked = 1").count() > 10)
        assert view.problems == []
        assert view.outside_requests() == []
        # the policy holds even if a text were not escaped
        view.page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.hacked=1\">')")
        view.page.wait_for_timeout(100)
        assert view.page.evaluate("window.hacked") is None


def test_clips_play_step_by_step(browser, tmp_path, monkeypatch):
    """Frame k of this clip has the brightness 20 k."""
    frames = [np.full((32, 32, 3), 20 * k, np.uint8) for k in range(10)]
    clip = Clip(
        "collect_wood", "here", frames, 5, ["noop"] * 9, {"collect_wood": 7}, {"health": list(range(10))}, {"health": 9}
    )
    monkeypatch.setattr("envgen.report.page._has_checkpoint", lambda run: True)
    monkeypatch.setattr("envgen.report.page.load_clips", lambda run, world: [clip])
    folder = write_train_run(tmp_path / "run")
    with View(browser, write_report([folder], tmp_path / "report.html")) as view:
        figure = view.page.locator("figure.clip")
        figure.scroll_into_view_if_needed()
        figure.get_by_text("step 12 · noop").wait_for()
        slider = figure.get_by_role("slider")
        slider.fill("3")
        figure.get_by_text("step 8 · noop").wait_for()
        brightness = "canvas => canvas.getContext('2d').getImageData(5, 5, 1, 1).data[0]"
        figure.locator("canvas").wait_for()
        is_drawn = f"canvas => canvas.width > 0 && ({brightness})(canvas) > 0"
        view.page.wait_for_function(is_drawn, arg=figure.locator("canvas").element_handle())
        view.wait_until(lambda: abs(figure.locator("canvas").evaluate(brightness) - 60) < 8)
        assert figure.get_by_role("meter").evaluate("meter => meter.value") == 3
        assert "done" not in (figure.locator(".achieved button").get_attribute("class") or "")
        figure.get_by_role("button", name="Play").click()
        figure.get_by_text("step 14 · end").wait_for()
        assert "done" in (figure.locator(".achieved button").get_attribute("class") or "")
        view.wait_until(lambda: abs(figure.locator("canvas").evaluate(brightness) - 180) < 8)
        assert view.problems == []
