"""Whatever is sent: the server answers it in words, goes on answering, and touches no file and runs no code."""

import asyncio
import socket
import sys
from contextlib import contextmanager
from functools import cache

import msgpack
import numpy as np
import pytest
from bundles import CAMERAS, SIZE, FakePolicy, question, serving
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes
from websockets.sync.client import connect

from holdfast.core.wire import pack, unpack
from holdfast.serve.server import Server

# What Python itself reports: files opened, code compiled or run, processes, sockets, pickles and much else.
EVENTS: list[str] | None = None
HARMLESS = {"sys._getframe", "sys.set_asyncgen_hook_finalizer", "sys.set_asyncgen_hook_firstiter"}


def listen(event, _):
    if EVENTS is not None and event not in HARMLESS:
        EVENTS.append(event)


@cache
def start_listening():
    """Nobody can stop it again, and it slows down all that follows: only the process of these tests does it."""
    sys.addaudithook(listen)


@contextmanager
def noted():
    """What happens in between, as a list of events."""
    global EVENTS
    start_listening()
    EVENTS = found = []
    try:
        yield found
    finally:
        EVENTS = None


def raw(value):
    """Numpy's values as openpi writes them, but of any type."""
    return {b"__ndarray__": True, b"data": value.tobytes(), b"dtype": value.dtype.str, b"shape": value.shape}


def send(content) -> bytes:
    return msgpack.packb(content, default=raw)


GOOD = question(0)
BYTES = pack(GOOD)
KEYS = [*GOOD, "task", "observation.state", *(f"observation.images.{name}" for name in CAMERAS), "actions", ""]
PICKLE = b"cos\nsystem\n(S'touch /tmp/harm'\ntR."
dtypes = st.sampled_from(["?", "u1", "<i2", ">i4", "<f4", "<f8", "<f2", "<c8", "<U3", "S4", "<M8[s]", "V3", "O"])
sizes = st.integers(-3, 3) | st.sampled_from([SIZE, 2**31, 2**62, 2**63 - 1, -(2**63)])
odd = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=8)
    | st.binary(max_size=8)
    | st.just(PICKLE)
    | st.builds(np.zeros, array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3), dtypes)
    | st.fixed_dictionaries(
        {b"__ndarray__": st.sampled_from([True, False, 1, None])},
        optional={
            b"data": st.binary(max_size=64) | st.just(PICKLE) | st.text(max_size=4),
            b"dtype": dtypes | st.sampled_from(["|O", "O8", "i4,f4", "__import__('os')", "<f4,", "float64"]) | sizes,
            b"shape": st.lists(sizes, max_size=4) | sizes | st.text(max_size=4),
        },
    )
    | st.fixed_dictionaries({b"__npgeneric__": st.just(True), b"data": sizes | st.floats(), b"dtype": dtypes}),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.binary(max_size=3), inner, max_size=3)
    ),
    max_leaves=4,
)


def flip(places) -> bytes:
    content = bytearray(BYTES)
    for place, byte in places:
        content[place] = byte
    return bytes(content)


truncated = st.integers(0, len(BYTES) - 1).map(lambda end: BYTES[:end])
flipped = st.lists(
    st.tuples(st.integers(0, 300) | st.integers(0, len(BYTES) - 1), st.integers(0, 255)), min_size=1, max_size=5
).map(flip)
replaced = st.builds(lambda key, value: send({**GOOD, key: value}), st.sampled_from(KEYS) | st.text(max_size=8), odd)
camera = st.builds(
    lambda name, value: send({**GOOD, "images": {**GOOD["images"], name: value}}), st.sampled_from(CAMERAS), odd
)
whole = odd.map(send)
wild = st.binary(max_size=200)
deep = st.builds(
    lambda lead, times, tail: lead * times + tail,
    st.sampled_from(
        [b"\x91", b"\x81\xa1x", b"\xdc\x00\xff", b"\xdd\xff\xff\xff\xff", b"\xdf\x00\x00\x00\xff", b"\x80"]
    ),
    st.integers(1, 5000),
    st.binary(max_size=4),
)
words = st.text(max_size=20)
malformed = st.one_of(truncated, flipped, replaced, camera, whole, wild, deep, words)


def understood(reply) -> bool:
    """Either words, or an answer with actions that are numbers."""
    if isinstance(reply, str):
        return 0 < len(reply) < 2000
    return bool(np.isfinite(unpack(reply)["actions"]).all())


@pytest.fixture(scope="module")
def reply(bundle, pilot):
    """The server's way from a message to its answer, without the socket."""
    loop = asyncio.new_event_loop()
    said: list[str] = []
    server = Server(bundle, pilot, None, said.append)
    batcher = loop.create_task(server._batcher.run())

    def one(message):
        return loop.run_until_complete(server._reply(message, 0))[0]

    for which in range(2):
        assert isinstance(one(pack(question(which))), bytes)  # what is imported late has been by now
    yield one
    assert not said, said
    batcher.cancel()
    loop.run_until_complete(asyncio.gather(batcher, return_exceptions=True))
    loop.close()


def test_files_and_code_are_noticed():
    with noted() as events:
        exec(compile("1", "x", "eval"))
        open("/dev/null").close()
    assert {"compile", "exec", "open"} <= set(events)


COUNT, AT_ONCE = 10_000, 20


@pytest.mark.slow
def test_ten_thousand_malformed_messages_are_answered_in_words(reply):
    good, count = reply(BYTES), 0

    @settings(max_examples=COUNT // AT_ONCE, suppress_health_check=list(HealthCheck), database=None)
    @given(st.lists(malformed, min_size=AT_ONCE, max_size=AT_ONCE))
    def attack(messages):
        nonlocal count
        for message in messages:
            with noted() as events:
                found = reply(message)
            assert understood(found), found
            assert not events, events
            count += 1

    attack()
    assert count >= COUNT
    assert np.array_equal(unpack(reply(BYTES))["actions"], unpack(good)["actions"])


def test_malformed_messages_over_a_socket_leave_the_server_answering(bundle):
    with (
        serving(bundle, FakePolicy()) as (port, _),
        connect(f"ws://127.0.0.1:{port}", compression=None, open_timeout=60) as client,
    ):
        client.recv()
        words = 0

        @settings(max_examples=500, suppress_health_check=list(HealthCheck), database=None)
        @given(malformed)
        def attack(message):
            nonlocal words
            client.send(message)
            reply = client.recv(timeout=60)
            assert understood(reply)
            words += isinstance(reply, str)

        attack()
        assert words > 250
        client.send(BYTES)
        assert unpack(client.recv(timeout=60))["seed"] == 0


REQUEST = "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
REQUEST += "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"


def test_what_knocks_at_the_door_without_the_token_stays_outside(bundle):
    token = "0123456789abcdef"
    with serving(bundle, FakePolicy(), token) as (port, _):

        @settings(max_examples=200, suppress_health_check=list(HealthCheck), database=None)
        @given(
            st.binary(max_size=40) | st.sampled_from([b"Api-Key", b"Api-Key \xff\xfe", token.encode(), b""]),
            st.booleans(),
        )
        def knock(said, plain):
            line = said if plain else REQUEST.encode() + b"Authorization: " + said + b"\r\n\r\n"
            with socket.create_connection(("127.0.0.1", port), timeout=60) as raw_socket:
                raw_socket.sendall(line)
                raw_socket.shutdown(socket.SHUT_WR)
                reply = b""
                while piece := raw_socket.recv(4096):
                    reply += piece
            assert b" 101 " not in reply.split(b"\r\n")[0]

        knock()
        headers = {"Authorization": f"Api-Key {token}"}
        with connect(f"ws://127.0.0.1:{port}", compression=None, open_timeout=60, additional_headers=headers) as client:
            client.recv()
            client.send(BYTES)
            assert unpack(client.recv(timeout=60))["seed"] == 0
