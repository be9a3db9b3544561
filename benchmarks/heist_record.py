"""Record what the original does, for the tests of machines without it: tests/worlds/heist/recorded.json.gz.

    make oracle
    python benchmarks/heist_record.py

The actions are those of the players in reference.py; of what follows from them a hash for each step is kept, of the
states (in the bytes of oracle.STATE) and of the pictures.
"""

import gzip
import json
from pathlib import Path

from envgen.worlds.heist.original import OriginalHeist, PlayRequest, hashes, play, players

FILE = Path(__file__).parents[1] / "tests" / "worlds" / "heist" / "recorded.json.gz"
GAMES = (
    *((PlayRequest(mode, 4, seed), 700) for mode in ("easy", "hard", "memory") for seed in (1, 2)),
    (PlayRequest("hard", 4, 3, num_levels=20, start_level=1000), 1100),  # longer than an episode
    *((PlayRequest(mode, 300, 4), 0) for mode in ("easy", "hard", "memory")),  # levels only, one by one
)


def main() -> None:
    games = []
    with OriginalHeist() as oracle:
        for asked, steps in GAMES:
            asked = asked._replace(frames=True)
            actions = play(asked, steps, players(asked.num, asked.rand_seed)).actions
            seen, frames = oracle.play(asked, actions)
            if steps == 0:
                seen, frames = seen.T, frames.swapaxes(0, 1)
            letters = ["".join(chr(ord("a") + a) for a in of_one) for of_one in actions.T.tolist()]
            games.append({"asked": asked._asdict(), "steps": steps, "actions": letters, "states": hashes(seen),
                          "pictures": hashes(frames)})  # fmt: skip
    FILE.write_bytes(gzip.compress(json.dumps(games).encode(), mtime=0))
    print(f"{FILE}: {FILE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
