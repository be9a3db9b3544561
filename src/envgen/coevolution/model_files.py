"""Checks of a language model before it is loaded, and a time limit for its chat template.

A model may come from someone else. Its weights are safetensors and its code is never run, but its other files can still
do harm: a large one fills the memory, a FIFO or device blocks its reader, a config can name code to download, and a
chat template is a program that need not end.
"""

import ctypes
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from envgen.errors import EnvgenError
from envgen.runs.files import parse_json

MAX_TEXT_BYTES = 128 << 20  # the largest tokenizers have about 35 MB
TEMPLATE_SECONDS = 10.0
READ_SUFFIXES = (".json", ".jinja", ".txt", ".model", ".tiktoken")  # of configs and tokenizers
WEIGHTS_SUFFIX, INDEX_SUFFIX, ADAPTER_FILE = ".safetensors", ".safetensors.index.json", "adapter_config.json"
IMPLEMENTATIONS = ("attn_implementation", "experts_implementation")  # settings that can name code on the hub


class ModelError(EnvgenError):
    """A language model could not be loaded or lacks a capability; the message says what to do instead."""


def check_model_folder(folder: Path) -> None:
    """Raise ModelError if the files of a local model cannot be read safely.

    Symbolic links are followed: the folders in the hub's cache consist of them.
    """
    try:
        for file in sorted(folder.iterdir()):
            _check_file(file)
    except OSError as error:
        raise ModelError(f"cannot read the model {folder}: {error.strerror or error}") from error


def _check_file(file: Path) -> None:
    status = file.stat()
    if stat.S_ISDIR(status.st_mode) or file.suffix == ".lock":
        return
    if not stat.S_ISREG(status.st_mode):
        raise ModelError(f"{file} is not a regular file; remove it, or pass another model")
    if file.suffix == WEIGHTS_SUFFIX:
        return  # read through a memory map, which needs no memory for what the model does not use
    if status.st_size > MAX_TEXT_BYTES:
        if file.suffix not in READ_SUFFIXES:  # such as weights in other formats
            return
        raise ModelError(
            f"{file} has {status.st_size:,} bytes, but at most {MAX_TEXT_BYTES:,} are read; pass another model"
        )
    if file.name == ADAPTER_FILE:
        raise ModelError(f"{file.parent} holds an adapter for another model; merge it into that model first")
    if file.name.endswith(INDEX_SUFFIX):
        _check_index(file)


def _check_index(file: Path) -> None:
    """The files that an index names must be weights in the same folder."""
    try:
        names = set(parse_json(file.read_bytes())["weight_map"].values())
        is_valid = all(Path(name).name == name and name.endswith(WEIGHTS_SUFFIX) for name in names)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{file} is damaged ({error!r:.200}); download the model again") from error
    if not is_valid:
        raise ModelError(f"{file} names files that are not {WEIGHTS_SUFFIX} files beside it; pass another model")


def check_config(config: Any, path: str | Path) -> None:
    """Raise ModelError if a model's config names a kernel on the hub, which would be downloaded and run."""
    for key, value in _iter_settings(config):
        if key.removeprefix("_").removesuffix("_internal") in IMPLEMENTATIONS and _names_code(value):
            raise ModelError(
                f"the config of {path} asks for the external kernel {value!r:.80}, which is code from someone else; "
                f"remove {key} from its config.json, or pass another model"
            )


def _iter_settings(config: Any) -> Iterator[tuple[str, Any]]:
    pending = [config]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            yield from value.items()
            pending += value.values()
        elif isinstance(value, list):
            pending += value


def _names_code(value: Any) -> bool:
    values = value.values() if isinstance(value, dict) else [value]
    return any(isinstance(name, str) and ("/" in name or ":" in name) for name in values)


def render_template(render: Callable[[], str], seconds: float | None = None) -> str:
    """Return the text that a chat template renders.

    Raises ModelError if it fails, or takes longer than `seconds`, by default TEMPLATE_SECONDS.
    """
    seconds = TEMPLATE_SECONDS if seconds is None else seconds
    result: list[str] = []
    failure: list[Exception] = []

    def run() -> None:
        try:
            result.append(render())
        except Exception as error:  # noqa: BLE001  raised again below
            failure.append(error)

    thread = threading.Thread(target=run, name="envgen-template", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        # raises TimeoutError in the thread at its next Python instruction; a template is compiled to Python
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(TimeoutError))
        raise ModelError(f"the chat template of the model did not end within {seconds:g} seconds; pass another model")
    if failure:
        reason = failure[0]
        if isinstance(reason, ModelError):
            raise reason
        raise ModelError(f"the chat template of the model fails: {reason!r:.300}; pass another model") from reason
    return result[0]
