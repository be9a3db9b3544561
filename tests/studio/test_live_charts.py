"""Charts of a run in progress, in a real browser: they are updated in place as the run goes on."""

from client import serve

from browser import View, expect
from envgen.runs.store import lock_folder
from run_files import SKILLS, write_json, write_train_run

WOOD, TABLE, _ = SKILLS


def teach(run_dir, cycle: int, *skills: str) -> None:
    levels = [{"level": {"trees": "common"}, "purpose": "p", "skills": list(skills)}]
    write_json(run_dir / f"cycles/{cycle}/levels.json", {"proposal": {"levels": levels}, "audits": []})


def test_a_chart_has_the_title_of_its_curves_when_the_order_of_charts_changes(browser, tmp_path):
    run_dir = write_train_run(tmp_path / "run", finished=False)
    for cycle in (1, 2):
        teach(run_dir, cycle, WOOD, TABLE)
    with lock_folder(run_dir), serve(tmp_path) as client:
        address = f"{client.server.url}run?id={client.run_id('run')}"
        with View(browser, address) as view:
            charts = view.page.locator("#run-adaptation figure.chart")
            expect(charts).to_have_count(2)
            expect(charts.first.locator("figcaption strong")).to_have_text(WOOD)
            for chart in charts.all():
                chart.scroll_into_view_if_needed()
                chart.locator("canvas").wait_for()
            teach(run_dir, 2, TABLE)  # the skill with more levels comes first
            view.page.wait_for_function(
                "start => document.querySelector('#run-adaptation .plot').getAttribute('aria-label').startsWith(start)",
                arg=f"{TABLE}:",
            )
            for chart in charts.all():
                title = chart.locator("figcaption strong").inner_text()
                assert chart.locator(".plot").get_attribute("aria-label").startswith(f"{title}:")
            assert view.problems == []
