"""`Walker`: the world that designers, learners and the command line use."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from PIL import Image

from ..observations import image_grid
from ..python_vector_env import PythonVectorEnv
from ..python_world import PythonEnv, PythonWorld
from ..validation import RENDER_MODES, check_seed
from ..world import EpisodeEnd, Skill, SkillCheck
from .env import ROUGH_THRESHOLD, TERRAINS, THRESHOLDS, WalkerEnv
from .level import OBSTACLES, WalkerLevel
from .level_stats import SKILL_LEVELS, WalkerLevelStats, compute_level_stats
from .render import LEGEND, TERRAIN_IMAGE_SIZE, render_terrain

RULES = """\
You are a robot with a hull and two legs, on a terrain seen from the side. You move the hips and knees of both legs by
four torques between -1 and 1, 50 times a second, and walk to the right.
- You observe the angle and speed of the hull, the angles and speeds of the four joints, whether each leg touches the
  ground, and ten distances to the terrain, measured by rays from straight below to ahead.
- An episode ends when the hull touches the ground, when you walk off the terrain to the left, when you arrive at the
  end of the course, 84 m to the right of the start, or after 1600 steps (2000 in other levels than the original).
- The original has slightly rough ground without obstacles. Levels can make the ground flat or rougher, and add pits to
  step or jump over, stumps to climb over, and staircases that go up or down.
- Skills are to come a quarter, half or all of the way: in any terrain (walk), on rough ground (rough), and in terrains
  with pits, stumps or stairs, at least one of which must have been passed.
"""
REWARD_RULE = """\
Moving forward is rewarded in proportion to the distance, by about 300 for the whole course. Torques cost a little, and
so does tilting the hull. Falling, or leaving the start backwards, costs 100.
"""
# Torques of hip and knee, of the leg that is drawn lighter and of the darker one
MANUAL_ACTIONS: dict[str, dict[int, float]] = {
    "light_hip_forward": {0: 1.0}, "light_hip_back": {0: -1.0}, "light_knee_stretch": {1: 1.0},
    "light_knee_bend": {1: -1.0}, "dark_hip_forward": {2: 1.0}, "dark_hip_back": {2: -1.0},
    "dark_knee_stretch": {3: 1.0}, "dark_knee_bend": {3: -1.0}, "wait": {}, "relax": {0: 0.0, 1: 0.0, 2: 0.0, 3: 0.0},
}  # fmt: skip
KEYS = ("d", "a", "w", "s", "right", "left", "up", "down", "space", "x")
KEY_BINDINGS: dict[str, str] = {key: action for key, action in zip(KEYS, MANUAL_ACTIONS, strict=True)}


def _skills() -> tuple[Skill, ...]:
    skills = []
    for terrain in TERRAINS:
        previous = () if terrain == "walk" else ("walk_25",)
        for threshold in THRESHOLDS:
            skills.append(Skill(f"{terrain}_{threshold}", previous))
            previous = (f"{terrain}_{threshold}",)
    return tuple(skills)


class WalkerProbe:
    """What `envgen diagnose` measures: why episodes ended, and near which kind of obstacle."""

    def __init__(self, envs: PythonVectorEnv):
        self.envs = envs

    def before_step(self, actions: np.ndarray) -> Mapping[str, SkillCheck]:
        return {}

    def episode_ends(self, env_ids: np.ndarray) -> Sequence[EpisodeEnd]:
        return self.envs.call("last_end", env_ids=env_ids.tolist())


class Walker(PythonWorld):
    """Gymnasium's BipedalWalker, with POET's terrains as levels.

    Args:
        num_workers: Processes that step the environments of a vector environment, by default one for each core and at
            least four environments in each. Episodes do not depend on it.
    """

    name = "walker"
    Level = WalkerLevel
    env_class = WalkerEnv
    skills = _skills()
    actions = ()
    observations = ("vector",)
    rules = RULES
    reward_rule = REWARD_RULE
    skill_levels = SKILL_LEVELS
    key_bindings = KEY_BINDINGS
    manual_actions = MANUAL_ACTIONS
    steps_per_key = 5  # a tenth of a second
    gauges = {"distance": 100}  # noqa: RUF012
    ppo_defaults = {  # noqa: RUF012
        "num_envs": 32, "num_steps": 256, "num_minibatches": 32, "update_epochs": 10, "gamma": 0.99, "gae_lambda": 0.95,
        "ent_coef": 0.0, "bootstrap_on_truncation": True,
    }  # fmt: skip
    plan_defaults = {  # noqa: RUF012  an episode can take as long as hundreds of others
        "paper": {"feedback_episodes": 3, "episodes": 128},
        "quick": {"feedback_episodes": 2, "episodes": 64},
        "long": {"feedback_episodes": 3, "episodes": 128},
    }
    random_baseline = "uniformly random actions return about -100 in the original, and never cover 25% of the course"

    def __init__(self, num_workers: int | None = None):
        self.num_workers = num_workers

    def level_stats(self, level: Any = None, seeds: Sequence[int] = range(16)) -> WalkerLevelStats:
        return compute_level_stats(level, seeds)

    def render_levels(self, levels: Mapping[str, Any], columns: int = 4, seed: int = 0) -> Image.Image:
        seed = check_seed(seed)
        return image_grid(
            levels, columns, TERRAIN_IMAGE_SIZE, lambda k, level: self.render_map(level, seed + k), LEGEND
        )

    def render_map(self, level: Any = None, seed: int = 0) -> np.ndarray:
        """The terrain of a level, generated with this seed and seen from the side."""
        seed = check_seed(seed)
        env = self.single(level)
        assert isinstance(env, WalkerEnv)
        env.reset(seed=seed)
        image = render_terrain(*env.ground(), env.obstacles())
        env.close()
        return image

    def reachable_skills(self, level: Any, stats: WalkerLevelStats) -> set[str]:
        present = {kind for kind in OBSTACLES if stats.counts[kind]} | {"walk"}
        if WalkerLevel.parse(level).roughness >= ROUGH_THRESHOLD:
            present.add("rough")
        return {f"{terrain}_{threshold}" for terrain in present for threshold in THRESHOLDS}

    def expert_actions(self, envs: PythonVectorEnv) -> np.ndarray:
        return np.array(envs.call("expert_action"), np.float32)

    def make_probe(self, envs: PythonVectorEnv) -> WalkerProbe:
        return WalkerProbe(envs)

    def status(self, info: Mapping[str, Any]) -> Mapping[str, int]:
        return {"distance": int(np.clip(info["distance"], 0, 100))}


def make_env(level: Any = None, render_mode: str | None = None) -> PythonEnv:
    """What `gymnasium.make("envgen/Walker-v0")` makes."""
    return Walker().single(level, render_mode=render_mode)


# Gymnasium adds render modes such as "rgb_array_list" to those that it finds here.
make_env.metadata = {  # pyright: ignore[reportFunctionMemberAccess]
    "render_modes": list(RENDER_MODES), "render_fps": WalkerEnv.render_fps
}  # fmt: skip


def make_vector_env(
    num_envs: int = 1,
    levels: Any = None,
    sample_levels: bool = False,
    num_workers: int | None = None,
    autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
    render_mode: str | None = None,
) -> PythonVectorEnv:
    """What `gymnasium.make_vec("envgen/Walker-v0")` makes."""
    world = Walker(num_workers)
    return PythonVectorEnv(world, levels, num_envs, sample_levels, autoreset_mode, render_mode=render_mode)
