"""A name that is too long for the files named after it is refused before any work."""

import os

import pytest
from toys import TINY, stream_text

from holdfast.catalog import load_stream
from holdfast.cli import main
from holdfast.core.checked_folder import write
from holdfast.core.errors import HoldfastError
from holdfast.core.names import LONGEST_FILE, LONGEST_NAME, check_length, check_path
from holdfast.core.records import Stage
from holdfast.runs.paths import RunPaths


def test_bytes_count_not_characters():
    check_length("é" * (LONGEST_NAME // 2), "It")
    with pytest.raises(HoldfastError, match=f"It is too long: .* has {LONGEST_NAME + 2} bytes"):
        check_length("é" * (LONGEST_NAME // 2 + 1), "It")


def test_every_part_of_a_path_counts(tmp_path):
    check_path(tmp_path / ("x" * LONGEST_FILE) / "run", "It")
    with pytest.raises(HoldfastError, match="too long"):
        check_path(tmp_path / ("x" * (LONGEST_FILE + 1)) / "run", "It")
    with pytest.raises(HoldfastError, match="too long"):
        check_path(tmp_path / ("x" * (LONGEST_NAME + 1)), "It")
    with pytest.raises(HoldfastError, match="too long"):
        check_path("x/" * 2000, "It")


def test_the_longest_name_leaves_room_for_all_files_named_after_it(tmp_path):
    name = "x" * LONGEST_NAME
    run = RunPaths(tmp_path / name)
    files = [
        run.stage(Stage(1234, name, (0,), 1)).folder,
        run.root / run.evaluation_video(f"1234-{name}", name, name, 10**12),
        tmp_path / f".{name}.recording",
    ]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.with_name(f".{file.name}").touch()  # as a film is written
    write(tmp_path / name, lambda folder: None)
    assert (tmp_path / name / "manifest.json").exists()


def refused(capsys, argv, says):
    assert main(argv) == 2
    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == 1


def names(text, name):
    return text.replace('"lift"', f'"{name}"').replace(f'dataset = "{name}"', 'dataset = "lift"')


LONG = "x" * 260


def test_a_task_whose_name_is_too_long_is_refused_before_the_first_stage(toy, capsys):
    (toy / "stream.toml").write_text(names(stream_text(("reach", "lift")), LONG))
    flags = [f"--stream={toy}/stream.toml", f"--output={toy}/run", "--steps=2", "--batch_size=2", "--device=cpu"]
    refused(capsys, ["train", *flags, *TINY], "the name is too long")
    assert not (toy / "run").exists()


@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_a_run_or_dataset_whose_name_is_too_long_is_refused(toy, capsys, more):
    text = (toy / "stream.toml").read_text()
    train = ["train", f"--stream={toy}/stream.toml", *more]
    refused(capsys, [*train, f"--output={toy}/{'é' * 130}"], "--output is too long")
    (toy / "stream.toml").write_text(text.replace('dataset = "lift"', f'dataset = "{LONG}"'))
    refused(
        capsys, ["train", f"--stream={toy}/stream.toml", f"--output={toy}/run", *more], "dataset's name is too long"
    )
    assert not (toy / "run").exists()


@pytest.mark.parametrize(
    "argv",
    [
        ["train", f"--stream={LONG}"],
        ["train", f"--stream={LONG}.toml", "--dry-run"],
        ["train", "--stream=single_arm", f"--data_root={LONG}"],
        ["record", "--tasks", "stack_bowls", "--episodes", "1", "--output", LONG],
        ["export", "buffer", "run", "--output", LONG],
        ["import", "dataset", "old", "--output", LONG],
        ["bundle", LONG],
        ["bundle", "verify", LONG],
        ["bundle", "deploy", "bundle", "--to", LONG],
        ["evaluate", LONG],
        ["report", LONG],
        ["rollout", "--task", "stack_bowls", "--policy", "policy", "--record", LONG],
        ["rollout", "--task", "stack_bowls", "--policy", LONG],
    ],
    ids=lambda argv: " ".join(argv)[:30],
)
def test_no_command_breaks_on_a_long_name(argv, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(argv) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not os.listdir(tmp_path)


def test_names_of_the_longest_length_are_read(tmp_path):
    (tmp_path / "stream.toml").write_text(names(stream_text(("reach", "lift")), "x" * LONGEST_NAME))
    assert load_stream(str(tmp_path / "stream.toml")).names == ("reach", "x" * LONGEST_NAME)
