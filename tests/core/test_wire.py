"""Messages: the same bytes as openpi-client's, and nothing strange is let in."""

import tracemalloc

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from holdfast.core.wire import WireError, pack, unpack

DTYPES = ["?", "u1", "i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8", "<f2", "<f4", "<f8"]
plain = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(max_size=40)
numbers = st.sampled_from(DTYPES).flatmap(lambda d: arrays(d, array_shapes(min_dims=0, max_dims=4, min_side=0)))
messages = st.recursive(
    plain | numbers,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=12,
)


def same(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    return type(one) is type(other) and one == other


@given(st.dictionaries(st.text(max_size=9), messages, max_size=4))
def test_what_is_packed_is_read_back_and_is_openpis_format(message):
    msgpack_numpy = pytest.importorskip("openpi_client.msgpack_numpy")
    data = pack(message)
    assert data == msgpack_numpy.packb(message)
    assert same(unpack(data), message)
    assert same(msgpack_numpy.unpackb(data), message)


def test_scalars_of_numpy_keep_their_type():
    for dtype in DTYPES[:-1]:  # a float64 is a float
        value = np.ones(1, dtype)[0]
        found = unpack(pack({"x": value}))["x"]
        assert type(found) is type(value)
        assert found == value


@pytest.mark.parametrize(
    "value", [np.array([object()]), np.array([1j]), np.array(["a"]), np.zeros(1, ">f4"), {1, 2}, object(), 2**70]
)
def test_what_has_no_form_is_not_sent(value):
    with pytest.raises(WireError, match="cannot be packed"):
        pack({"x": value})


def marked(**changes):
    array = {b"__ndarray__": True, b"data": bytes(4), b"dtype": "<f4", b"shape": [1]}
    return {k: v for k, v in (array | {k.encode(): v for k, v in changes.items()}).items() if v is not None}


BAD = {
    "object": marked(dtype="|O", data=bytes(8)),
    "pickle in an object": marked(dtype="O", data=b"cos\nsystem\n"),
    "record": marked(dtype=[["a", "<f4"]]),
    "text array": marked(dtype="<U1"),
    "date": marked(dtype="<M8[s]", data=bytes(8)),
    "big endian": marked(dtype=">f4"),
    "huge": marked(shape=[2**40, 2**40]),
    "huge but empty": marked(shape=[0, 2**62, 2**62], data=b""),
    "negative": marked(shape=[-1]),
    "shape of floats": marked(shape=[1.0]),
    "shape of booleans": marked(shape=[True]),
    "shape as number": marked(shape=1),
    "many axes": marked(shape=[1] * 9),
    "too short": marked(data=bytes(3)),
    "too long": marked(data=bytes(5)),
    "data as text": marked(data="abcd"),
    "no data": marked(data=None),
    "no shape": marked(shape=None),
    "another key": marked(extra=1),
    "flag false": {**marked(), b"__ndarray__": False},
    "scalar too big": {b"__npgeneric__": True, b"data": 300, b"dtype": "|u1"},
    "scalar of text": {b"__npgeneric__": True, b"data": "300", b"dtype": "<i4"},
    "scalar object": {b"__npgeneric__": True, b"data": 3, b"dtype": "|O"},
    "bytes": b"abc",
    "bytes as key": {b"abc": 1},
    "timestamp": msgpack.Timestamp(1),
    "extension": msgpack.ExtType(4, b"x"),
    "long text": "x" * 5000,
    "long list": [0] * 300,
    "many entries": [[0] * 200] * 200,
    "empty lists": [[[]] * 250] * 200,
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_not_understood_is_refused(name):
    with pytest.raises(WireError):
        unpack(msgpack.packb({"x": BAD[name]}))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\x81\xa1x",
        b"\x90\x90",
        b"\x81\x01\x01",  # a number as key
        b"\xa2\xff\xff",  # not UTF-8
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\x91" * 20 + b"\x90",
        b"\x91" * 5000 + b"\x90",
        b"\xdc\x00\xff" * 5000,  # every list says it has 255 entries
    ],
)
def test_broken_bytes_are_refused(data):
    with pytest.raises(WireError):
        unpack(data)


@pytest.mark.parametrize(
    "bomb",
    [
        b"\xdc\x00\xff" * 300_000,  # lists within lists, each with room for 255
        b"\xdc\x00\xff" + b"\x90" * 900_000,  # empty lists
        (b"\xdc\x00\xff" + b"\x90" * 255) * 3000,
        b"\xde\x00\xff" + b"\xa2ab\x80" * 200_000,  # empty maps
        b"\xdd\x00\x0d\xbb\xa0" + b"\xc0" * 900_000,
        b"\xc6\xff\xff\xff\xff" + bytes(900_000),
    ],
)
def test_a_message_cannot_take_more_memory_than_a_few_times_its_size(bomb):
    tracemalloc.start()
    with pytest.raises(WireError):
        unpack(bomb)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * 2**20


def test_the_limit_counts_bytes():
    data = pack({"x": np.zeros(100, np.uint8)})
    assert unpack(data, limit=len(data))["x"].size == 100
    with pytest.raises(WireError, match="more than"):
        unpack(data, limit=len(data) - 1)


def test_arrays_are_views_that_nobody_can_write_to():
    array = unpack(pack(np.zeros(3)))
    with pytest.raises(ValueError):
        array[0] = 1
