"""The console's addresses: what a page is told, what it is not told, and who may ask."""

import json
import os
import sqlite3
import time
from email.utils import formatdate

import pytest
from fastapi.testclient import TestClient
from report.synthetic import write_video
from scoring_runs import make_run, promptly, trials

from holdfast.cli import main
from holdfast.console.app import create_app
from holdfast.console.server import read_token, serve
from holdfast.core.errors import HoldfastError
from holdfast.report.gather import gather
from holdfast.runs.run import read_run
from holdfast.runs.trials import Trials

HERE = "http://127.0.0.1:8765"


@pytest.fixture
def folder(tmp_path):
    return make_run(tmp_path / "runs" / "secret-run", 6)


@pytest.fixture
def client(folder):
    with TestClient(create_app([read_run(folder)], target=4), base_url=HERE) as open_client:
        yield open_client


def take(client, operator="Ada", way="video"):
    return client.post("/api/next", json={"operator": operator, "way": way}).json()["attempt"]


def send(client, ticket, kind, value=None, operator="Ada", key=None):
    key = key or f"{time.monotonic_ns():032x}"
    body = {"operator": operator, "ticket": ticket, "key": key, "kind": kind, "value": value}
    return client.post("/api/event", json=body)


def test_the_server_scores_every_tick_by_the_rubric(client):
    attempt = take(client)
    names = [m["name"] for m in attempt["milestones"]]
    assert attempt["sheet"]["score"] == 0
    last = send(client, attempt["ticket"], "milestone", {"name": names[-1], "on": True}).json()
    assert (last["score"], last["awarded"]) == (
        pytest.approx(100 / len(names)),
        names[-1:],
    )  # even without the ones before
    for name in names:
        answer = send(client, attempt["ticket"], "milestone", {"name": name, "on": True}).json()
    assert answer["score"] == 100
    without = send(client, attempt["ticket"], "final", False).json()["score"]
    assert without == pytest.approx(100 * (1 - 1 / len(names)))
    assert send(client, attempt["ticket"], "undo").json()["score"] == 100


def test_a_page_never_learns_run_stage_or_weights(client, folder):
    seen = []

    def look(answer, text=True):
        own = ("content-security-policy", "referrer-policy")
        assert not {"last-modified", "etag"} & set(answer.headers)  # the hour of a rollout may tell its checkpoint
        seen.append(json.dumps({name: v for name, v in answer.headers.items() if name not in own}))
        seen.append(answer.text if text else "")

    for way in ("video", "robot"):
        for operator in ("Ada", "Bob"):
            look(client.post("/api/next", json={"operator": operator, "way": way}))
            attempt = take(client, operator, way)
            look(send(client, attempt["ticket"], "note", "hm", operator))
            look(send(client, attempt["ticket"], "submit", operator=operator))
            look(client.get(f"/api/progress?operator={operator}"))
            look(client.get(f"/media/{attempt['ticket']}.mp4"), text=False)
            look(client.get(f"/media/{attempt['ticket']}.jpg"), text=False)
    look(client.get("/api/hello"))
    look(client.get("/api/agreement"))
    look(send(client, "0" * 20, "note", "x"))
    look(send(client, attempt["ticket"], "note", "late", "Bob"))
    with Trials(folder / "trials.sqlite") as file:
        written = file.all()
    assert len(written) == 4
    secrets = {"secret-run", "rollouts", "stage", "checkpoint", "policy", "weights", str(folder)}
    for text in seen:
        assert not [word for word in secrets if word in text.lower()]


def test_the_page_opens_on_videos_unless_a_robot_is_tried(client, folder):
    def way():
        return client.get("/api/hello").json()["way"]

    assert way() == "video"
    (folder / "live.jpg").write_bytes(b"picture")
    assert way() == "robot"
    os.utime(folder / "live.jpg", (1, 1))
    assert way() == "video"
    take(client, way="robot")
    assert way() == "robot", "a sheet on the robot is open"
    take(client)
    assert way() == "video", "it was left for a video"


def test_a_finished_evaluation_opens_on_videos_which_ask_for_a_second_opinion(tmp_path):
    folder = make_run(tmp_path / "er", evaluated=True, trials=2, video=write_video)
    before = trials(folder)
    with TestClient(create_app([read_run(folder)], target=20), base_url=HERE) as client:
        assert client.get("/api/hello").json()["way"] == "video"
        attempt = take(client)
        assert attempt["second"]
        send(client, attempt["ticket"], "milestone", {"name": attempt["milestones"][0]["name"], "on": True})
        assert send(client, attempt["ticket"], "submit").status_code == 200
        assert not take(client, way="robot")["second"]
    assert trials(folder) == before, "a second opinion is no trial"


def test_a_trial_on_the_robot_changes_nothing_that_the_twin_has_judged(tmp_path):
    folder = make_run(tmp_path / "er", evaluated=True, trials=2)
    (before,) = gather([folder])
    with TestClient(create_app([read_run(folder)], target=20), base_url=HERE) as client:
        attempt = take(client, way="robot")
        send(client, attempt["ticket"], "milestone", {"name": attempt["milestones"][0]["name"], "on": True})
        send(client, attempt["ticket"], "submit")
    twin, operator = gather([folder])
    assert twin == before
    assert (operator.source, len(operator.trials)) == ("operator", 1)


def test_a_video_that_nobody_has_scored_asks_for_the_first_opinion(client):
    attempt = take(client)
    assert not attempt["second"]
    send(client, attempt["ticket"], "submit")
    assert not take(client, "Bob")["second"], "others wait for their first score"


def test_a_failing_disk_is_to_be_tried_again_and_names_no_run(client, monkeypatch, capsys):
    attempt = take(client)

    def full(*_):
        raise HoldfastError("/runs/secret-run/scoring.sqlite cannot be used: disk full")

    with monkeypatch.context() as patch:
        patch.setattr("holdfast.console.sheets.Sheets.add", full)
        answer = send(client, attempt["ticket"], "note", "x")
    assert answer.status_code == 503  # the page keeps what it could not send
    assert "secret-run" not in answer.text
    assert "disk full" in capsys.readouterr().err


def test_what_cannot_be_taken_is_refused_for_good(client):
    attempt = take(client)
    assert send(client, "0" * 20, "note", "x").status_code == 404  # here; another console may take it
    assert send(client, attempt["ticket"], "milestone", {"name": "x", "on": True}).status_code == 422
    assert send(client, attempt["ticket"], "note", "x", operator="  ").status_code == 422
    assert send(client, attempt["ticket"], "note", "x", key="short").status_code == 422
    assert client.post("/api/next", json={"operator": "Ada", "way": "plane"}).status_code == 422


def test_requests_of_foreign_pages_are_refused(client):
    wish = json.dumps({"operator": "Ada", "way": "video"})

    def post(kind="application/json", **headers):
        return client.post("/api/next", content=wish, headers={"content-type": kind, **headers}).status_code

    assert post() == 200  # no browser: it says no origin
    assert post(origin=HERE) == 200
    assert post(origin="http://evil.example") == 403
    assert post(origin="http://127.0.0.1:9999") == 403
    assert post(origin="null") == 403
    # A form of a foreign page can post text without asking; it must not be taken for JSON.
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        assert post(kind) == 415
    assert client.get("/api/hello", headers={"origin": "http://evil.example"}).status_code == 403
    assert client.options("/api/next", headers={"origin": "http://evil.example"}).status_code == 403


ODD = [
    b"", b"[]", b"null", b'"', b"\xff\xfe", b"[" * 15_000, b'{"a":' * 3_000, b"1" * 15_000, b"NaN", b"{}",
    b'{"operator": "Ada"}', b'{"operator": "\\ud83d", "way": "video"}', b'{"operator": "Ada", "way": "\\ud83d"}',
    b'{"operator": ["Ada"], "way": "video"}', b'{"operator": "Ada", "way": "video", "more": 1}',
    b'{"operator": "A\\u0000", "way": "video"}', b'{"operator": "\\u001b[2J", "way": "video"}',
    b'{"operator": Infinity, "way": "video"}', b'{"operator": "  ", "way": "video"}',
]  # fmt: skip


@pytest.mark.parametrize("path", ["/api/next", "/api/event"])
@pytest.mark.parametrize("body", ODD)
def test_an_odd_request_is_refused_in_words(client, folder, path, body):
    answer = client.post(path, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert 0 < len(answer.json()["message"]) < 500
    with sqlite3.connect(folder / "scoring.sqlite") as file:
        assert file.execute("SELECT count(*) FROM events").fetchone() == (0,)


@pytest.mark.parametrize("field", ["operator", "ticket", "key", "kind", "value"])
@pytest.mark.parametrize("value", ["\ud83d", "x" * 5000, 10**400, {"a": [1]}, float("inf"), "\0", []])
def test_every_field_of_an_event_is_checked_before_it_is_stored(client, folder, field, value):
    attempt = take(client)
    event = {"operator": "Ada", "ticket": attempt["ticket"], "key": "a" * 32, "kind": "note", "value": "x"}
    body = json.dumps(event | {field: value})
    answer = client.post("/api/event", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert 0 < len(answer.json()["message"]) < 500
    with sqlite3.connect(folder / "scoring.sqlite") as file:
        assert file.execute("SELECT kind FROM events").fetchall() == [("open",)]


def test_a_long_request_is_not_read(client):
    """Whether its length is said in the beginning, or it comes in pieces without an end."""
    attempt = take(client)
    assert send(client, attempt["ticket"], "note", "\N{GRINNING FACE}" * 2000).status_code == 200
    assert send(client, attempt["ticket"], "undo", "x" * 20_000_000).status_code == 413
    read = 0

    def endless():
        nonlocal read
        while read < 10_000:
            read += 1
            yield b"x" * 1000

    answer = client.post("/api/event", content=endless(), headers={"content-type": "application/json"})
    assert answer.status_code == 413
    assert client.get("/api/progress?operator=" + "x" * 61).status_code == 422


def test_videos_play_from_any_point(client):
    attempt = take(client)
    part = client.get(f"/media/{attempt['ticket']}.mp4", headers={"range": "bytes=100-199"})
    assert part.status_code == 206
    assert len(part.content) == 100
    assert client.get("/media/..%2F..%2Frun.yaml.mp4").status_code in (404, 422)


def test_nobody_can_ask_when_a_video_was_made(client, folder):
    address = f"/media/{take(client)['ticket']}.mp4"
    times = {file.stat().st_mtime for file in folder.glob("rollouts/*/video.mp4")}
    dates = [*map(formatdate, times), *(formatdate(at, usegmt=True) for at in times), formatdate(5, usegmt=True)]
    for date in dates:
        assert client.get(address, headers={"range": "bytes=0-9", "if-range": date}).status_code == 206


def test_an_old_picture_is_not_live(client, folder):
    attempt = take(client, way="robot")
    address = f"/media/{attempt['ticket']}.jpg"
    assert client.get(address).status_code == 204
    (folder / "live.jpg").write_bytes(b"picture")
    os.utime(folder / "live.jpg", (time.time() + 600, time.time() + 600))  # fresh, however long the request takes
    assert client.get(address).content == b"picture"
    os.utime(folder / "live.jpg", (time.time() - 3, time.time() - 3))
    assert client.get(address).status_code == 204


def test_a_picture_is_a_file_of_the_run(client, folder, tmp_path):
    """A link must not show a file from outside, and a pipe must not stop the console."""
    address = f"/media/{take(client, way='robot')['ticket']}.jpg"
    later = (time.time() + 600, time.time() + 600)
    (tmp_path / "outside.jpg").write_bytes(b"secret")
    os.utime(tmp_path / "outside.jpg", later)
    (folder / "live.jpg").symlink_to(tmp_path / "outside.jpg")
    assert client.get(address).status_code == 204
    (folder / "live.jpg").unlink()
    os.mkfifo(folder / "live.jpg")
    os.utime(folder / "live.jpg", later)
    with promptly():
        assert client.get(address).status_code == 204


def test_names_that_look_the_same_are_one_rater(client, folder):
    first = take(client, "Ren\u00e9")
    assert take(client, " Rene\u0301\u200b")["ticket"] == first["ticket"]
    assert send(client, first["ticket"], "submit", operator="R\u2060ene\u0301").status_code == 200
    assert client.get("/api/progress?operator=Rene%CC%81").json()["mine"] == 1
    with Trials(folder / "trials.sqlite") as file:
        assert [trial.operator for trial in file.all()] == ["Ren\u00e9"]
    assert client.post("/api/next", json={"operator": "\u200b", "way": "video"}).status_code == 422


def test_progress_says_how_much_is_left(client):
    attempt = take(client)
    send(client, attempt["ticket"], "submit")
    progress = client.get("/api/progress?operator=Ada").json()
    assert progress["ways"]["video"]["done"] == 1
    assert progress["ways"]["video"]["total"] == 6
    assert progress["ways"]["video"]["seconds_left"] > 0
    # Four trials of each of three cells are wanted, and two videos of each are there.
    assert progress["ways"]["robot"]["total"] == 6
    assert [entry["number"] for entry in progress["recent"]] == [1]


def test_the_page_loads_nothing_from_elsewhere(client):
    page = client.get("/")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    for path in ("/console.js", "/draw.js", "/player.js", "/console.css", "/style.css"):
        assert path in page.text
        text = client.get(path)
        assert text.status_code == 200
        assert "http://" not in text.text
        assert "https://" not in text.text


def test_another_name_for_this_machine_is_not_answered(folder):
    app = create_app([read_run(folder)], 0)
    with TestClient(app, base_url="http://evil.example") as client:
        assert client.get("/api/hello").status_code == 421


def test_beyond_this_machine_every_request_needs_the_token(folder):
    app = create_app([read_run(folder)], 0, token="a" * 32, local=False)
    with TestClient(app, base_url="http://lab:8765") as client:
        for path in ("/", "/api/hello", "/console.js", "/media/x.mp4"):
            assert client.get(path).status_code == 401
        assert client.get("/?token=wrong").status_code == 401
        assert client.post("/api/next", json={"operator": "Ada", "way": "video"}).status_code == 401
        assert client.get(f"/?token={'a' * 32}").status_code == 200  # and from now on the cookie
        assert take(client)


def test_the_world_is_not_served_without_a_token(folder, tmp_path):
    with pytest.raises(HoldfastError, match="needs a token"):
        serve([read_run(folder)], 0, "", "0.0.0.0", 0, None)
    (tmp_path / "token").write_text("short")
    with pytest.raises(HoldfastError, match="at least 16"):
        read_token(tmp_path / "token")
    (tmp_path / "token").write_bytes(b"\xff" * 40)
    with pytest.raises(HoldfastError, match="cannot be read"):
        read_token(tmp_path / "token")


def test_a_damaged_file_is_an_error_of_the_command(folder, capsys):
    (folder / "trials.sqlite").write_bytes(b"")
    assert main(["score", str(folder), "--port", "0"]) == 2
    assert "trials.sqlite is damaged" in capsys.readouterr().err
    assert (folder / "trials.sqlite").read_bytes() == b""
