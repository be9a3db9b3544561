"""Restore damaged states and continue from those that are accepted. Run by test_state_validation.py.

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
from envgen.worlds.minigrid import expert_policy as minigrid_expert
from envgen.worlds.minigrid import state as minigrid_state
from envgen.worlds.minigrid.env import MiniGridVectorEnv

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
    "minigrid": (
        MiniGridVectorEnv, minigrid_expert.expert_actions, {"envs": minigrid_state.ENV},
        [{}, {"task": "dynamic obstacles"}, {"task": "put near"}],
    ),
}  # fmt: skip


def iter_fields(dtype: np.dtype, base_offset: int = 0):
    """Yield (offset, scalar dtype, count, name) for every scalar field of a record, including nested records."""
    for name in dtype.names or ():
        kind, offset = dtype.fields[name][:2]
        inner, count = kind.base, int(np.prod(kind.shape, dtype=int))
        if inner.names:
            for k in {0, count - 1}:
                yield from (
                    (o, d, c, f"{name}.{n}")
                    for o, d, c, n in iter_fields(inner, base_offset + offset + k * inner.itemsize)
                )
        else:
            yield base_offset + offset, inner, count, name


def extreme_values(kind: np.dtype) -> list:
    if kind.kind == "f":
        return [np.nan, np.inf, -np.inf, -1.0, 1e30, 26.0, 0.0]
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    return sorted({low, high, max(low, -1), 0, 1, 7, 30, 100, min(high, 600), min(high, 10_001)})


def iter_damaged_states(state: dict, dtypes: dict, rng: np.random.Generator):
    """Yield (description, damaged copy of the state)."""
    for name, array in state.items():
        for _ in range(RANDOM // 8):
            modified = np.frombuffer(rng.bytes(array.nbytes), array.dtype).reshape(array.shape)
            yield f"random {name}", {**state, name: modified.copy()}
        for _ in range(RANDOM):
            modified = array.copy()
            raw = modified.view(np.uint8).reshape(-1)
            positions = rng.integers(raw.size, size=rng.integers(1, 9))
            raw[positions] = rng.integers(256, size=positions.size)
            yield f"bytes of {name}", {**state, name: modified}
        if array.ndim:
            yield f"shorter {name}", {**state, name: array[..., :-1].copy()}
        yield f"float {name}", {**state, name: array.astype(np.float32)}
        yield f"no {name}", {other: values for other, values in state.items() if other != name}
    for array, dtype in dtypes.items():
        for offset, kind, count, name in iter_fields(dtype):
            for value in extreme_values(kind):
                modified = state[array].copy()
                start = offset + int(rng.integers(count)) * kind.itemsize
                modified[rng.integers(COUNT), start : start + kind.itemsize] = np.frombuffer(
                    np.array(value, kind).tobytes(), np.uint8
                )
                yield f"{array} {name} {value}", {**state, array: modified}
    for name, value in (
        ("phase", 1),
        ("phase", 2),
        ("phase", 3),
        ("env_level_ids", -1),
        ("env_level_ids", 99),
        ("seeded", 2),
    ):
        modified = state[name].copy()
        modified[0] = value
        yield f"{name} {value}", {**state, name: modified}
    for text in (b"[" * 100_000, b"{}", b"[]", b"[1]", b"[null]", b'["{}"]', b"\xff", b'[{"length": -1}]'):
        yield "levels", {**state, "levels": np.frombuffer(text, np.uint8).copy()}


def main(world: str, seed: int) -> None:
    make, expert, dtypes, levels = WORLDS[world]
    rng = np.random.default_rng(seed)
    counts: Counter[bool] = Counter()
    for observation in ("symbols", "pixels"):
        envs = make(COUNT, levels, observation, threads=1)
        num_actions = len(envs.action_names)
        states = [envs.get_state()]
        envs.reset(seed=seed)
        for _ in range(60):
            envs.step(rng.integers(num_actions, size=COUNT))
        states.append(envs.get_state())
        for state in states:
            for description, damaged_state in iter_damaged_states(state, dtypes, rng):
                print(observation, description, flush=True, file=sys.stderr)  # names the cause of a crash
                try:
                    envs.set_state(damaged_state)
                except ValueError:
                    counts[False] += 1
                    continue
                counts[True] += 1
                if envs.engine.results.phase.min() == 0:
                    envs.reset()
                for step in range(STEPS):
                    actions = expert(envs.engine) if step % 3 == 0 else rng.integers(num_actions, size=COUNT)
                    envs.step(actions)
        envs.set_state(states[-1])
    print(counts[False], counts[True])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
