"""Bars on a terminal, and the file by which a command tells the one that started it how far it is."""

import io

import pytest
from rich.console import Console

from holdfast.commands.overall_progress import OverallProgress
from holdfast.core.progress import (
    VARIABLE,
    Bars,
    ProgressState,
    progress_file,
    read_progress,
    read_state,
    working,
    write_state,
)


class ByHand:
    """A clock that moves when told to."""

    seconds = 0.0

    def now(self):
        return self.seconds

    def sleep(self, seconds):
        self.seconds += seconds


@pytest.fixture
def file(tmp_path, monkeypatch):
    """The file that the command which started this one named."""
    file = progress_file(tmp_path / "train-er.log")
    monkeypatch.setenv(VARIABLE, str(file))
    return file


def silent():
    return Console(file=io.StringIO())  # no terminal, as below `holdfast run`


def test_a_command_without_terminal_tells_how_far_it_is(file):
    clock = ByHand()
    with Bars(silent(), part=(0.5, 1.0), clock=clock) as bars:
        row = bars.add_task("push_box", total=400, note="")
        bars.update(row, completed=100, note="loss 0.1")
        assert read_state(file) == ProgressState("push_box 100 of 400  loss 0.1", 0.625)
        bars.advance(row, 100)
        assert read_state(file).share == 0.625, "at most twice a second"
        clock.sleep(0.5)
        bars.advance(row, 0)
        assert read_state(file) == ProgressState("push_box 200 of 400  loss 0.1", 0.75)


def test_preparations_say_what_goes_on_and_keep_the_share(file):
    with Bars(silent(), part=(0.0, 1.0)) as bars:
        bars.update(bars.add_task("trials", total=4, note=""), completed=1)
    with Bars(silent()) as bars:
        bars.advance(bars.add_task("building the frame cache", total=8, note=""), 8)
    assert read_state(file) == ProgressState("building the frame cache 8 of 8", 0.25)


def test_other_ranks_tell_nothing(file):
    with Bars(Console(file=io.StringIO(), quiet=True), part=(0.0, 1.0)) as bars:
        bars.advance(bars.add_task("push_box", total=400, note=""))
    assert read_state(file) is None


def test_until_a_command_tells_how_far_it_is_its_log_does(tmp_path):
    log = tmp_path / "record-1.log"
    assert read_progress(log) == ProgressState("starting"), "there is no log yet"
    log.write_text("\n")
    assert read_progress(log) == ProgressState("starting")
    log.write_text("a\n" * 10_000 + "one\n 1 of 2\r 2 of 2\r\n\n")
    assert read_progress(log) == ProgressState("2 of 2")
    write_state(progress_file(log), ProgressState("press_button 3 of 40", 0.075))
    assert read_progress(log) == ProgressState("press_button 3 of 40", 0.075)


def test_a_damaged_file_and_a_full_disk_stop_nobody(file, monkeypatch):
    for content in ("", "{", "[]", '{"text": 1}', '{"text": "", "share": 2.0}', '{"text": "", "share": NaN}'):
        file.write_text(content)
        assert read_state(file) is None
    monkeypatch.setenv(VARIABLE, str(file.parent / "gone" / "file"))
    with Bars(silent(), part=(0.0, 1.0)) as bars:
        bars.advance(bars.add_task("push_box", total=400, note=""))


def test_without_the_variable_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    with Bars(silent(), part=(0.0, 1.0)) as bars:
        bars.advance(bars.add_task("push_box", total=400, note=""))
    assert not list(tmp_path.iterdir())


def test_work_of_unknown_length_prints_nothing_without_a_terminal(capfd):
    with working("hashing"):
        pass
    assert capfd.readouterr() == ("", "")


def test_one_bar_for_all_commands_of_a_recipe():
    clock = ByHand()
    record, train, evaluate = ("record", "--tasks"), ("train", "--stream=a"), ("evaluate", "runs/a")
    overall = OverallProgress([record, train, evaluate], clock)
    overall.update([(record, 0.0)])
    assert overall.seconds_left is None
    clock.sleep(10)
    overall.update([(record, 0.5)])
    half = overall.share([(record, 0.5)])
    clock.sleep(10)
    overall.end(record)
    overall.end(record)
    overall.update([(train, 0.0)])
    assert overall.share([(train, 0.0)]) == pytest.approx(2 * half)
    assert overall.seconds_left == pytest.approx(20 * (1 - 2 * half) / (2 * half), rel=0.1)
    for command in (train, evaluate):
        overall.end(command)
    assert overall.share([]) == 1
