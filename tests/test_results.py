"""The tables of the results pages are those that the benchmarks compute from the committed results."""

import json
import re
from pathlib import Path
from types import ModuleType

import pytest

from envgen.runs.statistics import iqm_with_ci
from scripts import imported_script

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
NUMBER = re.compile(r"[-+]?\d[\d,]*\.?\d*")
DESIGNER_PAGES = sorted(folder.name for folder in RESULTS.glob("envgen-*"))

pytest.importorskip("torch")


def load_benchmark(name: str) -> ModuleType:
    with imported_script(ROOT / "benchmarks" / f"{name}.py") as module:
        return module


@pytest.mark.parametrize("discussion", sorted(RESULTS.glob("*/discussion.md")), ids=lambda file: file.parent.name)
def test_pages_contain_their_discussion(discussion):
    assert discussion.read_text().strip() in (discussion.parent / "README.md").read_text()


def split_numbers(row: str) -> tuple[str, list[float]]:
    """A row without its numbers, and the numbers."""
    numbers = [float(number.replace(",", "")) for number in NUMBER.findall(row)]
    return NUMBER.sub("#", row), numbers


def tolerances(row: str) -> list[float]:
    """A little more than a unit of the last digit of each number of a row; 0.11 for whole numbers."""
    return [1.1 * 10 ** -max(1, len(number.partition(".")[2])) for number in NUMBER.findall(row)]


def check_tables(page: str, *tables: str) -> None:
    """Each row of the tables is on the page, up to the rounding of the last digit."""
    published: dict[str, list[list[float]]] = {}
    for row in (RESULTS / page / "README.md").read_text().splitlines():
        text, numbers = split_numbers(row)
        published.setdefault(text, []).append(numbers)
    computed = [row for table in tables for row in table.splitlines() if row]
    assert len(computed) > 3
    for row in computed:
        text, numbers = split_numbers(row)
        expected = [
            pytest.approx(number, rel=1e-6, abs=tolerance)
            for number, tolerance in zip(numbers, tolerances(row), strict=True)
        ]
        is_published = any(other == expected for other in published.get(text, ()))
        assert is_published, f"{page} has no row\n{row}"


@pytest.mark.parametrize(
    "page", ["crafter-learners", "crafter-exploration", "crafter-rare-skills", "crafter-time-to-score"]
)
def test_tables_of_crafter_without_a_designer(page):
    benchmark = load_benchmark(page.replace("-", "_"))
    groups = benchmark.load_results(RESULTS / page)
    tables = [benchmark.format_table(groups)]
    if page == "crafter-learners":
        tables.append(benchmark.format_skills(groups))
    if page == "crafter-exploration":
        tables.append(benchmark.format_success_over_time(groups))
    check_tables(page, *tables)


@pytest.mark.parametrize("page", DESIGNER_PAGES)
def test_tables_of_the_designers(page):
    benchmark = load_benchmark("envgen_designers")
    study = benchmark.STUDIES[page.removeprefix("envgen-").rpartition("-")[0]]
    groups = benchmark.group_results(study, RESULTS / page)
    tables = [benchmark.results_table(study.world.name, groups), benchmark.format_differences(groups).strip()]
    if (next(iter(groups.values()))[0] / "cycles" / "1" / "evaluation.json").exists():
        paths = [("score", "value"), *(("skills", skill, "value") for skill in study.skills)]
        tables += [benchmark.cycle_table("", groups, path).partition("\n")[2] for path in paths]
    tables += [table for skill in study.skills if (table := benchmark.stage_table(skill, groups))]
    check_tables(page, *tables, benchmark.format_levels(study, groups).strip())


@pytest.mark.parametrize("domain", ["tools", "alfworld"])
def test_tables_of_the_proposers(domain):
    benchmark = load_benchmark("genenv_proposers")
    study, page = benchmark.STUDIES[domain], f"genenv-{domain}"
    groups = {
        name: sorted((RESULTS / page / "runs").glob(f"{name.replace(' ', '-')}-[0-9]")) for name in study.variants
    }
    groups = {name: folders for name, folders in groups.items() if folders}
    tables = (benchmark.results_table(domain, groups), benchmark.paired_table(groups))
    check_tables(page, *tables, benchmark.task_table(groups, study.features), benchmark.efficiency_tables(groups))


def test_intervals_of_ppo():
    benchmark, folder = load_benchmark("crafter_learning"), RESULTS / "crafter-ppo-symbols"
    seeds = json.loads((folder / "seeds.json").read_text())
    for key, label in (("final", "envgen, the final policy"), ("package", "the same in the `crafter` package")):
        intervals = [
            benchmark.format_interval([seed[key][measure]["value"] for seed in seeds])
            for measure in ("score", "reward")
        ]
        assert f"| {label} | {' | '.join(intervals)} |" in (folder / "README.md").read_text()


def table_rows(text: str, header: str) -> list[list[str]]:
    """The cells of the first table whose header begins so, with the header."""
    lines = text[text.index(f"\n{header}") + 1 :].partition("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in (lines[0], *lines[2:])]


def final_score(file: Path) -> float:
    return json.loads(file.read_text())["final"]["score"]["value"]


def test_the_readme_compares_designers_as_the_pages_do():
    section = (ROOT / "README.md").read_text().partition("## Does the designer matter?")[2]
    header, _, _, *rows = table_rows(section, "| | [Crafter")
    names = {"`none`": "none", "practice": "practice", "expert rules": "expert"}
    for column, link in enumerate(header[1:], start=1):
        page = re.search(r"docs/results/(.*)/README", link)[1]
        text = (RESULTS / page / "README.md").read_text()
        results = table_rows(text, "| designer |")
        score = results[0].index("final score %")
        expected = {"none": next(row[score].split()[0] for row in results if row[0] == "none")}
        expected |= {row[0]: row[3] for row in table_rows(text, "| minus none, paired |")[1:]}
        if page == "envgen-crafter-long-symbols":  # where practice is the preset of the learner
            gain = iqm_with_ci([
                final_score(RESULTS / "crafter-learners" / f"symbols-far-20000000-{seed}.json")
                - final_score(RESULTS / page / "runs" / f"none-{seed}" / "summary.json")
                for seed in (10, 11, 12)
            ])  # fmt: skip
            expected["practice"] = f"{gain.value:+.1f} [{gain.low:+.1f}, {gain.high:+.1f}]"
        for row in rows:
            name = names.get(row[0]) or row[0].partition("`:")[0].strip("`")
            assert row[column] == expected.get(name, ""), (page, name)


def prompt_and_reply_tokens(ledger: Path) -> tuple[float, float]:
    """The tokens of all requests, with the schema of the reply, and of all replies, at four characters per token."""
    events = [json.loads(line) for line in ledger.read_text().splitlines()]
    requests = [event["request"] for event in events if event["event"] == "request"]
    contents = [message["content"] for request in requests for message in request["messages"]]
    contents += [json.dumps(request["json_schema"]) for request in requests]
    replies = [event["text"] for event in events if event["event"] == "reply"]
    return sum(map(len, contents)) / 4, sum(map(len, replies)) / 4


@pytest.mark.parametrize(
    ("runs", "prompts", "replies"),
    [
        ("envgen-crafter-symbols/runs/llm-rich-*", 40_000, 3_000),
        ("envgen-crafter-symbols/runs/llm-paper-*", 23_000, 3_000),
        ("envgen-crafter-long-symbols/runs/llm-practice-10", 1_300_000, 10_000),
        ("envgen-crafter-long-symbols/runs/llm-practice-11", 1_600_000, 14_000),
    ],
)
def test_the_tokens_that_the_faq_names_are_those_of_the_ledgers(runs, prompts, replies):
    ledgers = sorted(RESULTS.glob(f"{runs}/ledger.jsonl"))
    assert ledgers
    for ledger in ledgers:
        assert prompt_and_reply_tokens(ledger) == (pytest.approx(prompts, rel=0.08), pytest.approx(replies, rel=0.2))
