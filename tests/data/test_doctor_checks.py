"""Every kind of fault is put into a copy of a healthy dataset and must be found there, with advice."""

import json
import shlex
import shutil
from fractions import Fraction

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from toy_world import write_dataset
from toys import write_numbers

from holdfast import embodiments
from holdfast.core.errors import HoldfastError
from holdfast.core.records import Task
from holdfast.data.doctor.checks import examine
from holdfast.data.doctor.findings import Expected, say_delete, say_episodes
from holdfast.data.lerobot.source import open_source
from holdfast.embodiments.embodiment import Dimension, Embodiment

ROBOT = embodiments.load("piper_x_pair")
TASK = Task("reach", "Reach the mark.", ("left",))
KNOWN = Expected(TASK, ROBOT)
TABLE, EPISODES = "data/chunk-000/file-000.parquet", "meta/episodes/chunk-000/file-000.parquet"
HEAD, FRONT = (f"observation.images.{name}" for name in ("head", "front"))


@pytest.fixture(scope="session")
def healthy(tmp_path_factory):
    root = tmp_path_factory.mktemp("healthy") / "reach"
    write_dataset(root, TASK, ROBOT, episodes=3, length=20, size=48)
    return root


@pytest.fixture
def patient(healthy, tmp_path):
    return shutil.copytree(healthy, tmp_path / "reach")


def change_info(root, **values):
    info = json.loads((root / "meta/info.json").read_text())
    (root / "meta/info.json").write_text(json.dumps(info | values))


def change_names(root, feature, names):
    info = json.loads((root / "meta/info.json").read_text())
    info["features"][feature] |= {"names": list(names), "shape": [len(names)]}
    (root / "meta/info.json").write_text(json.dumps(info))


def change_numbers(root, column, change):
    table = pq.read_table(root / TABLE)
    values = np.array(table[column].to_pylist(), dtype=np.float32)
    values = change(values)
    array = pa.array(list(values), type=pa.list_(pa.float32())) if values.ndim > 1 else pa.array(values)
    pq.write_table(table.set_column(table.column_names.index(column), column, array), root / TABLE)


def change_episodes(root, **columns):
    table = pq.read_table(root / EPISODES)
    for name, values in columns.items():
        table = table.set_column(table.column_names.index(name), name, pa.array(values))
    pq.write_table(table, root / EPISODES)


def setting(rows, dimensions, value):
    def change(values):
        values[rows, dimensions] = value
        return values

    return change


def change_video(root, camera, frames=60, fps=30, image=None):
    pattern = np.indices((48, 48)).sum(0).astype(np.uint8)[..., None].repeat(3, axis=2)
    with av.open(str(root / f"videos/{camera}/chunk-000/file-000.mp4"), "w") as container:
        stream = container.add_stream("mpeg4", rate=Fraction(fps))
        stream.width, stream.height, stream.pix_fmt = 48, 48, "yuv420p"
        for t in range(frames):
            picture = np.roll(pattern, 2 * t, axis=0) if image is None else image(pattern)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, "rgb24")))
        container.mux(stream.encode())


def lose_frame(root):
    """What a full encoder queue does: episode 1 has one image less, and everything behind it begins earlier."""
    change_video(root, HEAD, frames=59)
    edges = np.array([0, 20, 39, 59]) / 30
    change_episodes(root, **{f"videos/{HEAD}/from_timestamp": edges[:-1], f"videos/{HEAD}/to_timestamp": edges[1:]})


def shorten(root):
    """Give all but three frames of the last episode to the one before."""
    change_episodes(root, dataset_from_index=[0, 20, 57], dataset_to_index=[20, 57, 60], length=[20, 37, 3])


def repeat_episode(root):
    for column in ("observation.state", "action"):
        change_numbers(root, column, lambda v: np.concatenate([v[:40], v[:20]]))


def rename_task(root):
    table = pq.read_table(root / "meta/tasks.parquet")
    place = table.column_names.index("task")
    pq.write_table(table.set_column(place, "task", pa.array(["Wave."])), root / "meta/tasks.parquet")


def rename_camera(root, old, new):
    info = json.loads((root / "meta/info.json").read_text())
    info["features"] = {new if key == old else key: feature for key, feature in info["features"].items()}
    (root / "meta/info.json").write_text(json.dumps(info))
    (root / "videos" / old).rename(root / "videos" / new)
    table = pq.read_table(root / EPISODES)
    pq.write_table(table.rename_columns([c.replace(old, new) for c in table.column_names]), root / EPISODES)


def remove_camera_file(root):
    (root / f"videos/{FRONT}/chunk-000/file-000.mp4").unlink()


def cut_table(root):
    (root / TABLE).write_bytes((root / TABLE).read_bytes()[:500])


def cut_video(root):
    path = root / f"videos/{FRONT}/chunk-000/file-000.mp4"
    path.write_bytes(path.read_bytes()[:100])


S, A = "observation.state", "action"
# name: (hurt, what is known, severity, kind, words of `where`, words of `detail`)
FAULTS = {
    "no dataset": (lambda r: shutil.rmtree(r / "meta"), None, "error", "unreadable", "files", "not a LeRobot dataset"),
    "old version": (lambda r: change_info(r, codebase_version="v2.1"), None, "error", "unreadable", "files", "v2.1"),
    "empty": (lambda r: change_info(r, total_episodes=0), None, "error", "unreadable", "files", "empty"),
    "endless": (lambda r: change_info(r, total_episodes=2**62), None, "error", "unreadable", "files", "10,000,000,000"),
    "miscounted": (
        lambda r: change_info(r, total_frames=61), None, "warning", "wrong-counts", "total_frames", "says 61; the",
    ),
    "cut table": (cut_table, None, "error", "unreadable", "files", "truncated or damaged"),
    "odd info": (lambda r: change_info(r, features=3), None, "error", "unreadable", "files", "describes no features"),
    "no video": (remove_camera_file, None, "error", "unreadable", "files", FRONT),
    "cut video": (cut_video, None, "error", "unreadable", FRONT, "holds no pictures"),
    "nan": (
        lambda r: change_numbers(r, S, setting([5, 6, 45], 2, np.nan)),
        None, "error", "nan", "episodes 0, 2: state left_joint_3.pos", "values: 3",
    ),
    "infinite": (
        lambda r: change_numbers(r, A, setting(25, 0, np.inf)), KNOWN, "error", "nan", "episode 1: action", "values: 1",
    ),
    "black": (
        lambda r: change_video(r, HEAD, image=np.zeros_like), None, "error", "uniform-camera", HEAD, "one colour",
    ),
    "hanging": (lambda r: change_video(r, HEAD, image=np.copy), None, "warning", "constant-camera", HEAD, "not change"),
    "lost frame": (lose_frame, None, "error", "video-frames", f"{HEAD}, episode 1", "19 for 20"),
    "cut end": (lambda r: change_video(r, HEAD, frames=57), None, "error", "video-frames", HEAD, "57 frames"),
    "slow video": (lambda r: change_video(r, HEAD, fps=25), None, "error", "wrong-fps", HEAD, "25 frames per second"),
    "wrong fps": (lambda r: change_info(r, fps=20), None, "error", "wrong-fps", "episodes 0-2", "mostly 30"),
    "gap in time": (
        lambda r: change_numbers(r, "timestamp", lambda t: t + 0.1 * (np.arange(60) > 50)),
        None, "error", "wrong-fps", "episode 2", "mostly 30",
    ),
    "dead encoder": (
        lambda r: change_numbers(r, S, setting(slice(None), 3, 0.1)),
        KNOWN, "warning", "frozen-joint", "state left_joint_4.pos", "never moves",
    ),
    "asleep": (
        lambda r: change_numbers(r, S, lambda v: np.where(np.arange(60)[:, None] // 20 == 1, v[20], v)),
        None, "warning", "frozen-joint", "episode 1", "No value of",
    ),
    "active arm asleep": (
        lambda r: change_numbers(r, S, setting(slice(20, 40), slice(0, 7), 0.1)),
        KNOWN, "warning", "frozen-joint", "episode 1", "No joint of",
    ),
    "jump": (
        lambda r: change_numbers(r, S, lambda v: v + 0.5 * (np.arange(60) == 30)[:, None] * (np.arange(14) == 1)),
        KNOWN, "error", "jumping-joint", "episode 1: state left_joint_2.pos", "0.28 is not plausible",
    ),
    "jump of an unknown robot": (
        lambda r: change_numbers(r, A, lambda v: v + 9 * (np.arange(60) == 30)[:, None] * (np.arange(14) == 1)),
        None, "warning", "jumping-joint", "episode 1: action left_joint_2.pos", "not plausible",
    ),
    "degrees": (
        lambda r: change_numbers(r, A, np.degrees), None, "warning", "action-state", "left_joint_1.pos", "far from",
    ),
    "increments": (
        lambda r: change_numbers(r, A, lambda v: np.diff(v, axis=0, append=v[-1:])),
        KNOWN, "warning", "action-state", "left_joint", "looks like an increment",
    ),
    "short": (shorten, Expected(chunk=1), "warning", "short-episode", "episode 2", "3 frames; the median is 20"),
    "shorter than a chunk": (
        lambda r: None, Expected(chunk=21), "warning", "short-episode", "episodes 0-2", "a chunk 21",
    ),
    "state too wide": (
        lambda r: change_numbers(r, S, lambda v: np.concatenate([v, v[:, :1]], axis=1)),
        KNOWN, "error", "unreadable", "files", "declares 14 dimensions of observation.state, its tables hold 15",
    ),
    "camera key": (
        lambda r: rename_camera(r, HEAD, "head_rgb"), None, "error", "camera-key", "head_rgb", "Policies read",
    ),
    "robot's other order": (
        lambda r: [change_names(r, f, ROBOT.names[::-1]) for f in (S, A)],
        KNOWN, "error", "dimensions", "action", "another order",
    ),
    "other names": (
        lambda r: [change_names(r, f, list("abcdefghijklmn")) for f in (S, A)],
        KNOWN, "warning", "dimensions", "action", "other names",
    ),
    "another robot": (
        lambda r: None, Expected(TASK, Embodiment("left", ROBOT.dimensions[:7])),
        "error", "dimensions", "action", "14 dimensions, embodiment 'left' has 7",
    ),
    "instruction": (rename_task, KNOWN, "warning", "instruction", "tasks.parquet", "'Wave.'; the stream says 'Reach"),
    "duplicate": (repeat_episode, None, "warning", "duplicate", "episodes 0, 2", "byte for byte"),
}  # fmt: skip


@pytest.mark.parametrize("expected", [None, KNOWN], ids=["nothing known", "stream known"])
def test_healthy_dataset_is_clean(healthy, expected):
    examination = examine(str(healthy), expected)
    assert examination.findings == ()
    assert examination.summary is not None
    assert (examination.summary.episodes, examination.summary.frames, examination.summary.fps) == (3, 60, 30)
    assert examination.summary.cameras == {HEAD: (48, 48), FRONT: (48, 48)}


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_found(name, patient):
    hurt, expected, severity, kind, where, detail = FAULTS[name]
    hurt(patient)
    findings = examine(str(patient), expected).findings
    assert any(
        (f.severity, f.kind) == (severity, kind) and where in f.where and detail in f.detail for f in findings
    ), findings
    assert all(f.advice and f.dataset == str(patient) for f in findings)


@pytest.mark.parametrize("name", ["nan", "black", "lost frame", "dead encoder", "instruction", "jump", "duplicate"])
def test_one_fault_is_one_finding(name, patient):
    FAULTS[name][0](patient)
    assert len(examine(str(patient), FAULTS[name][1]).findings) == 1


@pytest.mark.filterwarnings("error")
def test_a_rate_that_is_almost_nothing_is_found_without_a_warning(patient):
    change_info(patient, fps=1e-308)  # the due times are beyond the largest float
    (finding,) = [f for f in examine(str(patient), None).findings if f.kind == "wrong-fps" and "mostly" in f.detail]
    assert finding.where == "episodes 0-2"


def test_idle_arm_may_rest(patient):
    for column in (S, A):
        change_numbers(patient, column, setting(slice(None), slice(7, 14), 0.05))
    assert examine(str(patient), KNOWN).findings == ()


def test_gripper_may_be_commanded_to_jump(patient):
    change_numbers(patient, A, setting(slice(None), 6, 0.0))
    change_numbers(patient, A, setting([10, 30, 50], 6, 0.1))
    assert not [f for f in examine(str(patient), KNOWN).findings if f.kind == "jumping-joint"]


def test_datasets_of_a_stream_are_compared(healthy, patient):
    info = json.loads((patient / "meta/info.json").read_text())
    del info["features"][FRONT]
    info["features"][HEAD]["shape"] = [24, 24, 3]
    info["fps"] = 60
    (patient / "meta/info.json").write_text(json.dumps(info))
    change_names(patient, A, [f"joint_{i}" for i in range(14)])
    found = examine(str(patient), Expected(first=examine(str(healthy)).summary)).findings
    agree = [f for f in found if f.severity == "error" and f.advice.startswith("All datasets of a stream must agree")]
    assert [f.kind for f in agree] == ["missing-camera", "camera-size", "dimensions", "wrong-fps"]
    assert agree[0].where == FRONT
    assert f"{patient} does not" in agree[0].detail


def test_nan_is_refused_for_training_and_let_through_for_the_doctor(patient):
    FAULTS["nan"][0](patient)
    with pytest.raises(HoldfastError, match="NaN"):
        open_source(str(patient))
    assert np.isnan(open_source(str(patient), check_values=False).state).sum() == 3


def test_advice_names_the_episodes_to_delete(healthy):
    source = open_source(str(healthy))
    command = shlex.split(say_delete(source, np.array([1])).split(": ")[1])
    assert f"--root={healthy}" in command
    assert f"--new_root={healthy}_clean" in command
    assert "--operation.episode_indices=[1]" in command
    assert "again" in say_delete(source, [0, 2])


def test_episodes_are_told_in_few_words():
    assert say_episodes([3]) == "episode 3"
    assert say_episodes([5, 0, 1, 2, 7, 8]) == "episodes 0-2, 5, 7-8"


def numbers(root, states, actions, **more):
    write_numbers(root, states, actions, **more)
    return str(root)


def kinds(findings):
    return {finding.kind for finding in findings} - {"constant-camera", "short-episode"}


def test_state_and_action_may_differ(tmp_path):
    dataset = numbers(tmp_path / "wide", ("x", "y", "z"), ("y", "speed"))
    assert kinds(examine(dataset).findings) == set()
    change_numbers(tmp_path / "wide", S, setting([5], [2], np.nan))
    (finding,) = [f for f in examine(dataset).findings if f.kind == "nan"]
    assert finding.where.endswith("state z")


def test_increments_under_the_states_names_are_found_and_an_embodiment_explains_them(tmp_path):
    dataset = numbers(tmp_path / "hand", ("x", "y"), ("x", "y"), deltas=True)
    (finding,) = [f for f in examine(dataset).findings if f.kind == "action-state"]
    assert (finding.where, 'kind = "delta"' in finding.advice) == ("x, y", True)
    hand = Embodiment("hand", tuple(Dimension(name, "left", "delta", -0.1, 0.1, 0.02) for name in ("x", "y")))
    assert kinds(examine(dataset, Expected(Task("go", "Do it.", ("left",)), hand)).findings) == set()


def test_the_same_names_in_another_order_are_no_fault(patient):
    change_names(patient, S, ROBOT.names[::-1])
    change_numbers(patient, S, lambda values: values[:, ::-1])
    assert examine(str(patient)).findings == ()


def test_states_of_a_stream_must_agree(tmp_path):
    first = examine(numbers(tmp_path / "one", ("x", "y"), ("x",))).summary
    found = examine(numbers(tmp_path / "two", ("x", "z"), ("x",)), Expected(first=first)).findings
    assert [f.where for f in found if f.kind == "dimensions"] == ["state"]
