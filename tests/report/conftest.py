"""Made-up runs and their page, written once for all tests that only read them."""

import av
import numpy as np
import pytest
from synthetic import write_run

from holdfast.report.page import write


def write_video(path, frames=30, size=64):
    """A small h264 video of a moving square, as evaluation writes them."""
    with av.open(str(path), "w") as file:
        stream = file.add_stream("libx264", rate=15)
        stream.width = stream.height = size
        stream.pix_fmt = "yuv420p"
        for n in range(frames):
            picture = np.full((size, size, 3), 40, np.uint8)
            picture[20:36, n : n + 12] = 200
            file.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        file.mux(stream.encode(None))


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
