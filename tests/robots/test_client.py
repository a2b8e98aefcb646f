"""Questions over a real socket: a server that is killed, mute, wrong or not there yet."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fakes import HOME, ONE, PAIR, FakeRobot

from holdfast.core.errors import HoldfastError
from holdfast.core.observation import Question
from holdfast.robots.async_client import AsyncClient
from holdfast.robots.client import About, PolicyClient, UnansweredError, _fitted
from holdfast.robots.keys import NoKeys
from holdfast.robots.limits import Limits, Workspace
from holdfast.robots.loop import Conduct, ControlLoop

LIMITS = Limits(PAIR, Workspace())
LONG = 60.0  # seconds that no answer takes, however busy the machine is
QUESTION = Question(ONE, HOME, {"head": np.zeros((8, 8, 3), np.uint8)})


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def port():
    return free_port()


class Process:
    """The fake server, to be killed and started again on its port."""

    def __init__(self, port, how="well"):
        script = Path(__file__).with_name("fake_server.py")
        self._process = subprocess.Popen([sys.executable, script, str(port), how], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout.readline() == "ready\n"

    def kill(self):
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._process.stdout.close()


@pytest.fixture
def start(port):
    """`start(how)`: a running server; all are killed in the end."""
    running = []

    def begin(how="well"):
        running.append(Process(port, how))
        return running[-1]

    yield begin
    for process in running:
        process.kill()


def attempt(robot, client, on_step=None):
    """An attempt that waits for every answer, so that nothing depends on how busy the machine is."""

    def see(seen, command):
        if on_step:
            on_step(robot.told)

    conduct = Conduct(ONE, horizon=8, ahead=4, seconds=60.0, realtime=False)
    return ControlLoop(robot, client, LIMITS, conduct, NoKeys(), see).run()


def test_a_server_killed_in_the_middle_stops_the_arms_and_the_next_attempt_reconnects(start, port):
    process, robot = start(), FakeRobot()

    def kill(step):
        if step == 20:
            process.kill()

    client = AsyncClient(PolicyClient(f"ws://127.0.0.1:{port}"), LONG)
    assert client.connect().weights == "abc"
    outcome = attempt(robot, client, kill)
    assert outcome.ended == "unanswered"
    assert outcome.why == f"The policy server at ws://127.0.0.1:{port} is gone: the connection broke."
    assert outcome.stopped_after == 0, "long before the deadline"
    assert robot.stops
    assert robot.told <= 20 + 8, "by the first question after the kill"

    start()
    client.connect()
    robot = FakeRobot(steps=30)
    assert attempt(robot, client).ended == "over"
    client.close()


def test_a_mute_servers_connection_is_dropped_at_the_deadline_and_a_new_one_answers(start, port):
    start("mute 3")
    server = PolicyClient(f"ws://127.0.0.1:{port}")
    server.connect()
    for _ in range(2):
        assert len(server.answer(QUESTION, LONG)) == 16
    with pytest.raises(UnansweredError, match="timed out"):
        server.answer(QUESTION, 0.1)
    with pytest.raises(UnansweredError, match="not connected"):
        server.answer(QUESTION, LONG)
    client = AsyncClient(server, LONG)
    client.connect()  # the answer that is still owed belongs to nobody
    assert attempt(FakeRobot(steps=20), client).ended == "over"
    client.close()


def test_connecting_waits_for_a_server_that_comes_later(start, port):
    client = AsyncClient(PolicyClient(f"ws://127.0.0.1:{port}"), LONG)
    with pytest.raises(UnansweredError, match=r"No policy server answers at ws://127.0.0.1"):
        client.connect(patience=0.3)
    start()
    assert client.connect().answer_steps == 16
    client.close()


def test_a_server_that_was_started_again_between_attempts_is_found_before_the_next(start, port):
    process = start()
    server = PolicyClient(f"ws://127.0.0.1:{port}")
    client = AsyncClient(server, LONG)
    client.connect()
    process.kill()
    server._socket.recv_events_thread.join(LONG)  # it ends when the connection is seen to be closed
    start()
    client.connect()
    assert attempt(FakeRobot(steps=5), client).ended == "over"
    client.close()


def test_answers_are_those_of_the_question(start, port):
    start()
    server = PolicyClient(f"ws://127.0.0.1:{port}")
    about = server.connect()
    assert (about.names, about.cameras) == (PAIR.names, {"head": (8, 8)})
    for shift in (0.0, 0.3):
        state = HOME + shift
        actions = server.answer(Question(ONE, state, QUESTION.images), LONG)
        np.testing.assert_allclose(actions[3, 1:], state[1:], atol=1e-6)
    server.close()


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("Unknown prompt 'reach'.", "it says: Unknown prompt 'reach'"),
        ({"actions": np.zeros((4, 3))}, "no actions of 14 dimensions"),
        ({"actions": [1, 2]}, "no actions of 14 dimensions"),
        ({}, "no actions of 14 dimensions"),
        (b"\xc1", "no msgpack"),
        ([1], "its message is no map"),
    ],
    ids=["error", "shape", "list", "empty", "garbage", "no map"],
)
def test_a_reply_that_is_no_answer_is_an_error_in_words(reply, said):
    from threading import Thread

    from websockets.sync.server import serve

    from holdfast.core.wire import pack

    def converse(connection):
        connection.send(pack({"names": list(PAIR.names), "cameras": {"head": [8, 8]}, "horizon": 4}))
        connection.recv()
        connection.send(reply if isinstance(reply, str | bytes) else pack(reply))

    with serve(converse, "127.0.0.1", 0, compression=None) as listener:
        Thread(target=listener.serve_forever, daemon=True).start()
        server = PolicyClient(f"ws://127.0.0.1:{listener.socket.getsockname()[1]}")
        with pytest.raises(UnansweredError, match="it is not connected"):
            server.answer(QUESTION, LONG)
        server.connect()
        with pytest.raises(UnansweredError, match=said):
            server.answer(QUESTION, LONG)
        listener.shutdown()


def test_a_stranger_that_greets_with_nonsense_is_not_taken_for_a_server():
    from threading import Thread

    from websockets.sync.server import serve

    from holdfast.core.wire import pack

    with serve(lambda connection: connection.send(pack({"hello": 1})), "127.0.0.1", 0, compression=None) as listener:
        Thread(target=listener.serve_forever, daemon=True).start()
        with pytest.raises(UnansweredError, match="does not say what it serves"):
            PolicyClient(f"ws://127.0.0.1:{listener.socket.getsockname()[1]}").connect()
        listener.shutdown()


def test_a_server_has_the_name_of_a_websocket():
    with pytest.raises(HoldfastError, match=r"named like ws://127.0.0.1:8000, got 'http://here'"):
        PolicyClient("http://here")


def test_images_are_made_as_small_as_the_policy_wants_them_and_never_another_shape():
    about = About(PAIR.names, {"head": (8, 12)}, 16)
    image = np.zeros((80, 120, 3), np.uint8)
    image[:, 60:] = 200
    fitted = _fitted({"head": image, "front": image}, about)
    assert list(fitted) == ["head"]
    assert fitted["head"].shape == (8, 12, 3)
    assert fitted["head"][:, 8:].min() == 200
    with pytest.raises(UnansweredError, match="80x80 and the policy wants 8x12"):
        _fitted({"head": image[:, :80]}, about)
    with pytest.raises(UnansweredError, match="looks through camera 'head', and the robot has front"):
        _fitted({"front": image}, about)
