"""Record rollouts of the reference, for tests on machines without it: tests/worlds/heist/recorded.json.gz.

    make procgen
    python benchmarks/heist_record.py

The actions are those of reference.mixed_policies. For each step, the file contains a hash of the states (the bytes of
reference.STATE) and one of the frames.
"""

import gzip
import json
from pathlib import Path

from envgen.worlds.heist.reference import (
    ReferenceHeist,
    RolloutRequest,
    mixed_policies,
    record_engine_rollout,
    row_hashes,
)

FILE = Path(__file__).parents[1] / "tests" / "worlds" / "heist" / "recorded.json.gz"
REQUESTS = (  # (request, steps)
    *((RolloutRequest(mode, 4, seed), 700) for mode in ("easy", "hard", "memory") for seed in (1, 2)),
    (RolloutRequest("hard", 4, 3, num_levels=20, start_level=1000), 1100),  # longer than an episode
    *((RolloutRequest(mode, 300, 4), 0) for mode in ("easy", "hard", "memory")),  # the start of many mazes
)


def main() -> None:
    recordings = []
    with ReferenceHeist() as reference:
        for request, steps in REQUESTS:
            request = request._replace(with_frames=True)
            actions = record_engine_rollout(request, steps, mixed_policies(request.num_envs, request.rand_seed)).actions
            states, frames = reference.rollout(request, actions)
            assert frames is not None
            if steps == 0:
                states, frames = states.T, frames.swapaxes(0, 1)
            letters = ["".join(chr(ord("a") + a) for a in env_actions) for env_actions in actions.T.tolist()]
            recordings.append(
                {
                    "request": request._asdict(),
                    "steps": steps,
                    "actions": letters,
                    "state_hashes": row_hashes(states),
                    "frame_hashes": row_hashes(frames),
                }
            )
    FILE.write_bytes(gzip.compress(json.dumps(recordings).encode(), mtime=0))
    print(f"{FILE}: {FILE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
