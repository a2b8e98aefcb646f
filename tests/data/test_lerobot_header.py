"""A dataset's header comes from anywhere: what it says is checked before anything is done with it."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.core.errors import HoldfastError
from holdfast.core.records import Mapping
from holdfast.data.cache.listing import list_caches
from holdfast.data.lerobot.convert import check_convertible
from holdfast.data.lerobot.folder import read_cameras, read_info
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
    found = read(tmp_path, header(version))
    assert found == (header(version) if version == "v3.0" else None)  # what is to be converted is only checked


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


@pytest.mark.parametrize("version", PLACES)
@pytest.mark.parametrize("what", ["data_path", "video_path"])
@pytest.mark.parametrize(
    "path",
    [
        "../other/{place}.mp4",
        "/etc/passwd",
        "videos/../../x",
        "a\\b",
        "a\u0000b",
        "a\nb",
        "{",
        "{}",
        "{0}",
        "{x}",
        "{video_key.__class__}",
        "{video_key:03d}",
        "{chunk_index:0>500000000}",
        "{chunk_index!r:>9}",
        "{file_index:0999999d}",
        "{{chunk_index}}",
        "{episode_index:06d}/{file_index}",
        "x" * 300,
        "x/" * 3000,
        None,
        5,
        [],
    ],
)
def test_a_path_that_leads_out_or_has_other_fields_is_refused(tmp_path, version, what, path):
    with pytest.raises(HoldfastError, match=r"leads out|only fields|too long|NUL"):
        read(tmp_path, header(version) | {what: path})


def test_a_dataset_without_videos_needs_no_path_of_them(tmp_path):
    content = header() | {"video_path": None}
    content["features"][HEAD]["dtype"] = "image"
    assert read(tmp_path, content)["video_path"] is None


@pytest.mark.parametrize("text", ["#EXTM3U\n/etc/passwd\n", "ffconcat version 1.0\n", "x"])
def test_a_playlist_is_no_video(toy, text):
    next((toy / "reach").rglob("*.mp4")).write_text(text)
    with pytest.raises(HoldfastError, match="not an MP4 file"):
        open_source(str(toy / "reach"))


HEADS = f"videos/{HEAD}"


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (f"{HEADS}/chunk_index", "../../x"),
        (f"{HEADS}/chunk_index", None),
        (f"{HEADS}/chunk_index", 0.5),
        (f"{HEADS}/file_index", ()),
        (f"{HEADS}/file_index", -1),
        (f"{HEADS}/from_timestamp", float("nan")),
        (f"{HEADS}/from_timestamp", float("inf")),
        (f"{HEADS}/from_timestamp", -5.0),
        (f"{HEADS}/from_timestamp", 1e308),
        (f"{HEADS}/to_timestamp", "x"),
        ("data/file_index", "../x"),
        ("episode_index", ()),
        ("dataset_from_index", ()),
        ("dataset_to_index", None),
        ("dataset_to_index", "x"),
    ],
)
def test_episodes_without_the_numbers_that_are_used_are_refused(toy, column, value):
    (file,) = (toy / "reach" / "meta" / "episodes").rglob("*.parquet")
    table = pq.read_table(file)
    other = table.drop_columns([column])
    if value != ():
        other = other.append_column(column, pa.array([value] * len(table)))
    pq.write_table(other, file)
    with pytest.raises(HoldfastError, match=f"(need the column '|has no column .*){column}"):
        open_source(str(toy / "reach"))


def changed(feature=None, **values):
    content = header()
    (content["features"][feature] if feature else content).update(values)
    return content


def without(feature, what):
    content = header()
    del content["features"][feature][what]
    return content


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[" * 100_000,
        "[]",
        '{"features": {}, "a": ' + "1" * 5000 + "}",
        *(changed(fps=fps) for fps in ("x", True, None, [1], 0, -1, 1e308, float("nan"), float("inf"))),
        *(changed(total_episodes=count) for count in ("a", -1, 1.5, None, [], 2**62)),
        *(changed(total_frames=count) for count in ("a", -1, None)),
        *(changed("action", shape=shape) for shape in (None, "abc", [], [0], [-1], [1.5], [True], ["a"], [10**9], 3)),
        *(changed(HEAD, shape=shape) for shape in (None, [], [48], ["a", "b", "c"], [10**9, 10**9, 3])),
        *(changed(HEAD, names=names) for names in (5, "abc", [["height"], 2, 3])),
        *(changed(HEAD, dtype=dtype) for dtype in (5, None, [])),
        changed(HEAD, info="x"),
        changed(HEAD, video_info=["x"]),
        changed(features={"action": 5}),
        without("action", "shape"),
        without("action", "dtype"),
        without(HEAD, "dtype"),
    ],
)
def test_a_header_with_other_values_is_refused(tmp_path, content):
    with pytest.raises(HoldfastError):
        read_cameras(tmp_path, read(tmp_path, content))


@pytest.mark.parametrize("content", ["[" * 100_000, "[]", '{"codebase_version": "v2.1", "a": ' + "1" * 5000 + "}"])
def test_so_is_one_to_convert(tmp_path, content):
    (tmp_path / "meta").mkdir()
    (tmp_path / "meta" / "info.json").write_text(content)
    with pytest.raises(HoldfastError, match=r"info.json"):
        check_convertible(tmp_path)


def test_a_cache_with_a_deep_header_is_listed_as_unknown(tmp_path):
    (tmp_path / "key").mkdir()
    (tmp_path / "key" / "cache.json").write_text("[" * 100_000)
    assert [cache.dataset for cache in list_caches(tmp_path)] == ["unknown"]


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("observation.state", None),
        ("observation.state", ["a"] * 84),
        ("observation.state", [["a"] * 14] * 84),
        ("action", [{"x": 1.0}] * 84),
        ("action", [[[1.0] * 14]] * 84),
        ("timestamp", None),
        ("timestamp", ["a"] * 84),
        ("timestamp", [None] * 84),
    ],
)
def test_frames_without_the_numbers_that_are_used_are_refused(toy, column, values):
    change_frames(toy / "reach", column, values)
    with pytest.raises(HoldfastError, match=column.split(".")[-1]):
        open_source(str(toy / "reach"))


def change_frames(root, column, values):
    (file,) = (root / "data").rglob("*.parquet")
    table = pq.read_table(file).drop_columns([column])
    pq.write_table(table if values is None else table.append_column(column, pa.array(values)), file)


def test_tables_that_do_not_go_together_are_refused(toy):
    (file,) = (toy / "reach" / "data").rglob("*.parquet")
    other = {"observation.state": [1], "action": ["x"], "timestamp": [1.0], "episode_index": [0]}
    pq.write_table(pa.table(other), file.with_name("file-001.parquet"))
    with pytest.raises(HoldfastError, match=r"file-001.parquet has other columns"):
        open_source(str(toy / "reach"))


@pytest.mark.parametrize("rows", [[[0.0] * 13, [0.0] * 15], [[0.0] * 14, None]])
def test_rows_of_different_lengths_are_refused(toy, rows):
    change_frames(toy / "reach", "observation.state", rows * 42)
    with pytest.raises(HoldfastError, match=r"differ in their number of dimensions of observation.state"):
        open_source(str(toy / "reach"))


def test_a_name_that_commands_the_terminal_is_refused(toy):
    file = toy / "reach" / "meta" / "info.json"
    content = json.loads(file.read_text())
    content["features"]["action"]["names"][0] = "left\x1b[2J"
    file.write_text(json.dumps(content))
    with pytest.raises(HoldfastError, match=r"names a dimension of action 'left\\x1b\[2J'"):
        open_source(str(toy / "reach"))


@pytest.mark.parametrize("name", ["stats.json", "tasks.parquet"])
def test_metadata_that_lerobot_cannot_read_are_told_in_a_line(toy, name):
    source = open_source(str(toy / "reach"))
    (toy / "reach" / "meta" / name).write_text("[" * 100)
    with pytest.raises(HoldfastError, match=r"LeRobot cannot read .*meta: ") as caught:
        source.metadata()
    assert "\n" not in str(caught.value)


def test_lerobots_metadata_are_its_own_and_read_the_episodes_when_asked_to(toy):
    from lerobot.datasets.dataset_metadata import LeRobotDatasetMetadata

    source = open_source(str(toy / "reach"))
    for _ in range(2):
        found, wanted = source.metadata(), LeRobotDatasetMetadata(source.dataset, root=source.root)
        assert (found.features, found.info, found.total_episodes) == (wanted.features, wanted.info, 6)
        assert found.stats.keys() == wanted.stats.keys()
        assert found.episodes is None
        assert wanted.episodes is not None, "LeRobot itself reads them at once"
        found.ensure_readable()
        assert found.episodes.to_dict() == wanted.episodes.to_dict()
