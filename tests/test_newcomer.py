"""tools/newcomer.py finds the commands of a page, skips what is marked, and interrupts what takes long."""

import json
import sys
from pathlib import Path

import pytest

from scripts import imported_script

FILE = Path(__file__).parents[1] / "tools" / "newcomer.py"
PAGE = """
```
pip install .            # a comment
envgen watch RUN
cd out
envgen train crafter \\
    --seed 1
```

A listing:

```
src/envgen/
```

<!-- newcomer: needs a key -->
```bash
export KEY=1
```

<!-- newcomer (make test): takes long -->
```
make demo
make test
```

<!-- from README.md -->
```python
import envgen
```

```python
print(1)
```
"""


@pytest.fixture(scope="module")
def newcomer():
    with imported_script(FILE) as module:
        yield module


def test_commands_and_reasons_are_found(newcomer, tmp_path):
    (tmp_path / "page.md").write_text(PAGE)
    commands = list(newcomer.find_commands(tmp_path / "page.md"))
    assert [(command.text.split()[0], command.skipped) for command in commands] == [
        ("pip", ""),
        ("envgen", "a pattern, with RUN"),
        ("cd", ""),
        ("envgen", ""),
        ("export", "needs a key"),
        ("make", ""),
        ("make", "takes long"),
        ("import", "an excerpt of a file that other commands run"),
        ("print(1)", ""),
    ]
    assert commands[3].prelude == "cd out"
    assert commands[3].text.split()[-2:] == ["--seed", "1"]


def test_every_mark_in_the_docs_has_a_command(newcomer):
    for page in newcomer.find_pages():
        reasons = {command.skipped for command in newcomer.find_commands(page)}
        for _, reason in newcomer.MARK.findall(page.read_text()):
            assert reason in reasons, f"{page.name}: no command is skipped because it {reason}"


def test_outcomes(newcomer, tmp_path):
    machine = object.__new__(newcomer.Machine)
    machine.repository = tmp_path
    machine.environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(tmp_path)}

    def run(text: str, limit: float = 60, **arguments) -> tuple[str, str]:
        result = machine.run(newcomer.Command("page.md", text, **arguments), limit)
        return result.outcome, result.detail

    assert run("echo $HOME") == ("passed", str(tmp_path))
    assert run("false") == ("failed", "")
    assert run("true", prelude="cd nowhere")[0] == "failed"
    assert run("sleep 600", limit=0.1)[0] == "interrupted"
    assert run("trap 'echo Traceback; exit' INT; while :; do sleep 0.1; done", limit=1)[0] == "failed"
    assert run("python -c 'import time; print(1, flush=True); time.sleep(600)'", limit=3)[0] == "interrupted"
    assert run("print(6 * 7)", is_python=True) == ("passed", "42")
    assert run("envgen watch RUN", skipped="a pattern") == ("skipped", "a pattern")


def test_a_command_whose_run_was_interrupted_before_its_first_checkpoint_is_skipped(newcomer, tmp_path, monkeypatch):
    (tmp_path / "page.md").write_text("```bash\npython -c 1\npython -c 2\n```\n")
    outcomes = iter(["interrupted", "failed", "failed"])

    class Machine:
        def __init__(self, folder): ...

        def run(self, command, limit):
            outcome = next(outcomes)
            return newcomer.Result("page.md", command.text, outcome, 0.0, "envgen: out/x has no checkpoint yet; wait")

    monkeypatch.setattr(newcomer, "Machine", Machine)
    monkeypatch.setattr(
        sys, "argv", ["newcomer.py", "--pages", str(tmp_path / "page.md"), "--out", str(tmp_path / "o")]
    )
    newcomer.main()
    assert [line["outcome"] for line in json.loads((tmp_path / "o").read_text())] == ["interrupted", "skipped"]
    outcomes = iter(["passed", "failed"])
    with pytest.raises(SystemExit):
        newcomer.main()


@pytest.mark.parametrize("name", ["gcc", "cc", "g++", "x86_64-linux-gnu-gcc-12", "clang-15", "ld", "as", "c++"])
def test_compilers_are_not_in_the_path(newcomer, name):
    assert newcomer.COMPILER.fullmatch(name)


@pytest.mark.parametrize("name", ["bash", "python3", "make", "git", "cat", "basename", "class"])
def test_other_programs_are_in_the_path(newcomer, name):
    assert not newcomer.COMPILER.fullmatch(name)
