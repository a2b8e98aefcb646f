"""Videos of episodes: the rubric ticks in them, and what they show is what happened."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from toy_world import write_dataset
from toys import draw_quickly

from holdfast.arenas.board import PANEL, board, without_rubric
from holdfast.arenas.demonstrate import RecordingOrder
from holdfast.catalog import task as catalog_task
from holdfast.catalog import tasks as catalog_tasks
from holdfast.cli import main
from holdfast.core.records import Reached, Task
from holdfast.embodiments import load
from holdfast.twin.docs import page
from holdfast.twin.tasks import TASKS, task_class

pytestmark = pytest.mark.sim
IMAGES = {camera: np.full((240, 320, 3), 90, np.uint8) for camera in ("head", "front", "left_wrist", "right_wrist")}


@pytest.fixture
def quick_pictures(monkeypatch):
    draw_quickly(monkeypatch)


def frames(video: Path) -> list[np.ndarray]:
    import av

    with av.open(str(video)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


def lit(picture: np.ndarray) -> tuple[int, int]:
    """Greenish and reddish pixels of the panel."""
    red, green, blue = (picture[:, -PANEL:, i].astype(int) for i in range(3))
    return int(((green - red > 60) & (green - blue > 30)).sum()), int(((red - green > 90) & (red - blue > 90)).sum())


def test_board_lights_milestones_green_and_penalties_red():
    task = catalog_task("stack_bowls")
    dark = board(task, IMAGES, Reached((), {}), 0)
    some = board(task, IMAGES, Reached(("reached",), {}), 1)
    more = board(task, IMAGES, Reached(("reached", "lifted"), {"green_bowl_knocked": 1}), 2)
    assert dark.shape == (480, 640 + PANEL, 3)
    assert lit(dark) == (0, 0)
    assert 0 < lit(some)[0] < lit(more)[0]
    assert lit(some)[1] == 0 < lit(more)[1]


def test_the_images_are_cut_out_whole_even_where_a_video_blurs_their_edge():
    two = dict(list(IMAGES.items())[:2])
    picture = board(catalog_task("stack_bowls"), two, Reached((), {}), 0).copy()
    assert picture.shape == (360, 640 + PANEL, 3)
    picture[[58, 59, 300, 303], :60] = 200
    cut = without_rubric(picture)
    assert cut.shape == (240, 640, 3)
    assert (cut[[0, -1], -1] == 90).all()


def test_a_milestone_that_does_not_count_stays_dark():
    picture = board(catalog_task("stack_bowls"), IMAGES, Reached(("lifted",), {}), 0)
    assert lit(picture) == (0, 0)


def test_expert_video_ends_with_all_lights_on(tmp_path, capsys, quick_pictures):
    out = tmp_path / "expert.mp4"
    assert main(["watch", "--task", "press_button", "--seed", "4", "--out", str(out)]) == 0
    assert "score 100 of 100" in capsys.readouterr().out
    shown = frames(out)
    assert lit(shown[0]) == (0, 0)
    greens = [lit(picture)[0] for picture in shown[::10]]
    assert greens[-1] == max(greens) > 500
    assert len(shown) == 75  # every other of 148 control steps, the first and the last


def test_doing_nothing_is_shown_as_nothing(tmp_path, monkeypatch, capsys, quick_pictures):
    monkeypatch.setattr(task_class("press_button"), "max_steps", 60)
    out = tmp_path / "noop.mp4"
    assert main(["watch", "--task", "press_button", "--as", "noop", "--out", str(out)]) == 0
    assert "score 0 of 100" in capsys.readouterr().out
    assert lit(frames(out)[-1]) == (0, 0)


@pytest.mark.slow
def test_recorded_episode_is_scored_by_repeating_it(tmp_path, capsys, quick_pictures):
    from holdfast.arenas.record import record

    (done,) = record([RecordingOrder("press_button", 2, "standard", 64, 64, 40)], tmp_path, processes=1)
    out = tmp_path / "recorded.mp4"
    assert main(["watch", "--dataset", str(done.folder), "--episode", "1", "--out", str(out)]) == 0
    assert "score 100 of 100" in capsys.readouterr().out
    assert lit(frames(out)[-1])[0] > 500
    assert main(["watch", "--dataset", str(done.folder), "--episode", "2", "--out", str(out)]) == 2
    assert "episodes 0 to 1" in capsys.readouterr().err


@pytest.mark.slow
def test_dataset_of_others_is_shown_without_a_score(tmp_path, capsys):
    task = Task("reach", "Please reach.", ("left",))
    write_dataset(tmp_path / "reach", task, load("piper_x_pair"), episodes=1, length=14, size=32)
    out = tmp_path / "reach.mp4"
    assert main(["watch", "--dataset", str(tmp_path / "reach"), "--out", str(out)]) == 0
    assert "score" not in capsys.readouterr().out
    assert len(frames(out)) == 14 + 30


@pytest.mark.parametrize(
    ("flags", "hint"),
    [
        ([], "--task NAME"),
        (["--task", "stack_bowl"], "stack_bowls"),
        (["--task", "stack_bowls", "--dataset", "x"], "--task NAME"),
        (["--task", "stack_bowls", "--as", "nobody"], "open-gripper"),
        (["--task", "stack_bowls", "--level", "hard"], "standard"),
        (["--task", "stack_bowls", "--seed", "-1"], "negative"),
        (["--task", "stack_bowls", "--out", "x.gif"], ".mp4"),
        (["--task", "stack_bowls", "--out", "/no/such/place/x.mp4"], "/no/such/place"),
        (["--task", "stack_bowls", "--policy", "/no/such/policy"], "holds no policy"),
    ],
)
def test_mistakes_are_named(capsys, tmp_path, flags, hint):
    out = [] if "--out" in flags else ["--out", str(tmp_path / "x.mp4")]
    assert main(["watch", *flags, *out]) == 2
    assert hint in capsys.readouterr().err


def test_without_a_screen_a_file_is_asked_for(capsys, monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert main(["watch", "--task", "stack_bowls"]) == 2
    assert "--out" in capsys.readouterr().err


def test_page_of_tasks_holds_every_rubric():
    text = page(list(TASKS))
    for name in TASKS:
        task = catalog_task(name)
        assert f"## {task.title}" in text
        for part in (*task.milestones, *task.penalties):
            assert f"| `{part.name}` | {part.text} |" in text
        assert all(f"- {reading}\n" in text for reading in task_class(name).readings)


def test_the_page_in_docs_is_up_to_date():
    written = Path(__file__).parents[2] / "docs" / "tasks.md"
    assert written.read_text() == page([name for name in catalog_tasks() if name in TASKS])


def test_docs_command_draws_one_task(tmp_path, quick_pictures):
    assert main(["twin", "docs", "--task", "press_button", "--out", str(tmp_path)]) == 0
    assert 10_000 < (tmp_path / "pictures" / "press_button.jpg").stat().st_size < 400_000
    assert "pictures/press_button.jpg" in (tmp_path / "tasks.md").read_text()
