"""However a batch is cut, its samples get the same noise and the same augmentation."""

import pytest
import torch
from pi05_tiny import make_batch, our_policy

from holdfast.data.lerobot.source import ACTION, IMAGES, STATE
from holdfast.policies.augment import augment
from holdfast.policies.batch_slice import BatchSlice, draw
from holdfast.policies.config import AugmentConfig
from holdfast.policies.fresh_nano import fresh_nano

ROWS = 8


def nano():
    adapter = fresh_nano(("a.pos", "gripper.pos"), ("head",), 32, "cpu", 0, width=64, heads=2, noise_draws=3)
    adapter.policy.train().config.state_noise = 0.5
    return adapter.policy, {
        IMAGES + "head": torch.rand(ROWS, 3, 32, 32),
        STATE: torch.randn(ROWS, 2),
        ACTION: torch.randn(ROWS, 16, 2),
        "observation.language.tokens": torch.ones(ROWS, 24, dtype=torch.int64),
        "observation.language.attention_mask": torch.ones(ROWS, 24, dtype=torch.bool),
    }


def pi05():
    return our_policy().train(), make_batch((9,) * ROWS)


@pytest.mark.parametrize("make", [nano, pi05])
def test_a_part_has_the_losses_it_has_in_the_whole_batch(make):
    policy, batch = make()

    def losses(first, rows, part):
        torch.manual_seed(5)
        with torch.no_grad():
            return policy.loss_elements({key: value[first : first + rows] for key, value in batch.items()}, part)

    whole = losses(0, ROWS, None)
    for rows in (ROWS, 4, 2):
        cut = [losses(first, rows, BatchSlice(first, rows, ROWS)) for first in range(0, ROWS, rows)]
        torch.testing.assert_close(torch.cat(cut), whole, atol=1e-5, rtol=1e-5)
    alone = losses(4, 4, None)
    assert (alone - whole[4:]).abs().max() > 0.1, "noise that does not matter proves nothing"


def test_a_part_is_augmented_as_in_the_whole_batch():
    images = {name: torch.randint(0, 256, (ROWS, 3, 16, 16), dtype=torch.uint8) for name in ("head", "left_wrist")}
    config = AugmentConfig(0.2, 0.3, 0.3, 0.3, crop=0.05, rotation=5.0)
    whole = augment(images, config, seed=3)
    for first in (0, 4):
        some = {name: pixels[first : first + 4] for name, pixels in images.items()}
        part = augment(some, config, 3, BatchSlice(first, 4, ROWS))
        for name, pixels in part.items():
            torch.testing.assert_close(pixels, whole[name][first : first + 4])


def test_several_draws_of_a_sample_stay_together():
    counted = draw(BatchSlice(2, 2, 6), 6, lambda rows: torch.arange(rows))
    assert counted.tolist() == [6, 7, 8, 9, 10, 11]
