"""Find trained policies: in folders, release files, the cache, and on the Hugging Face Hub.

A release file is a zip archive with the two files of a saved policy and its model card. It is read in memory and never
unpacked, so the paths in it have no effect.
"""

import os
import re
import zipfile
import zlib
from pathlib import Path
from typing import NamedTuple

from envgen.jit import cache_dir
from envgen.runs.files import MAX_JSON_BYTES, memory_bytes, open_regular, read_regular

from .policy import ARRAYS_FILE, JSON_FILE, Policy, PolicyError, load_policy, parse_policy

HUB_PREFIX = "hf:"
PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
HUB_NAME = re.compile(r"([A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95})(?:@([A-Za-z0-9][\w./-]{0,99}))?")
ZIP_ERRORS = (
    zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError, ValueError, OverflowError, OSError,
)  # fmt: skip


class HubName(NamedTuple):
    """A repository of the Hugging Face Hub, and a branch, tag or commit of it."""

    repository: str
    revision: str | None

    @classmethod
    def parse(cls, name: str) -> "HubName":
        """Parse `hf:owner/name` or `hf:owner/name@revision`."""
        match = HUB_NAME.fullmatch(name.removeprefix(HUB_PREFIX))
        if match is None:
            raise PolicyError(f"{name!r} is not a policy on the hub: write hf:owner/name or hf:owner/name@revision")
        return cls(*match.groups())


def policies_dir() -> Path:
    """Where policies are found by their name: a folder `NAME` or a release file `NAME.zip` in it."""
    return cache_dir() / "policies"


def find_cached_policy(name: str) -> Path | None:
    """The folder or release file of a policy in the cache; None if `name` is a path or there is none."""
    if not PLAIN_NAME.fullmatch(name):
        return None
    candidates = (policies_dir() / name, policies_dir() / f"{name}.zip")
    return next((path for path in candidates if path.exists()), None)


def find_and_load_policy(source: str, device: str = "cpu") -> Policy | None:
    """Load a saved policy, a release file, or one by its name in the cache or the hub; None if it is none of these."""
    if source.startswith(HUB_PREFIX):
        return _load_from_hub(HubName.parse(source), device)
    path = Path(source) if os.path.exists(source) else find_cached_policy(source)
    if path is None or (path.is_dir() and not os.path.exists(path / JSON_FILE)):
        return None
    return load_policy(path, device) if path.is_dir() else load_release_file(path, device)


def load_release_file(file: str | Path, device: str = "cpu") -> Policy:
    """Load the policy of a release file."""
    try:
        with open_regular(Path(file).resolve(), "rb") as stream, zipfile.ZipFile(stream) as archive:
            json_data = _read_member(archive, JSON_FILE, MAX_JSON_BYTES)
            arrays_data = _read_member(archive, ARRAYS_FILE, memory_bytes() // 2)
    except ZIP_ERRORS as error:
        reason = error.strerror if isinstance(error, OSError) else error
        message = f"{file} is not a release file of a policy: {reason or type(error).__name__}; download it again"
        raise PolicyError(message) from error
    return parse_policy(json_data, arrays_data, str(file), device)


def _read_member(archive: zipfile.ZipFile, name: str, max_bytes: int) -> bytes:
    members = [info for info in archive.infolist() if info.filename.rpartition("/")[2] == name]
    if len(members) != 1:
        raise ValueError(f"it has {len(members)} files {name}, not 1")
    if members[0].file_size > max_bytes:
        raise ValueError(f"{name} has {members[0].file_size:,} bytes, but at most {max_bytes:,} are read")
    with archive.open(members[0]) as stream:
        return stream.read(max_bytes)  # no more than the archive says, which the checksum confirms


def _load_from_hub(name: HubName, device: str) -> Policy:
    try:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import HfHubHTTPError
    except ImportError:
        raise PolicyError("policies on the hub need huggingface_hub: pip install 'envgen[hub]'") from None
    bases = HfHubHTTPError.__bases__  # those of the HTTP library that this version uses
    network_errors = tuple(base for base in bases if issubclass(base, Exception))
    repository, revision = name
    data = []
    try:
        for file, max_bytes in ((JSON_FILE, MAX_JSON_BYTES), (ARRAYS_FILE, memory_bytes() // 2)):
            info = hf_hub_download(repository, file, revision=revision, dry_run=True)
            revision = info.commit_hash  # both files come from the same commit
            if info.file_size is None or info.file_size > max_bytes:
                raise ValueError(f"{file} has {info.file_size} bytes, but at most {max_bytes} are read")
            path = hf_hub_download(repository, file, revision=revision)
            data.append(read_regular(Path(path).resolve(), max_bytes=max_bytes))  # it is a symbolic link
    except (OSError, ValueError, *network_errors) as error:
        reason = " ".join(str(error).split())[:300]
        raise PolicyError(f"{HUB_PREFIX}{repository} cannot be loaded: {reason}") from error
    return parse_policy(data[0], data[1], f"{HUB_PREFIX}{repository}", device)
