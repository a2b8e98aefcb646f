"""Frames that are read back later are those that `World.render` draws at once, to the last bit."""

import numpy as np
import pytest

from holdfast.twin import frame_queue
from holdfast.twin.cell import CAMERAS
from holdfast.twin.world import World

SIZE = (24, 33)  # rows of pixels that do not end at a multiple of four bytes
STEPS = 75  # the queue is filled twice, and there is a rest


def pixels(frames: list[dict[str, np.ndarray]]) -> list[bytes]:
    """Frames that can be compared."""
    assert all(tuple(images) == CAMERAS for images in frames)
    return [b"".join(image.tobytes() for image in images.values()) for images in frames]


def move(world: World, step: int) -> None:
    world.step(world.home + 0.2 * np.sin(0.1 * step))


@pytest.fixture
def world(env_of):
    env = env_of("stack_bowls")
    env.reset(3)
    yield env.world
    env.close()  # so that every test makes a queue of its own


@pytest.fixture
def wanted(env_of, world) -> list[bytes]:
    """What is seen at every step, drawn at once; then the episode begins again."""
    seen = []
    for step in range(STEPS):
        seen += pixels([world.render(CAMERAS, *SIZE)])
        move(world, step)
    assert len(set(seen)) == STEPS
    env_of("stack_bowls").reset(3)
    return seen


def test_all_frames_come_in_order_with_the_same_bits(world, wanted):
    frames, reads = [], []
    for step in range(STEPS):
        ready = world.render_later(*SIZE)
        reads.append(len(ready))
        frames += ready
        move(world, step)
    assert [count for count in reads if count] == [32, 32]
    frames += world.rendered(*SIZE)
    assert pixels(frames) == wanted
    assert world.rendered(*SIZE) == []


def test_what_is_drawn_in_between_changes_nothing(env_of, world, wanted):
    frames, large = [], []
    for step in range(40):
        frames += world.render_later(*SIZE)
        env_of("stack_bowls").picture()
        large += world.render_later(48, 64)
        (front,) = world.render(["front"], *SIZE).values()
        assert front.tobytes() == wanted[step][-front.size :]
        move(world, step)
    assert pixels(frames + world.rendered(*SIZE)) == wanted[:40]
    assert len(large + world.rendered(48, 64)) == 40


def test_a_reset_forgets_the_frames_that_wait(env_of, world, wanted):
    for step in range(5):
        assert world.render_later(*SIZE) == []
        move(world, step)
    env_of("stack_bowls").reset(3)
    assert world.rendered(*SIZE) == []
    for step in range(2):
        world.render_later(*SIZE)
        move(world, step)
    assert pixels(world.rendered(*SIZE)) == wanted[:2]


def test_frames_do_not_change_when_others_take_their_place(world, wanted):
    world.render_later(*SIZE)
    first = world.rendered(*SIZE)
    move(world, 0)
    world.render_later(*SIZE)
    second = world.rendered(*SIZE)
    assert pixels(first + second) == wanted[:2]


def test_large_frames_wait_in_small_numbers(world, wanted, monkeypatch):
    monkeypatch.setattr(frame_queue, "_BYTES", 1)
    for step in range(2):
        assert pixels(world.render_later(*SIZE)) == [wanted[step]]
        assert world.rendered(*SIZE) == []
        move(world, step)
