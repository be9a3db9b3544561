"""Worlds that are played in the browser: each key is a request, and its answer is the next picture."""

import base64
import io
import secrets
import threading
from collections import OrderedDict
from typing import Any

import numpy as np
from PIL import Image

from envgen.play.session import GameSession, PlayError, check_playable
from envgen.worlds.world import Level, World

from .server import RequestError

SCREEN_SIZE = 400  # pixels along the sides of a picture
MAX_GAMES = 8  # if there are more, the least recently played one ends
SPARE_KEYS = "1234567890abcdefghijklmnopqrstuvwxyz"  # for worlds without key bindings


class Games:
    def __init__(self, lock: threading.RLock):
        """`lock` is held while a world simulates."""
        self.lock = lock
        self._games: OrderedDict[str, GameSession] = OrderedDict()

    def start(self, world: World, level: Level, seed: int) -> dict[str, Any]:
        """Start a game. The result names it, and says how it is played."""
        with self.lock:
            session = _open(world, level, seed)
            game = secrets.token_hex(8)
            self._games[game] = session
            while len(self._games) > MAX_GAMES:
                self._games.popitem(last=False)[1].close()
            actions: dict[str, str] = {}
            for key, action in session.key_bindings.items():
                actions.setdefault(action, key)
            shown = [{"action": action.replace("_", " "), "key": key} for action, key in actions.items()]
            return {"game": game, "actions": shown, "keys": list(session.key_bindings), "help": session.help(),
                    **_state(session)}  # fmt: skip

    def press(self, game: str, key: str) -> dict[str, Any]:
        with self.lock:
            if game not in self._games:
                raise RequestError("this game has ended; start another", 404)
            session = self._games[game]
            self._games.move_to_end(game)
            events = session.press(key[:20])
            if any(event.kind == "quit" for event in events):
                self._games.pop(game).close()
                return {"quit": True}
            return {**_state(session), "events": [event.text for event in events if event.text]}

    def close(self) -> None:
        with self.lock:
            while self._games:
                self._games.popitem()[1].close()


def _open(world: World, level: Level, seed: int) -> GameSession:
    keys = world.key_bindings or dict(zip(SPARE_KEYS, world.actions, strict=False))
    check_playable(world, keys)
    return GameSession(world, level, seed, key_bindings=keys, render_size=SCREEN_SIZE)


def _state(session: GameSession) -> dict[str, Any]:
    frame = session.env.render()
    if not isinstance(frame, np.ndarray):
        raise PlayError(f"{session.world.name} draws no pictures, so it cannot be played here")
    out = io.BytesIO()
    Image.fromarray(frame).save(out, "PNG", compress_level=1)
    picture = f"data:image/png;base64,{base64.b64encode(out.getvalue()).decode()}"
    return {"frame": picture, "status": session.status(), "done": session.done}
