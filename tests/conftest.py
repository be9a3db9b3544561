"""Tests are repeatable: hypothesis draws the same examples every time, and no example is too slow on a busy machine."""

import os
import signal

import hypothesis
import pytest

hypothesis.settings.register_profile("envgen", deadline=None, derandomize=True)
hypothesis.settings.load_profile("envgen")
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # windows open nowhere
os.environ["OMP_NUM_THREADS"] = "1"  # as below, for the processes that tests start
signal.signal(signal.SIGINT, signal.default_int_handler)  # started in the background, programs would ignore Ctrl-C


@pytest.fixture(scope="module")
def browser():
    from browser import open_browser  # which imports playwright

    with open_browser() as browser:
        yield browser


def pytest_terminal_summary(terminalreporter) -> None:
    """Say that pages were not tested in a browser, where none is installed."""
    reasons = {str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", []) if report.longrepr}
    for reason in sorted(reason for reason in reasons if "no browser" in reason):
        terminalreporter.write_sep("!", "REPORTS AND THE STUDIO WERE NOT TESTED IN A BROWSER", red=True, bold=True)
        terminalreporter.write_line(reason.removeprefix("Skipped: "))


try:
    import torch
except ImportError:  # the simulators are tested without it too
    pass
else:
    torch.set_num_threads(1)  # small tensors on shared cores: one thread is faster, and the same everywhere
