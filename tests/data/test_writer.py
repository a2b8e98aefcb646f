"""Writing datasets: the same images give the same bits."""

import ctypes

import numpy as np
import pytest

from holdfast.data.lerobot.writer import dataset_writer, frame

PERTURB = -6  # of glibc's mallopt: what fresh memory is filled with


def test_videos_do_not_depend_on_what_was_in_memory(tmp_path):
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt"):
        pytest.skip("only glibc can fill memory")
    written = []
    try:
        for filling in (1, 170, 255):
            libc.mallopt(PERTURB, filling)
            written.append(write_and_read(tmp_path / str(filling)))
    finally:
        libc.mallopt(PERTURB, 0)
    assert written[0]
    assert written[0] == written[1] == written[2]


def test_encoding_inline_writes_the_same_files(tmp_path):
    write_and_read(tmp_path / "one" / "set")
    write_and_read(tmp_path / "two" / "set", inline=True)
    one, two = (
        {p.relative_to(root): p.read_bytes() for p in root.rglob("*") if p.is_file()}
        for root in (tmp_path / "one", tmp_path / "two")
    )
    assert len(one) >= 6
    assert one == two


def test_an_episode_that_is_given_up_leaves_nothing(tmp_path):
    sample = frame("move", np.zeros(1), np.zeros(1), {"head": np.zeros((96, 96, 3), np.uint8)})
    options = {"fps": 30, "names": ("a",), "cameras": ("head",), "height": 96, "width": 96, "robot": "any"}
    with dataset_writer(tmp_path / "set", **options, full_colour=True, inline=True) as dataset:
        before = set(tmp_path.rglob("*"))
        for _ in range(3):
            dataset.add_frame({**sample})
        assert set(tmp_path.rglob("*")) > before
        dataset.clear_episode_buffer()
        assert set(tmp_path.rglob("*")) == before


def write_and_read(root, inline=False):
    """Bytes of the videos of a few short episodes in which a block moves along."""
    with dataset_writer(
        root, fps=30, names=("a",), cameras=("head",), height=96, width=96, robot="any", full_colour=True, inline=inline
    ) as dataset:
        for _ in range(3):
            for step in range(12):
                image = np.full((96, 96, 3), 40, np.uint8)
                image[30:60, 20 + step : 50 + step] = (200, 30, 30)
                dataset.add_frame(frame("move", np.zeros(1), np.zeros(1), {"head": image}))
            dataset.save_episode()
    return [path.read_bytes() for path in sorted(root.rglob("*.mp4"))]
