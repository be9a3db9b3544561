"""A world from an existing environment: CartPole, whose physics are the settings of levels.

    python examples/gymnasium_world.py

On the command line: `envgen train gymnasium_world:world` (with this folder on PYTHONPATH).
"""

import tempfile

import gymnasium
from pydantic import Field

import envgen
from envgen.worlds import from_gymnasium

PLAN = {"cycles": 2, "levels": 2, "cycle_steps": 4096, "final_steps": 2048, "episodes": 16, "audit_steps": 60}


class PoleLevel(envgen.Level):
    length: float = Field(default=0.5, ge=0.1, le=2.0)
    """Half the length of the pole in meters. A longer pole falls more slowly."""
    gravity: float = Field(default=9.8, ge=1.0, le=30.0)
    """Acceleration by gravity in m/s^2."""
    force: float = Field(default=10.0, ge=1.0, le=30.0)
    """The force with which an action pushes the cart, in newtons."""


def make_env(level: PoleLevel) -> gymnasium.Env:
    env = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    cart_pole = env.unwrapped
    cart_pole.length, cart_pole.gravity, cart_pole.force_mag = level.length, level.gravity, level.force
    cart_pole.polemass_length = cart_pole.masspole * level.length
    return env


world = from_gymnasium(
    make_env,
    PoleLevel,
    skills={f"balance_{steps}": lambda step, steps=steps: step.episode_length >= steps for steps in (50, 200, 500)},
    prerequisites={"balance_200": ["balance_50"], "balance_500": ["balance_200"]},
    name="cart-pole",
    actions=("left", "right"),
    rules="A pole stands on a cart. Push the cart left or right so that the pole does not fall.",
)

if __name__ == "__main__":
    envgen.check_world(world)
    with tempfile.TemporaryDirectory() as folder:
        run = envgen.train(world, "random", preset="quick", plan=PLAN, folder=f"{folder}/run")
        print(run.report())
