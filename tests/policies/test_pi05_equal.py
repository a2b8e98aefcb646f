"""Loss and actions are LeRobot's, with the same weights, noise and time: their folder read here, ours read there."""

import pytest
import torch
from pi05_tiny import CAMERAS, HEAD, TOKENS, WORDS, WRIST, Peer, make_batch, our_policy, peer_policy
from safetensors.torch import load_file, save_file

from holdfast.core.errors import HoldfastError
from holdfast.policies.pi05 import weights

CLOSE = {"rtol": 1e-4, "atol": 1e-4}


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """LeRobot's policy and the folder it was saved in."""
    folder = tmp_path_factory.mktemp("theirs")
    policy = peer_policy()
    policy.save_pretrained(folder)
    return policy, folder


@pytest.fixture(scope="module")
def pair(theirs):
    """The same weights in both."""
    policy, folder = theirs
    ours = our_policy()
    ours.read_weights(weights.locate(folder))
    return ours, policy


def losses(ours, theirs, batch):
    """Both losses, element by element, at the same noise and time."""
    images, masks = theirs._preprocess_images(batch)
    actions = theirs.prepare_action(batch)
    noise, time = torch.randn_like(actions), torch.rand(len(actions)) * 0.9 + 0.05
    expected = theirs.model.forward(images, masks, batch[TOKENS], batch[WORDS], actions, noise, time)
    return ours.model(*ours._observed(batch), actions, noise, time).square(), expected


def actions(ours, theirs, batch):
    noise = torch.randn(len(batch[TOKENS]), *ours.noise_shape)
    return ours.predict_action_chunk(batch, noise=noise), theirs.predict_action_chunk(batch, noise=noise)


@pytest.mark.parametrize("lengths", [(40, 40), (9, 14, 30), (1, 40)], ids=str)
def test_loss_and_actions_are_equal_whatever_the_lengths_of_prompts(pair, lengths):
    torch.manual_seed(0)
    batch = make_batch(lengths)
    torch.testing.assert_close(*losses(*pair, batch), **CLOSE)
    torch.testing.assert_close(*actions(*pair, batch), **CLOSE)


def test_prompts_of_one_length_need_no_mask(pair):
    batch, bare = make_batch((40, 40)), make_batch((40, 40))
    del bare[WORDS]
    ours, theirs = pair
    noise = torch.randn(2, *ours.noise_shape)
    expected = theirs.predict_action_chunk(batch, noise=noise)
    torch.testing.assert_close(ours.predict_action_chunk(bare, noise=noise), expected, **CLOSE)
    elements = []
    for observed in (batch, bare):
        torch.manual_seed(0)
        elements.append(ours.loss_elements(observed))
    torch.testing.assert_close(*elements, **CLOSE)


@pytest.mark.parametrize("cameras", [(HEAD,), (HEAD, WRIST), (WRIST,)], ids=len)
def test_a_missing_camera_is_left_out_as_lerobot_masks_it(pair, cameras):
    batch = make_batch((9, 20), cameras)
    torch.testing.assert_close(*losses(*pair, batch), **CLOSE)
    torch.testing.assert_close(*actions(*pair, batch), **CLOSE)


def test_images_of_another_size_are_fitted_alike(pair):
    batch = {**make_batch((9, 20)), HEAD: torch.rand(2, 3, 40, 61)}
    torch.testing.assert_close(*losses(*pair, batch), **CLOSE)


def test_gradients_are_equal(pair):
    ours, theirs = pair
    mine, expected = losses(ours, theirs, make_batch())
    ours.zero_grad()
    theirs.zero_grad()
    mine.mean().backward()
    expected.mean().backward()
    other = dict(theirs.named_parameters())
    compared = 0
    for name, parameter in ours.named_parameters():
        if parameter.grad is not None:
            torch.testing.assert_close(parameter.grad, other[name].grad, rtol=1e-3, atol=1e-6)
            compared += 1
        else:
            assert other[name].grad is None or not other[name].grad.any()
            assert not parameter.requires_grad
    assert compared > 80


def test_lerobot_reads_what_is_written_here_strictly(theirs, tmp_path, capsys):
    ours = our_policy(seed=5)
    weights.write(weights.plain_state(ours.model), tmp_path / weights.FILE)
    other = Peer.from_pretrained(tmp_path, config=theirs[0].config)
    said = capsys.readouterr().out
    assert "All keys loaded successfully" in said
    assert "Warning" not in said
    words = ours.model.language.embed_tokens.weight
    assert torch.equal(other.model.paligemma_with_expert.paligemma.lm_head.weight, words)
    batch = make_batch()
    torch.testing.assert_close(*losses(ours, other.eval(), batch), **CLOSE)
    torch.testing.assert_close(*actions(ours, other.eval(), batch), **CLOSE)


def test_openpi_files_without_lerobots_prefix_or_embedding_are_read(theirs, pair, tmp_path):
    stored = load_file(theirs[1] / weights.FILE)
    stored = {key.removeprefix("model."): value for key, value in stored.items()}
    embedded = stored.pop(weights.EMBEDDED)
    stored[weights.HEAD] = embedded
    save_file(stored, tmp_path / weights.FILE)
    ours = our_policy(seed=7)
    ours.read_weights(tmp_path / weights.FILE)
    batch = make_batch()
    torch.testing.assert_close(*losses(ours, pair[1], batch), **CLOSE)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda s: s.pop("model.action_in_proj.bias"), ["lacks 1 weights", "action_in_proj.bias"]),
        (lambda s: s.update({"model.state_proj.weight": torch.zeros(2)}), ["unexpected 1 weights", "state_proj"]),
        (lambda s: s.update({"model.time_mlp_in.bias": torch.zeros(3)}), ["other shapes of 1", "time_mlp_in.bias"]),
    ],
    ids=["missing", "unexpected", "misshapen"],
)
def test_a_file_that_does_not_fit_is_refused_by_name(theirs, tmp_path, change, said):
    stored = load_file(theirs[1] / weights.FILE)
    change(stored)
    save_file(stored, tmp_path / weights.FILE)
    ours = our_policy()
    before = {key: value.clone() for key, value in ours.state_dict().items()}
    with pytest.raises(HoldfastError) as error:
        ours.read_weights(tmp_path / weights.FILE)
    assert all(part in str(error.value) for part in said)
    assert all(torch.equal(before[key], value) for key, value in ours.state_dict().items())


def test_a_place_without_weights_is_an_error_not_a_random_start(tmp_path):
    with pytest.raises(HoldfastError, match="no weights"):
        weights.locate(tmp_path)


def test_computing_twice_gives_the_same_gradients():
    gradients = []
    for mode in ("never", "always"):
        policy = our_policy(recompute=mode).train()
        torch.manual_seed(3)
        policy.loss_elements(make_batch()).mean().backward()
        gradients.append({name: p.grad for name, p in policy.named_parameters() if p.grad is not None})
    assert gradients[0].keys() == gradients[1].keys()
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradient, gradients[1][name], rtol=1e-5, atol=1e-8)


def test_every_camera_goes_through_the_tower_in_one_pass():
    policy, shapes = our_policy(), []
    policy.model.vision.embeddings.register_forward_pre_hook(lambda _, inputs: shapes.append(inputs[0].shape))
    policy.predict_action_chunk(make_batch())
    assert [shape[0] for shape in shapes] == [3 * len(CAMERAS)]
