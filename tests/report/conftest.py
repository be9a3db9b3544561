from collections.abc import Iterator

import matplotlib
import pytest


@pytest.fixture
def svg_backend() -> Iterator[None]:
    """Matplotlib's backend is "svg" during a test."""
    before = matplotlib.get_backend()
    matplotlib.use("svg")
    yield
    matplotlib.use(before)
