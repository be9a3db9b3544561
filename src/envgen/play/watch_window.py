"""Watch a policy in a window: the picture of the world, and beside it action, health, inventory and skills."""

from contextlib import closing
from typing import Any

from envgen.report.overlay import FrameComposer

from .watch import HELP, EpisodeSource, WatchSession
from .window import WINDOW_SIZE, WindowUnavailable, init_pygame, key_name

FRAMES_PER_SECOND = 60
MAX_STEPS_PER_FRAME = 8


def watch_in_window(source: EpisodeSource, num_episodes: int | None, speed: float | None) -> None:
    pygame = init_pygame()
    try:
        composer = FrameComposer(WINDOW_SIZE, HELP)
        try:
            screen = pygame.display.set_mode((composer.width, composer.height))
        except pygame.error as error:
            raise WindowUnavailable(f"no window can be opened ({error})") from None
        with closing(source.make_player(WINDOW_SIZE, None)) as player:
            _run(pygame, screen, composer, WatchSession(source, player, num_episodes, speed))
    finally:
        pygame.quit()


def _run(pygame: Any, screen: Any, composer: FrameComposer, session: WatchSession) -> None:
    clock, elapsed = pygame.time.Clock(), 0.0  # seconds for which the current step has been shown
    shown: object = None
    while not session.finished:
        state = (session.num_begun, session.player.step, session.note())
        if state != shown:
            _draw(pygame, screen, composer, session)
            shown = state
        for event in pygame.event.get():
            if event.type == pygame.QUIT:
                return
            if event.type == pygame.KEYDOWN and (key := key_name(pygame, event)):
                session.press(key)
        elapsed += clock.tick(FRAMES_PER_SECOND) / 1000
        for _ in range(MAX_STEPS_PER_FRAME):
            seconds = session.seconds_to_next
            if seconds is None or session.finished:
                elapsed = 0.0
                break
            if elapsed < seconds:
                break
            elapsed -= seconds
            session.advance()
        else:
            elapsed = 0.0  # this machine cannot keep up with the speed


def _draw(pygame: Any, screen: Any, composer: FrameComposer, session: WatchSession) -> None:
    frame = composer.compose(session.player, session.player.world.name, session.note())
    screen.blit(pygame.surfarray.make_surface(frame.transpose(1, 0, 2)), (0, 0))
    pygame.display.set_caption(f"{session.player.world.name}: {session.name}, step {session.player.step:,}")
    pygame.display.flip()
