"""Run all attacks and write how many cases passed and failed to docs/reliability.md: `make attack`.

python tests/attack/run.py [--scale 0.1] [--seconds 60] [--skip TEXT] [--only TEXT] [--out docs/reliability.md]
"""

import argparse
import os
import platform
import re
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from attacks import MAX_FAILURES, Attack, Result, load_attacks

START, END = "<!-- attack: written by tests/attack/run.py -->", "<!-- end of attack -->"


def format_table(results: list[tuple[Attack, Result]], command: str, seconds: float) -> str:
    rows = [
        f"| {attack.name} | {attack.full:,} | {result.num_cases:,} | {result.num_cases - len(result.failures):,} "
        f"| {len(result.failures):,} |"
        for attack, result in results
    ]
    num_cases = sum(result.num_cases for _, result in results)
    num_failed = sum(len(result.failures) for _, result in results)
    header = (
        f"{datetime.now(UTC):%Y-%m-%d}, `{command}`, {seconds / 60:.0f} minutes, Python {platform.python_version()} on "
        f"{platform.system()} with {os.cpu_count()} CPU cores:"
    )
    columns = ["| attack | full number | run | passed | failed |", "| --- | --: | --: | --: | --: |"]
    return "\n".join(
        [header, "", *columns, *rows, f"| all | | {num_cases:,} | {num_cases - num_failed:,} | {num_failed:,} |"]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--scale", type=float, default=1.0, help="a factor for the numbers of cases")
    parser.add_argument("--only", default="", help="run attacks whose names contain this text")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="the longest that an attack may take")
    parser.add_argument("--skip", action="append", default=[], help="do not run attacks whose names contain this text")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="the page whose table is replaced; without it, the table is printed")
    args = parser.parse_args()
    results: list[tuple[Attack, Result]] = []
    start = time.monotonic()
    for attack in load_attacks():
        if args.only not in attack.name:
            continue
        began = time.monotonic()
        if any(text in attack.name for text in args.skip):
            result = Result(attack.name, 0, [])
        else:
            result = attack.run(max(1, round(args.scale * attack.full)), args.seed, args.seconds)
        results.append((attack, result))
        duration = time.monotonic() - began
        print(f"{attack.name}: {result.num_cases:,} cases, {len(result.failures)} failed, {duration:.0f} s", flush=True)
        for failure in result.failures[:MAX_FAILURES]:
            print(f"  {failure}", flush=True)
    options = [f"--scale {args.scale:g}"] * (args.scale != 1) + [f"--seed {args.seed}"] * (args.seed != 0)
    options += [f"--seconds {args.seconds:g}"] * (args.seconds != float("inf")) + [f"--skip '{s}'" for s in args.skip]
    command = "make attack" + (f' OPTIONS="{" ".join(options)}"' if options else "")
    table = format_table(results, command, time.monotonic() - start)
    if args.out is None or args.only:
        print(table)
    else:
        text = args.out.read_text()
        args.out.write_text(re.sub(f"{START}.*{END}", lambda _: f"{START}\n\n{table}\n\n{END}", text, flags=re.DOTALL))
    return 1 if any(result.failures for _, result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
