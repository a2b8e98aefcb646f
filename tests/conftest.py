"""Toy datasets, recorded once per test session; tests that hurt them work on copies."""

import gc
import logging
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from toys import TASKS, stream_text

from holdfast.core.append_only import AppendOnlyFile
from holdfast.core.processes import FORKED

# A busy machine must not fail a property.
settings.register_profile("holdfast", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("holdfast")

# A process of tests has a million objects that stay. Python searches them far more often than needed.
gc.set_threshold(10_000, 20, 50)

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)

PATIENCE = 120_000  # milliseconds that a browser never takes, however busy the machine is


def pytest_configure(config):
    """Fix how many threads torch adds up with, on which weights depend, and import LeRobot the quick way.

    Only one of several processes imports it: there it is needed sooner or later.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # as `make test` does
    if hasattr(config, "workerinput"):
        import holdfast.policies.lerobot_import  # noqa: F401


def pytest_collection_modifyitems(items):
    """Files with slow tests come first, so that no process is left with one at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(scope="module", autouse=True)
def root_logger():
    """Ray adds a handler to the root logger that writes to a stream of its test; later tests must not inherit it."""
    before, level = list(logging.root.handlers), logging.root.level
    yield
    kept = [h for h in logging.root.handlers if h in before or type(h).__module__.startswith("_pytest")]
    logging.root.handlers[:] = kept
    logging.root.setLevel(level)


@pytest.fixture(scope="session", autouse=True)
def frame_cache(tmp_path_factory):
    """One frame cache for all tests, away from the user's own."""
    folder = tmp_path_factory.mktemp("frames")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOLDFAST_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="session", autouse=True)
def no_waits_for_the_disk():
    """Nobody cuts the power here, and small trainings and tables would wait for the disk as long as they compute."""
    begin = AppendOnlyFile.__init__

    def begin_without_waits(self, *given, **named):
        begin(self, *given, **named)
        self.file.execute("PRAGMA synchronous = OFF")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        patch.setattr(AppendOnlyFile, "__init__", begin_without_waits)
        yield


@pytest.fixture(scope="session", autouse=True)
def fork_server():
    """Worker processes of all tests are forked from one server, which imports what any of them needs."""
    modules = ("policies.pilot", "train.engine", "commands.train", "data.lerobot.video")
    FORKED.set_forkserver_preload([f"holdfast.{module}" for module in modules])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(FORKED), "set_forkserver_preload", lambda context, modules: None)
        yield


@pytest.fixture(scope="session")
def recorded(tmp_path_factory):
    """A folder with one dataset per toy task: two cameras of 32 px, six episodes of 14 frames."""
    from toy_world import write_dataset

    from holdfast.core.records import Task
    from holdfast.embodiments import load

    folder = tmp_path_factory.mktemp("recorded")
    for name, arms in TASKS.items():
        write_dataset(
            folder / name, Task(name, f"Please {name}.", arms), load("piper_x_pair"), episodes=6, length=14, size=32
        )
    return folder


@pytest.fixture
def toy(recorded, tmp_path) -> Path:
    """A private copy of the datasets with a stream file `stream.toml` beside them."""
    shutil.copytree(recorded, tmp_path, dirs_exist_ok=True)
    (tmp_path / "stream.toml").write_text(stream_text())
    return tmp_path


@pytest.fixture(scope="module")
def browser():
    if not BROWSER:
        pytest.skip("no Chromium or Chrome on the PATH; `make setup` installs one as root, else: apt install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        started = play.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"], timeout=PATIENCE)
        new_context = started.new_context

        def patient(**options):
            context = new_context(**options)
            context.set_default_timeout(PATIENCE)
            return context

        started.new_context = patient
        yield started
        started.close()
