"""A run of a one-arm and a two-arm task, its bundles, and a server in a thread."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "evaluate"))


@pytest.fixture(scope="session")
def trained(tmp_path_factory) -> Path:
    """A run of two stages, press_button (left arm) and place_fruits (both), of an untrained policy."""
    from bundles import make_trained

    return make_trained(tmp_path_factory.mktemp("trained") / "run")


@pytest.fixture(scope="session")
def bundle(trained, tmp_path_factory):
    """The bundle of its last stage."""
    from holdfast.serve.new_bundle import make

    return make(trained, 2, tmp_path_factory.mktemp("bundles") / "two")


@pytest.fixture(scope="session")
def pilot(bundle):
    """The bundle's policy."""
    from holdfast.policies.pilot import Pilot

    return Pilot(bundle.path, bundle.names)
