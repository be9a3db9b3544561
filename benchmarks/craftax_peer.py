"""The speed of Craftax-Classic on JAX. crafter_speed.py runs this with a Python that has `craftax`; prints JSON."""

import json
import sys
import time

import jax
from craftax.craftax_env import make_craftax_env_from_name

STEPS = 64  # per compiled scan


def measure_rate(name: str, num_envs: int, seconds: float) -> float:
    env = make_craftax_env_from_name(name, auto_reset=True)
    params = env.default_params

    def step(carry, _):
        state, key = carry
        key, act, move = jax.random.split(key, 3)
        action_keys, step_keys = jax.random.split(act, num_envs), jax.random.split(move, num_envs)
        actions = jax.vmap(env.action_space(params).sample)(action_keys)
        _, state, reward, *_ = jax.vmap(env.step, (0, 0, 0, None))(step_keys, state, actions, params)
        return (state, key), reward.sum()

    scan = jax.jit(lambda state, key: jax.lax.scan(step, (state, key), None, STEPS))
    key = jax.random.PRNGKey(0)
    _, state = jax.vmap(env.reset, (0, None))(jax.random.split(key, num_envs), params)
    (state, key), _ = jax.block_until_ready(scan(state, key))
    steps, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        (state, key), _ = jax.block_until_ready(scan(state, key))
        steps += STEPS * num_envs
    return steps / (time.perf_counter() - start)


def main() -> None:
    seconds = float(sys.argv[1])
    rates = {
        f"{short} | {num_envs}": measure_rate(f"Craftax-Classic-{long}-v1", num_envs, seconds)
        for short, long in (("symbols", "Symbolic"), ("pixels", "Pixels"))
        for num_envs in (64,)
    }
    print(json.dumps(rates))


if __name__ == "__main__":
    main()
