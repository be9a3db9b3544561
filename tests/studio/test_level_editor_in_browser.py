"""The level editor in a real browser: files, and what happens to the level that is being edited."""

import json

import pytest
from client import serve

from browser import View, expect

IS_CHECKED = "() => document.getElementById('map').complete && document.getElementById('map').naturalWidth > 0"


@pytest.fixture
def editor(browser, tmp_path):
    """The editor of the toy world, over an empty folder."""
    with serve(tmp_path) as client, View(browser, client.server.url + "levels?world=toy") as view:
        view.page.wait_for_function(IS_CHECKED)
        yield view
        assert view.problems == []


def wait_for_level(page, level) -> None:
    expect(page.get_by_label("The level as JSON")).to_have_value(json.dumps(level, indent=1))


# --- files


def test_only_the_file_that_the_question_was_about_is_replaced(editor, tmp_path):
    page, name = editor.page, editor.page.get_by_label("File", exact=True)
    replace = page.get_by_role("button", name="Replace it")
    for file, width in (("a", 3), ("b", 4)):
        (tmp_path / f"{file}.json").write_text(json.dumps({"width": width}))
    page.get_by_label("width").fill("9")
    name.fill("a")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("a.json exists").wait_for()
    name.fill("b")
    expect(replace).to_have_count(0)
    expect(page.locator("#file-status")).to_have_text("")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("b.json exists").wait_for()
    replace.click()
    page.get_by_text("Saved as").wait_for()
    assert json.loads((tmp_path / "a.json").read_text()) == {"width": 3}
    assert json.loads((tmp_path / "b.json").read_text()) == {"width": 9}


def test_a_name_that_is_typed_while_the_studio_answers_is_not_the_one_of_the_question(editor, tmp_path):
    page, name = editor.page, editor.page.get_by_label("File", exact=True)
    (tmp_path / "a.json").write_text("{}")
    held = []
    page.route("**/level-file", lambda route: held.append(route))
    name.fill("a")
    page.get_by_role("button", name="Save").click()
    editor.wait_until(lambda: held)
    name.fill("b")
    held[0].continue_()
    page.get_by_text("a.json exists").wait_for()
    expect(page.get_by_role("button", name="Replace it")).to_have_count(0)


def test_a_double_click_saves_once(editor, tmp_path):
    page, saved = editor.page, []
    page.on("request", lambda request: saved.append(request) if request.url.endswith("/level-file") else None)
    page.get_by_label("File", exact=True).fill("a")
    page.get_by_role("button", name="Save").dblclick(delay=150)
    page.get_by_text("Saved as").wait_for()
    page.wait_for_timeout(300)
    expect(page.locator("#file-status")).to_have_text(f"Saved as {tmp_path / 'a.json'}")
    assert len(saved) == 1


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"width: 3", "x.json cannot be opened: this is not JSON"),
        (b'{"widht": 3}', "did you mean 'width'?"),
        (b"[3]", "a level is a JSON object"),
        (b" \n", "x.json is empty"),
    ],
)
def test_a_file_that_holds_no_level_changes_nothing(editor, tmp_path, content, reason):
    page = editor.page
    page.get_by_label("width").fill("9")
    wait_for_level(page, {"width": 9})
    file = {"name": "x.json", "mimeType": "application/json", "buffer": content}
    page.get_by_label("Open from this computer").set_input_files(file)
    expect(page.locator("#file-status")).to_contain_text(reason)
    expect(page.get_by_role("button", name="Save")).to_be_enabled()
    expect(page.get_by_role("button", name="Play", exact=True)).to_be_enabled()
    expect(page.locator("#level-error")).to_have_text("")
    page.get_by_label("File", exact=True).fill("mine")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("Saved as").wait_for()
    assert json.loads((tmp_path / "mine.json").read_text()) == {"width": 9}


# --- numbers


def test_a_number_that_is_missing_is_asked_for_at_its_field(editor):
    page = editor.page
    width, setting = page.get_by_label("width"), page.locator(".setting", has=page.get_by_label("width"))
    for value, message in (("", "but is empty"), ("99", "not 99"), ("3.5", "not 3.5")):
        width.fill(value)
        page.get_by_role("alert").get_by_text(f"width must be a whole number from 3 to 12, {message}").wait_for()
        expect(setting.get_by_text("Enter a whole number from 3 to 12.")).to_be_visible()
        expect(width).to_have_attribute("aria-invalid", "true")
        expect(page.get_by_role("button", name="Save")).to_be_disabled()
    width.fill("9")
    expect(page.get_by_text("Enter a whole number")).to_have_count(0)
    expect(page.get_by_role("button", name="Save")).to_be_enabled()
    assert width.get_attribute("aria-invalid") is None
    width.fill("")
    setting.get_by_text("Enter a whole number").wait_for()
    page.get_by_role("button", name="Reset all").click()
    expect(page.get_by_text("Enter a whole number")).to_have_count(0)
    expect(width).to_have_value("6")


def test_a_seed_that_is_none_is_refused_at_its_field(editor):
    page, seed, error = editor.page, editor.page.get_by_label("Seed"), editor.page.locator("#seed-error")
    checked = []
    page.on("request", lambda request: request.url.endswith("/level") and checked.append(request.post_data_json))
    seed.fill("7")
    editor.wait_until(lambda: checked and checked[-1]["seed"] == 7)
    for value in ("4294967296", "2147483648", "-1", "1.5", ""):
        seed.fill(value)
        expect(error).to_have_text("Enter a whole number from 0 to 2147483647. The map is that of seed 7.")
        expect(seed).to_have_attribute("aria-invalid", "true")
        expect(page.get_by_role("button", name="Save")).to_be_enabled()
    page.get_by_role("button", name="Another map").click()
    expect(seed).to_have_value("8")
    expect(error).to_have_text("")
    seed.fill("2147483647")
    page.get_by_role("button", name="Another map").click()
    expect(seed).to_have_value("0")
    assert {level["seed"] for level in checked} <= {7, 8, 2147483647, 0}


# --- the level that is being edited


def test_a_reload_and_the_back_button_keep_the_level(editor):
    page, width = editor.page, editor.page.get_by_label("width")
    page.get_by_label("File", exact=True).fill("mine")
    page.get_by_label("Seed").fill("7")
    width.fill("9")
    page.reload()  # at once
    wait_for_level(page, {"width": 9})
    expect(width).to_have_value("9")
    expect(page.get_by_label("File", exact=True)).to_have_value("mine")
    expect(page.get_by_label("Seed")).to_have_value("7")
    page.get_by_role("link", name="Runs", exact=True).click()
    page.get_by_role("heading", name="Comparison").wait_for()
    page.go_back()
    wait_for_level(page, {"width": 9})
    page.get_by_role("link", name="Levels", exact=True).click()
    wait_for_level(page, {"width": 9})
    page.get_by_text("This is the level that you edited last.").wait_for()
    page.get_by_role("button", name="Reset all").click()
    wait_for_level(page, {})
    page.reload()
    wait_for_level(page, {})


def test_a_level_that_is_not_valid_is_kept_too(editor):
    page, text = editor.page, editor.page.get_by_label("The level as JSON")
    text.fill('{"width": ')
    page.reload()
    page.get_by_role("alert").get_by_text("this is not JSON").wait_for()
    expect(text).to_have_value('{"width": ')
    text.fill("{}")
    expect(page.get_by_role("button", name="Save")).to_be_enabled()
    page.get_by_label("width").fill("")
    page.reload()
    page.get_by_role("alert").get_by_text("width must be a whole number").wait_for()
    page.get_by_label("width").fill("5")
    wait_for_level(page, {"width": 5})


def test_a_link_opens_its_own_level(editor):
    page = editor.page
    page.get_by_label("width").fill("9")
    wait_for_level(page, {"width": 9})
    link = page.url + '&level={"width":4}'
    page.goto(link)
    wait_for_level(page, {"width": 4})
    page.get_by_label("width").fill("5")
    wait_for_level(page, {"width": 5})
    page.keyboard.press("Control+Home")
    page.get_by_text("Skip to the content").focus()
    page.keyboard.press("Enter")
    page.reload()
    wait_for_level(page, {"width": 5})
    page.go_back()
    page.go_back()
    wait_for_level(page, {"width": 9})
    page.evaluate("link => { location.href = link; }", link)
    wait_for_level(page, {"width": 4})
