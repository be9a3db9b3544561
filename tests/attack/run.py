"""Run all attacks and write how many cases passed and failed to docs/reliability.md: `make attack` and `make soak`.

    python tests/attack/run.py [--suite soak] [--scale 0.1] [--seconds 60] [--skip TEXT] [--only TEXT] [--out FILE]

The full numbers take about an hour, those of the suite `soak` several. Each attack runs in ten parts, and with
`--state FILE` the same command continues after the last part that an interrupted one finished.
"""

import argparse
import json
import os
import platform
import re
import sys
import time
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from attacks import MAX_FAILURES, SUITES, Attack, Result, load_attacks

NUM_PARTS = 10  # of an attack
START, END = "<!-- {}: written by tests/attack/run.py -->", "<!-- end of {} -->"  # of the table of a suite


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
    columns = ["| attack | cases planned | cases run | passed | failed |", "| --- | --: | --: | --: | --: |"]
    return "\n".join(
        [header, "", *columns, *rows, f"| all | | {num_cases:,} | {num_cases - num_failed:,} | {num_failed:,} |"]
    )


class State:
    """The results of the parts that are finished, in a file if there is one."""

    def __init__(self, file: Path | None, options: dict[str, float]):
        self.file, self.options = file, options
        self.parts: dict[str, dict[str, Any]] = {}
        self.seconds = 0.0
        if file is not None and file.exists():
            data = json.loads(file.read_text())
            if data["options"] != options:
                sys.exit(f"{file} is of a run with other options ({data['options']}); remove it, or use another file")
            self.parts, self.seconds = data["parts"], data["seconds"]

    def run(self, attack: Attack, part: int, count: int, seed: int, seconds: float) -> Result:
        key = f"{attack.name}, part {part}"
        if key not in self.parts:
            start = time.monotonic()
            result = attack.run(count, seed, seconds)
            duration = time.monotonic() - start
            self.parts[key] = {"cases": result.num_cases, "failures": result.failures, "seconds": duration}
            self.seconds += duration
            if self.file is not None:
                self.file.parent.mkdir(parents=True, exist_ok=True)
                data = {"options": self.options, "seconds": self.seconds, "parts": self.parts}
                unfinished = self.file.with_suffix(".unfinished")
                unfinished.write_text(json.dumps(data, indent=1))
                unfinished.replace(self.file)
        saved = self.parts[key]
        return Result(attack.name, saved["cases"], saved["failures"])


def run_attack(attack: Attack, state: State, scale: float, seed: int, seconds: float) -> Result:
    """All parts of an attack, each with a random number generator of its own, while `seconds` last."""
    count = max(1, round(scale * attack.full))
    bounds = [count * part // NUM_PARTS for part in range(NUM_PARTS + 1)]
    num_cases, failures, start = 0, list[str](), time.monotonic()
    for part, (first, last) in enumerate(pairwise(bounds)):
        remaining = seconds - (time.monotonic() - start)
        if last > first and remaining > 0:
            result = state.run(attack, part, last - first, NUM_PARTS * seed + part, remaining)
            num_cases, failures = num_cases + result.num_cases, failures + result.failures
    return Result(attack.name, num_cases, failures)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--suite", choices=list(SUITES), default="attack")
    parser.add_argument("--scale", type=float, default=1.0, help="a factor for the numbers of cases")
    parser.add_argument("--only", default="", help="run attacks whose names contain this text")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="the longest that an attack may take")
    parser.add_argument("--skip", action="append", default=[], help="do not run attacks whose names contain this text")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--state", type=Path, help="where results are kept, so that the same command can continue")
    parser.add_argument("--out", type=Path, help="the page whose table is replaced; without it, the table is printed")
    args = parser.parse_args()
    results: list[tuple[Attack, Result]] = []
    state = State(args.state, {"scale": args.scale, "seed": args.seed})
    for attack in load_attacks(args.suite):
        if args.only not in attack.name:
            continue
        began = time.monotonic()
        if any(text in attack.name for text in args.skip):
            result = Result(attack.name, 0, [])
        else:
            result = run_attack(attack, state, args.scale, args.seed, args.seconds)
        results.append((attack, result))
        duration = time.monotonic() - began
        print(f"{attack.name}: {result.num_cases:,} cases, {len(result.failures)} failed, {duration:.0f} s", flush=True)
        for failure in result.failures[:MAX_FAILURES]:
            print(f"  {failure}", flush=True)
    options = [f"--scale {args.scale:g}"] * (args.scale != 1) + [f"--seed {args.seed}"] * (args.seed != 0)
    options += [f"--seconds {args.seconds:g}"] * (args.seconds != float("inf")) + [f"--skip '{s}'" for s in args.skip]
    command = f"make {args.suite}" + (f' OPTIONS="{" ".join(options)}"' if options else "")
    table = format_table(results, command, state.seconds)
    if args.out is None or args.only:
        print(table)
    else:
        text = args.out.read_text()
        start, end = START.format(args.suite), END.format(args.suite)
        args.out.write_text(re.sub(f"{start}.*{end}", lambda _: f"{start}\n\n{table}\n\n{end}", text, flags=re.DOTALL))
    return 1 if any(result.failures for _, result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
