"""The server over real sockets: batches, errors that hurt nobody, tokens, health, metrics, a graceful end."""

import asyncio
import re
import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest
from bundles import TASKS, FakePolicy, question, serving
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from holdfast import __version__
from holdfast.core.errors import HoldfastError
from holdfast.core.observation import Question
from holdfast.core.wire import pack, unpack
from holdfast.serve import batching
from holdfast.serve.batching import Batcher
from holdfast.serve.server import CONNECTIONS, Server


def dial(port, **options):
    connection = connect(f"ws://127.0.0.1:{port}", compression=None, open_timeout=60, **options)
    connection.greeting = unpack(connection.recv())
    return connection


def ask(connection, content):
    connection.send(content if isinstance(content, bytes | str) else pack(content))
    reply = connection.recv()
    return reply if isinstance(reply, str) else unpack(reply)


def get(port, path, **headers):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
    with urllib.request.urlopen(request, timeout=60) as reply:
        return reply.read().decode()


def test_it_answers_and_the_task_may_change_from_question_to_question(bundle):
    with serving(bundle, FakePolicy()) as (port, _), dial(port) as client:
        assert client.greeting["bundle"] == bundle.hash
        for which in range(4):
            asked = question(which)
            answer = ask(client, asked)
            assert answer["task"] == TASKS[which % 2]
            assert answer["actions"].shape == (3, 14)
            assert np.allclose(answer["actions"][:, answer["active"]], (asked["state"] + which)[answer["active"]])
            assert np.allclose(answer["actions"][:, ~answer["active"]], asked["state"][~answer["active"]])
            assert (answer["seed"], answer["number"]) == (which, 3)


def test_a_connection_counts_its_own_questions(bundle):
    plain = {key: value for key, value in question().items() if key not in ("seed", "number")}
    with serving(bundle, FakePolicy()) as (port, _), dial(port) as one, dial(port) as two:
        assert [ask(client, plain)["number"] for client in (one, one, two, one)] == [0, 1, 0, 2]


def test_many_at_once_get_their_own_answers_in_shared_batches(bundle):
    policy = FakePolicy(delay=0.01)
    with serving(bundle, policy) as (port, _), ThreadPoolExecutor(8) as pool:
        warm = len(policy.batches)

        def talk(client):
            with dial(port) as connection:
                for number in range(20):
                    asked = question(100 * client + number, number=number)
                    answer = ask(connection, asked)
                    assert (answer["seed"], answer["number"]) == (100 * client + number, number)
                    active = answer["active"]
                    assert np.allclose(
                        answer["actions"][0, active], (asked["state"] + asked["seed"])[active], rtol=1e-6
                    )

        list(pool.map(talk, range(8)))
        batches = policy.batches[warm:]
    assert sum(batches) == 160
    assert max(batches) <= policy.rows


def answer_all(policy, count, clients):
    """The seeds of a batcher's answers to so many questions that are there at once."""

    async def run():
        batcher = Batcher(policy, lambda: clients, lambda rows: None)
        asked = [asyncio.create_task(batcher.ask(Question(None, np.zeros(2), seed=n))) for n in range(count)]
        await asyncio.sleep(0)  # all of them are in the queue
        worker = asyncio.create_task(batcher.run())
        async with asyncio.timeout(60):
            found = await asyncio.gather(*asked)
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        return [answer.actions[0, 0] for answer in found]

    return asyncio.run(run())


def test_questions_that_wait_share_batches_in_their_order():
    policy = FakePolicy()
    assert answer_all(policy, 10, clients=10) == list(range(10))
    assert policy.batches == [4, 4, 2]


def test_who_is_alone_does_not_wait_for_others(bundle, monkeypatch):
    monkeypatch.setattr(batching, "GATHER", 3600.0)
    policy = FakePolicy()
    assert answer_all(policy, 6, clients=2) == list(range(6))
    assert policy.batches == [4, 2], "all clients have asked"
    with serving(bundle, FakePolicy()) as (port, _), dial(port) as client:
        client.send(pack(question(5)))
        assert unpack(client.recv(timeout=60))["seed"] == 5


def test_a_question_waits_a_moment_for_other_clients(bundle, monkeypatch):
    monkeypatch.setattr(batching, "GATHER", 3600.0)
    policy = FakePolicy()
    with serving(bundle, policy) as (port, _), dial(port) as one, dial(port) as two:
        warm = len(policy.batches)
        one.send(pack(question(1)))
        two.send(pack(question(2)))
        assert [unpack(client.recv(timeout=60))["seed"] for client in (one, two)] == [1, 2]
        assert policy.batches[warm:] == [2]


def test_an_error_is_text_and_the_connection_goes_on(bundle):
    with serving(bundle, FakePolicy()) as (port, _), dial(port) as client:
        assert "Unknown prompt" in ask(client, question(prompt="make tea"))
        assert "no msgpack" in ask(client, b"\xc1")
        assert "got text" in ask(client, "hello")
        assert ask(client, question(2))["seed"] == 2
        found = get(port, "/metrics")
    assert 'holdfast_errors_total{kind="question"} 2.0' in found
    assert 'holdfast_errors_total{kind="message"} 1.0' in found


def test_a_policy_that_fails_is_reported_and_the_next_question_answered(bundle):
    policy = FakePolicy()
    real = policy.answer

    def fails(questions):
        policy.answer = real
        raise RuntimeError("no memory")

    with serving(bundle, policy, expected="RuntimeError: no memory") as (port, _), dial(port) as client:
        policy.answer = fails
        assert ask(client, question()) == "The policy failed with RuntimeError. The server's own output says more."
        assert ask(client, question(4))["seed"] == 4


def test_garbage_out_of_the_policy_is_not_passed_on(bundle):
    policy = FakePolicy()
    with serving(bundle, policy) as (port, _), dial(port) as client:
        policy.answer = lambda questions: [np.full((3, 14), np.nan) for _ in questions]
        assert "not finite" in ask(client, question())
        assert 'holdfast_errors_total{kind="policy"} 1.0' in get(port, "/metrics")


def test_a_message_that_is_too_long_closes_its_connection_only(bundle):
    with serving(bundle, FakePolicy()) as (port, _), dial(port) as client, dial(port) as other:
        client.send(bytes(client.greeting["limit"] + 1))
        with pytest.raises(ConnectionClosed) as closed:
            client.recv()
        assert closed.value.rcvd.code == 1009
        assert ask(other, question())["seed"] == 0


METRICS = [
    "holdfast_answer_seconds",
    "holdfast_answers_total",
    "holdfast_batch_rows",
    "holdfast_connections",
    "holdfast_errors_total",
    "holdfast_info",
    "holdfast_refused_total",
]


def test_health_and_metrics(bundle):
    policy = FakePolicy()
    with serving(bundle, policy) as (port, _), dial(port) as client:
        assert get(port, "/healthz") == "OK\n"
        for which in range(3):
            ask(client, question(which))
        lines = get(port, "/metrics").splitlines()
    sample = re.compile(r'([a-z_]+)(\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\})? (\d+(\.\d+)?(e-?\d+)?)')
    values, kinds = {}, {}
    for line in lines:
        if line.startswith("# TYPE "):
            kinds[line.split()[2]] = line.split()[3]
        elif not line.startswith("# HELP "):
            found = sample.fullmatch(line)
            assert found, line
            values[found[1] + (found[2] or "")] = float(found[4])
            assert re.sub("_(bucket|sum|count)$", "", found[1]) in kinds
    assert values['holdfast_answers_total{task="press_button"}'] == 2
    assert values['holdfast_answers_total{task="place_fruits"}'] == 1
    assert values["holdfast_connections"] == 1
    assert values["holdfast_answer_seconds_count"] == values['holdfast_answer_seconds_bucket{le="+Inf"}'] == 3
    assert values["holdfast_batch_rows_sum"] == 3
    assert values['holdfast_errors_total{kind="policy"}'] == values["holdfast_refused_total"] == 0, "from the beginning"
    assert sorted(kinds) == METRICS
    assert values[f'holdfast_info{{bundle="{bundle.hash}",version="{__version__}"}}'] == 1


TOKEN = "0123456789abcdef"


@pytest.mark.parametrize("said", [None, "Api-Key ", f"Api-Key {TOKEN[:-1]}", f"Api-Key {TOKEN}x", f"Bearer {TOKEN}"])
def test_without_the_token_nobody_gets_in(bundle, said):
    with serving(bundle, FakePolicy(), TOKEN) as (port, _):
        headers = {"Authorization": said} if said else {}
        with pytest.raises(InvalidStatus) as refused:
            dial(port, additional_headers=headers)
        assert refused.value.response.status_code == 401
        with pytest.raises(urllib.error.HTTPError, match="401"):
            get(port, "/metrics", **headers)
        assert get(port, "/healthz") == "OK\n"
        good = {"Authorization": f"Api-Key {TOKEN}"}
        with dial(port, additional_headers=good) as client:
            assert ask(client, question())["seed"] == 0
        assert "holdfast_refused_total 2.0" in get(port, "/metrics", **good)


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1", ""])
def test_web_pages_are_kept_out(bundle, origin):
    with serving(bundle, FakePolicy()) as (port, _):
        with pytest.raises(InvalidStatus) as refused:
            dial(port, additional_headers={"Origin": origin})
        assert refused.value.response.status_code == 403
        for path in ("/metrics", "/healthz"):
            with pytest.raises(urllib.error.HTTPError, match="403"):
                get(port, path, Origin=origin)


def test_a_name_that_was_made_to_point_here_is_not_served(bundle):
    with serving(bundle, FakePolicy()) as (port, _):
        for host in ("evil.example", f"evil.example:{port}"):
            with pytest.raises(urllib.error.HTTPError, match="421"):
                get(port, "/metrics", Host=host)
        assert "holdfast_refused_total 2.0" in get(port, "/metrics", Host=f"localhost:{port}")
    with serving(bundle, FakePolicy(), TOKEN) as (port, _):  # a page does not know the token, and a proxy may
        assert "holdfast" in get(port, "/metrics", Host="gpu-box", Authorization=f"Api-Key {TOKEN}")


def test_only_reading_is_served(bundle):
    with serving(bundle, FakePolicy()) as (port, _):
        request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", method="POST")
        with pytest.raises(urllib.error.HTTPError, match="405"):
            urllib.request.urlopen(request, timeout=60)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4", "robot.local", ""])
def test_other_machines_are_not_served_without_a_token(bundle, host):
    with pytest.raises(HoldfastError, match="--token-file"), serving(bundle, FakePolicy(), host=host):
        pass


def test_with_a_token_it_listens_where_it_is_told(bundle):
    with serving(bundle, FakePolicy(), TOKEN, host="0.0.0.0") as (port, _):
        assert get(port, "/healthz") == "OK\n"


def test_too_many_are_told_to_come_back(bundle):
    with serving(bundle, FakePolicy()) as (port, _):
        clients = [dial(port) for _ in range(CONNECTIONS)]
        with pytest.raises(ConnectionClosed) as closed:
            dial(port)
        assert closed.value.rcvd.code == 1013
        assert ask(clients[-1], question())["seed"] == 0
        for client in clients:
            client.close()
        with dial(port) as client:
            assert ask(client, question())["seed"] == 0


def test_a_policy_that_remembers_serves_one_robot(bundle):
    with serving(bundle, FakePolicy(remembers=True)) as (port, _), dial(port), pytest.raises(ConnectionClosed):
        dial(port)


class Diary(FakePolicy):
    """Answers with the sum of the seeds that it remembers; 13 is too much for it."""

    def __init__(self) -> None:
        super().__init__(remembers=True)
        self.seeds: list[int] = []

    def answer(self, questions):
        (asked,) = questions
        self.seeds = [*(self.seeds if asked.number else []), asked.seed]
        if asked.seed == 13:
            raise RuntimeError("unlucky")
        return [np.full((self.answer_steps, 14), sum(self.seeds), np.float32)]


def remembered(connection, seed, **changes):
    """What a diary says to a question without a number; an error is text."""
    asked = question(1, seed=seed, **changes)
    del asked["number"]
    answer = ask(connection, asked)
    return answer if isinstance(answer, str) else answer["actions"][0, 0]


def test_a_policy_that_remembers_forgets_the_last_robot(bundle):
    with serving(bundle, Diary(), expected="unlucky") as (port, _):
        with dial(port) as first:
            assert [remembered(first, 1000) for _ in range(3)] == [1000, 2000, 3000]
        with redial(port) as second:
            assert "Unknown prompt" in remembered(second, 7, prompt="make tea")
            assert "no msgpack" in ask(second, b"\xc1")
            assert [remembered(second, 7) for _ in range(2)] == [7, 14], "refused questions do not count"
            assert "RuntimeError" in remembered(second, 13)
            assert [remembered(second, 7) for _ in range(2)] == [7, 14], "nor is what went wrong remembered"
            assert "RuntimeError" in remembered(second, 13)
        with redial(port) as third:
            assert "RuntimeError" in remembered(third, 13)
            assert remembered(third, 5) == 5


@pytest.mark.parametrize("abort", [lambda client: client.socket.close(), lambda client: client.close()])
def test_a_robot_that_comes_back_finds_its_place_while_its_old_answer_is_computed(bundle, abort):
    policy, free = FakePolicy(remembers=True), threading.Event()
    real = policy.answer

    def slow(questions):
        found = real(questions)
        if questions[0].seed == 6:
            assert free.wait(120)
        return found

    with serving(bundle, policy) as (port, _):
        policy.answer = slow
        policy.begun.clear()
        first = dial(port)
        first.send(pack(question(6)))
        assert policy.begun.wait(60)
        abort(first)
        second = redial(port)
        assert not free.is_set()
        with pytest.raises(ConnectionClosed):
            dial(port)  # it is still one robot
        second.send(pack(question(7)))
        free.set()
        assert unpack(second.recv())["seed"] == 7, "and it gets no answer but its own"
        second.close()


def redial(port):
    """Connect, as often as the server needs to see that the old connection is gone."""
    for _ in range(600):
        with suppress(ConnectionClosed):
            return dial(port)
        threading.Event().wait(0.05)
    raise AssertionError("its place is still taken")


def test_questions_of_clients_that_have_gone_are_not_computed():
    policy, free = FakePolicy(), threading.Event()
    real = policy.answer
    policy.answer = lambda questions: (free.wait(120), real(questions))[1]

    async def run():
        batcher = Batcher(policy, lambda: 1, lambda rows: None)
        worker = asyncio.create_task(batcher.run())
        asked = [asyncio.create_task(batcher.ask(Question(None, np.zeros(2), seed=0)))]
        await asyncio.sleep(0.01)
        asked += [asyncio.create_task(batcher.ask(Question(None, np.zeros(2), seed=n))) for n in (1, 2, 3)]
        await asyncio.sleep(0)
        for task in asked[:3]:
            task.cancel()
        free.set()
        async with asyncio.timeout(60):
            assert (await asked[3]).actions[0, 0] == 3
        worker.cancel()
        await asyncio.gather(worker, *asked, return_exceptions=True)

    asyncio.run(run())
    assert policy.batches == [1, 1], "the one that was begun, and the one whose client is there"


def test_a_port_in_use_is_told(bundle):
    with serving(bundle, FakePolicy()) as (port, _):
        server = Server(bundle, FakePolicy(), None, print)
        with pytest.raises(HoldfastError, match=f"127.0.0.1:{port} cannot be listened on"):
            asyncio.run(server.run("127.0.0.1", port, print))


def test_it_stops_after_answering_what_it_has_begun(bundle):
    policy = FakePolicy()
    with serving(bundle, policy) as (port, stop), dial(port) as busy, dial(port) as idle:
        policy.delay = 0.5
        policy.begun.clear()
        busy.send(pack(question(6)))
        assert policy.begun.wait(60)
        stopping = threading.Thread(target=stop)
        stopping.start()
        assert unpack(busy.recv())["seed"] == 6
        for client in (busy, idle):
            with pytest.raises(ConnectionClosed) as closed:
                client.recv()
            assert closed.value.rcvd.code == 1001
        stopping.join()
        with pytest.raises(OSError):
            dial(port)
