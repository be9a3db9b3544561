"""Training progress: a live table on a terminal, log lines elsewhere."""

import io
import json

import pytest
from rich.console import Console

from envgen.curriculum.display import IN_LEVELS, IN_ORIGINAL, TrainDisplay
from envgen.runs.display import SPARKLINE_WIDTH, SPARKS, Sparkline, is_live

PROGRESS = {
    "phase": "training", "steps": 512, "steps_per_second": 12345,
    "recent": {"reward": 3.25, "length": 180.0, "skills": [50.0, 0.0, 100.0]},
}  # fmt: skip
SKILLS = ["eat_cow", "collect_diamond", "wake_up"]
TOTAL = 753_557


def render_line(line: dict, live: bool) -> str:
    out = io.StringIO()
    console = Console(file=out, width=80, force_terminal=live)
    with TrainDisplay(SKILLS, TOTAL, console, live=live) as display:
        display(line)
    return out.getvalue()


def test_log_line_without_terminal():
    assert render_line(PROGRESS, live=False) == (
        "training: 512 of 753,557 steps, 12,345 steps/s, 0:01:01 left, "
        "score 16.3, reward 3.25, length 180, wake_up 100%, eat_cow 50%\n"
    )


def test_log_lines_are_throttled_except_the_last():
    out = io.StringIO()
    with TrainDisplay(SKILLS, 753_557, Console(file=out, width=100), live=False) as display:
        for steps in (256, 512, 753_557):
            display({**PROGRESS, "steps": steps})
    assert [line.split()[1] for line in out.getvalue().splitlines()] == ["256", "753,557"]


def test_skills_are_omitted_before_the_first_episode_ends():
    line = {k: v for k, v in PROGRESS.items() if k != "recent"}
    assert render_line(line, live=False).endswith("0:01:01 left\n")
    assert "512 / 753,557" in render_line(line, live=True)


def test_terminal_shows_a_bar_per_skill():
    output = render_line(PROGRESS, live=True)
    for word in ("12,345 steps/s", "collect_diamond", "100.0%", "50.0%", "█"):
        assert word in output


# --- the display on a terminal


def progress(phase: str, steps: int, succeeded: list[int], episodes: int = 100, num_levels: int = 1) -> dict:
    """A line after `episodes` episodes, of which the first level has most."""
    levels = [{"episodes": episodes // (k + 1), "return_sum": 2.0 * episodes} for k in range(num_levels)]
    recent = {"reward": 2.0, "length": 90.0, "skills": [100 * count / episodes for count in succeeded]}
    return {"phase": phase, "steps": steps, "steps_per_second": 100, "episodes": episodes, "succeeded": succeeded,
            "levels": levels, "recent": recent}  # fmt: skip


def text_of(display: TrainDisplay, line: dict, width: int = 80) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width).print(display.render(line))
    return out.getvalue().splitlines()


def write_cycle(folder, number: int, *purposes: str) -> None:
    file = folder / "cycles" / str(number) / "levels.json"
    file.parent.mkdir(parents=True)
    levels = [{"level": {"cows": k}, "purpose": purpose} for k, purpose in enumerate(purposes)]
    file.write_text(json.dumps({"proposal": {"levels": levels}}))


def display_of(tmp_path, *lines: dict) -> TrainDisplay:
    display = TrainDisplay(SKILLS, 1000, Console(file=io.StringIO()), tmp_path, live=False)
    for line in lines:
        display.remember(line)
    return display


def test_skills_whose_success_changed_are_marked(tmp_path):
    lines = [progress("final", steps, [10 + steps // 10, 50, 80 - steps // 5]) for steps in (100, 150, 200)]
    display = display_of(tmp_path, *lines)
    assert display.changes() == {"eat_cow": 10, "collect_diamond": 0, "wake_up": -20}
    shown = text_of(display, lines[-1])
    assert " change  wake_up -20  eat_cow +10" in shown
    assert any("eat_cow" in line and "+10" in line for line in shown)
    display.remember(progress("final", 900, [40, 50, 40]))
    assert display.changes()["eat_cow"] == 10  # since 200, not since 100: a tenth of the run ago
    display.remember(progress("final 2", 950, [0, 0, 0]))
    assert set(display.changes().values()) == {0}  # another phase has other environments


def test_a_cycle_without_levels_is_drawn_as_the_original(tmp_path):
    for phase, is_in_levels in (("levels", False), ("mixed", False), ("sampled levels", True)):
        (tmp_path / "cycles" / "1").mkdir(parents=True, exist_ok=True)
        (tmp_path / "cycles" / "1" / "levels.json").write_text(json.dumps({"proposal": {"levels": []}}))
        display = display_of(tmp_path, progress(f"cycle 1: {phase}", 500, [50, 50, 50]))
        assert set(display.scores.kinds()) == {IN_LEVELS if is_in_levels else IN_ORIGINAL}


def test_the_score_is_drawn_for_levels_and_the_original(tmp_path):
    display = display_of(
        tmp_path,
        progress("cycle 1: levels", 250, [100, 100, 100]),
        progress("cycle 1: original", 500, [0, 0, 10]),
        line := progress("final", 1000, [50, 50, 50]),
    )
    [row] = [row for row in text_of(display, line, 100) if row.startswith(" score")]
    assert row.count(SPARKS[-1]) == row.count(SPARKS[0]) == SPARKLINE_WIDTH // 4  # in the levels, in the original
    assert len(row) < 80
    assert "in levels in original" in " ".join(row.split())
    assert row.index(SPARKS[-1]) < row.index(SPARKS[0])


def test_levels_of_the_cycle_are_listed(tmp_path):
    write_cycle(tmp_path, 1, "teach cows", "\x1b[31mteach [bold]naps[/bold]\n" + "and more " * 20)
    line = progress("cycle 1: levels", 100, [1, 2, 3], 100, num_levels=2)
    shown = text_of(display_of(tmp_path, line), line)
    assert " levels of cycle 1" in shown
    assert "1 teach cows" in shown[-2]
    assert "100 episodes, reward 2.0" in shown[-2]
    assert "[bold]naps" in shown[-1]  # no markup
    assert "\x1b[31m" not in shown[-1]
    assert max(map(len, shown)) <= 80
    original = progress("cycle 1: original", 200, [1, 2, 3])
    shown = text_of(display_of(tmp_path, line, original), original)
    assert "teach cows" in shown[-2]
    assert "episodes" not in shown[-2]
    final = progress("final", 300, [1, 2, 3])
    assert "teach" not in "".join(text_of(display_of(tmp_path, line, final), final))


def test_chains_that_have_reached_the_same_level_are_listed_apart(tmp_path):
    file = tmp_path / "cycles" / "1" / "levels.json"
    file.parent.mkdir(parents=True)
    levels = [{"level": {}, "purpose": name, "chain": {"skill": name}} for name in ("cows", "iron", "coal")]
    file.write_text(json.dumps({"proposal": {"levels": [*levels, {**levels[0], "purpose": "again"}]}}))
    line = progress("cycle 1: levels", 100, [1, 2, 3], 100, num_levels=3)
    shown = text_of(display_of(tmp_path, line), line)
    assert [row.split()[1] for row in shown[-3:]] == ["cows", "iron", "coal"]


@pytest.mark.parametrize("text", ["{", "[]", '{"proposal": {"levels": [1]}}', '{"proposal": {"levels": {"a": 1}}}'])
def test_damaged_levels_are_left_out(tmp_path, text):
    write_cycle(tmp_path, 1)
    (tmp_path / "cycles" / "1" / "levels.json").write_text(text)
    line = progress("cycle 1: levels", 100, [1, 2, 3])
    assert "levels of cycle" not in "".join(text_of(display_of(tmp_path, line), line))


def test_many_levels_and_skills_fit(tmp_path):
    write_cycle(tmp_path, 1, *map("level {}".format, range(40)))
    skills = [f"skill_with_a_long_name_{k}" for k in range(300)]
    display = TrainDisplay(skills, 1000, Console(file=io.StringIO()), tmp_path, live=False)
    line = progress("cycle 1: levels", 100, [k % 100 for k in range(300)], num_levels=40)
    display.remember(line)
    shown = text_of(display, line)
    assert len(shown) < 32
    assert "34 more" in shown[-1]


def test_a_resumed_run_continues_its_curve(tmp_path):
    earlier = [progress("final", steps, [steps // 10] * 3) for steps in (100, 300, 700)]
    (tmp_path / "progress.jsonl").write_text("".join(json.dumps(line) + "\n" for line in earlier))
    console = Console(file=io.StringIO(), width=80, force_terminal=True)
    with TrainDisplay(SKILLS, 1000, console, tmp_path, live=True) as display:
        display(progress("final", 700, [70, 70, 70]))
    [row] = [row for row in text_of(display, earlier[-1]) if row.startswith(" score")]
    assert len(set(row) & set(SPARKS)) == 3


def test_sparklines_fit_and_ignore_what_is_not_a_number():
    curve = Sparkline(10, {"": "green"})
    assert not curve
    curve.add(5, float("nan"), "")
    assert not curve
    for position in range(-5, 100):
        curve.add(position, position, "")
    assert len(curve.render()) == SPARKLINE_WIDTH


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_only_terminals_outside_ci_are_live(monkeypatch):
    for name in ("CI", "FORCE_COLOR", "NO_COLOR", "TTY_INTERACTIVE", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert is_live(Console(file=Terminal()))
    assert not is_live(Console(file=Terminal(), quiet=True))
    assert not is_live(Console(file=io.StringIO()))
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert not is_live(Console(file=io.StringIO()))  # a pipe, although with colors
    monkeypatch.delenv("FORCE_COLOR")
    monkeypatch.setenv("CI", "true")
    assert not is_live(Console(file=Terminal()))
    monkeypatch.setenv("CI", "false")
    assert is_live(Console(file=Terminal()))
    monkeypatch.setenv("TERM", "dumb")
    assert not is_live(Console(file=Terminal()))
