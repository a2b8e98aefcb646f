"""The hub is asked once and answers, or not, in time."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from huggingface_hub import constants

from holdfast.core import hub
from holdfast.core.errors import HoldfastError

STATUS = {"/api/datasets/me/there": 200, "/api/models/me/private": 401, "/api/models/me/busy": 503}


@pytest.fixture
def server(monkeypatch, tmp_path):
    """A hub of our own, with an empty cache here; `asked` has its requests, `gate` lets answers through."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            found.asked.append((self.path, self.headers.get("Authorization")))
            found.gate.wait()
            self.send_response(STATUS.get(self.path, 404))
            self.end_headers()

        def log_message(self, *of):
            pass

    found = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.daemon_threads = True
    found.asked, found.gate = [], threading.Event()
    found.gate.set()
    threading.Thread(target=found.serve_forever, args=(0.01,), daemon=True).start()  # so that it ends at once
    monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{found.server_port}")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_LEROBOT_HOME", str(tmp_path / "lerobot"))
    monkeypatch.setattr(hub, "PATIENCE", 60.0)
    yield found
    found.gate.set()
    found.shutdown()


def test_what_is_there_passes(server):
    hub.check_on_hub("me/there", "dataset")
    assert [path for path, _ in server.asked] == ["/api/datasets/me/there"]


@pytest.mark.parametrize("name", ["me/gone", "me/private"])
def test_what_is_not_there_is_refused_with_the_hint(server, name):
    with pytest.raises(HoldfastError, match=rf"{name} .* has no model of that name .* Meant it\? .*auth login"):
        hub.check_on_hub(name, "model", " Meant it?")


def test_other_answers_are_left_to_the_hubs_own_client(server):
    hub.check_on_hub("me/busy", "model")
    assert [path for path, _ in server.asked] == ["/api/models/me/busy"]


def test_the_users_token_is_sent(server, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    hub.check_on_hub("me/there", "dataset")
    assert server.asked[0][1] == "Bearer hf_secret"


def test_a_hub_that_does_not_answer_is_not_waited_for(server, monkeypatch):
    server.gate.clear()
    monkeypatch.setattr(hub, "PATIENCE", 0.05)
    with pytest.raises(HoldfastError, match=r"cannot be reached.*hf download --repo-type=dataset me/there"):
        hub.check_on_hub("me/there", "dataset")


def test_no_hub_at_all(server, monkeypatch):
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(HoldfastError, match="cannot be reached"):
        hub.check_on_hub("me/there", "dataset")


def test_a_hub_that_is_switched_off_is_not_asked(server, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(HoldfastError, match="HF_HUB_OFFLINE"):
        hub.check_on_hub("me/there", "dataset")
    assert not server.asked


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        ("model", "hub/models--me--gone"),
        ("dataset", "hub/datasets--me--gone"),
        ("dataset", "lerobot/me/gone"),
        ("dataset", "lerobot/hub/datasets--me--gone"),
    ],
)
def test_what_was_downloaded_before_passes(server, tmp_path, kind, place):
    (tmp_path / place).mkdir(parents=True)
    hub.check_on_hub("me/gone", kind)
    assert not server.asked


@pytest.mark.parametrize("name", ["x", "/me/x", "./x", "a/b/c", "~/x"])
def test_an_id_is_two_words(name):
    assert hub.looks_like_hub_id("me/x")
    assert not hub.looks_like_hub_id(name)
