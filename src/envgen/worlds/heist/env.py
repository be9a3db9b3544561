"""One Heist as a Gymnasium environment. With the default level it is Procgen's, step for step and bit for bit."""

from typing import Any

from gymnasium import spaces

from ..single import SingleEnv
from ..validation import RENDER_MODES
from .checks import ACTION_SETS, RENDER_SIZE, check_names, check_render_size, levels_of, make_engine
from .constants import COLORS, SKILLS
from .engine import Engine
from .level import HeistLevel
from .observations import read, space_of


class HeistEnv(SingleEnv[Engine]):
    """`reset(seed=s)` is the first episode of the original's only environment with `rand_seed` s; `reset()` its next.

    `num_levels` and `start_level` are the original's too. `actions="moves"` leaves out those that do nothing.
    """

    metadata = {"render_modes": list(RENDER_MODES), "render_fps": 15}  # noqa: RUF012  as Gymnasium has it
    title = "Heist"

    def __init__(
        self,
        level: Any = None,
        observation: str = "pixels",
        num_levels: int = 0,
        start_level: int = 0,
        actions: str = "original",
        skin: str = "envgen",
        render_mode: str | None = None,
        render_size: int | tuple[int, int] = RENDER_SIZE,
    ):
        check_names(observation, actions, skin, render_mode)
        self.observation, self.action_names, self.render_mode = observation, ACTION_SETS[actions], render_mode
        self.render_size = check_render_size(render_size)
        self.observation_space = space_of(observation)
        self.action_space = spaces.Discrete(len(self.action_names))
        self.engine = make_engine(1, level, True, observation, 1, num_levels, start_level, skin)

    def _levels_of(self, level: Any) -> list[HeistLevel]:
        return levels_of(level)

    def _observation(self) -> Any:
        return read(self.observation, self.engine.obs_bytes[0])

    def _info(self, reward: float) -> dict[str, Any]:
        now = self.engine.results.report[0]
        names = [skill.name for skill in SKILLS]
        return {
            "achievements": dict(zip(names, now["achievements"].tolist(), strict=True)),
            "possible": dict(zip(names, map(bool, now["possible"]), strict=True)),
            "keys": dict(zip(COLORS, map(bool, now["has_key"]), strict=True)),
            "player_pos": now["position"].copy(),
            "shortest_path": int(now["shortest_path"]),
            "reward": reward,
            "bonus": float(now["bonus"]),
            "level": int(now["level"]),
            "episode_number": int(now["episode"]),
            "seed": int(now["level_seed"]),
        }
