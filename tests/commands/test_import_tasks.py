"""A dataset of many tasks is shared out to those of a stream, without loss."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from toys import TINY, stream_text

from holdfast.cli import main
from holdfast.data.lerobot.export import EpisodeChoice, write_episodes
from holdfast.data.lerobot.source import open_source

ORDER = (("lift", (1, 0)), ("reach", (2,)), ("sweep", (0,)), ("reach", (0, 1)))


@pytest.fixture(scope="module")
def shared(recorded, tmp_path_factory):
    """Episodes of three tasks in one dataset, out of order, and a stream of two of them."""
    folder = tmp_path_factory.mktemp("shared")
    sources = {name: open_source(str(recorded / name)) for name in ("lift", "reach", "sweep")}
    (folder / "all").mkdir()
    write_episodes(folder / "all", [EpisodeChoice(sources[name], episodes, {}) for name, episodes in ORDER], {})
    (folder / "stream.toml").write_text(stream_text(("reach", "lift")).replace('dataset = "', 'dataset = "data/'))
    return folder


def import_tasks(folder, dataset="all", stream="stream.toml"):
    flags = [f"--stream={folder / stream}"] if stream else []
    return main(["import", "tasks", str(folder / dataset), *flags, f"--output={folder / 'data'}"])


def test_every_task_gets_its_own_episodes_as_they_are(shared, recorded, capsys):
    assert import_tasks(shared) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "reach: 3 episodes lift: 2 episodes 1 other episodes were left out." in out
    assert {path.name for path in (shared / "data").iterdir() if path.is_dir()} == {"reach", "lift"}
    for name, episodes in (("reach", (2, 0, 1)), ("lift", (1, 0))):
        source, made = open_source(str(recorded / name)), open_source(str(shared / "data" / name))
        for number, episode in enumerate(episodes):
            frames, own = source.frames_of([episode]), made.frames_of([number])
            assert np.array_equal(made.action[own], source.action[frames])
            assert np.array_equal(made.state[own], source.state[frames])
            for camera in source.cameras:
                assert torch.equal(made.images(camera, own), source.images(camera, frames))
    provenance = json.loads((shared / "data/reach/meta/provenance.json").read_text())
    assert provenance["parts"][0]["episodes"] == [2, 4, 5]
    train = ["train", f"--stream={shared / 'stream.toml'}", f"--output={shared / 'run'}", "--device=cpu", *TINY]
    assert main([*train, "--steps=2", "--batch_size=2", "--norm.limit=100"]) == 0
    assert import_tasks(shared) == 2
    assert "exists already" in capsys.readouterr().err


def relabel(folder, change):
    """A copy of the shared dataset whose table of the first episode says another task_index."""
    copy = shutil.copytree(folder / "all", folder / "other", dirs_exist_ok=True)
    file = min(copy.glob("data/*/*.parquet"))
    table = pq.read_table(file)
    place = table.column_names.index("task_index")
    pq.write_table(table.set_column(place, "task_index", change(table["task_index"].to_numpy())), file)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda old: pa.array(old + 7), "a task_index that meta/tasks.parquet does not have"),
        (lambda old: pa.array(old - 7), "a task_index that meta/tasks.parquet does not have"),
        (lambda old: pa.array([None, *old[1:]]), "whole number as task_index in every row"),
        (lambda old: pa.array(old + 0.5), "Restore it or record again"),
    ],
)
def test_a_wrong_table_is_refused_before_anything_is_written(shared, tmp_path, capsys, change, said):
    for name in ("all", "stream.toml"):
        (tmp_path / name).symlink_to(shared / name)
    relabel(tmp_path, change)
    assert import_tasks(tmp_path, "other") == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_an_episode_whose_instruction_changes_belongs_to_no_task(shared, tmp_path, capsys):
    for name in ("all", "stream.toml"):
        (tmp_path / name).symlink_to(shared / name)
    relabel(tmp_path, lambda old: pa.array([1, *old[1:]]))
    assert import_tasks(tmp_path, "other") == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "lift: 1 episodes 2 other episodes were left out." in out


def test_a_link_that_leads_nowhere_is_not_written_over(shared, tmp_path, capsys):
    for name in ("all", "stream.toml"):
        (tmp_path / name).symlink_to(shared / name)
    (tmp_path / "data").symlink_to("nowhere")
    assert import_tasks(tmp_path) == 2
    assert "exists already" in capsys.readouterr().err
    assert (tmp_path / "data").is_symlink()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "Add --stream=NAME or FILE"),
        (stream_text(("reach",)).replace("Please", "please"), "Did you mean 'Please reach.'?"),
        (stream_text(("reach", "lift")).replace("Please lift.", "Please reach."), "Several tasks of"),
    ],
)
def test_a_stream_that_does_not_fit_is_refused_before_anything_is_written(shared, tmp_path, capsys, text, said):
    (tmp_path / "all").symlink_to(shared / "all")
    if text:
        (tmp_path / "stream.toml").write_text(text)
    assert import_tasks(tmp_path, stream="stream.toml" if text else None) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "data").exists()
