"""Files of run directories."""

import pytest

from envgen.runs.files import append_line


def test_a_line_is_appended_as_a_whole_or_not_at_all(tmp_path):
    resource = pytest.importorskip("resource")
    file = tmp_path / "lines.jsonl"
    append_line(file, b"first\n")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))  # as if the disk were full: half of the line fits
    try:
        with pytest.raises(OSError, match="only part of the line was written; is the disk full"):
            append_line(file, b"second\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert file.read_bytes() == b"first\n"
    append_line(file, b"third\n")
    assert file.read_bytes() == b"first\nthird\n"
    with pytest.raises(OSError, match="not a regular file"):
        append_line(tmp_path, b"line\n")
