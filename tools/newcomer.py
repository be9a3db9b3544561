"""Run every command block of the README and the docs as a new user on a bare machine, and time them.

    python tools/newcomer.py                                   # README and docs, in an empty home
    python tools/newcomer.py --pages README.md docs/get-started.md --limit 60 --out newcomer.json

The commands run in a fresh copy of the repository with an empty home, no cache, no compiler in PATH and none of the
variables of this shell except those of pip, of proxies and of certificates. A virtual environment with nothing but pip
is active. A command that runs longer than `--limit` seconds (an hour for `pip install` and `make`) is interrupted as if
by Ctrl-C, and must then end by itself and without a traceback (programs in Python and torchrun may print one). A
command that needs the results of a run that was interrupted before it had any counts as skipped.

What cannot run is marked in the Markdown, with the reason, on the line before the block:

    <!-- newcomer: needs an API key -->                        the whole block
    <!-- newcomer (make test): takes ten minutes -->           the commands that begin with `make test`

Lines with names in capitals, such as `envgen watch RUN`, are patterns and not commands. The output lists everything
that was skipped, with the reason.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GUIDES = ("README.md", "docs/get-started.md", "docs/tutorials/train.md")  # read first, in this order
COMPILER = re.compile(r"(.*-)?(gcc|g\+\+|cc|c\+\+|clang|clang\+\+|cpp|ld|as|c89|c99|nvcc|rustc|cargo)(-[\d.]+)?")
BLOCK = re.compile(r"((?:^<!-- [^\n]* -->\n)*)^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"<!-- newcomer(?: \(([^)]*)\))?: (.*?) -->")
PROGRAMS = ("envgen", "pip", "python", "python3", "make", "export", "cd", "source", "torchrun", "tensorboard", "curl",
            "accelerate", "echo")  # fmt: skip
PATTERN = re.compile(r"(?<![\w$./-])(RUN|DIR|FILE|WORLD|MODEL|HOST|NAME|MyWorld|DOMAIN|CONFIG)\b|\.\.\.|module:")
KEPT_LINES = ("cd ", "export ", "source ")  # lines of a block that its later commands depend on
NETWORK = re.compile(r"PIP_\w+|SSL_CERT_\w+|REQUESTS_CA_BUNDLE|https?_proxy|no_proxy", re.IGNORECASE)
SECONDS_TO_END = 120
NO_RESULTS = re.compile(r"has no checkpoint yet|contains no run directory|\* is not a directory")  # in errors
PRINTS_TRACEBACKS = ("python ", "torchrun ")  # of a Ctrl-C


@dataclass
class Result:
    """The outcome of a command or of a Python block."""

    page: str
    command: str
    outcome: str  # passed, interrupted, failed, or skipped
    seconds: float = 0.0
    detail: str = ""  # why it was skipped, or the end of its output


@dataclass
class Command:
    page: str
    text: str
    is_python: bool = False
    prelude: str = ""
    skipped: str = ""


def find_commands(page: Path) -> Iterator[Command]:
    """The commands of a page, in order; those that are not run have the reason in `skipped`."""
    name = page.relative_to(ROOT).as_posix() if page.is_relative_to(ROOT) else page.name
    for comments, language, text in BLOCK.findall(page.read_text()):
        marks = dict(MARK.findall(comments))
        if language == "python":
            excerpt = "an excerpt of a file that other commands run" if "<!-- from " in comments else ""
            yield Command(name, text.rstrip(), is_python=True, skipped=marks.get("", excerpt))
            continue
        lines = [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]
        if language not in ("", "bash", "sh") or not lines or not _is_command(lines[0]):
            continue  # output, a listing of files, or a file
        prelude: list[str] = []
        for line in lines:
            reason = next((why for prefix, why in marks.items() if line.startswith(prefix)), "")
            if not reason and (pattern := PATTERN.search(line.partition(" #")[0])):
                reason = f"a pattern, with {pattern[0]}"
            yield Command(name, line.strip(), prelude=" && ".join(prelude), skipped=reason)
            if not reason and line.startswith(KEPT_LINES):
                prelude.append(line.partition(" #")[0])


def _is_command(line: str) -> bool:
    return line.split()[0] in PROGRAMS or re.match(r"[A-Z_]+=", line) is not None


class Machine:
    """An empty home with a copy of the repository, an active virtual environment, and no compiler."""

    def __init__(self, folder: Path):
        self.home, self.tools = folder / "home", folder / "bin"
        self.repository = self.home / "envgen"
        self.home.mkdir()
        self.tools.mkdir()
        for directory in ("/usr/bin", "/bin", "/usr/local/bin"):
            for program in Path(directory).iterdir():
                target = self.tools / program.name
                if not COMPILER.fullmatch(program.name) and not target.is_symlink() and not target.exists():
                    target.symlink_to(program)
        files = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        for name in filter(None, files.split("\0")):
            (self.repository / name).parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_file():
                shutil.copy(ROOT / name, self.repository / name)
        subprocess.run([sys.executable, "-m", "venv", str(self.home / "venv")], check=True)
        path = f"{self.home / 'venv' / 'bin'}:{self.tools}"
        self.environment = {"HOME": str(self.home), "PATH": path, "LANG": "C.UTF-8", "TERM": "dumb"}
        self.environment |= {name: value for name, value in os.environ.items() if NETWORK.fullmatch(name)}

    def run(self, command: Command, limit: float) -> Result:
        """Run a command; interrupt it after `limit` seconds."""
        if command.skipped:
            return Result(command.page, command.text, "skipped", detail=command.skipped)
        script = " && ".join(filter(None, (command.prelude, command.text)))
        program = ["python", "-c", command.text] if command.is_python else ["bash", "-c", script]
        start = time.monotonic()
        interrupted = killed = False
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(
                program, cwd=self.repository, env=self.environment, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            # installations may take as long as the network does
            is_installation = "pip install" in script or command.text.startswith("make")
            try:
                process.wait(3600 if is_installation else limit)
            except subprocess.TimeoutExpired:
                interrupted = True
                os.killpg(process.pid, signal.SIGINT)
                try:
                    process.wait(SECONDS_TO_END)
                except subprocess.TimeoutExpired:
                    killed = True
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            output.seek(0)
            text = output.read()
        end = " / ".join(text.strip().splitlines()[-6:])[-800:]
        if killed:
            outcome, end = "failed", f"did not end {SECONDS_TO_END} seconds after Ctrl-C: {end}"
        elif interrupted:
            may_print_one = command.is_python or command.text.startswith(PRINTS_TRACEBACKS)
            expected = may_print_one or "Traceback" not in text
            outcome = "interrupted" if expected else "failed"
        else:
            outcome = "passed" if process.returncode == 0 else "failed"
        return Result(command.page, command.text, outcome, round(time.monotonic() - start, 1), end)


def find_pages() -> list[Path]:
    guides = [ROOT / name for name in GUIDES]
    others = (page for page in sorted((ROOT / "docs").rglob("*.md")) if (ROOT / "docs" / "results") not in page.parents)
    return [*guides, *(page for page in others if page not in guides)]


def format_table(results: list[Result]) -> str:
    """The results as Markdown: what ran, and what was skipped and why."""

    def cell(text: str) -> str:
        return " ".join(text.replace("|", "\\|").split())[:110]

    ran = [result for result in results if result.outcome != "skipped"]
    skipped = [result for result in results if result.outcome == "skipped"]
    counts = Counter(result.outcome for result in results)
    lines = [", ".join(f"{count} {outcome}" for outcome, count in counts.items()), "",
             "| page | command | outcome | seconds |", "|---|---|---|---:|"]  # fmt: skip
    lines += [f"| {r.page} | `{cell(r.command)}` | {r.outcome} | {r.seconds:.0f} |" for r in ran]
    lines += ["", "| page | skipped | reason |", "|---|---|---|"]
    lines += [f"| {r.page} | `{cell(r.command)}` | {cell(r.detail)} |" for r in skipped]
    return "\n".join(lines)


def has_interrupted(results: list[Result]) -> bool:
    return any(result.outcome == "interrupted" for result in results)


def main() -> None:
    parser = argparse.ArgumentParser(description="Run every command of the README and the docs on a bare machine.")
    parser.add_argument("--pages", nargs="+", type=Path, help="default: the README and docs/, without docs/results")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds after which a command is interrupted")
    parser.add_argument("--out", type=Path, help="write the results to this JSON file")
    parser.add_argument("--list", action="store_true", help="only list the commands")
    arguments = parser.parse_args()
    pages = [page.resolve() for page in arguments.pages] if arguments.pages else find_pages()
    commands = [command for page in pages for command in find_commands(page)]
    if arguments.list:
        for command in commands:
            print(f"{command.page}: {command.text.splitlines()[0]}{'  -- ' * bool(command.skipped)}{command.skipped}")
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)  # started in the background, programs would ignore Ctrl-C
    results = []
    with tempfile.TemporaryDirectory(prefix="newcomer-") as folder:
        machine = Machine(Path(folder))
        for command in commands:
            result = machine.run(command, arguments.limit)
            if result.outcome == "failed" and NO_RESULTS.search(result.detail) and has_interrupted(results):
                result.outcome, result.detail = "skipped", "its run was interrupted before it had results"
            results.append(result)
            print(
                f"{result.outcome:<12}{result.seconds:7.1f} s  {result.page}: {result.command.splitlines()[0]}",
                flush=True,
            )
            if result.outcome == "failed":
                print(f"    {result.detail}", flush=True)
            if arguments.out:
                arguments.out.write_text(json.dumps([asdict(result) for result in results], indent=1))
    print(format_table(results))
    if any(result.outcome == "failed" for result in results):
        sys.exit(1)


if __name__ == "__main__":
    main()
