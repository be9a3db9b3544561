"""Pictures of levels, drawn when a browser asks for them."""

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from envgen.report.html import Html, join, tag
from envgen.report.pictures import LevelMaps, PictureStore
from envgen.worlds.world import World

from .server import RequestError

MAX_PICTURES = 5000  # that are known
MAX_KEPT_BYTES = 64 << 20  # of those that were drawn


class LazyPictures(PictureStore):
    """Pictures by name. Each is drawn when it is first needed, one at a time, so that training keeps its cores."""

    def __init__(self, lock: threading.RLock):
        super().__init__(MAX_KEPT_BYTES)
        self.lock = lock
        self._create: OrderedDict[str, Callable[[], bytes]] = OrderedDict()
        self._drawn: OrderedDict[str, bytes] = OrderedDict()

    def add(self, key: str, create: Callable[[], bytes]) -> str:
        name = hashlib.sha256(key.encode(errors="replace")).hexdigest()[:24]
        self._create[name] = create
        self._create.move_to_end(name)
        while len(self._create) > MAX_PICTURES:
            self._create.popitem(last=False)
        return name

    def get(self, name: str) -> bytes:
        with self.lock:
            if name not in self._drawn:
                create = self._create.get(name)
                if create is None:
                    raise RequestError("there is no such picture", 404)
                self._drawn[name] = create()
                self.num_bytes += len(self._drawn[name])
                while self.num_bytes > self.max_bytes and len(self._drawn) > 1:
                    self.num_bytes -= len(self._drawn.popitem(last=False)[1])
            self._drawn.move_to_end(name)
            return self._drawn[name]


class StudioMaps(LevelMaps):
    """Maps of the levels of one world, each with a link to the level editor.

    With `with_stats`, a script of the page adds the statistics of each level.
    """

    def __init__(self, world: World, store: LazyPictures, with_stats: bool = False):
        super().__init__(world, store)
        self.with_stats = with_stats

    def links(self, overrides: Any) -> Html | None:
        link = tag("a", "Open in the level editor", href=editor_link(self.world.name, overrides))
        stats = tag("div", class_="stats", data_own=True, data_world=self.world.name, data_level=json.dumps(overrides))
        return join(stats if self.with_stats else None, tag("p", link, class_="small"))

    def legend(self) -> list[tuple[str, str]]:
        return self._legend

    @cached_property
    def _legend(self) -> list[tuple[str, str]]:
        return super().legend()


def editor_link(world: str, overrides: Any) -> str:
    return "levels?" + urlencode({"world": world, "level": json.dumps(overrides)})
