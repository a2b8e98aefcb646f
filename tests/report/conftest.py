"""Made-up runs and their page, written once for all tests that only read them."""

import pytest
from synthetic import write_run, write_video

from holdfast.report.page import write


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """Runs of three methods on the single-arm stream, by method; those with stages have videos."""
    root = tmp_path_factory.mktemp("runs")
    methods = {"sequential": write_video, "er": write_video, "finetune": None}
    return {method: write_run(root / method, method, video=video) for method, video in methods.items()}


@pytest.fixture(scope="session")
def page(folders):
    """The page that compares them."""
    return write(list(folders.values()))
