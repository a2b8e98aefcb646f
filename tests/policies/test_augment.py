import pytest
import torch

from holdfast.policies.augment import augment
from holdfast.policies.config import AugmentConfig

OFF = AugmentConfig(0, 0, 0, 0)
SHIFT = AugmentConfig(0.25, 0, 0, 0)
COLOUR = AugmentConfig(0, 0.3, 0.3, 0.3)


def grid(count, height=8, width=12, time=None):
    """Images whose red channel is the pixel's row, green its column, blue a constant."""
    rows = torch.arange(height)[:, None].expand(height, width)
    columns = torch.arange(width)[None].expand(height, width)
    image = torch.stack([rows, columns, torch.full((height, width), 200)]).to(torch.uint8)
    return image.expand(count, *(() if time is None else (time,)), 3, height, width).clone()


def noise(count, *shape, seed=0):
    return torch.randint(0, 256, (count, *shape), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


def shifts(images):
    """By how many rows and columns each sample's grid was moved, read off its centre."""
    height, width = images.shape[-2:]
    pixels = (images[..., height // 2, width // 2] * 255).round().long()
    return torch.stack([pixels[..., 0] - height // 2, pixels[..., 1] - width // 2], -1)


def test_without_augmentation_pixels_are_only_scaled():
    pixels = noise(5, 3, 6, 7)
    out = augment({"a": pixels}, OFF, seed=1)["a"]
    assert torch.equal(out, pixels.float() / 255)
    assert out.dtype == torch.float32


@pytest.mark.parametrize("time", [None, 3])
def test_all_cameras_of_a_sample_move_alike_and_samples_differ(time):
    cameras = {name: grid(16, time=time) for name in ("head", "wrist", "front")}
    moved = {name: shifts(images) for name, images in augment(cameras, SHIFT, seed=3).items()}
    assert torch.equal(moved["head"], moved["wrist"])
    assert torch.equal(moved["head"], moved["front"])
    per_sample = moved["head"] if time is None else moved["head"][:, 0]
    if time is not None:
        assert (moved["head"] == per_sample[:, None]).all()  # the moments of a sample move together
    assert len({tuple(s) for s in per_sample.tolist()}) > 8
    assert per_sample[:, 0].abs().max() <= 2  # a quarter of 8 rows
    assert per_sample[:, 1].abs().max() <= 3  # a quarter of 12 columns
    assert (per_sample < 0).any(0).all()
    assert (per_sample > 0).any(0).all()


def test_cameras_of_different_size_move_by_the_same_share_of_it():
    out = augment({"small": grid(16, 8, 8), "large": grid(16, 80, 80)}, SHIFT, seed=3)
    small, large = shifts(out["small"]).float() / 8, shifts(out["large"]).float() / 80
    assert (small - large).abs().max() <= 1 / 16 + 1 / 160  # each rounds to whole pixels
    assert small.abs().max() > 0


def test_a_moved_image_repeats_its_border():
    out = (augment({"a": grid(16)}, SHIFT, seed=3)["a"] * 255).round().long()
    for sample, (down, right) in enumerate(shifts(out / 255).tolist()):
        rows = (torch.arange(8) + down).clamp(0, 7)
        columns = (torch.arange(12) + right).clamp(0, 11)
        assert torch.equal(out[sample, 0], rows[:, None].expand(8, 12))
        assert torch.equal(out[sample, 1], columns[None].expand(8, 12))
        assert (out[sample, 2] == 200).all()


@pytest.mark.parametrize("shape", [(3, 6, 7), (2, 3, 6, 7)], ids=["moment", "time axis"])
@pytest.mark.parametrize("config", [AugmentConfig(), AugmentConfig(0.5, 0.99, 0.99, 0.99), COLOUR], ids=str)
def test_values_stay_between_zero_and_one_and_shapes_as_they_are(shape, config):
    out = augment({"a": noise(8, *shape), "b": noise(8, *shape, seed=1)}, config, seed=2)
    for images in out.values():
        assert images.shape == (8, *shape)
        assert images.min() >= 0
        assert images.max() <= 1


def test_the_seed_decides():
    images = {"a": noise(4, 3, 8, 8), "b": noise(4, 3, 8, 8, seed=1)}
    one, again, other = (augment(images, AugmentConfig(), seed) for seed in (5, 5, 6))
    assert all(torch.equal(one[key], again[key]) for key in images)
    assert not torch.equal(one["a"], other["a"])


def test_the_global_generator_is_neither_read_nor_moved():
    torch.manual_seed(0)
    one = augment({"a": noise(4, 3, 8, 8)}, AugmentConfig(), seed=5)["a"]
    drawn = torch.rand(1)
    torch.manual_seed(1)
    two = augment({"a": noise(4, 3, 8, 8)}, AugmentConfig(), seed=5)["a"]
    torch.manual_seed(0)
    assert torch.equal(one, two)
    assert torch.equal(drawn, torch.rand(1))


def test_the_input_is_left_as_it_is():
    pixels = noise(4, 3, 8, 8)
    before = pixels.clone()
    augment({"a": pixels}, AugmentConfig(), seed=5)
    assert torch.equal(pixels, before)


def test_brightness_is_one_factor_per_sample_within_its_bounds():
    out = augment({"a": torch.full((64, 3, 4, 4), 100, dtype=torch.uint8)}, AugmentConfig(0, 0.2, 0, 0), seed=1)["a"]
    factors = out / (100 / 255)
    assert ((factors - factors[:, :1, :1, :1]).abs() < 1e-5).all()
    per_sample = factors[:, 0, 0, 0]
    assert 0.8 <= per_sample.min() < 0.85
    assert 1.15 < per_sample.max() <= 1.2
    assert len(per_sample.unique()) > 32


def test_contrast_keeps_the_mean_and_saturation_keeps_the_grey():
    pixels = (noise(8, 3, 6, 6) // 4 + 96).to(torch.uint8)  # mid tones: nothing is cut off
    plain = pixels.float() / 255
    contrast = augment({"a": pixels}, AugmentConfig(0, 0, 0.3, 0), seed=1)["a"]
    torch.testing.assert_close(contrast.mean((1, 2, 3)), plain.mean((1, 2, 3)))
    assert not torch.allclose(contrast.std((1, 2, 3)), plain.std((1, 2, 3)), rtol=0.01)
    saturation = augment({"a": pixels}, AugmentConfig(0, 0, 0, 0.3), seed=1)["a"]
    torch.testing.assert_close(saturation.mean(1), plain.mean(1))
    assert not torch.allclose(saturation, plain, atol=0.01)


def test_each_camera_has_its_own_colours():
    pixels = torch.full((4, 3, 4, 4), 100, dtype=torch.uint8)
    out = augment({"a": pixels, "b": pixels}, COLOUR, seed=1)
    assert not torch.allclose(out["a"], out["b"], atol=1e-3)


def test_a_hand_is_never_cropped_or_turned_and_other_cameras_are_alike():
    config = AugmentConfig(0, 0, 0, 0, crop=0.3, rotation=20)
    pixels = noise(6, 3, 16, 16)
    out = augment({"head": pixels, "left_wrist": pixels, "front": pixels}, config, seed=1)
    assert torch.equal(out["left_wrist"], pixels.float() / 255)
    assert torch.equal(out["head"], out["front"])
    assert all(not torch.allclose(out["head"][i], pixels[i] / 255, atol=0.05) for i in range(6))


@pytest.mark.parametrize("time", [None, 2])
def test_a_crop_shows_a_part_of_the_image_at_its_full_size(time):
    out = augment({"a": grid(32, 40, 40, time=time)}, AugmentConfig(0, 0, 0, 0, crop=0.25), seed=1)["a"] * 255
    assert out.shape == grid(32, 40, 40, time=time).shape
    rows = out if time is None else out[:, 0]
    first, last = rows[:, 0, 0, 20], rows[:, 0, -1, 20]
    torch.testing.assert_close(
        last - first, torch.full((32,), 0.75 * 39), rtol=0, atol=1.0
    )  # three quarters of the rows
    assert first.min() >= 0
    assert last.max() <= 39
    assert first.max() - first.min() > 5  # samples look at different parts


def test_a_turn_keeps_the_centre_and_the_proportions_of_an_oblong_image():
    out = augment({"a": grid(32, 30, 60)}, AugmentConfig(0, 0, 0, 0, rotation=30), seed=1)["a"] * 255
    down, right = out[:, 0], out[:, 1]
    centre = [values[:, 14:16, 29:31].mean((1, 2)) for values in (down, right)]
    torch.testing.assert_close(centre[0], torch.full((32,), 14.5), rtol=0, atol=0.2)
    torch.testing.assert_close(centre[1], torch.full((32,), 29.5), rtol=0, atol=0.2)
    # Ten pixels to the right of the centre is ten pixels away from it in the original, in whatever direction.
    step = torch.stack([v[:, 15, 40] - v[:, 15, 30] for v in (down, right)], 1)
    torch.testing.assert_close(step.norm(dim=1), torch.full((32,), 10.0), rtol=0, atol=0.2)
    angles = torch.atan2(step[:, 0], step[:, 1]).rad2deg()
    assert angles.abs().max() <= 31
    assert angles.min() < -15
    assert angles.max() > 15


def test_new_kinds_do_not_change_what_was_drawn_without_them():
    pixels = noise(4, 3, 8, 8)
    shown = augment({"wrist": pixels}, AugmentConfig(0.25, 0, 0, 0), seed=5)["wrist"]
    assert torch.equal(shown, augment({"wrist": pixels}, AugmentConfig(0.25, 0, 0, 0, crop=0.1), seed=5)["wrist"])
