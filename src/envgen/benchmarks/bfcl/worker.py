"""A process of its own in which the classes of BFCL's multi-turn categories run.

It is started as a script and imports nothing from envgen. Each line of its input is a request, each line of its output
the answer, both JSON:

    {"start": {"classes": {name: module}, "config": {...}, "long_context": false}}    -> {}
    {"run": "model" or "gold", "calls": [[name, arguments], ...]}            -> {"results": [...]}
    {"compare": true}                                                        -> {"differences": [...]}

The classes are those of the installed package. Only their public methods are called, by name and with plain values;
no text is evaluated. Memory and open files are limited. Once the classes are loaded, an audit hook refuses network
connections, other processes, and changes to files.
"""

import copy
import importlib
import inspect
import json
import resource
import sys
from typing import Any

MEMORY_BYTES = 2 << 30
CPU_SECONDS = 120
MAX_OPEN_FILES = 64
MAX_RESULT_CHARS = 200_000
PACKAGE = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code"
STATELESS = ("MathAPI",)
REFUSED_EVENTS = (
    "socket.", "subprocess.", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.kill", "os.remove",
    "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown", "shutil.",
    "ctypes.", "pty.",
)  # fmt: skip


class RefusedError(RuntimeError):
    pass


def limit_resources() -> None:
    for kind, limit in (
        (resource.RLIMIT_AS, MEMORY_BYTES), (resource.RLIMIT_CPU, CPU_SECONDS), (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, MAX_OPEN_FILES), (resource.RLIMIT_FSIZE, 0),
    ):  # fmt: skip
        try:
            resource.setrlimit(kind, (limit, limit))
        except (OSError, ValueError):
            if kind != resource.RLIMIT_AS or sys.platform != "darwin":  # macOS has no limit on memory
                raise


def refuse(event: str, args: tuple[Any, ...]) -> None:
    """The audit hook. Files may be opened for reading only."""
    if event == "open":
        mode, flags = args[1], args[2]
        writes = isinstance(mode, str) and any(char in mode for char in "wax+")
        if writes or (isinstance(flags, int) and flags & 0o3):
            raise RefusedError("files cannot be written here")
    elif event.startswith(REFUSED_EVENTS):
        raise RefusedError(f"{event} is not allowed here")


class Instances:
    """The instances of the classes of one side: the model's, or those of the expected calls."""

    def __init__(self, classes: dict[str, str], config: dict[str, Any], long_context: bool):
        self.instances: dict[str, Any] = {}
        self.methods: dict[str, Any] = {}
        for name, module in classes.items():
            instance = getattr(importlib.import_module(f"{PACKAGE}.{module}"), name)()
            if name not in STATELESS:
                instance._load_scenario(copy.deepcopy(config.get(name, {})), long_context=long_context)
            self.instances[name] = instance
            methods = inspect.getmembers(instance, predicate=inspect.ismethod)
            self.methods |= {method: bound for method, bound in methods if not method.startswith("_")}

    def run(self, name: str, arguments: dict[str, Any]) -> str:
        method = self.methods.get(name)
        if method is None:
            return f"Error during execution: name '{name[:80]}' is not defined"
        try:
            result = method(**arguments)
            if isinstance(result, str):
                text = result
            elif isinstance(result, dict):
                try:
                    text = json.dumps(result)
                except (TypeError, ValueError):
                    text = str(result)
            else:
                text = str(result)
        except Exception as error:  # noqa: BLE001  a wrong call can raise anything, and its message is the result
            text = f"Error during execution: {error}"
        return text[:MAX_RESULT_CHARS]


def differences(model: Instances, gold: Instances) -> list[str]:
    """The attributes of the model's instances that differ from the expected ones."""
    return [
        f"{name}.{attribute}"
        for name, instance in gold.instances.items()
        for attribute, value in vars(instance).items()
        if not attribute.startswith("_") and getattr(model.instances[name], attribute, None) != value
    ]


def answer(request: dict[str, Any], sides: dict[str, Instances]) -> dict[str, Any]:
    if "start" in request:
        start = request["start"]
        for side in ("model", "gold"):
            sides[side] = Instances(start["classes"], start["config"], start["long_context"])
        sys.addaudithook(refuse)
        return {}
    if "compare" in request:
        return {"differences": differences(sides["model"], sides["gold"])}
    side = sides[request["run"]]
    return {"results": [side.run(name, arguments) for name, arguments in request["calls"]]}


def main() -> None:
    limit_resources()
    output, sys.stdout = sys.stdout, sys.stderr  # what a class prints is not an answer
    sides: dict[str, Instances] = {}
    for line in sys.stdin:
        try:
            reply = answer(json.loads(line), sides)
        except (MemoryError, RecursionError) as error:
            reply = {"error": type(error).__name__}
        output.write(json.dumps(reply) + "\n")
        output.flush()


if __name__ == "__main__":
    main()
