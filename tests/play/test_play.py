"""Playing by hand: what keys do, what the terminal and the window show of it, and how they are left."""

import io
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envgen.play import PlayError, play
from envgen.play.game import Game
from envgen.play.terminal import keys_in, screen
from envgen.worlds.world import Level, Skill, World

LENGTH = 5


class Walk(gymnasium.Env):
    """A corridor of five cells. At its end is a door; a bell can be rung anywhere; after 50 steps it is over."""

    def __init__(self, observation, render_mode, size, script):
        self.observation, self.size, self.render_mode, self.script = observation, size, render_mode, script

    def _see(self):
        words = f"You are at {self.at} of {LENGTH}."
        return (words if self.observation == "text" else self.at), {"achievements": np.array([self.rung, self.at == 5])}

    def reset(self, *, seed=None, options=None):
        self.at, self.rung, self.steps = 0, 0, 0
        return self._see()

    def step(self, action):
        self.steps += 1
        self.at = max(0, self.at + (-1, 1, 0)[action])
        self.rung += action == 2
        seen, info = self._see()
        return seen, 0.5 * (action == 2), self.at == LENGTH, self.steps >= 50, info

    def render(self):
        if self.script:
            self.script.pop(0)()
        return np.full((self.size, self.size, 3), 40 * self.at, np.uint8)


class Corridor(World):
    name = "corridor"
    Level = Level
    skills = (Skill("ring_bell"), Skill("find_door"))
    actions = ("walk_left", "walk_right", "ring")
    observations = ("symbols", "text")
    rules = ""
    key_bindings = {"left": "walk_left", "right": "walk_right", "space": "ring"}  # noqa: RUF012  as World has it

    def __init__(self, *script):
        self.script = list(script)  # what happens each time a picture is asked for

    def single(self, level=None, seed=None, observation="symbols", render_mode=None, render_size=64, **kw):
        self.env = Walk(observation, render_mode, render_size, self.script)
        return self.env

    make = level_stats = render_levels = None


def told(events) -> list[str]:
    return [event.text for event in events if event.text]


# --- the game itself


def test_keys_act_and_first_successes_are_told_once():
    game = Game(Corridor())
    assert [event.kind for event in game.press("right")] == ["step"]
    assert told(game.press("space")) == ["Step 2: ring_bell, for the first time."]
    assert told(game.press("SPACE")) == []
    assert game.status() == ["step 3, return 1", "1 of 2 skills: ring_bell"]
    assert game.caption() == "corridor: step 3, reward 1, last new skill ring_bell"


def test_after_the_end_only_r_goes_on():
    game = Game(Corridor())
    assert "when the episode has ended" in told(game.press("r"))[0]
    for _ in range(LENGTH):
        last = game.press("right")
    assert [event.kind for event in last] == ["step", "skill", "end"]
    assert told(game.press("left")) == ["The episode ended at step 5. r begins anew, q quits."]
    assert game.status()[0] == "step 5, return 0"
    assert [event.kind for event in game.press("r")] == ["begin"]
    assert game.status() == ["step 0, return 0", "0 of 2 skills: none yet"]


@pytest.mark.parametrize("key", ["q", "Q", "escape"])
def test_quitting(key):
    assert [event.kind for event in Game(Corridor()).press(key)] == ["quit"]


def test_an_unknown_key_is_told_with_the_nearest_right_one():
    assert told(Game(Corridor()).press("rigth"))[0].endswith("did you mean 'right'?")


def test_a_world_may_use_q_itself():
    class Quiet(Corridor):
        key_bindings = {**Corridor.key_bindings, "q": "ring"}  # noqa: RUF012

    game = Game(Quiet())
    assert game.press("q")[0].kind == "step"
    assert game.press("escape")[0].kind == "quit"
    assert game.help()[-1] == "other: escape to quit"


def test_help_names_every_key_with_like_actions_together():
    assert Game(Corridor()).help() == ["walk: left, right", "other: space ring, q or escape to quit"]


@given(st.lists(st.one_of(st.text(max_size=8), st.sampled_from(["left", "right", "space", "r", "q", "LEFT", ""]))))
def test_no_keys_break_a_game(keys):
    game = Game(Corridor(), observation="text")
    for key in keys:
        assert game.press(key)
    assert screen(game, 40, 20)


def test_worlds_that_cannot_be_played_say_why():
    class Mute(Corridor):
        key_bindings = {}  # noqa: RUF012

    class Wordless(Corridor):
        observations = ("symbols",)

    with pytest.raises(PlayError, match="names no keys"):
        play(Mute(), terminal=True)
    with pytest.raises(PlayError, match="only played in a window"):
        play(Wordless(), terminal=True)


# --- the terminal


@given(st.text(alphabet="\x1b[OABCD~;1az \r\t\x7f\x00é", max_size=30))
def test_whatever_a_terminal_sends_has_names_or_is_left_out(typed):
    assert all(name.isprintable() and name for name in keys_in(typed))


def test_arrows_are_known_in_every_form_a_terminal_sends():
    assert keys_in("\x1b[A\x1bOB\x1b[1;2C\x1b[D") == ["up", "down", "right", "left"]
    assert keys_in(" z\x1b") == ["space", "z", "escape"]
    assert keys_in("\x1b[3~\x1b[15~") == []


def test_a_screen_fits_and_keeps_what_matters():
    lines = screen(Game(Corridor(), observation="text"), 24, 3)
    assert lines[0] == "You are at 0 of 5."
    assert len(lines) == 3
    assert max(map(len, lines)) < 24


def in_a_terminal(world: str, **kw) -> dict:
    """How to start a process that plays in the terminal."""
    where = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); from envgen.play import play; {world}"
    return {"args": [sys.executable, "-c", where], "text": True, **kw}


CORRIDOR = "from test_play import Corridor; play(Corridor(), terminal=True)"
CRAFTER = "from envgen.worlds.crafter.world import Crafter; play(Crafter(), {}, 3, terminal=True)"


def test_a_line_of_keys_is_played_and_the_last_screen_printed():
    done = subprocess.run(
        **in_a_terminal(CRAFTER), input="left left left left down rigth down space\nup\n", capture_output=True
    )
    assert done.returncode == 0, done.stderr
    assert "did you mean 'right'?" in done.stdout
    assert "Step 7: collect_wood, for the first time." in done.stdout
    assert "You have 1 wood." in done.stdout
    assert "step 7, return 1\n1 of 22 skills: collect_wood" in done.stdout
    assert "place: s stone, t table, f furnace, p plant" in done.stdout
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize("line", ["", "\n", "q right", "right"])
def test_a_short_line_or_none_is_no_trouble(line, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(line))
    play(Corridor(), terminal=True)
    assert f"You are at {int(line == 'right')} of 5." in capsys.readouterr().out


def pseudo_terminal(until: str, *keys: bytes) -> tuple[int, str, bool]:
    """Exit code, all that was shown, and whether the terminal is as it was, of a game that these keys play.

    They are sent as soon as `until` is on the screen.
    """
    pty, termios = pytest.importorskip("pty"), pytest.importorskip("termios")
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    before = termios.tcgetattr(theirs)
    # its own session with this terminal, as Ctrl-C goes to those whose terminal it is
    how = in_a_terminal(f"import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); {CORRIDOR}")
    game = subprocess.Popen(**how, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    deadline, shown = time.monotonic() + 60, ""
    os.set_blocking(ours, False)

    def read_until(enough) -> None:
        nonlocal shown
        while not enough():
            assert time.monotonic() < deadline, f"the game hangs after {shown!r}"
            time.sleep(0.01)
            with suppress(BlockingIOError):
                shown += os.read(ours, 65536).decode()

    try:
        for k, key in enumerate(keys):
            start = len(shown)
            read_until(lambda start=start, k=k: ("\x1b[J" if k else until) in shown[start:])
            os.write(ours, key)
        read_until(lambda: game.poll() is not None)
        with suppress(BlockingIOError):
            shown += os.read(ours, 65536).decode()
        return game.returncode, shown, termios.tcgetattr(theirs) == before
    finally:
        game.kill()
        os.close(ours)
        os.close(theirs)


def test_in_a_real_terminal_keys_play_at_once_and_leave_it_as_it_was():
    code, shown, restored = pseudo_terminal("quit", b"\x1b[C", b"\x1bOC ", b"x", b"q")
    assert (code, restored) == (0, True)
    assert "You are at 1 of 5." in shown
    assert "You are at 2 of 5." in shown
    assert "Step 3: ring_bell, for the first time." in shown
    assert "'x' is not one of left, right, space" in shown.replace("\x1b[K\r\n", " ")
    assert shown.rstrip().endswith("1 of 2 skills: ring_bell")
    assert shown.index("\x1b[?1049h") < shown.index("You are at") < shown.rindex("\x1b[?1049l")


def test_ctrl_c_leaves_a_terminal_as_it_was_too():
    code, shown, restored = pseudo_terminal("quit", b"\x1b[C", b"\x03")
    assert (code, restored) == (0, True)
    assert "\x1b[?1049l" in shown
    assert "Traceback" not in shown


# --- the window


def pressing(name: str):
    """Presses a key of the window that is open."""

    def press() -> None:
        import pygame

        typed = name if len(name) == 1 else ""
        pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=pygame.key.key_code(name), unicode=typed))

    return press


@pytest.fixture
def dummy(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    return pytest.importorskip("pygame")


def test_in_a_window_a_key_is_a_step_and_the_caption_tells(dummy, capsys):
    seen = []
    world = Corridor(
        *map(pressing, ["right", "left shift", "space", "right"]),
        lambda: seen.append(dummy.display.get_caption()[0]),
        pressing("escape"),
    )
    play(world)
    assert (world.env.at, world.env.rung, world.env.steps) == (2, 1, 3)
    assert seen == ["corridor: step 2, reward 0.5, last new skill ring_bell"]  # of the picture before
    assert "walk: left, right" in capsys.readouterr().out
    assert not dummy.display.get_init()


def test_a_closed_window_ends_the_game(dummy):
    world = Corridor(pressing("right"), lambda: dummy.event.post(dummy.event.Event(dummy.QUIT)))
    play(world)
    assert world.env.steps == 1


def test_the_end_of_an_episode_is_shown_until_r(dummy):
    colours, captions = [], []

    def look() -> None:
        colours.append(dummy.display.get_surface().get_at((599, 0))[0])
        captions.append(dummy.display.get_caption()[0])

    keys = map(pressing, ["right"] * LENGTH)
    world = Corridor(*keys, look, look, pressing("left"), pressing("r"), look, look, pressing("q"))
    play(world)
    assert world.env.steps == 0
    assert colours[1] < 40 * LENGTH / 2  # the last picture, darkened
    assert captions[1].endswith("last new skill find_door - The episode ended at step 5. r begins anew, q quits.")
    assert captions[-1] == "corridor: step 0, reward 0, last new skill none"


def test_a_world_that_draws_in_another_size_is_scaled(dummy):
    class Small(Corridor):
        def single(self, *args, render_size=64, **kw):
            return super().single(*args, render_size=48, **kw)

    sizes = []
    play(Small(pressing("right"), lambda: sizes.append(dummy.display.get_surface().get_size()), pressing("q")))
    assert sizes == [(600, 600)]


def without_pygame(monkeypatch):
    monkeypatch.setitem(sys.modules, "pygame", None)


def without_display(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "nonsense")


@pytest.mark.parametrize(
    ("lack", "says"), [(without_pygame, "a window needs pygame"), (without_display, "no window can be opened")]
)
def test_where_there_can_be_no_window_the_terminal_serves(lack, says, capsys, monkeypatch):
    if lack is without_display:
        pytest.importorskip("pygame")
    lack(monkeypatch)
    monkeypatch.setattr(sys, "stdin", io.StringIO("right right\n"))
    play(Corridor())
    shown = capsys.readouterr()
    assert says in shown.err
    assert len(shown.err.strip().splitlines()) == 1
    assert "You are at 2 of 5." in shown.out
