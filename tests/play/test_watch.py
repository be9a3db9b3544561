"""Watching a policy: what keys do, what the terminal and the window show, and what is printed without a terminal."""

import io
import sys
from contextlib import nullcontext

import pytest
from test_play import Corridor, dummy_pygame, press_key, without_display, without_pygame

from envgen.play import watch_terminal
from envgen.play.terminal import RENDER_SIZE
from envgen.play.watch import LiveEpisodes, RecordedEpisodes, WatchSession, watch
from envgen.play.watch_terminal import render_screen
from envgen.report.episodes import EpisodeError, RecordedEpisode

__all__ = ["dummy_pygame"]  # a fixture
RING, RIGHT = 2, 1


class Ringer:
    """Rings the bell, then walks to the door. It remembers only what it observes."""

    def __init__(self):
        self.steps, self.log = 0, []

    def reset(self, infos):
        self.steps = 0
        self.log.append("reset")

    def act(self, observation, rng):
        self.log.append(rng is None)
        return RIGHT if self.steps else RING

    def observe(self, reward, done):
        self.steps += 1
        if done:
            self.log.append("done")


def live(world=None, deterministic=False):
    world = world or Corridor()
    return LiveEpisodes(Ringer(), world, world.Level(), 7, "symbols", deterministic)


def session_of(source, num_episodes=None, speed=None) -> WatchSession:
    return WatchSession(source, source.make_player(None, "text"), num_episodes, speed)


def test_a_live_policy_is_told_of_rewards_and_episodes():
    source = live(deterministic=True)
    session = session_of(source)
    for _ in range(7):
        session.advance()
    assert source.policy.log == ["reset", *[True] * 6, "done", "reset"]
    assert session.name == "seed 8"
    assert session.player.step == 0


def test_status_names_action_skills_and_the_end():
    session = session_of(live())
    session.advance()
    assert session.status() == [
        "corridor: seed 7, 10 steps/s", "step 1, return 0.5, action ring", "1 of 2 skills: ring_bell",
    ]  # fmt: skip
    for _ in range(5):
        session.advance()
    assert session.status()[1:] == ["step 6, return 0.5, episode ended", "2 of 2 skills: find_door, ring_bell"]


def test_keys_pause_step_change_the_speed_and_quit():
    session = session_of(live())
    session.press(".")
    assert session.player.step == 0  # only while paused
    session.press("space")
    assert session.seconds_to_next is None
    session.press(".")
    assert (session.player.step, session.note()) == (1, "seed 7, paused")
    session.press("space")
    for key, speed in (("+", 15), ("=", 30), ("-", 15), ("down", 8), ("up", 15)):
        session.press(key)
        assert session.speed == speed
    assert session.seconds_to_next == 1 / 15
    for _ in range(20):
        session.press("-")
    assert session.speed == 1
    for _ in range(20):
        session.press("+")
    assert session.speed == 240
    session.press("n")
    assert (session.name, session.player.step, session.finished) == ("seed 8", 0, False)
    session.press("Q")
    assert session.finished


def test_sessions_finish_after_the_last_episode():
    session = session_of(live(), num_episodes=2)
    steps = 0
    while not session.finished:
        session.advance()
        steps += 1
    assert steps == 2 * 7
    assert session.note().startswith("seed 8, 2 of 2")


def recorded(**changes) -> RecordedEpisode:
    fields = {"seed": 3, "number": 1, "actions": (RIGHT,) * 5, "earlier_actions": (), "episode_return": 0.0,
              "first_success": {"find_door": 5}}  # fmt: skip
    return RecordedEpisode(**{**fields, **changes})


def test_recorded_episodes_are_played_again():
    world = Corridor()
    source = RecordedEpisodes(world, world.Level(), [recorded(), recorded(number=2, earlier_actions=((RIGHT,) * 5,))])
    session = session_of(source)
    for _ in range(6):
        session.advance()
    assert session.name == "seed 3, episode 2"
    for _ in range(6):
        session.advance()
    assert session.finished


def test_recorded_episodes_that_differ_when_replayed_are_refused():
    world = Corridor()
    session = session_of(RecordedEpisodes(world, world.Level(), [recorded(first_success={"ring_bell": 2})]))
    for _ in range(4):
        session.advance()
    with pytest.raises(EpisodeError, match="the episode of corridor with seed 3 gives a different result"):
        session.advance()


# --- the terminal


def test_another_observation_than_the_agent_s_is_shown():
    session = session_of(live())
    session.advance()
    session.advance()
    assert session.player.observation == 1
    lines = render_screen(session, 60, 20)
    assert lines[0] == "You are at 1 of 5."
    assert any("q: quit" in line for line in lines)
    assert render_screen(session, 30, 3)[0] == "You are at 1 of 5."
    assert max(map(len, render_screen(session, 30, 50))) < 30


def test_without_a_terminal_it_prints_one_episode(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    watch(live(), terminal=True)
    assert capsys.readouterr().out.splitlines() == [
        "corridor, seed 7", "  step     1  ring_bell", "  step     6  find_door",
        "  step     6  ended: return 0.5, 2 of 2 skills",
    ]  # fmt: skip
    watch(live(), 2, terminal=True)
    assert "corridor, seed 8" in capsys.readouterr().out


def test_worlds_without_text_are_shown_as_pictures(monkeypatch):
    class NoText(Corridor):
        observations = ("symbols",)

    screens, sizes = [], []
    monkeypatch.setattr(sys, "stdin", type("Terminal", (io.StringIO,), {"isatty": lambda self: True})())
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(watch_terminal, "raw_mode", nullcontext)
    monkeypatch.setattr(watch_terminal, "read_keys", lambda timeout: ["q"] if screens else [])
    monkeypatch.setattr(watch_terminal, "show_screen", screens.append)
    source = live(NoText())
    make_player = source.make_player
    monkeypatch.setattr(source, "make_player", lambda size, text: sizes.append((size, text)) or make_player(size, text))
    watch(source, terminal=True)
    assert sizes == [(RENDER_SIZE, None)]
    assert any("▀" in line for line in screens[0])
    assert any("q: quit" in line for line in screens[0])


@pytest.mark.parametrize(
    ("remove", "message"),
    [(without_pygame, "a window needs pygame"), (without_display, "no window can be opened")],
)
def test_the_terminal_is_used_if_no_window_can_be_opened(remove, message, capsys, monkeypatch):
    if remove is without_display:
        pytest.importorskip("pygame")
    remove(monkeypatch)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    watch(live(), 1)
    output = capsys.readouterr()
    assert message in output.err
    assert len(output.err.strip().splitlines()) == 1
    assert "ended: return 0.5" in output.out


# --- the window


def test_the_window_shows_picture_and_panel(dummy_pygame):
    sizes, captions = [], []

    def record() -> None:
        sizes.append(dummy_pygame.display.get_surface().get_size())
        captions.append(dummy_pygame.display.get_caption()[0])

    watch(live(Corridor(lambda: None, record, press_key("q"))), speed=200)
    assert sizes == [(1000, 600)]
    assert captions == ["corridor: seed 7, step 0"]  # of the previous frame
    assert not dummy_pygame.display.get_init()


def test_the_window_pauses_and_closes(dummy_pygame):
    frames = []

    def close() -> None:
        frames.append(1)
        dummy_pygame.event.post(dummy_pygame.event.Event(dummy_pygame.QUIT))

    watch(live(Corridor(press_key("space"), press_key("."), close)), speed=0.1)
    assert frames == [1]
