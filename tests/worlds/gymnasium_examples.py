"""Worlds made from environments of other packages."""

import gymnasium
from pydantic import Field

from envgen.worlds import from_gymnasium
from envgen.worlds.gymnasium_world import GymnasiumWorld
from envgen.worlds.world import Level


class LanderLevel(Level):
    gravity: float = Field(default=-10.0, ge=-11.9, le=-1.0)
    """Gravity in m/s^2."""
    wind_power: float = Field(default=0.0, ge=0.0, le=20.0)
    """Power of the wind; without power there is no wind."""


def lander_world() -> GymnasiumWorld:
    """LunarLander with continuous actions."""

    def make_env(level: LanderLevel) -> gymnasium.Env:
        return gymnasium.make(
            "LunarLander-v3", continuous=True, gravity=level.gravity, enable_wind=level.wind_power > 0,
            wind_power=level.wind_power, render_mode="rgb_array",
        )  # fmt: skip

    return from_gymnasium(
        make_env,
        LanderLevel,
        skills={
            "touch_ground": lambda step: step.obs[6] > 0 or step.obs[7] > 0,
            "land": lambda step: step.terminated and step.reward >= 100,
        },
        prerequisites={"land": ["touch_ground"]},
        name="lunar-lander",
        key_bindings={"up": "fire", "down": "cut", "left": "turn_left", "right": "turn_right", "space": "wait"},
        manual_actions={
            "fire": {0: 1.0}, "cut": {0: 0.0, 1: 0.0}, "turn_left": {1: -1.0}, "turn_right": {1: 1.0}, "wait": {},
        },
        steps_per_key=5,
    )  # fmt: skip


class DoorKeyLevel(Level):
    size: int = Field(default=6, ge=5, le=16)
    """Cells along each side."""


def door_key_world() -> GymnasiumWorld:
    """A class of the minigrid package."""
    from minigrid.envs import DoorKeyEnv
    from minigrid.wrappers import ImgObsWrapper

    return from_gymnasium(
        lambda level: ImgObsWrapper(DoorKeyEnv(size=level.size, max_steps=100, render_mode="rgb_array")),
        DoorKeyLevel,
        skills={"take_key": lambda step: step.env.carrying is not None, "reach_goal": lambda step: step.reward > 0},
        prerequisites={"reach_goal": ["take_key"]},
        max_episode_steps=100,
        name="door-key",
    )
