"""Two tiny models that know the toy domain a little, trained once for all tests."""

import pytest
from toy_models import make_models


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """The folders of an agent and of an environment model."""
    folders = [tmp_path_factory.mktemp(name) for name in ("agent", "environment")]
    make_models(*folders)
    return folders
