"""The console in a real browser: scoring by keyboard while the server is killed under the page."""

import sqlite3
from collections import Counter

import pytest
from playwright.sync_api import expect
from scoring_runs import Server, make_run

from holdfast.runs.trials import Trials

pytestmark = [pytest.mark.browser, pytest.mark.slow]
expect.set_options(timeout=60_000)


@pytest.fixture
def serving():
    """A function that starts a console; it ends with the test."""
    servers = []

    def start(*folders, flags=("--operator", "Ada"), port=0):
        servers.append(Server(*folders, flags=flags, port=port))
        return servers[-1]

    yield start
    for server in servers:
        server.kill()


@pytest.fixture
def opened(browser):
    """A function that opens a console's page as a fresh browser would."""
    contexts = []

    def open_page(server, width=1280, scheme="light", name=""):
        context = browser.new_context(viewport={"width": width, "height": 1000}, color_scheme=scheme, has_touch=True)
        contexts.append(context)
        tab = context.new_page()
        tab.complaints = []
        tab.on("console", lambda m: tab.complaints.append(m.text) if m.type in ("error", "warning") else None)
        tab.on("pageerror", lambda e: tab.complaints.append(str(e)))
        tab.goto(server.address)
        if name:
            tab.locator("#name").fill(name)
            tab.get_by_role("button", name="Begin").click()
        ready(tab, 1)
        return tab

    yield open_page
    for context in contexts:
        context.close()


def ready(tab, number):
    """Wait until trial `number` is on the page and everything before is saved."""
    expect(tab.locator("#scoring")).to_be_visible()
    expect(tab.locator("#meta .tag").first).to_have_text(f"Trial {number}")
    expect(tab.locator("#state")).to_have_text("saved")


def pressed(tab):
    return [button.get_attribute("aria-pressed") == "true" for button in tab.locator("#milestones button").all()]


def lose_an_answer():
    """Of the next request the server hears, and the page hears nothing."""
    lost = []

    def route(request):
        if lost:
            return request.continue_()
        lost.append(request.fetch())
        return request.abort()

    return route


def stored(folder):
    with Trials(folder / "trials.sqlite") as file:
        return file.all()


def test_twenty_trials_by_keyboard_with_the_server_killed_twice(tmp_path, serving, opened):
    folder = make_run(tmp_path / "er", 20)
    server = serving(folder)
    tab = opened(server)
    expected = []
    for number in range(1, 21):
        ready(tab, number)
        task = tab.locator("#title").inner_text()
        count = number % tab.locator("#milestones button").count() + 1
        if number == 3:
            tab.route("**/api/event", lose_an_answer())
        if number == 6:
            server.kill()  # between the ticks of a sheet: they wait on the page
        for key in range(1, count + 1):
            tab.keyboard.press(str(key))
        if number == 6:
            assert pressed(tab)[:count] == [True] * count
            expect(tab.locator("#state")).to_have_text(f"offline, {count} unsent")
            server.start()
            expect(tab.locator("#state")).to_have_text("saved")
            tab.reload()
            ready(tab, 6)
            assert pressed(tab)[:count] == [True] * count
        tab.keyboard.press("1")  # off again, by mistake
        tab.keyboard.press("u")
        tab.keyboard.press("Enter")
        if number == 13:
            server.kill()  # around the saving of a sheet: with or without an answer, it is saved once
            tab.wait_for_timeout(300)
            server.start()
        expected.append((task, count))
    expect(tab.locator("#nothing-title")).to_have_text("All done")
    trials = stored(folder)
    assert [(len(t.milestones), t.operator, t.valid) for t in trials] == [(n, "Ada", True) for _, n in expected]
    assert [{"stack_bowls": "Stack bowls", "press_button": "Press button"}[t.task] for t in trials] == [
        task for task, _ in expected
    ]
    assert Counter(t.video for t in trials) == {f"rollouts/{n:04d}/video.mp4": 1 for n in range(20)}
    with sqlite3.connect(folder / "trials.sqlite") as file:
        assert file.execute("SELECT count(*) FROM trials").fetchone()[0] == 20
    with sqlite3.connect(folder / "scoring.sqlite") as file:
        kinds = dict(file.execute("SELECT kind, count(*) FROM events GROUP BY kind").fetchall())
    assert kinds["milestone"] == sum(count for _, count in expected) + 20
    assert (kinds["undo"], kinds["submit"]) == (20, 20)


def test_a_saved_trial_is_taken_back_and_saved_anew(tmp_path, serving, opened):
    folder = make_run(tmp_path / "er", 2, tasks=("stack_bowls",))
    tab = opened(serving(folder))
    tab.keyboard.press("1")
    tab.keyboard.press("n")
    tab.keyboard.type("slow 1")
    tab.keyboard.press("Escape")
    tab.keyboard.press("Enter")
    ready(tab, 2)
    assert [(t.score, t.notes) for t in stored(folder)] == [(25.0, "slow 1")]
    tab.keyboard.press("Control+z")
    ready(tab, 1)
    assert pressed(tab) == [True, False, False, False]
    assert [t.valid for t in stored(folder)] == [False]
    tab.keyboard.press("2")
    tab.keyboard.press("a")
    expect(tab.locator("#score")).to_have_text("37.5")
    tab.keyboard.press("Enter")
    ready(tab, 2)
    assert [(t.score, t.valid) for t in stored(folder)] == [(37.5, True)]
    assert tab.complaints == []


def test_zero_is_asked_twice_and_invalid_wants_a_reason(tmp_path, serving, opened):
    folder = make_run(tmp_path / "er", 3, tasks=("stack_bowls",))
    tab = opened(serving(folder))
    tab.keyboard.press("Enter")
    assert "Save a zero?" in tab.locator("#save").inner_text()
    assert stored(folder) == []
    tab.keyboard.press("Enter")
    ready(tab, 2)
    tab.keyboard.press("x")
    tab.keyboard.type("cable loose")
    tab.keyboard.press("Enter")
    expect(tab.locator("#words")).to_have_text("invalid: cable loose")
    tab.keyboard.press("Enter")
    ready(tab, 3)
    assert [(t.score, t.valid, t.notes) for t in stored(folder)] == [
        (0.0, True, ""),
        (None, False, "invalid: cable loose"),
    ]


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (820, "dark")])
def test_a_tablet_has_room_for_fingers_and_the_video_plays(tmp_path, serving, opened, width, scheme):
    tab = opened(serving(make_run(tmp_path / "er", 2, tasks=("stack_bowls",))), width, scheme)
    tab.locator("#milestones button").first.tap()
    expect(tab.locator("#score")).to_have_text("25.0")
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    small = tab.evaluate(
        "() => [...document.querySelectorAll('button, textarea, input')].filter(b => b.offsetParent)"
        ".map(b => [b.id || b.textContent, b.getBoundingClientRect()]).filter(([, r]) => r.height < 44 || r.width < 44)"
        ".map(([name]) => name)"
    )
    assert small == []
    dark = tab.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    assert dark == (scheme == "dark")
    playing = (
        "video => new Promise(done => video.addEventListener('timeupdate', () => video.currentTime > 0.2 && done(1)))"
    )
    assert tab.locator("#video").evaluate(f"video => {{ video.play(); return ({playing})(video); }}")
    assert tab.complaints == []


def test_two_screens_show_different_trials_and_the_agreement(tmp_path, serving, opened):
    server = serving(make_run(tmp_path / "er", 2, tasks=("stack_bowls",)), flags=())
    ada, bob = (opened(server, name=name) for name in ("Ada", "Bob"))
    videos = {tab.locator("#video").get_attribute("src") for tab in (ada, bob)}
    assert len(videos) == 2
    expect(ada.locator("#second")).to_be_hidden()
    for tab in (ada, bob):
        tab.keyboard.press("1")
        tab.keyboard.press("Enter")
        expect(tab.locator("#toast")).to_contain_text("Saved")
    for tab in (ada, bob):  # now each sees what the other has scored
        if tab.locator("#again").is_visible():
            tab.locator("#again").click()
        ready(tab, 2)
        expect(tab.locator("#meta")).to_contain_text("Second opinion")
        expect(tab.locator("#second")).to_contain_text("changes no result")
        tab.keyboard.press("1")
        tab.keyboard.press("Enter")
        expect(tab.locator("#nothing-title")).to_have_text("All done")
    bob.get_by_role("tab", name="Agreement").click()
    row = bob.locator(".pair-card .sum")
    row.wait_for()
    assert row.inner_text().split("\t") == ["all milestones", "8", "100 %", "1.00"]
    assert "Ada and Bob" in bob.locator(".pair-card h2").inner_text()


def test_ticks_wait_for_their_own_console(tmp_path, serving, opened):
    """Another run's console on the same port does not know their attempt; that must not throw them away."""
    folder, other = (make_run(tmp_path / name, 2, tasks=("stack_bowls",)) for name in ("er", "other"))
    server = serving(folder)
    tab = opened(server)
    server.kill()
    for key in ("1", "2", "Enter"):
        tab.keyboard.press(key)
    wrong = serving(other, port=server.port)
    expect(tab.locator("#state")).to_have_text("3 kept")
    expect(tab.locator("#scoring")).to_be_visible()  # what this one has can be scored meanwhile
    tab.reload()
    expect(tab.locator("#state")).to_have_text("3 kept")
    assert stored(other) == []
    wrong.kill()
    server.start()
    expect(tab.locator("#state")).to_have_text("saved")
    assert [t.score for t in stored(folder)] == [50.0]


def test_two_tabs_keep_the_ticks_of_both(tmp_path, serving, opened):
    folder = make_run(tmp_path / "er", 2, tasks=("stack_bowls",))
    server = serving(folder)
    one = opened(server)
    context = one.context
    other = context.new_page()
    other.goto(server.address)
    ready(other, 1)
    server.kill()
    for tab, key in ((one, "1"), (other, "2")):
        tab.keyboard.press(key)
        expect(tab.locator("#state")).to_have_text("offline, 1 unsent")
    for tab in (one, other):
        tab.close()
    server.start()
    later = context.new_page()
    later.goto(server.address)
    ready(later, 1)
    assert pressed(later) == [True, True, False, False]
