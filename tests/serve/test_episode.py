"""The `openpi-client` of the package index drives the twin through the server as the policy does in this process."""

import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from bundles import TASKS, make_trained, question, serving
from websockets.exceptions import ConnectionClosed

from holdfast import arenas
from holdfast.catalog import task as catalog_task
from holdfast.core.observation import Question
from holdfast.core.wire import pack, unpack
from holdfast.embodiments import EMBODIMENTS
from holdfast.policies.pilot import Pilot
from holdfast.serve.new_bundle import make

openpi = pytest.importorskip("openpi_client.websocket_client_policy")
ROBOT = EMBODIMENTS["piper_x_pair"]


@pytest.fixture(scope="module")
def based(tmp_path_factory):
    """The policy that is shipped, at 64 px, as a bundle."""
    folder = tmp_path_factory.mktemp("based")
    return make(make_trained(folder / "run", base=64), 2, folder / "bundle")


@pytest.mark.sim
def test_an_episode_is_the_same_as_in_process(based):
    from holdfast.arenas.learned import LearnedPolicy, chunk_queue
    from holdfast.arenas.scored_episode import ScoredEpisode

    own = Pilot(based.path, based.names)
    episode = ScoredEpisode(arenas.load("twin"), catalog_task("press_button"))
    episode.begin(3, "standard")
    here, policy = [], LearnedPolicy(episode, own, seed=3)
    while not episode.over and (action := policy.act()) is not None:
        here.append(action)
        episode.step(action)
    trial = episode.trial()

    with serving(based, Pilot(based.path, based.names)) as (port, _):
        client = openpi.WebsocketClientPolicy("127.0.0.1", port)
        cameras = client.get_server_metadata()["cameras"]
        episode.begin(3, "standard")
        there, queue, looks = [], chunk_queue(episode, own.answer_steps), 0
        while not (episode.over or episode.done):
            if queue.due:
                seen = episode.environment.observe((64, 64), cameras)
                asked = {"observation.state": seen.state, "images": seen.images, "seed": 3, "number": looks}
                answer = client.infer({**asked, "prompt": catalog_task("press_button").instruction})
                idle = ~answer["active"]
                assert np.allclose(answer["actions"][:, idle], seen.state[idle], atol=1e-6)
                queue.put(queue.step, answer["actions"])
                looks += 1
            there.append(queue.take())
            episode.step(there[-1])
        client._ws.close()
    assert looks > 10
    assert np.abs(np.array(here) - np.array(there)).max() < 1e-6
    assert episode.trial() == trial
    episode.close()


def test_robots_with_tasks_of_one_and_two_arms_are_answered_as_if_alone(based):
    own = Pilot(based.path, based.names)
    rng = np.random.default_rng(0)
    asked = [
        {
            "state": rng.uniform(-0.5, 0.5, 14),
            "images": {name: rng.integers(0, 256, (64, 64, 3), np.uint8) for name in based.cameras},
            "prompt": TASKS[number % 2],
            "seed": number,
            "number": number // 2,
        }
        for number in range(12)
    ]
    answers = {}
    with serving(based, Pilot(based.path, based.names)) as (port, _):

        def talk(robot):
            client = openpi.WebsocketClientPolicy("127.0.0.1", port)
            for number in range(robot, 12, 3):  # so that each asks about both tasks in turn
                answers[number] = client.infer(asked[number])
            client._ws.close()

        robots = [threading.Thread(target=talk, args=(robot,)) for robot in range(3)]
        for robot in robots:
            robot.start()
        for robot in robots:
            robot.join()
    for number, question_ in enumerate(asked):
        task = based.tasks[question_["prompt"]]
        look = Question(task, question_["state"], question_["images"], number, number // 2)
        expected = ROBOT.hold(own.answer([look])[0], question_["state"], task.arms)
        assert np.abs(answers[number]["actions"] - expected).max() < 1e-6
        assert (answers[number]["task"], answers[number]["number"]) == (task.name, number // 2)


def test_openpis_client_raises_an_error_and_goes_on_and_needs_the_token(bundle, pilot):
    token = "0123456789abcdef"
    with serving(bundle, pilot, token) as (port, _):
        client = openpi.WebsocketClientPolicy("127.0.0.1", port, api_key=token)
        with pytest.raises(RuntimeError, match="Unknown prompt 'make tea'"):
            client.infer(question(prompt="make tea"))
        assert client.infer(question())["actions"].shape == (16, 14)
        client._ws.close()
        with pytest.raises(Exception, match="401"):
            openpi.WebsocketClientPolicy("127.0.0.1", port, api_key="wrong")


@pytest.mark.slow
def test_the_command_serves_and_sigterm_lets_it_finish(bundle):
    from websockets.sync.client import connect

    command = [sys.executable, "-m", "holdfast", "serve", str(bundle.path), "--port", "0", "--device", "cpu"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as server:
        try:
            for line in server.stdout:
                if line.startswith("serving on "):
                    break
            with connect(line.split()[-1], compression=None, open_timeout=120) as client:
                assert unpack(client.recv())["bundle"] == bundle.hash
                client.send(pack(question(1)))
                assert unpack(client.recv(timeout=120))["task"] == TASKS[1]
                server.send_signal(signal.SIGTERM)
                with pytest.raises(ConnectionClosed) as closed:
                    client.recv(timeout=120)
                assert closed.value.rcvd.code == 1001
            out, errors = server.communicate(timeout=120)
        finally:
            server.kill()
    assert (server.returncode, out, errors) == (0, "stopped\n", "")


def test_the_command_refuses_what_it_should(bundle, tmp_path, capsys):
    from holdfast.cli import main

    short = tmp_path / "short"
    short.write_text("abc\n")
    for flags, said in (
        (["--host", "0.0.0.0"], "--token-file"),
        (["--token-file", str(short)], "at least 16"),
        (["--token-file", str(tmp_path / "none")], "cannot be read"),
        (["--port", "70000"], "--port must be"),
        (["--rows", "0"], "--rows must be"),
    ):
        assert main(["serve", str(bundle.path), *flags]) == 2
        assert said in capsys.readouterr().err
    assert main(["serve", str(tmp_path)]) == 2
    assert "not an intact bundle" in capsys.readouterr().err
