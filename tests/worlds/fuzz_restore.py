"""Restore damaged states and play on from those that are accepted. Run by test_state_validation.py.

    python fuzz_restore.py WORLD SEED

The process may hang or crash if a check is missing, so the caller sets a time limit.
"""

import sys
from collections import Counter

import numpy as np

from envgen.worlds.crafter import expert_policy as crafter_expert
from envgen.worlds.crafter import state as crafter_state
from envgen.worlds.crafter.env import CrafterVectorEnv
from envgen.worlds.heist import expert_policy as heist_expert
from envgen.worlds.heist import state as heist_state
from envgen.worlds.heist.env import HeistVectorEnv

COUNT, STEPS, RANDOM = 3, 15, 40
WORLDS = {
    "crafter": (
        CrafterVectorEnv, crafter_expert.expert_actions, {"envs": crafter_state.ENV, "entities": crafter_state.ENTITY},
        [{}, {"biome": "mountain", "tunnels": "very common"}, {"time_of_day": 200}],
    ),
    "heist": (
        HeistVectorEnv, heist_expert.expert_actions, {"envs": heist_state.ENV},
        [{"mode": "easy"}, {"maze_size": 25, "keys": "three", "loops": "all"}, {"mode": "memory"}],
    ),
}  # fmt: skip


def leaves(dtype: np.dtype, at: int = 0):
    """(offset, scalar dtype, count, name) of every field of a record, and of the records in it."""
    for name in dtype.names or ():
        kind, offset = dtype.fields[name][:2]
        inner, count = kind.base, int(np.prod(kind.shape, dtype=int))
        if inner.names:
            for k in {0, count - 1}:
                yield from ((o, d, c, f"{name}.{n}") for o, d, c, n in leaves(inner, at + offset + k * inner.itemsize))
        else:
            yield at + offset, inner, count, name


def extremes(kind: np.dtype) -> list:
    if kind.kind == "f":
        return [np.nan, np.inf, -np.inf, -1.0, 1e30, 26.0, 0.0]
    least, most = np.iinfo(kind).min, np.iinfo(kind).max
    return sorted({least, most, max(least, -1), 0, 1, 7, 30, 100, min(most, 600), min(most, 10_001)})


def damaged(state: dict, dtypes: dict, rng: np.random.Generator):
    """Yields (description, damaged copy of the state)."""
    for name, array in state.items():
        for _ in range(RANDOM // 8):
            fresh = np.frombuffer(rng.bytes(array.nbytes), array.dtype).reshape(array.shape)
            yield f"random {name}", {**state, name: fresh.copy()}
        for _ in range(RANDOM):
            fresh = array.copy()
            raw = fresh.view(np.uint8).reshape(-1)
            where = rng.integers(raw.size, size=rng.integers(1, 9))
            raw[where] = rng.integers(256, size=where.size)
            yield f"bytes of {name}", {**state, name: fresh}
        if array.ndim:
            yield f"shorter {name}", {**state, name: array[..., :-1].copy()}
        yield f"float {name}", {**state, name: array.astype(np.float32)}
        yield f"no {name}", {other: values for other, values in state.items() if other != name}
    for array, dtype in dtypes.items():
        for offset, kind, count, name in leaves(dtype):
            for value in extremes(kind):
                fresh = state[array].copy()
                at = offset + int(rng.integers(count)) * kind.itemsize
                fresh[rng.integers(COUNT), at : at + kind.itemsize] = np.frombuffer(
                    np.array(value, kind).tobytes(), np.uint8
                )
                yield f"{array} {name} {value}", {**state, array: fresh}
    for name, value in (
        ("phase", 1),
        ("phase", 2),
        ("phase", 3),
        ("env_level_ids", -1),
        ("env_level_ids", 99),
        ("seeded", 2),
    ):
        fresh = state[name].copy()
        fresh[0] = value
        yield f"{name} {value}", {**state, name: fresh}
    for text in (b"[" * 100_000, b"{}", b"[]", b"[1]", b"[null]", b'["{}"]', b"\xff", b'[{"length": -1}]'):
        yield "levels", {**state, "levels": np.frombuffer(text, np.uint8).copy()}


def main(world: str, seed: int) -> None:
    make, expert, dtypes, levels = WORLDS[world]
    rng = np.random.default_rng(seed)
    counts: Counter[bool] = Counter()
    for observation in ("symbols", "pixels"):
        envs = make(COUNT, levels, observation, threads=1)
        actions = len(envs.action_names)
        states = [envs.get_state()]
        envs.reset(seed=seed)
        for _ in range(60):
            envs.step(rng.integers(actions, size=COUNT))
        states.append(envs.get_state())
        for state in states:
            for what, bad in damaged(state, dtypes, rng):
                print(observation, what, flush=True, file=sys.stderr)  # names the cause of a crash
                try:
                    envs.set_state(bad)
                except ValueError:
                    counts[False] += 1
                    continue
                counts[True] += 1
                if envs.engine.results.phase.min() == 0:
                    envs.reset()
                for step in range(STEPS):
                    chosen = expert(envs.engine) if step % 3 == 0 else rng.integers(actions, size=COUNT)
                    envs.step(chosen)
        envs.set_state(states[-1])
    print(counts[False], counts[True])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
