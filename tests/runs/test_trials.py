"""The file of trials: nothing changed, nothing doubled, nothing lost that was reported as written."""

import random
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from holdfast.core.append_only import LAST_ROW
from holdfast.core.errors import HoldfastError
from holdfast.core.records import Trial, TrialProtocol
from holdfast.runs.sources import by_source, choose_source, matrix_of
from holdfast.runs.trials import Trials

TRIAL = Trial(
    task="stack_bowls",
    stage=2,
    milestones=("grasped", "stacked"),
    penalties={"dropped": 2},
    final=False,
    source="twin",
    notes="the gripper slipped",
    protocol=TrialProtocol(8, ahead=4, limits=True),
    run="er",
    seed=4,
    level="wide",
    operator="",
    times={"grasped": 1.5, "stacked": 4.0},
    seconds=9.5,
    score=62.5,
    video="videos/a.mp4",
    weights="abc",
    normalization="def",
    when=1.5e9,
)
BY_HAND = replace(TRIAL, source="operator", operator="Ada", seed=None, level="")

# Writes trials one after the other, and a line to its standard output after each that was reported as written.
WRITER = """
import sys
from pathlib import Path
from holdfast.runs.sources import by_source, choose_source, matrix_of
from holdfast.runs.trials import Trials
from holdfast.core.records import Trial
name = sys.argv[2]
trials = Trials(Path(sys.argv[1]))
for seed in range(100_000):
    trials.add(Trial("stack_bowls", 1, (), source=name, seed=seed, score=float(seed % 101)))
    print(seed, flush=True)
"""


@pytest.fixture
def trials(tmp_path):
    with Trials(tmp_path / "trials.sqlite") as file:
        yield file


def extend(trials, *found):
    """Write trials together, as from the lines of a file; how many are new."""
    with trials.extending({f"line {number}": trial for number, trial in enumerate(found, 2)}) as new:
        return new


def test_a_trial_comes_back_as_it_was_written(trials, tmp_path):
    trials.add(TRIAL)
    trials.add(replace(BY_HAND, valid=False, score=None))
    with Trials(tmp_path / "trials.sqlite") as again:
        assert again.all() == [TRIAL, replace(BY_HAND, valid=False, score=None)]


def test_trials_are_found_by_task_and_stage(trials):
    others = [replace(TRIAL, task="hang_cup"), replace(TRIAL, stage=3)]
    for trial in (TRIAL, *others):
        trials.add(trial)
    assert trials.all(task="hang_cup") == others[:1]
    assert trials.all(stage=3) == others[1:]
    assert trials.all("stack_bowls", 2) == [TRIAL]


def test_a_trial_without_a_time_gets_the_present_one(trials):
    trials.add(replace(TRIAL, when=0.0))
    assert abs(trials.all()[0].when - time.time()) < 60


def test_a_layout_counts_once_for_one_policy(trials):
    number = trials.add(TRIAL)
    assert trials.add(replace(TRIAL, score=0.0)) == number
    assert trials.all() == [TRIAL]
    assert trials.add(replace(TRIAL, weights="other")) != number


def test_operators_repeat_a_task_as_often_as_they_like(trials):
    assert trials.add(BY_HAND) != trials.add(replace(BY_HAND, when=BY_HAND.when + 1))
    assert len(trials.all()) == 2


def test_an_operators_trial_that_is_sent_twice_is_written_once(trials):
    first = trials.add(BY_HAND)
    second = trials.add(replace(BY_HAND, score=50.0, when=BY_HAND.when + 1), supersedes=first)
    assert trials.add(BY_HAND) == first
    assert trials.add(replace(BY_HAND, score=50.0, when=BY_HAND.when + 1), supersedes=first) == second
    assert [trial.score for trial in trials.all()] == [50.0]


@pytest.mark.parametrize(
    "change",
    [
        {"notes": "x \ud83d"},
        {"notes": "x\0"},
        {"notes": "x" * 10_001},
        {"operator": 5},
        {"seed": 10**22},
        {"seed": -1},
        {"seed": 2**63},
        {"stage": 2**64},
        {"stage": "2"},
        {"seconds": float("nan")},
        {"seconds": -1.0},
        {"seconds": 1e6},
        {"times": {"grasped": 9e18}},
        {"when": float("inf")},
        {"when": 1e12},
        {"score": 100.5},
        {"score": float("nan")},
        {"milestones": ("grasped", "\udc00")},
        {"penalties": {"dropped": 10**30}},
        {"penalties": {"\udc00": 1}},
        {"times": {"grasped": float("inf")}},
        {"final": 1},
        {"protocol": TrialProtocol(-1)},
        {"protocol": TrialProtocol(10**9)},
        {"video": b"videos/a.mp4"},
    ],
)
def test_what_could_not_be_read_again_is_not_written(trials, change):
    with pytest.raises(HoldfastError, match="A trial cannot be"):
        trials.add(replace(TRIAL, **change))
    with pytest.raises(HoldfastError, match="A trial cannot be"):
        extend(trials, replace(TRIAL, seed=1), replace(TRIAL, **change))
    assert trials.all() == []


def test_several_are_written_together_or_not_at_all(trials, tmp_path):
    assert extend(trials, TRIAL, replace(TRIAL, seed=5), TRIAL) == 2
    assert extend(trials, TRIAL, replace(TRIAL, seed=6)) == 1
    trials.file.execute(
        "CREATE TRIGGER full BEFORE INSERT ON trials WHEN NEW.seed = 8 BEGIN SELECT RAISE(ABORT, 'disk full'); END"
    )
    with pytest.raises(HoldfastError, match="disk full"):
        extend(trials, replace(TRIAL, seed=7), replace(TRIAL, seed=8))
    with pytest.raises(RuntimeError, match="elsewhere"), trials.extending({"line 2": replace(TRIAL, seed=9)}):
        raise RuntimeError("it failed elsewhere")
    assert [trial.seed for trial in trials.all()] == [4, 5, 6]


@pytest.mark.parametrize(
    ("first", "second", "problem"),
    [
        (BY_HAND, replace(BY_HAND, score=50.0), "line 3: {} has the same task, stage, operator and time"),
        (BY_HAND, replace(BY_HAND, notes="slow"), "line 3: {} has the same task, stage, operator and time"),
        (TRIAL, replace(TRIAL, score=50.0), "line 3: {} has the same task, stage, seed, source and policy"),
        (replace(BY_HAND, seed=5), replace(BY_HAND, seed=5, operator="Bob"), "line 3: {} has the same .* seed"),
    ],
)
def test_a_trial_that_contradicts_another_is_refused(trials, first, second, problem):
    good = replace(TRIAL, seed=99)
    with pytest.raises(HoldfastError, match=problem.format("line 2")):
        extend(trials, first, second)
    assert trials.all() == []
    trials.add(first)
    with pytest.raises(HoldfastError, match=problem.format("a stored trial")):
        extend(trials, good, second)
    assert trials.all() == [first]


def test_a_trial_that_is_there_already_is_not_added(trials):
    again = replace(TRIAL, when=TRIAL.when + 60, video="", run="copy")  # evaluated on another machine, not filmed
    assert extend(trials, TRIAL, BY_HAND) == 2
    assert extend(trials, again, replace(BY_HAND, run="copy")) == 0
    assert extend(trials, replace(BY_HAND, operator="Bob"), replace(BY_HAND, when=BY_HAND.when + 1)) == 2
    assert len(trials.all()) == 4


def test_two_equal_lines_about_an_operators_trials_are_two_attempts_at_one_time(trials):
    with pytest.raises(HoldfastError, match=r"line 3: line 2 has the same .* finer time"):
        extend(trials, BY_HAND, BY_HAND)


def test_a_row_that_is_set_aside_is_not_taken_for_the_same_trial(trials):
    number = trials.add(BY_HAND)
    trials.file.execute("DROP TRIGGER no_update")
    trials.file.execute("UPDATE trials SET score = 250.0 WHERE id = ?", (number,))
    with pytest.raises(HoldfastError, match="says otherwise"):
        extend(trials, BY_HAND)


@pytest.mark.parametrize(
    "change",
    [
        "notes = CAST(x'ff' AS TEXT)",
        "notes = x'00'",
        "notes = 'horizon ' || printf('%05000d', 1) || x'00'",
        "protocol = 'horizon eight'",
        "protocol = 'horizon 8; slow'",
        "protocol = 'horizon ' || printf('%05000d', 1)",
        "protocol = x'00'",
        "protocol = 8",
        "milestones = '[\"\\ud800\"]'",
        "milestones = '{}'",
        "milestones = 'reached'",
        "milestones = x'5b5d'",
        "milestones = 7",
        "times = '{\"a\": Infinity}'",
        "times = '[]'",
        "penalties = '{\"a\": 1.5}'",
        "penalties = replace(hex(zeroblob(50000)), '0', '[')",
        "final = 2",
        "valid = 'yes'",
        "score = 9e999",
        "score = 'high'",
        "score = 250.0",
        "seconds = 'long'",
        "seconds = 9e18",
        "stage = 'two'",
        "stage = -1",
        "seed = 1.5",
        "task = x'01'",
        '"when" = -1.0',
        '"when" = 1e12',
        '"when" = 9e999',
    ],
)
def test_a_row_that_is_no_trial_is_named_and_stops_nothing(tmp_path, capsys, change):
    path = tmp_path / "trials.sqlite"
    with Trials(path) as file:
        extend(file, TRIAL, replace(TRIAL, seed=5))
        (trigger,) = file.file.execute("SELECT sql FROM sqlite_schema WHERE name = 'no_update'").fetchone()
        file.file.execute("DROP TRIGGER no_update")
        file.file.execute(f"UPDATE trials SET {change} WHERE id = 2")
        file.file.execute(trigger)
    with Trials(path) as file:
        assert file.all() == [TRIAL]
        assert matrix_of(("stack_bowls",), file.counted()).cells == {(1, 2): (62.5,)}
        assert file.add(replace(TRIAL, seed=6)) == 3
        assert file.file.execute("SELECT count(*) FROM trials").fetchone()[0] == 3, "nothing is deleted"
    said = capsys.readouterr().err
    assert said.count(f"{path}: row 2 is set aside") == 1, "once, however often it is read"


def test_rows_count_up_whatever_number_another_program_gave_to_one(trials):
    extend(trials, TRIAL)
    columns = [row["name"] for row in trials.file.execute("PRAGMA table_info(trials)")]
    copied = {"id": str(2**63 - 1), "seed": "9"}
    values = ", ".join(copied.get(name, f'"{name}"') for name in columns)
    trials.file.execute(f"INSERT INTO trials SELECT {values} FROM trials WHERE id = 1")
    assert [trials.add(replace(TRIAL, seed=seed)) for seed in (5, 6)] == [2, 3]
    copied = {"id": str(LAST_ROW - 1), "seed": "10"}
    values = ", ".join(copied.get(name, f'"{name}"') for name in columns)
    trials.file.execute(f"INSERT INTO trials SELECT {values} FROM trials WHERE id = 1")
    with pytest.raises(HoldfastError, match=f"row {LAST_ROW - 1} of trials leaves no numbers for others"):
        trials.add(replace(TRIAL, seed=7))


@pytest.mark.parametrize("statement", ["UPDATE trials SET score = 100", "DELETE FROM trials"])
def test_no_program_can_change_what_is_written(trials, tmp_path, statement):
    trials.add(TRIAL)
    with pytest.raises(sqlite3.IntegrityError, match="never"):
        sqlite3.connect(tmp_path / "trials.sqlite").execute(statement)
    assert trials.all() == [TRIAL]


def test_a_correction_takes_the_place_of_what_it_corrects(trials):
    first = trials.add(TRIAL)
    second = trials.add(replace(TRIAL, score=50.0, operator="Ada"), supersedes=first)
    assert [t.score for t in trials.all()] == [50.0]
    assert list(trials.numbered()) == [second]
    with pytest.raises(HoldfastError, match="corrected already"):
        trials.add(replace(TRIAL, score=75.0), supersedes=first)
    trials.add(replace(TRIAL, score=75.0), supersedes=second)
    assert [t.score for t in trials.all()] == [75.0]
    with pytest.raises(HoldfastError, match="FOREIGN KEY"):
        trials.add(TRIAL, supersedes=99)


def test_an_evaluation_does_not_bring_back_what_was_corrected(trials):
    first = trials.add(TRIAL)
    trials.add(replace(TRIAL, score=50.0), supersedes=first)
    assert trials.add(TRIAL) == first
    assert [t.score for t in trials.all()] == [50.0]


def test_a_matrix_counts_the_valid_trials_of_one_source_by_task_and_stage(trials):
    for trial in (
        TRIAL,
        replace(TRIAL, seed=5, score=100.0),
        replace(TRIAL, seed=6, score=0.0, valid=False),
        replace(TRIAL, task="hang_cup", score=25.0),
        replace(BY_HAND, weights="", score=75.0),
    ):
        trials.add(trial)
    judged = by_source(trials.counted())
    assert list(judged) == ["twin", "operator"]
    names = ("hang_cup", "stack_bowls")
    assert matrix_of(names, judged["twin"]).cells == {(1, 2): (25.0,), (2, 2): (62.5, 100.0)}
    assert matrix_of(names, judged["operator"]).cells == {(2, 2): (75.0,)}
    with pytest.raises(HoldfastError, match="'stack_bowls'"):
        matrix_of(("hang_cup",), judged["twin"])


def test_matrix_leaves_out_weights_that_were_replaced(trials):
    trials.add(TRIAL)
    trials.add(replace(TRIAL, weights="trained again", score=87.5))
    assert matrix_of(("stack_bowls",), trials.counted()).cells == {(1, 2): (87.5,)}
    # An old video is scored, an old trial is corrected, a new one turns out invalid: the weights stay replaced.
    trials.add(replace(BY_HAND, score=12.5))
    trials.add(replace(TRIAL, score=50.0), supersedes=1)
    trials.add(replace(TRIAL, weights="not valid", valid=False))
    assert matrix_of(("stack_bowls",), trials.counted()).cells == {(1, 2): (87.5,)}


def test_a_valid_trial_needs_a_score(trials):
    with pytest.raises(HoldfastError, match="no score"):
        trials.add(replace(TRIAL, score=None))


def test_what_cannot_be_opened_is_explained(tmp_path):
    with pytest.raises(HoldfastError, match=r"none/trials.sqlite cannot be used"):
        Trials(tmp_path / "none" / "trials.sqlite")
    (tmp_path / "text").write_text("no database, but long enough to be taken for one " * 99)
    with pytest.raises(HoldfastError, match="not a database"):
        Trials(tmp_path / "text")
    Trials(tmp_path / "newer").close()
    sqlite3.connect(tmp_path / "newer").execute("PRAGMA user_version = 9")
    with pytest.raises(HoldfastError, match="newer Holdfast"):
        Trials(tmp_path / "newer")


def test_killed_in_the_middle_of_writes_nothing_is_lost_or_doubled(tmp_path):
    path, rng = tmp_path / "trials.sqlite", random.Random(0)
    reported: dict[str, list[int]] = {"a": [], "b": []}
    for _ in range(4):  # started again after every kill, both at once, also on the empty folder
        writers = {
            name: subprocess.Popen([sys.executable, "-c", WRITER, str(path), name], stdout=subprocess.PIPE, text=True)
            for name in reported
        }
        for writer in writers.values():
            assert writer.stdout.readline(), "a writer could not begin"
        for _ in range(rng.randint(4, 20)):  # both write for a while, however fast they are
            for name, writer in writers.items():
                reported[name].append(int(writer.stdout.readline()))
        for writer in writers.values():
            writer.kill()
        for name, writer in writers.items():
            reported[name] += [0, *(int(line) for line in writer.stdout.read().split())]
            writer.wait()
    with Trials(path) as trials:
        found = trials.all()
    for name, seeds in reported.items():
        own = [trial.seed for trial in found if trial.source == name]
        assert len(set(own)) == len(own)
        assert own == list(range(len(own)))
        assert max(seeds) > 10
        assert set(seeds) <= set(own)
        assert len(own) <= max(seeds) + 2, "at most one was written and not yet reported"
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)


PROTOCOLS = [
    (TrialProtocol(8), "horizon 8"),
    (TrialProtocol(8, ahead=4, limits=True), "rolled out, horizon 8, asked 4 ahead"),
    (TrialProtocol(16, limits=True), "rolled out, horizon 16, asked 0 ahead"),
    (TrialProtocol(16, ahead=2), "horizon 16, asked 2 ahead"),
]


@pytest.mark.parametrize(("protocol", "text"), [*PROTOCOLS, (None, "")])
@pytest.mark.parametrize("notes", ["", "horizon 3", "horizon 3; a cable\ncame loose"])
def test_a_protocol_has_a_column_of_its_own_whatever_the_notes_say(trials, tmp_path, protocol, text, notes):
    trials.add(replace(TRIAL, protocol=protocol, notes=notes))
    stored = sqlite3.connect(tmp_path / "trials.sqlite").execute("SELECT protocol, notes, policy FROM trials")
    assert stored.fetchone() == (text, notes, "abc")
    assert trials.all() == [replace(TRIAL, protocol=protocol, notes=notes)]


# As the first version wrote it.
FIRST_FORM = """
CREATE TABLE trials (
    id INTEGER PRIMARY KEY,
    run TEXT NOT NULL, task TEXT NOT NULL, stage INTEGER NOT NULL,
    source TEXT NOT NULL, seed INTEGER, level TEXT NOT NULL, operator TEXT NOT NULL,
    milestones TEXT NOT NULL, times TEXT NOT NULL, penalties TEXT NOT NULL, final INTEGER NOT NULL,
    seconds REAL NOT NULL, score REAL, video TEXT NOT NULL, policy TEXT NOT NULL, normalization TEXT NOT NULL,
    notes TEXT NOT NULL, valid INTEGER NOT NULL, "when" REAL NOT NULL,
    supersedes INTEGER UNIQUE REFERENCES trials (id)
);
-- An evaluation that is started again cannot count a layout twice. Operators have no seed and repeat at will.
CREATE UNIQUE INDEX once ON trials (task, stage, seed, source, policy) WHERE seed IS NOT NULL AND supersedes IS NULL;
CREATE TRIGGER no_update BEFORE UPDATE ON trials BEGIN SELECT RAISE(ABORT, 'trials are never changed'); END;
CREATE TRIGGER no_delete BEFORE DELETE ON trials BEGIN SELECT RAISE(ABORT, 'trials are never deleted'); END;
"""


@pytest.fixture
def first_form(tmp_path):
    """A file with trials of these notes, before which the protocol stood in words."""

    def make(*notes):
        with sqlite3.connect(tmp_path / "old.sqlite") as file:
            file.executescript(f"{FIRST_FORM}; PRAGMA user_version = 1")
            for seed, text in enumerate(notes, 4):
                file.execute(
                    "INSERT INTO trials (run, task, stage, source, seed, level, operator, milestones, times, "
                    'penalties, final, seconds, score, video, policy, normalization, notes, valid, "when") VALUES '
                    "('er', 'stack_bowls', 2, 'twin', ?, 'wide', '', '[]', '{}', '{}', 1, 1.0, 25.0, '', 'abc', "
                    "'def', ?, 1, 1.5e9)",
                    (seed, text),
                )
        return tmp_path / "old.sqlite"

    return make


@pytest.mark.parametrize(("protocol", "text"), PROTOCOLS)
@pytest.mark.parametrize("notes", ["", "a cable; came loose\nhorizon 3"])
def test_a_file_of_the_first_form_gets_the_column_and_keeps_its_rows(first_form, protocol, text, notes):
    path = first_form(f"{text}; {notes}" if notes else text)
    with sqlite3.connect(path) as file:
        before = file.execute("SELECT * FROM trials").fetchall()
    for _ in range(2):  # opened again it stays as it is
        with Trials(path) as again:
            (found,) = again.all()
            assert (found.weights, found.protocol, found.notes) == ("abc", protocol, notes)
            assert again.add(TRIAL) == 1, "the same layout with the same weights is there already"
    with sqlite3.connect(path) as file:
        assert file.execute("SELECT * FROM trials").fetchall() == [(*row, None) for row in before]
        assert file.execute("PRAGMA user_version").fetchone() == (2,)
        with pytest.raises(sqlite3.IntegrityError, match="never changed"):
            file.execute("UPDATE trials SET protocol = 'horizon 1'")


@pytest.mark.parametrize(
    "notes",
    [
        "", "horizons 8", "asked 4 ahead", "a horizon 8", "horizon eight", "horizon 8 or so", "horizon 8; ",
        "rolled out, horizon 007; x", "horizon 08", "horizon 8, asked 0 ahead", "rolled out, horizon 8",
        "horizon 1" + "0" * 5000,
    ],
)  # fmt: skip
def test_notes_of_people_in_the_first_form_are_no_protocol(first_form, notes):
    with Trials(first_form(notes)) as trials:
        (found,) = trials.all()
        assert (found.protocol, found.notes) == (None, notes)


def test_a_program_of_the_first_form_that_still_writes_is_understood(first_form):
    """It has opened the file before a newer one did."""
    path = first_form("horizon 8")
    with sqlite3.connect(path) as old, Trials(path) as trials:
        columns = ", ".join(f'"{row[1]}"' for row in old.execute("PRAGMA table_info(trials)") if row[1] != "protocol")
        values = columns.replace('"id"', "2").replace('"seed"', "9").replace('"notes"', "'horizon 16; slow'")
        old.execute(f"INSERT INTO trials ({columns}) SELECT {values} FROM trials")
        old.commit()
        assert [(t.seed, t.protocol, t.notes) for t in trials.all()] == [
            (4, TrialProtocol(8), ""), (9, TrialProtocol(16), "slow")
        ]  # fmt: skip


def test_trials_without_a_source_are_of_an_unknown_one():
    assert list(by_source([replace(TRIAL, source=""), TRIAL])) == ["twin", "unknown"]


def test_where_there_can_be_only_one_source_the_choice_is_explicit():
    assert choose_source((), None, "runs/er") == ""
    assert choose_source(("twin",), None, "runs/er") == "twin"
    assert choose_source(("twin", "operator"), "operator", "runs/er") == "operator"
    assert choose_source(("twin", "operator"), None, "runs/er", own="twin") == "twin"
    with pytest.raises(HoldfastError, match=r"runs/er has trials of 2 sources.*: twin, operator\. .*--source=twin"):
        choose_source(("twin", "operator"), None, "runs/er", own="other")
    with pytest.raises(HoldfastError, match=r"'operater' of the trials in runs/er\. Did you mean 'operator'\?"):
        choose_source(("twin", "operator"), "operater", "runs/er")
