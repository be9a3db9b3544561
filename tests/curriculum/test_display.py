"""Training progress: a live table on a terminal, log lines elsewhere."""

import io

from rich.console import Console

from envgen.curriculum.display import TrainDisplay

PROGRESS = {
    "phase": "training", "steps": 512, "steps_per_second": 12345,
    "recent": {"reward": 3.25, "length": 180.0, "skills": [50.0, 0.0, 100.0]},
}  # fmt: skip
SKILLS = ["eat_cow", "collect_diamond", "wake_up"]


def render_line(line: dict, **kw) -> str:
    out = io.StringIO()
    with TrainDisplay(SKILLS, 753_557, Console(file=out, width=100, **kw)) as display:
        display(line)
    return out.getvalue()


def test_log_line_without_terminal():
    output = render_line(PROGRESS, force_terminal=False)
    assert output == (
        "training: 512 of 753,557 steps, 12,345 steps/s, 0:01:01 left, "
        "reward 3.25, length 180, wake_up 100%, eat_cow 50%\n"
    )


def test_log_lines_are_throttled_except_the_last():
    out = io.StringIO()
    with TrainDisplay(SKILLS, 753_557, Console(file=out, width=100, force_terminal=False)) as display:
        for steps in (256, 512, 753_557):
            display({**PROGRESS, "steps": steps})
    assert [line.split()[1] for line in out.getvalue().splitlines()] == ["256", "753,557"]


def test_skills_are_omitted_before_the_first_episode_ends():
    line = {k: v for k, v in PROGRESS.items() if k != "recent"}
    assert render_line(line, force_terminal=False).endswith("0:01:01 left\n")
    assert "512 / 753,557" in render_line(line, force_terminal=True)


def test_terminal_shows_a_bar_per_skill():
    output = render_line(PROGRESS, force_terminal=True)
    for word in ("12,345 steps/s", "collect_diamond", "100.0%", "50.0%", "█"):
        assert word in output
