import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from holdfast.core.records import Task
from holdfast.data.cache.cache import Cache
from holdfast.data.cache.spec import Spec
from holdfast.data.lerobot.source import ACTION, IMAGES, STATE, Camera, Source
from holdfast.data.lesson import Layout, Lesson
from holdfast.data.loader import AHEAD, Batches
from holdfast.data.sampler import Draw, Pool, Sampler

LENGTHS = (4, 1, 6)
DIMENSIONS = 3
CAMERAS = (Camera(f"{IMAGES}head", 4, 5, "video"), Camera(f"{IMAGES}wrist", 3, 3, "image"))
CHUNK = Layout(None, (0, 1, 2), np.zeros(DIMENSIONS, bool))


def source(row=0):
    """Every number says where it comes from: action = frame, state = 1000 + frame, plus 10,000 per row."""
    ends = np.cumsum(LENGTHS)
    frames = np.arange(ends[-1], dtype=np.float32)[:, None] + np.array([0.0, 0.25, 0.5], np.float32) + 10_000 * row
    return Source(
        dataset=str(row), root=Path("/nowhere"), fps=30, state_names=("a", "b", "c"), action_names=("a", "b", "c"),
        state_places=(0, 1, 2), cameras=CAMERAS,
        state=frames + 1000, action=frames, timestamps=frames[:, 0] / 30, starts=ends - LENGTHS, ends=ends,
        info={}, episodes={},
    )  # fmt: skip


def cache(row=0, kind=Cache):
    """Every pixel says where it comes from: frame + 100 * camera + 50 * row."""
    sizes = {camera.key: (camera.height, camera.width) for camera in CAMERAS}
    spec = Spec(str(row), "", sizes, "native", "raw", sum(LENGTHS), ())
    pixels = {
        key: (torch.arange(sum(LENGTHS)) + 100 * number + 50 * row).to(torch.uint8)[:, None, None, None]
        .expand(-1, 3, *size).contiguous()
        for number, (key, size) in enumerate(sizes.items())
    }  # fmt: skip
    numbers = source(row)
    return kind(spec, numbers.state, numbers.action, pixels, {})


def lesson(row=0, active=(True, True, True), hold=False):
    return Lesson(Task(f"task_{row}", f"Do {row}.", ("left",)), source(row), np.array(active), hold)


def frame_numbers(actions):
    return np.asarray(actions)[..., 0].astype(int).tolist()


def test_a_chunk_stops_at_the_episodes_end_and_never_enters_the_next():
    actions, padded = lesson().actions(np.array([0, 2, 3, 4, 8, 10]), (0, 1, 2))
    assert frame_numbers(actions) == [[0, 1, 2], [2, 3, 3], [3, 3, 3], [4, 4, 4], [8, 9, 10], [10, 10, 10]]
    assert padded.astype(int).tolist() == [[0, 0, 0], [0, 0, 1], [0, 1, 1], [0, 1, 1], [0, 0, 0], [0, 1, 1]]


def test_history_is_clamped_at_the_episodes_start():
    near, moved = lesson().around(np.array([0, 1, 3, 4, 5, 7]), (-2, -1, 0))
    assert near.tolist() == [[0, 0, 0], [0, 0, 1], [1, 2, 3], [4, 4, 4], [5, 5, 5], [5, 6, 7]]
    assert moved.astype(int).tolist() == [[1, 1, 0], [1, 0, 0], [0, 0, 0], [1, 1, 0], [1, 1, 0], [0, 0, 0]]


def test_actions_before_the_episode_are_padded_too():
    actions, padded = lesson().actions(np.array([0, 5]), (-1, 0, 1))
    assert frame_numbers(actions) == [[0, 0, 1], [5, 5, 6]]
    assert padded.astype(int).tolist() == [[1, 0, 0], [1, 0, 0]]


def test_an_idle_dimension_is_trained_to_hold_where_it_is_now():
    taught = lesson(active=(True, False, True), hold=True)
    frames = np.array([0, 3, 8])
    actions, _ = taught.actions(frames, (0, 1, 2))
    now = taught.source.state[frames][:, 1]
    np.testing.assert_array_equal(actions[..., 1], np.repeat(now[:, None], 3, axis=1))
    free, _ = lesson().actions(frames, (0, 1, 2))
    np.testing.assert_array_equal(actions[..., [0, 2]], free[..., [0, 2]])


def test_without_hold_an_idle_dimension_keeps_what_was_recorded():
    idle, _ = lesson(active=(True, False, True)).actions(np.array([0, 3]), (0, 1))
    free, _ = lesson().actions(np.array([0, 3]), (0, 1))
    np.testing.assert_array_equal(idle, free)


def test_holding_does_not_write_into_the_dataset():
    taught = lesson(active=(False, False, False), hold=True)
    before = taught.source.action.copy()
    taught.actions(np.arange(11), (0, 1, 2))
    list(taught.blocks(CHUNK))
    np.testing.assert_array_equal(taught.source.action, before)


def test_blocks_are_one_per_episode_without_padded_steps():
    blocks = list(lesson().blocks(CHUNK))
    assert [feature for feature, _ in blocks] == [STATE, ACTION] * 3
    states, actions = ([values for f, values in blocks if f == feature] for feature in (STATE, ACTION))
    assert [s[:, 0].astype(int).tolist() for s in states] == [[*range(1000, 1004)], [1004], [*range(1005, 1011)]]
    assert actions[0][:, 0].astype(int).tolist() == [0, 1, 2, 1, 2, 3, 2, 3, 3]
    assert [len(a) for a in actions] == [9, 1, 15]


def test_relative_blocks_are_measured_from_the_current_state_and_leave_padding_out():
    layout = Layout(None, (0, 1, 2), np.array([True, False, True]))
    (_, state), (_, actions), *_ = lesson().blocks(layout)
    assert len(actions) == 9
    # An action is 1000 less than the state of its frame and `delta` more than that of the current frame.
    deltas = [0, 1, 2, 0, 1, 2, 0, 1, 0]
    assert (actions[:, 0] + 1000).tolist() == (actions[:, 2] + 1000).tolist() == deltas
    assert actions[:, 1].tolist() == [0.25, 1.25, 2.25, 1.25, 2.25, 3.25, 2.25, 3.25, 3.25]
    assert state[:, 0].tolist() == [1000, 1001, 1002, 1003]


def test_a_held_relative_dimension_is_zero():
    layout = Layout(None, (0, 1, 2), np.ones(3, bool))
    for feature, values in lesson(active=(True, False, True), hold=True).blocks(layout):
        if feature == ACTION:
            assert (values[:, 1] == 0).all()
            assert (values[:, 0] != 0).all()


def test_blocks_of_chosen_episodes_only():
    blocks = list(lesson().blocks(CHUNK, [2, 1]))
    assert [values[0, 0] for feature, values in blocks if feature == STATE] == [1005, 1004]


@pytest.mark.parametrize(("action", "chunk"), [((0, 1, 2), 3), ((0,), 1), (tuple(range(-1, 15)), 15)])
def test_a_chunk_reaches_to_the_last_action(action, chunk):
    assert Layout(None, action, np.zeros(3, bool)).chunk == chunk


@pytest.fixture
def make():
    made = []

    def build(lessons, layout=CHUNK, kind=Cache):
        made.append(Batches(lessons, [cache(int(x.source.dataset), kind) for x in lessons], layout))
        return made[-1]

    yield build
    for batches in made:
        batches.close()


DRAW = Draw(np.array([1, 0, 0, 1, 0]), np.array([3, 10, 4, 9, 0]), replayed=0)


@pytest.mark.parametrize("threads", [1, 16], ids=["one thread", "several threads a camera"])
def test_a_batch_holds_the_right_numbers_and_images_of_every_task(make, monkeypatch, threads):
    monkeypatch.setattr("os.cpu_count", lambda: threads)
    batch = make([lesson(0), lesson(1)]).make(DRAW)
    assert batch["task"] == ["Do 1.", "Do 0.", "Do 0.", "Do 1.", "Do 0."]
    assert batch["task_index"].tolist() == [1, 0, 0, 1, 0]
    assert batch[STATE].shape == (5, 3)
    assert batch[STATE][:, 0].tolist() == [11003, 1010, 1004, 11009, 1000]
    assert batch[ACTION].shape == (5, 3, 3)
    assert batch[ACTION][..., 0].tolist() == [[10003] * 3, [10] * 3, [4] * 3, [10009, 10010, 10010], [0, 1, 2]]
    assert batch["action_is_pad"].int().tolist() == [[0, 1, 1], [0, 1, 1], [0, 1, 1], [0, 0, 1], [0, 0, 0]]
    assert batch[ACTION].dtype == batch[STATE].dtype == torch.float32
    assert batch["action_is_pad"].dtype == torch.bool
    for number, camera in enumerate(CAMERAS):
        pixels = batch[camera.key]
        assert pixels.shape == (5, 3, camera.height, camera.width)
        assert pixels.dtype == torch.uint8
        wanted = torch.tensor([53, 10, 4, 59, 0]) + 100 * number
        assert (pixels == wanted[:, None, None, None]).all()


def test_a_batch_with_history_has_a_time_axis(make):
    layout = Layout((-2, 0), (0, 1), np.zeros(3, bool))
    batch = make([lesson(0), lesson(1)], layout).make(DRAW)
    assert batch[STATE].shape == (5, 2, 3)
    assert batch[STATE][..., 0].tolist() == [[11001, 11003], [1008, 1010], [1004, 1004], [11007, 11009], [1000, 1000]]
    head, wrist = (batch[camera.key] for camera in CAMERAS)
    assert head.shape == (5, 2, 3, 4, 5)
    assert wrist.shape == (5, 2, 3, 3, 3)
    assert head[:, :, 0, 0, 0].tolist() == [[51, 53], [8, 10], [4, 4], [57, 59], [0, 0]]
    assert batch[ACTION].shape == (5, 2, 3)


def test_a_history_of_the_present_alone_keeps_its_time_axis(make):
    batch = make([lesson(0), lesson(1)], Layout((0,), (0,), np.zeros(3, bool))).make(DRAW)
    assert batch[STATE].shape == (5, 1, 3)
    assert batch[CAMERAS[0].key].shape == (5, 1, 3, 4, 5)


def test_batches_apply_each_tasks_own_hold(make):
    held = lesson(1, active=(True, False, True), hold=True)
    batch = make([lesson(0), held]).make(DRAW)
    assert batch[ACTION][0, :, 1].tolist() == [11003.25] * 3
    assert batch[ACTION][1, :, 1].tolist() == [10.25] * 3


def rule(steps=9, **changes):
    pools = (Pool(0, np.arange(11), 1.0), Pool(1, np.arange(11), 1.0))
    return Sampler(**{"seed": 1, "stage": 1, "steps": steps, "batch_size": 4, "current": pools, **changes})


def same(one, other):
    return all(torch.equal(v, other[k]) if isinstance(v, torch.Tensor) else v == other[k] for k, v in one.items())


@pytest.mark.parametrize("start", [0, 4, 8, 9])
def test_iterate_yields_the_samplers_steps_in_order_from_start(make, start):
    batches, sampler = make([lesson(0), lesson(1)]), rule()
    seen = list(batches.iterate(sampler, start))
    assert [step for step, _, _ in seen] == list(range(start, 9))
    for step, draw, batch in seen:
        wanted = sampler.draw(step)
        np.testing.assert_array_equal(draw.frames, wanted.frames)
        np.testing.assert_array_equal(draw.rows, wanted.rows)
        assert same(batch, batches.make(wanted))


def test_each_rank_gets_its_part(make):
    batches, sampler = make([lesson(0), lesson(1)]), rule(steps=2)
    whole = [b[STATE] for _, _, b in batches.iterate(sampler, 0)]
    parts = [[b[STATE] for _, _, b in batches.iterate(sampler, 0, rank, 2)] for rank in range(2)]
    for step in range(2):
        assert torch.equal(whole[step], torch.cat([parts[0][step], parts[1][step]]))
        assert len(parts[0][step]) == len(parts[1][step])


class Broken(Cache):
    """Cannot give frames of the last episode."""

    def images(self, camera, frames, out):
        if frames[0] >= 5:
            raise RuntimeError("broken disk")
        super().images(camera, frames, out)


def test_an_error_in_the_background_arrives_after_the_good_batches(make):
    batches = make([lesson()], kind=Broken)
    sound, broken = Pool(0, np.arange(5), 1.0), Pool(0, np.arange(5, 11), 1.0)
    good = 3
    sampler = rule(current=(sound,), replay=(broken,), replayed=lambda step: 4 if step == good else 0)
    stream = batches.iterate(sampler, 0)
    assert [next(stream)[0] for _ in range(good)] == list(range(good))
    with pytest.raises(RuntimeError, match="broken disk"):
        next(stream)


def test_an_error_in_the_sampler_is_not_lost_either(make):
    with pytest.raises(Exception, match="cannot be dealt"):
        list(make([lesson(0), lesson(1)]).iterate(rule(), 0, rank=0, world=3))


def test_batches_are_prepared_ahead_but_not_far_ahead(make, monkeypatch):
    drawn, original = [], Sampler.draw

    def draw(self, step, rank, world):
        drawn.append(step)
        return original(self, step, rank, world)

    monkeypatch.setattr(Sampler, "draw", draw)
    stream = make([lesson(0), lesson(1)]).iterate(rule(), 0)
    for taken in range(3):
        next(stream)
        assert drawn == list(range(taken + AHEAD))
    stream.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("batches")]
