"""Sending the reply to a request, in a real browser."""

import json

import pytest
from client import serve
from test_studio_designer import VALID, ask, write_run

from browser import View, expect


@pytest.fixture
def request_view(browser, tmp_path):
    """The page of an open request."""
    ask(write_run(tmp_path / "run"), "FIRST")
    with serve(tmp_path) as client, View(browser, client.server.url + "designer") as view:
        view.page.get_by_role("link", name="Request 1 of run").click()
        expect(view.page.get_by_role("button", name="Send")).to_be_enabled()
        yield view
        assert view.problems == []


def replies(view) -> list[str]:
    """The requests that send a reply, from now on."""
    sent = []
    view.page.on("request", lambda request: request.url.endswith("/reply") and sent.append(request.post_data))
    return sent


@pytest.mark.parametrize("delay", [0, 150])
def test_a_double_click_sends_a_reply_once(request_view, tmp_path, delay):
    page, sent = request_view.page, replies(request_view)
    page.locator("#reply").fill(json.dumps(VALID))
    page.get_by_role("button", name="Send").dblclick(delay=delay)
    page.get_by_text("The run has not read it yet.").wait_for()
    page.wait_for_timeout(300)
    expect(page.locator("#send-status")).to_have_text("Sent.")
    assert len(sent) == 1
    (file,) = (tmp_path / "run" / "requests").glob("*.reply.md")
    assert json.loads(file.read_text()) == VALID


def test_a_slow_double_click_does_not_confirm_a_reply_with_errors(request_view, tmp_path):
    page, sent = request_view.page, replies(request_view)
    page.locator("#reply").fill("nonsense")
    page.get_by_role("button", name="Send").dblclick(delay=200)
    page.get_by_text("The reply has errors. The run would ask again.").wait_for()
    page.wait_for_timeout(500)
    assert len(sent) == 1
    assert not list((tmp_path / "run" / "requests").glob("*.reply.md"))
    page.get_by_role("button", name="Send anyway").click()
    page.get_by_text("The run has not read it yet.").wait_for()


def test_a_key_that_is_held_does_not_confirm_a_reply_with_errors(request_view, tmp_path):
    page = request_view.page
    page.locator("#reply").fill("nonsense")
    page.get_by_role("button", name="Send").focus()
    for _ in range(4):
        page.keyboard.down("Enter")  # again and again without a release
        page.wait_for_timeout(200)
    page.get_by_text("The reply has errors. The run would ask again.").wait_for()
    assert not list((tmp_path / "run" / "requests").glob("*.reply.md"))


def test_a_reply_with_errors_can_be_sent_at_once_after_typing(request_view):
    page = request_view.page
    page.locator("#reply").fill("nonsense")
    page.get_by_role("button", name="Send").click()
    page.get_by_text("The reply has errors. The run would ask again.").wait_for()
    page.wait_for_timeout(400)  # longer than the check of what was typed waits
    page.get_by_role("button", name="Send anyway").click()
    page.get_by_text("The run has not read it yet.").wait_for()


def test_a_reply_that_is_changed_while_the_studio_answers_is_not_sent_despite_its_errors(request_view, tmp_path):
    page, held, checked = request_view.page, [], []
    page.route("**/reply", lambda route: held.append(route))
    page.locator("#reply").fill("nonsense")
    page.get_by_role("button", name="Send").click()
    request_view.wait_until(lambda: held)
    page.on("requestfinished", lambda request: request.url.endswith("/reply-check") and checked.append(request))
    page.locator("#reply").fill("other nonsense")
    request_view.wait_until(lambda: checked)
    with page.expect_response("**/reply"):
        held[0].continue_()
    page.wait_for_timeout(300)
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_enabled()
    assert not list((tmp_path / "run" / "requests").glob("*.reply.md"))


@pytest.mark.parametrize("text", ["", " \n "])
def test_an_empty_reply_is_not_sent(request_view, text):
    page, sent = request_view.page, replies(request_view)
    page.locator("#reply").fill(text)
    page.get_by_role("button", name="Send").click()
    page.get_by_text("The reply is empty. Write it above first.").wait_for()
    page.wait_for_timeout(300)
    expect(page.locator("#send-status")).to_have_text("The reply is empty. Write it above first.")
    expect(page.locator("#reply")).to_be_focused()
    expect(page.get_by_role("button", name="Send anyway")).to_have_count(0)
    assert sent == []
    page.locator("#reply").fill(json.dumps(VALID))
    expect(page.locator("#send-status")).to_have_text("")
