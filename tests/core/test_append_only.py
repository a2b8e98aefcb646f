"""Append-only files: a damaged one is never taken for new, and a row that cannot be used stops nothing."""

import sqlite3
from contextlib import closing

import pytest

from holdfast.core.append_only import AppendOnlyFile
from holdfast.core.errors import HoldfastError

FIRST = (
    "CREATE TABLE notes (id INTEGER PRIMARY KEY, note TEXT NOT NULL)",
    "CREATE TRIGGER no_delete BEFORE DELETE ON notes BEGIN SELECT RAISE(ABORT, 'notes are never deleted'); END",
)
SECOND = ("ALTER TABLE notes ADD COLUMN author TEXT", "CREATE TABLE places (name TEXT)")


class Notes(AppendOnlyFile):
    def __init__(self, path, *later):
        super().__init__(path, FIRST, *later)

    def add(self, *notes):
        with self.explained(), self.writing():
            self.file.executemany("INSERT INTO notes (note) VALUES (?)", [(note,) for note in notes])

    def all(self):
        with self.explained():
            return [row["note"] for row in self.file.execute("SELECT note FROM notes ORDER BY id")]


def write(path, count):
    with Notes(path) as notes:
        notes.add(*(f"{number:04d} " + "x" * 500 for number in range(count)))
        return notes.all()


def test_a_new_file_leaves_nothing_else_behind(tmp_path):
    write(tmp_path / "notes.sqlite", 3)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.sqlite"]


def test_a_kill_during_creation_is_no_damage(tmp_path):
    (tmp_path / ".notes.sqlite.writing").write_bytes(b"half")
    (tmp_path / ".notes.sqlite.lock").touch()
    assert len(write(tmp_path / "notes.sqlite", 2)) == 2


@pytest.mark.parametrize("cut", [0, 1, 60, 100, 4095, 4096, 5000, 8192, 12288])
def test_a_file_that_was_cut_is_not_new(tmp_path, cut):
    path = tmp_path / "notes.sqlite"
    write(path, 40)
    content = path.read_bytes()[:cut]
    path.write_bytes(content)
    with (
        pytest.raises(HoldfastError, match=r"notes.sqlite is damaged: .*Restore it"),
        Notes(path) as notes,
    ):
        notes.all()
    assert path.read_bytes() == content


def test_the_log_of_a_lost_file_is_kept(tmp_path):
    path = tmp_path / "notes.sqlite"
    with Notes(path) as notes:
        notes.add("only in the log")
        log = (tmp_path / "notes.sqlite-wal").read_bytes()
        content = path.read_bytes()
    for left in (None, b""):
        path.unlink(missing_ok=True)
        if left is not None:
            path.write_bytes(left)
        (tmp_path / "notes.sqlite-wal").write_bytes(log)
        with pytest.raises(HoldfastError, match=r"damaged: it (is missing|has only 0 bytes)"):
            Notes(path)
        assert (tmp_path / "notes.sqlite-wal").read_bytes() == log
    path.write_bytes(content)
    with Notes(path) as notes:
        assert notes.all() == ["only in the log"]


def test_a_database_without_tables_is_not_filled(tmp_path):
    sqlite3.connect(tmp_path / "notes.sqlite").execute("PRAGMA journal_mode = WAL")
    with pytest.raises(HoldfastError, match="no tables"):
        Notes(tmp_path / "notes.sqlite")


HOSTILE = {
    "trigger": "CREATE TRIGGER z AFTER INSERT ON notes BEGIN SELECT 1; END",
    "changed trigger": "DROP TRIGGER no_delete; CREATE TRIGGER no_delete AFTER INSERT ON notes BEGIN SELECT 1; END",
    "missing table": "DROP TABLE notes",
    "view": "DROP TABLE notes; CREATE VIEW notes AS "
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS id, x AS note FROM c",
    "table": "CREATE TABLE other (id)",
}


@pytest.mark.parametrize("change", HOSTILE)
def test_a_file_with_another_schema_is_refused(tmp_path, change):
    write(tmp_path / "notes.sqlite", 1)
    with closing(sqlite3.connect(tmp_path / "notes.sqlite")) as file:
        file.executescript(HOSTILE[change])
    with pytest.raises(HoldfastError, match=r"damaged: its (trigger|view|table) '\w+' (was added|is missing)"):
        Notes(tmp_path / "notes.sqlite")


def test_text_that_is_not_utf8_can_be_read(tmp_path):
    write(tmp_path / "notes.sqlite", 1)
    with sqlite3.connect(tmp_path / "notes.sqlite") as file:
        file.execute("INSERT INTO notes (note) VALUES (CAST(x'61ff62' AS TEXT))")
    with Notes(tmp_path / "notes.sqlite") as notes:
        assert notes.all()[1] == "a\udcffb"


def test_a_row_is_set_aside_once(tmp_path, capsys):
    with Notes(tmp_path / "notes.sqlite") as notes:
        for _ in range(2):
            notes.set_aside(7, "It is no note \ud800.")
        notes.set_aside(8, "Nor this.")
    said = capsys.readouterr().err.splitlines()
    assert [line.split(": ", 2)[2] for line in said] == [
        "row 7 is set aside and stays in the file. It is no note \\ud800.",
        "row 8 is set aside and stays in the file. Nor this.",
    ]


def test_a_file_that_another_process_holds_is_said_to_be_busy(tmp_path, monkeypatch):
    monkeypatch.setattr("holdfast.core.append_only._PATIENCE", 0)
    with Notes(tmp_path / "notes.sqlite") as notes, closing(sqlite3.connect(tmp_path / "notes.sqlite")) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(HoldfastError, match=r"notes.sqlite is locked: another process has been writing to it"):
            notes.add("one")
        other.rollback()
        notes.add("two")
        assert notes.all() == ["two"]


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_deleted_while_it_is_open_takes_no_rows(tmp_path, replaced):
    """They would be acknowledged, and gone at the end."""
    path = tmp_path / "notes.sqlite"
    with Notes(path) as notes:
        notes.add("one")
        path.rename(tmp_path / "away.sqlite")
        if replaced:
            path.write_bytes((tmp_path / "away.sqlite").read_bytes())
        with pytest.raises(HoldfastError, match=r"notes.sqlite was deleted or replaced"):
            notes.add("two")
        (tmp_path / "away.sqlite").rename(path)
        notes.add("three")
        assert notes.all() == ["one", "three"]


def test_a_file_of_an_earlier_form_is_brought_to_the_latest(tmp_path):
    old = write(tmp_path / "old.sqlite", 3)
    Notes(tmp_path / "new.sqlite", SECOND).close()
    for _ in range(2):
        with Notes(tmp_path / "old.sqlite", SECOND) as notes:
            assert notes.all() == old
            assert notes.file.execute("SELECT author FROM notes").fetchall()[0]["author"] is None
    tables = []
    for name in ("old", "new"):
        with closing(sqlite3.connect(tmp_path / f"{name}.sqlite")) as file:
            tables.append(file.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall())
    assert tables[0] == tables[1]
    with pytest.raises(HoldfastError, match=r"newer Holdfast \(form 2; this one reads 1\)"):
        Notes(tmp_path / "old.sqlite")


def test_another_process_may_bring_a_file_to_its_form_first(tmp_path, monkeypatch):
    old, writing = write(tmp_path / "notes.sqlite", 1), Notes.writing

    def after_another(self):
        monkeypatch.setattr(Notes, "writing", writing)
        Notes(tmp_path / "notes.sqlite", SECOND).close()
        return writing(self)

    monkeypatch.setattr(Notes, "writing", after_another)
    with Notes(tmp_path / "notes.sqlite", SECOND) as notes:
        assert notes.all() == old


def test_a_form_that_cannot_be_made_leaves_the_file_as_it_was(tmp_path):
    old = write(tmp_path / "notes.sqlite", 1)
    with pytest.raises(HoldfastError, match="no such table: nowhere"):
        Notes(tmp_path / "notes.sqlite", (*SECOND, "INSERT INTO nowhere VALUES (1)"))
    with Notes(tmp_path / "notes.sqlite") as notes:
        assert notes.all() == old


def test_an_earlier_form_with_another_schema_is_refused_before_it_is_changed(tmp_path):
    write(tmp_path / "notes.sqlite", 1)
    with closing(sqlite3.connect(tmp_path / "notes.sqlite")) as file:
        file.executescript(HOSTILE["trigger"])
    with pytest.raises(HoldfastError, match="its trigger 'z' was added"):
        Notes(tmp_path / "notes.sqlite", SECOND)
    with closing(sqlite3.connect(tmp_path / "notes.sqlite")) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (1,)
