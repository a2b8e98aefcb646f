"""A small run of an untrained policy, the one that evaluation's tests use."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "evaluate"))


@pytest.fixture(scope="session")
def small_run(tmp_path_factory):
    """Two stages, press_button and push_box; tests that write to it copy it first."""
    from runs import make_run

    return make_run(tmp_path_factory.mktemp("rollouts") / "small")
