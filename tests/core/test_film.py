"""Videos that are being written."""

import numpy as np
import pytest

from holdfast.core.film import Film

PICTURE = np.zeros((32, 32, 3), np.uint8)


def test_a_film_appears_when_it_is_complete(tmp_path):
    with Film(tmp_path / "film.mp4", rate=10) as film:
        film.add(PICTURE)
        assert not (tmp_path / "film.mp4").exists()
    assert [file.name for file in tmp_path.iterdir()] == ["film.mp4"]


@pytest.mark.parametrize("name", ["film.mp4", ".film.mp4"])
def test_a_film_is_not_written_through_a_link(tmp_path, name):
    (tmp_path / "notes.txt").write_text("keep")
    (tmp_path / name).symlink_to(tmp_path / "notes.txt")
    with Film(tmp_path / "film.mp4", rate=10) as film:
        film.add(PICTURE)
    assert (tmp_path / "notes.txt").read_text() == "keep"
    assert not (tmp_path / "film.mp4").is_symlink()
