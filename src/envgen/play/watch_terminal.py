"""Watch a policy in a terminal: the world's map or text, redrawn after each step."""

import shutil
import sys
import time
from contextlib import closing

from .terminal import (
    ENTER_SCREEN,
    LEAVE_SCREEN,
    RENDER_SIZE,
    RESERVED_ROWS,
    describe_state,
    lay_out,
    raw_mode,
    read_keys,
    show_screen,
    text_observation,
)
from .watch import HELP, EpisodeSource, WatchSession, print_episodes

MIN_FRAME_SECONDS = 1 / 30  # between two screens; faster episodes skip some steps
PAUSED_SECONDS = 0.3  # for which a paused session waits for keys at a time


def watch_in_terminal(source: EpisodeSource, num_episodes: int | None, speed: float | None) -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        print_episodes(source, num_episodes)
        return
    observation = text_observation(source.world)
    with closing(source.make_player(None if observation else RENDER_SIZE, observation)) as player:
        session = WatchSession(source, player, num_episodes, speed)
        try:
            with raw_mode():
                sys.stdout.write(ENTER_SCREEN)
                _show(session)
        finally:
            sys.stdout.write(LEAVE_SCREEN)
            sys.stdout.flush()
            print("\n".join(session.status()))


def _show(session: WatchSession) -> None:
    step_due = time.monotonic()  # when the current step was due
    drawn, drawn_at = None, 0.0
    while not session.finished:
        now, state = time.monotonic(), (session.num_begun, session.player.step, session.note())
        is_still = session.is_paused or bool(session.player.ended)
        if state != drawn and (is_still or now - drawn_at >= MIN_FRAME_SECONDS):
            size = shutil.get_terminal_size()
            show_screen(render_screen(session, size.columns, size.lines))
            drawn, drawn_at = state, now
        seconds = session.seconds_to_next
        keys = read_keys(PAUSED_SECONDS if seconds is None else max(0.0, step_due + seconds - now))
        for key in keys:
            session.press(key)
        if not keys and seconds is not None:
            session.advance()
            step_due = max(step_due + seconds, time.monotonic() - MIN_FRAME_SECONDS)  # catches up after a slow step


def render_screen(session: WatchSession, columns: int, rows: int) -> list[str]:
    """The lines of the screen. The least important come last and are cut off if there are too few rows."""
    player = session.player
    state = describe_state(player.world, player.shown_observation, player.env, columns - 1, rows - RESERVED_ROWS)
    return lay_out([state, session.status(), ["  ".join(HELP)]], columns, rows)
