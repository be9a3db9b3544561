"""One Crafter as a Gymnasium environment. With the default level it is `crafter.Env`, step for step and bit for bit."""

from typing import Any

from gymnasium import spaces

from ..single import SingleEnv
from ..validation import RENDER_MODES, check_render_mode
from .checks import RENDER_SIZE, check_observation, levels_of
from .constants import ACTIONS, ITEMS, SKILLS
from .engine import Engine
from .level import CrafterLevel
from .observations import OBSERVATION_MODES, make_observation_space, read_observation, semantic_map
from .render import parse_image_size


class CrafterEnv(SingleEnv[Engine]):
    """`reset(seed=s)` is `crafter.Env(seed=s)`'s first episode; `reset()` its next one."""

    metadata = {"render_modes": list(RENDER_MODES), "render_fps": 10}  # noqa: RUF012  as Gymnasium has it
    title, action_names = "Crafter", ACTIONS

    def __init__(
        self,
        level: Any = None,
        observation: str = "pixels",
        size: int | tuple[int, int] = 64,
        render_mode: str | None = None,
        render_size: int | tuple[int, int] = RENDER_SIZE,
    ):
        check_observation(observation)
        check_render_mode(render_mode)
        self.observation, self.size, self.render_mode = observation, parse_image_size(size), render_mode
        self.render_size = parse_image_size(render_size)
        self.observation_space = make_observation_space(observation, self.size)
        self.action_space = spaces.Discrete(len(ACTIONS))
        self.engine = Engine(1, levels_of(level), True, OBSERVATION_MODES[observation], self.size, threads=1)

    def _levels_of(self, level: Any) -> list[CrafterLevel]:
        return levels_of(level)

    def _observation(self) -> Any:
        return read_observation(self.observation, self.size, self.engine.obs_bytes[0])

    def _info(self, reward: float) -> dict[str, Any]:
        now = self.engine.results.report[0]
        return {
            "inventory": dict(zip(ITEMS, now["inventory"].tolist(), strict=True)),
            "achievements": dict(zip((skill.name for skill in SKILLS), now["achievements"].tolist(), strict=True)),
            "discount": float(now["discount"]),
            "semantic": semantic_map(self.engine, 0),
            "player_pos": now["position"].copy(),
            "reward": reward,
            "level": int(now["level"]),
            "episode_number": int(now["episode"]),
            "seed": int(now["world_seed"]),
        }
