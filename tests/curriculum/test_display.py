"""Progress is a table on a terminal and plain lines elsewhere."""

import io

from rich.console import Console

from envgen.curriculum.display import TrainDisplay

LINE = {
    "phase": "training", "steps": 512, "steps_per_second": 12345,
    "recent": {"reward": 3.25, "length": 180.0, "skills": [50.0, 0.0, 100.0]},
}  # fmt: skip
SKILLS = ["eat_cow", "collect_diamond", "wake_up"]


def shown(line: dict, **kw) -> str:
    out = io.StringIO()
    with TrainDisplay(SKILLS, 753_557, Console(file=out, width=100, **kw)) as display:
        display(line)
    return out.getvalue()


def test_without_a_terminal_it_is_a_plain_line():
    said = shown(LINE, force_terminal=False)
    assert said == (
        "training: 512 of 753,557 steps, 12,345 steps/s, 0:01:01 left, "
        "reward 3.25, length 180, wake_up 100%, eat_cow 50%\n"
    )


def test_plain_lines_come_now_and_then_and_at_the_end():
    out = io.StringIO()
    with TrainDisplay(SKILLS, 753_557, Console(file=out, width=100, force_terminal=False)) as display:
        for steps in (256, 512, 753_557):
            display({**LINE, "steps": steps})
    assert [line.split()[1] for line in out.getvalue().splitlines()] == ["256", "753,557"]


def test_before_the_first_episode_ends_there_is_nothing_to_say_of_skills():
    line = {k: v for k, v in LINE.items() if k != "recent"}
    assert shown(line, force_terminal=False).endswith("0:01:01 left\n")
    assert "512 / 753,557" in shown(line, force_terminal=True)


def test_on_a_terminal_every_skill_has_a_bar():
    said = shown(LINE, force_terminal=True)
    for word in ("12,345 steps/s", "collect_diamond", "100.0%", "50.0%", "█"):
        assert word in said
