import json

import numpy as np
import pytest

from holdfast.core.records import Task
from holdfast.data.cache import quantiles
from holdfast.data.cache.quantiles import measure, recall
from holdfast.data.lerobot.source import open_source
from holdfast.data.lerobot.writer import dataset_writer, frame
from holdfast.data.lesson import Layout, Lesson

LAYOUT = Layout(None, (0,), np.zeros(1, bool))


@pytest.fixture(scope="module")
def uneven(tmp_path_factory):
    """Twenty episodes that each stay in a place of their own: their quantiles' mean says little about the dataset."""
    root = tmp_path_factory.mktemp("uneven") / "set"
    rng = np.random.default_rng(0)
    picture = {"head": np.zeros((32, 32, 3), np.uint8)}
    with dataset_writer(root, fps=30, names=["a"], cameras=["head"], height=32, width=32, robot="x") as dataset:
        for episode in range(20):
            for _ in range(8):
                value = np.array([episode / 4 + 0.01 * rng.normal()])
                dataset.add_frame(frame("Go.", value, value, picture))
            dataset.save_episode()
    return root


def lesson(root):
    return Lesson(Task("go", "Go.", ("left",)), open_source(str(root)), np.ones(1, bool), hold=False)


def test_quantiles_are_the_datasets_not_the_mean_of_the_episodes(uneven, tmp_path):
    taught = lesson(uneven)
    stored = json.loads((uneven / "meta/stats.json").read_text())["action"]
    true = np.quantile(taught.source.action[:, 0], [0.01, 0.99])
    space = recall(taught, LAYOUT, tmp_path)
    np.testing.assert_allclose([space.action.q01[0], space.action.q99[0]], true, rtol=1e-6)
    assert stored["q99"][0] < true[1] / 1.5  # LeRobot's, which would put most of the motion outside [-1, 1]


@pytest.fixture
def counted(monkeypatch):
    calls = []
    monkeypatch.setattr(quantiles, "measure", lambda *given: calls.append(given) or measure(*given))
    return calls


def test_a_second_run_does_not_measure_again(uneven, tmp_path, counted):
    first = recall(lesson(uneven), LAYOUT, tmp_path)
    assert recall(lesson(uneven), LAYOUT, tmp_path) == first
    assert len(counted) == 1


@pytest.mark.parametrize(
    "layout", [Layout(None, (0, 1), np.zeros(1, bool)), Layout(None, (0,), np.ones(1, bool))], ids=["chunk", "relative"]
)
def test_another_view_of_the_data_is_measured_for_itself(uneven, tmp_path, counted, layout):
    recall(lesson(uneven), LAYOUT, tmp_path)
    recall(lesson(uneven), layout, tmp_path)
    assert len(counted) == 2


@pytest.mark.parametrize("damage", [lambda t: t.replace("4", "5", 1), lambda t: t[: len(t) // 2], lambda t: ""])
def test_damaged_statistics_are_measured_again(uneven, tmp_path, counted, damage):
    first = recall(lesson(uneven), LAYOUT, tmp_path)
    file = next(tmp_path.rglob("*.json"))
    text = file.read_text()
    head, space = text.split('"digest"')
    file.write_text(head + '"digest"' + damage(space))
    assert recall(lesson(uneven), LAYOUT, tmp_path) == first
    assert len(counted) == 2
