"""A dataset's header comes from anywhere: what it says is checked before anything is done with it."""

import json

import pytest

from holdfast.core.errors import HoldfastError
from holdfast.core.records import Mapping
from holdfast.data.lerobot.convert import check_convertible
from holdfast.data.lerobot.folder import read_info
from holdfast.data.lerobot.source import open_source
from holdfast.data.mapping import apply

HEAD = "observation.images.head"
PLACES = {
    "v3.0": (read_info, "chunk-{chunk_index:03d}/file-{file_index:03d}"),
    "v2.1": (check_convertible, "chunk-{episode_chunk:03d}/episode_{episode_index:06d}"),
}


def header(version="v3.0"):
    place = PLACES[version][1]
    return {
        "codebase_version": version,
        "fps": 30,
        "total_episodes": 1,
        "total_frames": 10,
        "data_path": f"data/{place}.parquet",
        "video_path": f"videos/{{video_key}}/{place}.mp4",
        "features": {
            "observation.state": {"dtype": "float32", "shape": [2], "names": ["x", "y"]},
            "action": {"dtype": "float32", "shape": [2], "names": ["x", "y"]},
            HEAD: {"dtype": "video", "shape": [48, 64, 3], "names": ["height", "width", "channels"]},
        },
    }


def read(root, content):
    """Read a header as training does, or as the conversion of older datasets does."""
    (root / "meta").mkdir(exist_ok=True)
    text = content if isinstance(content, str) else json.dumps(content)
    (root / "meta" / "info.json").write_text(text)
    version = "v2.1" if '"v2.1"' in text else "v3.0"
    return PLACES[version][0](root)


@pytest.mark.parametrize("version", PLACES)
def test_headers_as_lerobot_writes_them_are_read(tmp_path, version):
    read(tmp_path, header(version))


@pytest.mark.parametrize(
    "key",
    [
        "observation.image/../../../victim/videos/observation.images.head",
        "/etc/x",
        "..",
        ".",
        "",
        "a..b",
        "a\\b",
        "a\nb",
        "a\x1b[2J",
        "observation.images." + "x" * 300,
    ],
)
@pytest.mark.parametrize("version", PLACES)
def test_a_feature_that_cannot_name_a_folder_is_refused(tmp_path, version, key):
    content = header(version)
    content["features"][key] = content["features"].pop(HEAD)
    with pytest.raises(HoldfastError, match=r"no slash|is too long"):
        read(tmp_path, content)


def test_nor_can_a_stream_rename_a_camera_to_one(recorded):
    source = open_source(str(recorded / "reach"))
    with pytest.raises(HoldfastError, match=r"task.cameras.*no slash"):
        apply(source, Mapping(cameras={"image/../../victim": "head"}), None)
