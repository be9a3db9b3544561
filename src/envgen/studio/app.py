"""`Studio`: the state behind the pages, and the routes of the server."""

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from envgen.errors import EnvgenError
from envgen.report.page import build_report
from envgen.worlds.registry import WorldError, make_world, world_names
from envgen.worlds.world import LevelError, World

from . import designer, levels, run_pages
from .games import Games
from .page import asset, error_page, gone_part, nav_part
from .pictures import LazyPictures, StudioMaps
from .runs import LiveRun, RunFolder
from .server import (
    REPORT_POLICY,
    Request,
    RequestError,
    Response,
    Route,
    Stream,
    StudioServer,
    error_status,
    json_response,
)


class Studio:
    """A local web page over a folder of runs.

    Args:
        folder: The folder. Level files are saved in it.
        worlds: Worlds of your own that are not installed.
    """

    def __init__(self, folder: Path, worlds: Sequence[World] = ()):
        self.folder = RunFolder(folder)
        self.simulation = threading.RLock()  # one world simulates at a time
        self.pictures, self.games = LazyPictures(self.simulation), Games(self.simulation)
        self._own_worlds = {world.name: world for world in worlds}
        self._worlds: dict[str, World] = dict(self._own_worlds)
        self._maps: dict[str, StudioMaps] = {}

    def server(self, port: int = 0) -> StudioServer:
        """A server of these pages that is not serving yet."""
        return StudioServer(self.routes(), port, lambda message, status: error_page("runs", message, status))

    def routes(self) -> dict[tuple[str, str], Route]:
        return {
            ("GET", ""): lambda request: run_pages.runs_page(self.folder, self.maps_of),
            ("GET", "run"): self._page(
                "runs", self._locked(lambda request: run_pages.run_page(self._run(request), self.maps_of))
            ),
            ("GET", "compare"): self._locked(lambda request: Response(run_pages.comparison(self._ticked(request)))),
            ("GET", "report"): self._page("runs", self.report),
            ("GET", "levels"): self._page("levels", self.levels_page),
            ("GET", "designer"): self._locked(lambda request: designer.designer_page(self.folder.runs())),
            ("GET", "request"): self._page("designer", self._locked(self.request_page)),
            ("GET", "request-text"): self._locked(
                lambda request: Response(designer.request_text(self._manual(request)), "text/plain; charset=utf-8")
            ),
            ("GET", "events"): self.events,
            ("GET", "asset"): lambda request: asset(request.text("name")),
            ("GET", "picture"): lambda request: Response(
                self.pictures.get(request.text("name")), "image/webp", keep=True
            ),
            ("GET", "level-files"): self.level_files,
            ("GET", "level-file"): self.level_file,
            ("POST", "level"): self.check_level,
            ("POST", "level-stats"): self.level_stats,
            ("POST", "level-file"): self.save_level,
            ("POST", "play"): self.start_game,
            ("POST", "key"): lambda request: json_response(
                self.games.press(request.field("game"), request.field("key"))
            ),
            ("POST", "reply-check"): self._locked(self.check_reply),
            ("POST", "reply"): self._locked(self.send_reply),
        }

    @staticmethod
    def _page(view: str, route: Callable[[Request], Response]) -> Route:
        """A route that a person opens, whose errors are pages too."""

        def run(request: Request) -> Response:
            try:
                return route(request)
            except EnvgenError as error:
                return error_page(view, str(error), error_status(error))

        return run

    def _locked(self, route: Callable[[Request], Response]) -> Callable[[Request], Response]:
        """A route that reads runs, which one thread does at a time."""

        def run(request: Request) -> Response:
            with self.folder.lock:
                return route(request)

        return run

    # --- worlds

    def worlds(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self._own_worlds, *world_names())))

    def world(self, name: str) -> World:
        """A world by its name. A `module:Class` that a run or an address names is not imported."""
        if name not in self._worlds:
            if name not in world_names():
                remedy = "install its package, or start the studio with --world module:Class"
                raise RequestError(f"the world {name} is not installed; {remedy}", 404)
            self._worlds[name] = make_world(name)
        return self._worlds[name]

    def maps_of(self, world: str) -> StudioMaps | None:
        """None for a world that is not installed."""
        try:
            if world not in self._maps:
                self._maps[world] = StudioMaps(self.world(world), self.pictures)
        except (RequestError, WorldError):
            return None
        return self._maps[world]

    # --- runs

    def _run(self, request: Request) -> LiveRun:
        return self.folder.get(request.text("id"))

    def _ticked(self, request: Request) -> list[LiveRun]:
        ids = list(dict.fromkeys(request.query.get("run", [])))
        if not ids:
            raise RequestError("tick at least one run")
        return [self.folder.get(run_id) for run_id in ids]

    def report(self, request: Request) -> Response:
        runs = self._ticked(request)
        clips = request.text("clips", "") == "1"
        with self.simulation:
            page = build_report([run.folder for run in runs], clips, worlds=tuple(self._own_worlds.values()))
        return Response(page, policy=REPORT_POLICY)

    def events(self, request: Request) -> Stream:
        view = request.text("view")
        views: dict[str, Callable[[], Mapping[str, str]]] = {
            "runs": lambda: run_pages.runs_parts(self.folder, self.maps_of),
            "run": lambda: run_pages.run_parts(self._run(request), self.maps_of),
            "designer": lambda: designer.designer_parts(self.folder.runs()),
            "request": lambda: designer.request_parts(self._manual(request)),
            "levels": dict,
        }
        if view not in views:
            raise RequestError("there are no events of this name", 404)

        def parts() -> dict[str, str]:
            with self.folder.lock:
                num_open = len(designer.waiting_requests(self.folder.runs()))
                try:
                    parts_of_view = views[view]()
                    is_gone = False
                except EnvgenError as error:
                    parts_of_view = {}
                    is_gone = error_status(error) == 404
                if view in ("run", "request"):
                    parts_of_view = {"gone": gone_part(view if is_gone else ""), **parts_of_view}
            return {"nav": nav_part(num_open), **parts_of_view}

        return Stream(parts)

    # --- levels

    def levels_page(self, request: Request) -> Response:
        name = request.text("world", self.worlds()[0])
        return levels.levels_page(self.world(name), self.worlds(), self.folder.folder, request.text("level", "{}"))

    def check_level(self, request: Request) -> Response:
        """Whether a level is valid, its settings, and its picture."""
        world = self.world(request.field("world"))
        seed = self._seed(request)
        try:
            level = levels.parse_level(world, request.body.get("level"))
        except LevelError as error:
            fields = error.fields if isinstance(error, levels.WrongNumbers) else {}
            return json_response({"error": str(error), "fields": fields})
        picture = self.pictures.add_map(world, level, seed)
        return json_response({"error": "", "picture": picture, **levels.describe_level(level)})

    def level_stats(self, request: Request) -> Response:
        world = self.world(request.field("world"))
        level = levels.parse_level(world, request.body.get("level"))
        with self.simulation:
            return Response(levels.stats_section(world, level))

    def level_files(self, request: Request) -> Response:
        return json_response(levels.level_files(self.folder.folder, self.world(request.text("world"))))

    def level_file(self, request: Request) -> Response:
        world = self.world(request.text("world"))
        file = levels.file_in(self.folder.folder, request.text("name"))
        return json_response(levels.describe_level(levels.load_level(file, world)))

    def save_level(self, request: Request) -> Response:
        world = self.world(request.field("world"))
        level = levels.parse_level(world, request.body.get("level"))
        file = levels.file_in(self.folder.folder, request.field("name"))
        replace = request.field("replace", bool, False)
        return _or_conflict(lambda: levels.save_level(file, level, world, replace), {"file": str(file)})

    def start_game(self, request: Request) -> Response:
        world = self.world(request.field("world"))
        level = levels.parse_level(world, request.body.get("level"))
        return json_response(self.games.start(world, level, self._seed(request)))

    @staticmethod
    def _seed(request: Request) -> int:
        seed = request.field("seed", int, 0)
        if not 0 <= seed <= levels.MAX_SEED:
            raise RequestError(f"the seed must be from 0 to {levels.MAX_SEED}, not {seed}")
        return seed

    # --- requests that a person answers

    def _manual(self, request: Request, body: bool = False) -> designer.ManualRequest:
        value = request.field if body else request.text
        return designer.manual_request(self.folder.get(value("id")), value("name"))

    def request_page(self, request: Request) -> Response:
        manual = self._manual(request)
        return designer.request_page(manual, self._world_of(manual.run))

    def check_reply(self, request: Request) -> Response:
        manual = self._manual(request, body=True)
        world = self._world_of(manual.run)
        maps = StudioMaps(world, self.pictures, with_stats=True) if world else None
        return json_response(designer.check_reply(manual, request.field("text"), world, maps))

    def send_reply(self, request: Request) -> Response:
        manual = self._manual(request, body=True)
        despite_errors = request.field("despite_errors", bool, False)
        text, world = request.field("text"), self._world_of(manual.run)
        return _or_conflict(lambda: designer.send_reply(manual, text, world, despite_errors), {"sent": True})

    def _world_of(self, run: LiveRun) -> World | None:
        maps = self.maps_of(run.task)
        return maps.world if maps else None


def _or_conflict(action: Callable[[], None], result: dict[str, Any]) -> Response:
    """The result of an action, or why its author must confirm it first, which is not an error."""
    try:
        action()
    except RequestError as error:
        if error.status != 409:
            raise
        return json_response({"conflict": str(error)})
    return json_response(result)
