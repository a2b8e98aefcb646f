"""A small run of two tasks for all tests here; tests that write to it copy it first."""

import pytest
from runs import make_run


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """Two stages, press_button and push_box, of an untrained policy."""
    return make_run(tmp_path_factory.mktemp("runs") / "small")
