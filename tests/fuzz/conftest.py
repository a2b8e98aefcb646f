"""Folders that several readers share, made once."""

import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
sys.path += [str(TESTS / "evaluate"), str(TESTS / "serve")]


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """A run as training and evaluation leave it, without weights."""
    from fuzz.samples import NAMES
    from report.synthetic import write_run

    return write_run(tmp_path_factory.mktemp("fuzz") / "run", names=NAMES, trials=2)


@pytest.fixture(scope="session")
def filmed(tmp_path_factory):
    """A run with a filmed attempt that waits for its score."""
    from console.scoring_runs import add_rollout, make_run
    from fuzz.samples import NAMES, ROLLOUT

    run = make_run(tmp_path_factory.mktemp("filmed") / "run", tasks=NAMES)
    add_rollout(run, 0, NAMES[0], 1, **ROLLOUT)
    return run


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A run of one stage with an untrained policy."""
    from bundles import make_trained

    return make_trained(tmp_path_factory.mktemp("trained") / "run", ("press_button",))


@pytest.fixture(scope="session")
def bundle(trained, tmp_path_factory):
    """The bundle of its stage."""
    from holdfast.serve.new_bundle import make

    return make(trained, 1, tmp_path_factory.mktemp("bundle") / "one").path


@pytest.fixture(scope="session")
def data(recorded):
    """A dataset."""
    return recorded / "reach"
