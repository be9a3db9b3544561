"""Pages of runs that no longer exist, in a real browser."""

import shutil

import pytest
from client import serve
from test_studio_designer import ask, write_run

from browser import View, expect
from run_files import write_train_run

GONE = "There is no such run in this folder; it may have been deleted or moved."


def test_the_page_of_a_run_says_when_the_run_is_deleted_and_when_it_is_back(browser, tmp_path):
    run_dir = write_train_run(tmp_path / "runs" / "run", finished=False)
    with (
        serve(tmp_path / "runs") as client,
        View(browser, f"{client.server.url}run?id={client.run_id('run')}") as view,
    ):
        page, alert = view.page, view.page.locator("#gone")
        page.get_by_text("Live", exact=True).wait_for()
        expect(alert).to_have_text("")
        run_dir.rename(tmp_path / "elsewhere")
        alert.get_by_text("This run is no longer in the folder: it was deleted or moved.").wait_for()
        events = []
        page.on("request", lambda request: "events?" in request.url and events.append(request.url))
        page.evaluate("disconnect(); connect()")  # as when the page is hidden and seen again
        page.wait_for_timeout(4000)
        assert len(events) == 1
        expect(page.get_by_text("Live", exact=True)).to_be_visible()
        expect(alert).to_contain_text("no longer in the folder")
        (tmp_path / "elsewhere").rename(run_dir)
        expect(alert).to_have_text("")
        shutil.rmtree(run_dir)
        alert.get_by_role("link", name="Go to the list of runs").click()
        page.get_by_text("There are no runs in this folder yet.").wait_for()
        assert view.problems == []


def test_the_page_of_a_request_says_when_its_run_is_deleted(browser, tmp_path):
    ask(write_run(tmp_path / "run"), "FIRST")
    with serve(tmp_path) as client, View(browser, client.server.url + "designer") as view:
        page = view.page
        page.get_by_role("link", name="Request 1 of run").click()
        page.locator("#reply").fill("a reply that took long to write")
        shutil.rmtree(tmp_path / "run")
        page.get_by_text("This request is no longer in the folder: it was deleted or moved.").wait_for()
        expect(page.locator("#reply")).to_have_value("a reply that took long to write")
        page.locator("#gone").get_by_role("link", name="Go to the list of runs").wait_for()


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("run?id=0123456789abcdef", GONE),
        ("report?run=0123456789abcdef", GONE),
        ("compare?run=0123456789abcdef", GONE),
        ("request?id=0123456789abcdef&name=1-01234567", GONE),
        ("nothing", "There is no such page."),
    ],
)
def test_an_old_link_leads_to_the_list_of_runs(browser, tmp_path, address, sentence):
    write_train_run(tmp_path / "run")
    with serve(tmp_path) as client, View(browser, client.server.url + address) as view:
        view.page.get_by_text(sentence, exact=True).wait_for()
        view.page.get_by_role("link", name="Go to the list of runs").click()
        view.page.get_by_label("Compare run").wait_for()


def test_what_fails_unexpectedly_is_a_page_too(browser, tmp_path, monkeypatch):
    def fail(*args):
        raise KeyError("seed")

    monkeypatch.setattr("envgen.studio.run_pages.run_page", fail)
    write_train_run(tmp_path / "run")
    with serve(tmp_path) as client, View(browser, f"{client.server.url}run?id={client.run_id('run')}") as view:
        view.page.get_by_text("This cannot be shown: KeyError: 'seed'.").wait_for()
        view.page.get_by_role("link", name="Go to the list of runs").wait_for()


def test_a_comparison_follows_the_runs_that_exist(browser, tmp_path):
    for k in (0, 1):
        write_train_run(tmp_path / f"run-{k}", seed=k)
    with serve(tmp_path) as client:
        ids = [client.run_id("run-0"), client.run_id("run-1"), "0123456789abcdef"]
        with View(browser, client.server.url + "?" + "&".join(f"run={run_id}" for run_id in ids)) as view:
            page, status = view.page, view.page.locator("#compare-status")
            expect(status).to_have_text("2 runs are compared. One run is no longer in this folder.")
            shutil.rmtree(tmp_path / "run-1")
            expect(status).to_have_text("One run is shown. One run is no longer in this folder.")
            page.get_by_label("Compare run-0").uncheck()
            expect(status).to_have_text("")
            assert view.problems == []


def test_a_page_of_a_studio_that_was_restarted_does_not_try_forever(browser, tmp_path):
    with serve(tmp_path) as client, View(browser, client.server.url) as view:
        view.page.get_by_text("Live", exact=True).wait_for()
        client.server.token = "another"
        requests = []
        view.page.on("request", lambda request: requests.append(request.url))
        view.page.evaluate("disconnect(); connect()")
        view.page.get_by_text("Not connected: the studio was restarted; open its new address").wait_for()
        view.page.wait_for_timeout(4000)
        assert len(requests) == 2  # the refused one, and the one that asks why
