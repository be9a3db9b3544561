"""Playing by hand: what keys do, what the terminal and the window show, and how to quit."""

import io
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envgen.play import PlayError, play
from envgen.play.session import GameSession
from envgen.play.terminal import RESERVED_ROWS, parse_keys, picture_lines, render_screen
from envgen.worlds.walker.world import Walker
from envgen.worlds.world import Level, Skill, World

LENGTH = 5


class CorridorEnv(gymnasium.Env):
    """A corridor of five cells with a door at its end. A bell can be rung anywhere. An episode has 50 steps."""

    def __init__(self, observation, render_mode, size, script):
        self.observation, self.size, self.render_mode, self.script = observation, size, render_mode, script

    def _observe(self):
        text = f"You are at {self.position} of {LENGTH}."
        info = {"achievements": np.array([self.rings, self.position == 5])}
        return (text if self.observation == "text" else self.position), info

    def reset(self, *, seed=None, options=None):
        self.position, self.rings, self.steps = 0, 0, 0
        return self._observe()

    def step(self, action):
        self.steps += 1
        self.position = max(0, self.position + (-1, 1, 0)[action])
        self.rings += action == 2
        observation, info = self._observe()
        return observation, 0.5 * (action == 2), self.position == LENGTH, self.steps >= 50, info

    def render(self):
        if self.script:
            self.script.pop(0)()
        return np.full((self.size, self.size, 3), 40 * self.position, np.uint8)


class Corridor(World):
    name = "corridor"
    Level = Level
    skills = (Skill("ring_bell"), Skill("find_door"))
    actions = ("walk_left", "walk_right", "ring")
    observations = ("symbols", "text")
    rules = ""
    key_bindings = {"left": "walk_left", "right": "walk_right", "space": "ring"}  # noqa: RUF012

    def __init__(self, *script):
        self.script = list(script)  # callbacks, one for each rendered frame

    def single(self, level=None, seed=None, observation="symbols", render_mode=None, render_size=64, **kwargs):
        self.env = CorridorEnv(observation, render_mode, render_size, self.script)
        return self.env

    make = level_stats = render_levels = None


def messages(events) -> list[str]:
    return [event.text for event in events if event.text]


# --- the session


def test_keys_act_and_first_successes_are_reported_once():
    session = GameSession(Corridor())
    assert [event.kind for event in session.press("right")] == ["step"]
    assert messages(session.press("space")) == ["Step 2: first ring_bell."]
    assert messages(session.press("SPACE")) == []
    assert session.status() == ["step 3, return 1", "1 of 2 skills: ring_bell"]
    assert session.caption() == "corridor: step 3, return 1, last new skill ring_bell"


def test_after_the_end_only_restart_continues():
    session = GameSession(Corridor())
    assert "once this one has ended" in messages(session.press("r"))[0]
    for _ in range(LENGTH):
        events = session.press("right")
    assert [event.kind for event in events] == ["step", "skill", "end"]
    assert messages(session.press("left")) == ["The episode ended at step 5. Press r to restart, q to quit."]
    assert session.status()[0] == "step 5, return 0"
    assert [event.kind for event in session.press("r")] == ["restart"]
    assert session.status() == ["step 0, return 0", "0 of 2 skills: none yet"]


@pytest.mark.parametrize("key", ["q", "Q", "escape"])
def test_quit_keys(key):
    assert [event.kind for event in GameSession(Corridor()).press(key)] == ["quit"]


def test_unknown_key_suggests_the_nearest_one():
    assert messages(GameSession(Corridor()).press("rigth"))[0].endswith("did you mean 'right'?")


def test_world_may_bind_q():
    class BindsQ(Corridor):
        key_bindings = {**Corridor.key_bindings, "q": "ring"}  # noqa: RUF012

    session = GameSession(BindsQ())
    assert session.press("q")[0].kind == "step"
    assert session.press("escape")[0].kind == "quit"
    assert session.help()[-1] == "other: escape to quit"


def test_help_lists_every_key_with_related_actions_together():
    class AllKeys(Corridor):
        key_bindings: ClassVar = {"q": "left", "escape": "right"}

    session = GameSession(AllKeys())
    assert "quit" not in session.end_message() + session.help()[-1]
    assert GameSession(Corridor()).help() == ["walk: left, right", "other: space ring, q or escape to quit"]


@given(st.lists(st.one_of(st.text(max_size=8), st.sampled_from(["left", "right", "space", "r", "q", "LEFT", ""]))))
def test_any_keys_are_accepted(keys):
    session = GameSession(Corridor(), observation="text")
    for key in keys:
        assert session.press(key)
    assert render_screen(session, 40, 20)


def test_worlds_that_cannot_be_played_are_explained():
    class NoKeys(Corridor):
        key_bindings = {}  # noqa: RUF012

    class Continuous(Corridor):
        actions = ()

    with pytest.raises(PlayError, match="defines no key bindings"):
        play(NoKeys(), terminal=True)
    with pytest.raises(PlayError, match="has continuous actions, so it cannot be played with keys"):
        play(Continuous(), terminal=True)


class SlopeEnv(CorridorEnv):
    """Two forces move the position, which ends the episode at 1."""

    action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def step(self, action):
        assert self.action_space.contains(action)
        self.actions.append(action.tolist())
        self.position += 0.125 * float(action.sum())
        observation, info = self._observe()
        return observation, 0.5, self.position >= 1, False, info | {"achievements": np.array([0, self.position > 0.4])}

    def reset(self, *, seed=None, options=None):
        self.actions = []
        return super().reset(seed=seed, options=options)


class Slope(Corridor):
    name = "slope"
    actions = ()
    observations = ("vector",)
    key_bindings = {"d": "push", "a": "brake", "space": "wait", "x": "release"}  # noqa: RUF012
    manual_actions = {"push": {1: 1.0}, "brake": {0: -0.5}, "wait": {}, "release": {0: 0.0, 1: 0.0}}  # noqa: RUF012
    steps_per_key = 3

    def single(self, level=None, seed=None, observation="vector", render_mode=None, render_size=64, **kwargs):
        return SlopeEnv(observation, render_mode, render_size, self.script)


def test_keys_set_components_of_continuous_actions_which_keep_their_values():
    session = GameSession(Slope())
    for key in ("space", "a", "d", "space", "x"):
        assert [event.kind for event in session.press(key) if event.kind != "skill"] == ["step"]
    actions = [[0, 0], [-0.5, 0], [-0.5, 1], [-0.5, 1], [0, 0]]
    assert session.env.actions == [action for action in actions for _ in range(3)]
    assert session.status()[0] == "step 15, return 7.5"


def test_a_key_press_ends_with_the_episode_and_a_restart_releases_everything():
    session = GameSession(Slope())
    events = [session.press("d") for _ in range(3)]
    assert [event.text for events in events for event in events if event.kind == "skill"] == [
        "Step 4: first find_door."
    ]
    assert (events[-1][-1].kind, session.steps) == ("end", 8)  # in the middle of the third key press
    session.press("r")
    session.press("space")
    assert session.env.actions == [[0, 0]] * 3


# --- the terminal


def test_map_of_characters_takes_the_place_of_text(capsys, monkeypatch):
    class Mapped(Corridor):
        def ascii_map(self, symbols):
            return f"|{' ' * symbols}@{' ' * (LENGTH - symbols)}|"

    monkeypatch.setattr(sys, "stdin", io.StringIO("right right"))
    play(Mapped(), terminal=True)
    assert "|  @   |\n" in capsys.readouterr().out


@given(st.text(alphabet="\x1b[OABCD~;1az \r\t\x7f\x00é", max_size=30))
def test_parsed_keys_have_printable_names(sequence):
    assert all(name.isprintable() and name for name in parse_keys(sequence))


def test_arrow_keys_are_parsed_in_every_encoding():
    assert parse_keys("\x1b[A\x1bOB\x1b[1;2C\x1b[D") == ["up", "down", "right", "left"]
    assert parse_keys(" z\x1b") == ["space", "z", "escape"]
    assert parse_keys("\x1b[3~\x1b[15~") == []


def test_screen_fits_and_keeps_the_observation():
    lines = render_screen(GameSession(Corridor(), observation="text"), 24, 3)
    assert lines[0] == "You are at 0 of 5."
    assert len(lines) == 3
    assert max(map(len, lines)) < 24


def test_worlds_without_text_are_shown_as_pictures():
    session = GameSession(Slope(), render_size=400)
    lines = render_screen(session, 80, 24)
    picture = [line for line in lines if "▀" in line]
    assert len(picture) == 24 - RESERVED_ROWS
    assert {line.count("▀") for line in picture} == {2 * len(picture)}  # square, as two pixels share a block
    assert "step 0, return 0" in lines
    assert not any("▀" in line for line in render_screen(session, 80))  # the output is not a terminal


def test_half_blocks_have_the_colors_of_their_pixels():
    frame = np.zeros((4, 2, 3), np.uint8)
    frame[0], frame[1, 1], frame[2:] = (255, 0, 0), (0, 0, 255), (51, 102, 153)
    red, blue, black, mixed = 16 + 36 * 5, 16 + 5, 16, 16 + 36 + 6 * 2 + 3
    assert picture_lines(frame, 2, 10) == [
        f"\x1b[38;5;{red};48;5;{black}m▀\x1b[38;5;{red};48;5;{blue}m▀\x1b[0m",
        f"\x1b[38;5;{mixed};48;5;{mixed}m▀▀\x1b[0m",
    ]


def test_a_world_without_text_and_pictures_cannot_be_shown(monkeypatch):
    monkeypatch.setattr(SlopeEnv, "render", lambda self: None)
    with pytest.raises(PlayError, match="neither a text observation nor pictures"):
        render_screen(GameSession(Slope()), 80, 24)


def test_the_walker_is_played_with_keys():
    session = GameSession(Walker(), {"roughness": 0}, 0)
    for key in session.key_bindings:
        assert session.press(key)[0].kind == "step"
    assert session.steps == 5 * len(session.key_bindings)
    assert len({str(components) for components in Walker.manual_actions.values()}) == len(session.key_bindings)


def terminal_process(code: str, **kwargs) -> dict:
    """The arguments of a subprocess that runs `code` with `play` and this module importable."""
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    program = f"from envgen.play import play; {code}"
    return {"args": [sys.executable, "-c", program], "env": os.environ | {"PYTHONPATH": path}, "text": True, **kwargs}


CORRIDOR = "from test_play import Corridor; play(Corridor(), terminal=True)"
CRAFTER = "from envgen.worlds.crafter.world import Crafter; play(Crafter(), {}, 3, terminal=True)"


def test_line_of_keys_is_played_and_the_final_screen_printed():
    process = subprocess.run(
        **terminal_process(CRAFTER), input="left left left left down rigth down space\nup\n", capture_output=True
    )
    assert process.returncode == 0, process.stderr
    assert "did you mean 'right'?" in process.stdout
    assert "Step 7: first collect_wood." in process.stdout
    assert "wood 1" in process.stdout
    assert "T tree" in process.stdout
    assert "step 7, return 1\n1 of 22 skills: collect_wood" in process.stdout
    assert "place: x stone, t table, f furnace, p plant" in process.stdout
    assert "\x1b" not in process.stdout


@pytest.mark.parametrize("line", ["", "\n", "q right", "right"])
def test_short_and_empty_lines_are_accepted(line, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(line))
    play(Corridor(), terminal=True)
    assert f"You are at {int(line == 'right')} of 5." in capsys.readouterr().out


def run_in_pseudo_terminal(prompt: str, *keys: bytes | signal.Signals) -> tuple[int, str, bool]:
    """Play with these keys, which are sent once `prompt` is on the screen. A signal is sent to the process.

    Returns the exit code, the output, and whether the settings of the terminal were restored.
    """
    pty, termios = pytest.importorskip("pty"), pytest.importorskip("termios")
    controller, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (24, 80))
    original = termios.tcgetattr(terminal)
    # a session of its own with this controlling terminal, so that Ctrl-C reaches it
    arguments = terminal_process(f"import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); {CORRIDOR}")
    streams = {"stdin": terminal, "stdout": terminal, "stderr": terminal}
    process = subprocess.Popen(**arguments, **streams, start_new_session=True)
    deadline, output = time.monotonic() + 60, ""
    os.set_blocking(controller, False)

    def read_until(condition) -> None:
        nonlocal output
        while not condition():
            assert time.monotonic() < deadline, f"the game hangs after {output!r}"
            time.sleep(0.01)
            with suppress(BlockingIOError):
                output += os.read(controller, 65536).decode()

    try:
        for k, key in enumerate(keys):
            start = len(output)
            read_until(lambda start=start, k=k: ("\x1b[J" if k else prompt) in output[start:])
            if isinstance(key, bytes):
                os.write(controller, key)
            else:
                process.send_signal(key)
        read_until(lambda: process.poll() is not None)
        with suppress(BlockingIOError):
            output += os.read(controller, 65536).decode()
        return process.returncode, output, termios.tcgetattr(terminal) == original
    finally:
        process.kill()
        os.close(controller)
        os.close(terminal)


def test_the_terminal_is_restored_if_the_game_is_terminated():
    code, output, restored = run_in_pseudo_terminal("quit", b"\x1b[C", signal.SIGTERM)
    assert (code, restored) == (0, True)  # as after Ctrl-C
    assert output.index("\x1b[?1049h") < output.rindex("\x1b[?25h\x1b[?1049l")


def test_pseudo_terminal_plays_at_once_and_is_restored():
    code, output, restored = run_in_pseudo_terminal("quit", b"\x1b[C", b"\x1bOC ", b"x", b"q")
    assert (code, restored) == (0, True)
    assert "You are at 1 of 5." in output
    assert "You are at 2 of 5." in output
    assert "Step 3: first ring_bell." in output
    assert "'x' is not one of left, right, space" in output.replace("\x1b[K\r\n", " ")
    assert output.rstrip().endswith("1 of 2 skills: ring_bell")
    assert output.index("\x1b[?1049h") < output.index("You are at") < output.rindex("\x1b[?1049l")


def test_ctrl_c_restores_the_terminal():
    code, output, restored = run_in_pseudo_terminal("quit", b"\x1b[C", b"\x03")
    assert (code, restored) == (0, True)
    assert "\x1b[?1049l" in output
    assert "Traceback" not in output


# --- the window


def press_key(name: str):
    """A callback that presses a key in the open window."""

    def press() -> None:
        import pygame

        char = name if len(name) == 1 else ""
        pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=pygame.key.key_code(name), unicode=char))

    return press


@pytest.fixture
def dummy_pygame(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    return pytest.importorskip("pygame")


def test_window_steps_on_each_key_and_updates_the_caption(dummy_pygame, capsys):
    captions = []
    world = Corridor(
        *map(press_key, ["right", "left shift", "space", "right"]),
        lambda: captions.append(dummy_pygame.display.get_caption()[0]),
        press_key("escape"),
    )
    play(world)
    assert (world.env.position, world.env.rings, world.env.steps) == (2, 1, 3)
    assert captions == ["corridor: step 2, return 0.5, last new skill ring_bell"]  # of the previous frame
    assert "walk: left, right" in capsys.readouterr().out
    assert not dummy_pygame.display.get_init()


def test_closing_the_window_quits(dummy_pygame):
    world = Corridor(press_key("right"), lambda: dummy_pygame.event.post(dummy_pygame.event.Event(dummy_pygame.QUIT)))
    play(world)
    assert world.env.steps == 1


def test_window_shows_the_end_until_restart(dummy_pygame):
    red_values, captions = [], []

    def record() -> None:
        red_values.append(dummy_pygame.display.get_surface().get_at((599, 0))[0])
        captions.append(dummy_pygame.display.get_caption()[0])

    keys = map(press_key, ["right"] * LENGTH)
    world = Corridor(*keys, record, record, press_key("left"), press_key("r"), record, record, press_key("q"))
    play(world)
    assert world.env.steps == 0
    assert red_values[1] < 40 * LENGTH / 2  # the last frame, darkened
    assert captions[1].endswith(
        "last new skill find_door - The episode ended at step 5. Press r to restart, q to quit."
    )
    assert captions[-1] == "corridor: step 0, return 0, last new skill none"


def test_frames_of_another_size_are_scaled(dummy_pygame):
    class Small(Corridor):
        def single(self, *args, render_size=64, **kwargs):
            return super().single(*args, render_size=48, **kwargs)

    sizes = []
    play(Small(press_key("right"), lambda: sizes.append(dummy_pygame.display.get_surface().get_size()), press_key("q")))
    assert sizes == [(600, 600)]


def without_pygame(monkeypatch):
    monkeypatch.setitem(sys.modules, "pygame", None)


def without_display(monkeypatch):
    import pygame

    pygame.quit()  # another test may have left it with a display
    monkeypatch.setenv("SDL_VIDEODRIVER", "nonsense")


@pytest.mark.parametrize(
    ("remove", "message"),
    [(without_pygame, "a window needs pygame"), (without_display, "no window can be opened")],
)
def test_terminal_is_used_if_no_window_can_be_opened(remove, message, capsys, monkeypatch):
    if remove is without_display:
        pytest.importorskip("pygame")
    remove(monkeypatch)
    monkeypatch.setattr(sys, "stdin", io.StringIO("right right\n"))
    play(Corridor())
    output = capsys.readouterr()
    assert message in output.err
    assert len(output.err.strip().splitlines()) == 1
    assert "You are at 2 of 5." in output.out
