"""Text from outside becomes plain values, or one line that names the file and the place."""

import gzip
import os
import tracemalloc

import pytest

from holdfast.core import outside
from holdfast.core.checked_folder import file_hash
from holdfast.core.errors import HoldfastError

JSON = {
    "not closed": ('{"a": [1', r"not valid JSON: .* at line 1, column \d+"),
    "empty": ("", "not valid JSON"),
    "deep": ("[" * 200_000, "nested too deeply"),
    "deep and closed": ("[" * 65 + "]" * 65, "nested too deeply"),
    "long number": ('{"a": [1, 1%s]}' % ("0" * 400), r"a\[1\] is a whole number beyond 64 bits"),
    "endless number": ("9" * 5000, "several thousand digits"),
    "NaN": ('{"a": {"b": NaN}}', r"a\.b is nan, not a finite number"),
    "infinity": ("[-Infinity]", r"\[0\] is -inf"),
    "overflow": ("[1e999]", r"\[0\] is inf"),
    "half a pair": (r'{"note": "x \ud83d"}', "note is not well-formed Unicode"),
    "half a pair in a key": (r'[{"\ud83d": 1}]', "key that is not well-formed"),
    "NUL": (r'["\u0000"]', "holds a NUL"),
}
TOML = {
    "not closed": ('name = "kitchen', "not valid TOML.*line 1"),
    "deep list": ("a = " + "[" * 5000 + "]" * 5000, "line 1 is nested too deeply"),
    "deep table": ("\na = " + "{a = " * 65 + "1" + "}" * 65, "line 2 is nested too deeply"),
    "long key": (".".join("a" * 20_000) + " = 1", "line 1 is nested too deeply"),
    "long table": ("[" + ' . "b"'.join("a" * 20_000) + "]", "line 1 is nested too deeply"),
    "long key after a string": ("x = ['''a'''', 'x', {" + ".".join("a" * 20_000) + " = 1}, 'y']", "nested too deeply"),
    "open strings": ("a = " + '"""' + '\\"""' * 100_000, "not valid TOML"),
    "long number": ("a = 1" + "0" * 30, "a is a whole number beyond 64 bits"),
    "endless number": ("a = " + "9" * 5000, "several thousand digits"),
    "date": ("a = 2020-02-02", "a is a date"),
    "large": ("#" * (2**20 + 1), "larger than 1 MiB"),
}
YAML = {
    "not closed": ("a: [1", "not valid YAML"),
    "deep": ("[" * 5000, "nested too deeply"),
    "aliases": ("a: &a [1]\nb: [*a, *a]", "line 2 has an alias or a tag"),
    "itself": ("&a [*a]", "alias"),
    "code": ("a: !!python/object/apply:os.system [ls]", "alias or a tag"),
    "tag": ("a: !!int ''", "alias or a tag"),
    "bad date": ("a: 2020-13-01", "not valid YAML"),
    "date": ("a: 2020-01-01", "a is a date"),
    "number as key": ("1: x", r"\[1\] is a key"),
    "nothing as key": ("a: {null: x}", r"a.None is a key"),
    "two documents": ("a: 1\n---\nb: 1", "not valid YAML"),
}


def refused(call, says):
    with pytest.raises(HoldfastError, match=rf"cannot be read: .*{says}") as caught:
        call()
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(("text", "says"), JSON.values(), ids=JSON)
def test_bad_json_is_refused_with_its_place(text, says, tmp_path):
    refused(lambda: outside.parse_json(text, "the message"), says)
    (tmp_path / "a.json").write_text(text)
    refused(lambda: outside.read_json(tmp_path / "a.json"), says)


@pytest.mark.parametrize(("text", "says"), TOML.values(), ids=TOML)
def test_bad_toml_is_refused_with_its_place(text, says, tmp_path):
    (tmp_path / "a.toml").write_text(text)
    refused(lambda: outside.read_toml(tmp_path / "a.toml"), says)


@pytest.mark.parametrize(("text", "says"), YAML.values(), ids=YAML)
def test_bad_yaml_is_refused_with_its_place(text, says, tmp_path):
    (tmp_path / "a.yaml").write_text(text)
    refused(lambda: outside.read_yaml(tmp_path / "a.yaml"), says)


def test_a_csv_field_that_does_not_end_is_refused():
    refused(lambda: outside.parse_csv("a,b\n1," + "x" * 140_000, "scores.csv"), "field limit .* at line 2")


@pytest.mark.parametrize(("content", "says"), [(b"\xff", "UTF-8"), (b"a\0", "character 1 is a NUL")])
def test_bytes_that_are_no_text_are_refused(content, says, tmp_path):
    (tmp_path / "a").write_bytes(content)
    refused(lambda: outside.read_text(tmp_path / "a"), says)


def test_a_file_that_cannot_be_opened_is_named(tmp_path):
    for name, says in ((".", "is a folder"), ("none", "No such file"), ("x" * 300, "name too long"), ("a\0", "null")):
        refused(lambda file=tmp_path / name: outside.read_text(file), says)


@pytest.mark.timeout(20)
def test_a_pipe_is_refused_and_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for name in ("pipe", "link"):
        refused(lambda file=tmp_path / name: outside.read_text(file), "not a regular file")
        with pytest.raises(HoldfastError, match="not a regular file"):
            file_hash(tmp_path / name)


def test_a_link_to_a_file_is_read(tmp_path):
    (tmp_path / "a").write_text("abc")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert outside.read_text(tmp_path / "link") == "abc"


def test_a_file_is_read_up_to_its_limit(tmp_path):
    (tmp_path / "a").write_text("abcd")
    assert outside.read_text(tmp_path / "a", 4) == "abcd"
    refused(lambda: outside.read_text(tmp_path / "a", 3), "larger than")


def test_everything_allowed_comes_through(tmp_path):
    text = '\ufeff{"a": [1, -2.5, true, null, "Ω😀", {}], "big": 18446744073709551615}'
    (tmp_path / "a.json").write_text(text)
    assert outside.read_json(tmp_path / "a.json") == {"a": [1, -2.5, True, None, "Ω😀", {}], "big": 2**64 - 1}
    assert outside.parse_json(r'"\ud83d\ude00"', "x") == "😀"
    assert outside.parse_json("[NaN]", "x", finite=False)[0] != 0
    assert outside.parse_json("[" * 64 + "]" * 64, "x")

    (tmp_path / "a.toml").write_text("a.b = [1.5, 2.5] # [[[\nc = '''x''''\nd = \"[[\\\"[[\"\n[[e]]\nf = {g = 1}")
    assert outside.read_toml(tmp_path / "a.toml") == {
        "a": {"b": [1.5, 2.5]},
        "c": "x'",
        "d": '[["[[',
        "e": [{"f": {"g": 1}}],
    }
    (tmp_path / "a.yaml").write_text("a: [1, x]\nb: {c: null}\n")
    assert outside.read_yaml(tmp_path / "a.yaml") == {"a": [1, "x"], "b": {"c": None}}
    (tmp_path / "b.yaml").write_text("a: .inf")
    (tmp_path / "b.toml").write_text("a = inf")
    assert outside.read_yaml(tmp_path / "b.yaml") == outside.read_toml(tmp_path / "b.toml") == {"a": float("inf")}
    assert outside.parse_csv('a,"b\nc"\r\n1,2', "x") == [["a", "b\nc"], ["1", "2"]]


def test_a_gzip_file_is_never_unpacked_beyond_its_limit(tmp_path):
    file = tmp_path / "bomb.gz"
    file.write_bytes(gzip.compress(b" " * 150_000_000))
    tracemalloc.start()
    with pytest.raises(HoldfastError, match="larger than 1 MiB"):
        outside.read_gzip_text(file, 2**20)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50_000_000
    file.write_bytes(gzip.compress("wörter".encode()))
    assert outside.read_gzip_text(file, 2**20) == "wörter"
