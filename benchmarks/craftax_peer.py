"""Craftax-Classic's speed on JAX: run by crafter_speed.py in a Python that has `craftax`; prints one line of JSON."""

import json
import sys
import time

import jax
from craftax.craftax_env import make_craftax_env_from_name

STEPS = 64  # in one compiled scan


def rate(name: str, envs: int, seconds: float) -> float:
    env = make_craftax_env_from_name(name, auto_reset=True)
    params = env.default_params

    def step(carry, _):
        state, key = carry
        key, act, move = jax.random.split(key, 3)
        actions = jax.vmap(env.action_space(params).sample)(jax.random.split(act, envs))
        _, state, reward, *_ = jax.vmap(env.step, (0, 0, 0, None))(jax.random.split(move, envs), state, actions, params)
        return (state, key), reward.sum()

    play = jax.jit(lambda state, key: jax.lax.scan(step, (state, key), None, STEPS))
    key = jax.random.PRNGKey(0)
    _, state = jax.vmap(env.reset, (0, None))(jax.random.split(key, envs), params)
    (state, key), _ = jax.block_until_ready(play(state, key))
    steps, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        (state, key), _ = jax.block_until_ready(play(state, key))
        steps += STEPS * envs
    return steps / (time.perf_counter() - start)


def main() -> None:
    seconds = float(sys.argv[1])
    rates = {
        f"{short} | {envs}": rate(f"Craftax-Classic-{long}-v1", envs, seconds)
        for short, long in (("symbols", "Symbolic"), ("pixels", "Pixels"))
        for envs in (64,)
    }
    print(json.dumps(rates))


if __name__ == "__main__":
    main()
