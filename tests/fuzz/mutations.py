"""Valid files, damaged and made odd in every way that people, disks and attackers do it."""

import json
import re

from hypothesis import strategies as st

DEEP = "[" * 100_000
# Values that break readers, as they stand in JSON, TOML, YAML or CSV.
ODD = [
    "", "0", "-1", "1e308", "1e999", "NaN", "-Infinity", "inf", "nan", "true", "null", "[]", "{}", '""', '"x"', "[1]",
    '{"a": 1}', "9223372036854775807", "9223372036854775808", "18446744073709551616", "9" * 400, "9" * 5000,
    r'"\ud800"', r'"\u0000"', '"\u2028"', '"../../etc/passwd"', '"' + "x" * 300 + '"', '"' + "x" * 140_000 + '"',
    '"~nobody/x"', '"a\\nb"', "2020-01-01", "=1+1", "*a", "&a [*a]", "!!python/name:os.system", "0.5", "1_0", "\0",
    DEEP, "[" * 63 + "]" * 63, "[" * 70 + "]" * 70, '{"a":' * 70 + "1" + "}" * 70, ".".join("a" * 5000),
]  # fmt: skip
_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|[^\s"\[\]{},:=;]+|[\[\]{},:=;\n]')
_HOLE = "a hole to fill"


class Content(bytes):
    """Bytes whose middle is left out where they are shown."""

    def __repr__(self) -> str:
        return repr(bytes(self)) if len(self) < 2000 else f"{bytes(self[:1000])!r} ... {bytes(self[-1000:])!r}"


def mutated(valid: bytes) -> st.SearchStrategy[Content]:
    """Contents that begin as `valid`, and some that have nothing to do with it."""
    return _mutated(valid).map(Content)


def _mutated(valid: bytes) -> st.SearchStrategy[bytes]:
    cut = st.integers(0, len(valid)).map(lambda end: valid[:end])
    kinds = [st.binary(max_size=200), cut, _patched(valid), _patched(valid)]
    try:
        text = valid.decode()
    except UnicodeDecodeError:
        return st.one_of(kinds)
    kinds += [st.sampled_from(ODD).map(str.encode), _tokens(text), _tokens(text), _lines(text)]
    objects = _objects(text)
    if objects:
        kinds += [_values(objects)] * 3
    return st.one_of(kinds)


@st.composite
def _patched(draw: st.DrawFn, valid: bytes) -> bytes:
    """Up to three places where some bytes are gone and others are there."""
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(valid)))
        valid = valid[:start] + draw(st.binary(max_size=12)) + valid[start + draw(st.integers(0, 40)) :]
    return valid


@st.composite
def _tokens(draw: st.DrawFn, text: str) -> bytes:
    """One word, number, text or bracket is replaced by an odd value, doubled or gone."""
    place = draw(st.sampled_from(list(_TOKEN.finditer(text))))
    new = draw(st.sampled_from([*ODD, place[0] * 2, place[0] * 2000]))
    return (text[: place.start()] + new + text[place.end() :]).encode()


@st.composite
def _lines(draw: st.DrawFn, text: str) -> bytes:
    """Lines are missing, doubled or moved."""
    lines = text.splitlines(keepends=True)
    lines = draw(st.lists(st.sampled_from(lines), max_size=8)) if draw(st.booleans()) else lines
    cut = draw(st.integers(0, len(lines)))
    return "".join(lines[:cut] + lines[cut + 1 :]).encode()


def _objects(text: str) -> list:
    """The JSON of a text, or of each of its lines."""
    try:
        return [json.loads(text)]
    except ValueError:
        try:
            return [json.loads(line) for line in text.splitlines()]
        except ValueError:
            return []


@st.composite
def _values(draw: st.DrawFn, objects: list) -> bytes:
    """One or two values of JSON, at any depth, become odd ones or are missing."""
    objects = json.loads(json.dumps(objects))
    fillings = []
    for _ in range(draw(st.integers(1, 2))):
        owner, key = draw(st.sampled_from(list(_places(objects)) or [(objects, 0)]))
        if owner is not objects and draw(st.integers(0, 3)) == 0:
            del owner[key]
        elif owner is objects or key in owner or isinstance(owner, list):
            owner[key] = f"{_HOLE} {len(fillings)}"
            fillings.append(draw(st.sampled_from(ODD)))
    text = "\n".join(map(json.dumps, objects)) if len(objects) > 1 else json.dumps(objects[0], indent=1)
    for number, filling in enumerate(fillings):
        text = text.replace(f'"{_HOLE} {number}"', filling)
    return text.encode()


def _places(content):
    """Every value inside lists and objects, as (owner, key)."""
    for key, value in list(content.items() if isinstance(content, dict) else enumerate(content)):
        yield content, key
        if isinstance(value, dict | list):
            yield from _places(value)
