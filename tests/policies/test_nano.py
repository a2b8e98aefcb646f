"""`nano` learns, listens, round-trips through LeRobot's own loaders, and executes its queue where it meant to."""

import json
from dataclasses import fields

import pytest
import torch
from lerobot.configs import FeatureType, PipelineFeatureType, PolicyFeature
from lerobot.policies.factory import get_policy_class, make_pre_post_processors

from holdfast.core.errors import HoldfastError
from holdfast.policies.nano.configuration_nano import SIZES, NanoConfig
from holdfast.policies.nano.modeling_nano import resize_with_pad
from holdfast.policies.nano.processor_nano import hash_words
from holdfast.policies.saved_folder import PREPROCESSOR, load_config, load_pipelines

HEAD, WRIST = "observation.images.head", "observation.images.a_wrist"
STATE, TOKENS, WORDS = "observation.state", "observation.language.tokens", "observation.language.attention_mask"
NAMES = ["shoulder.pos", "elbow.pos", "Gripper.pos"]
STATS = {
    STATE: {"q01": torch.tensor([-2.0, 0.0, 0.0]), "q99": torch.tensor([2.0, 1.0, 0.07])},
    "action": {"q01": torch.tensor([-0.2, -0.1, 0.0]), "q99": torch.tensor([0.3, 0.1, 0.07])},
}
TINY = {
    "width": 64,
    "heads": 2,
    "image_size": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "chunk_size": 6,
    "n_action_steps": 4,
    "max_tokens": 8,
}


def make_config(cameras=(HEAD, WRIST), **changes):
    visual = {key: PolicyFeature(FeatureType.VISUAL, (3, 32, 32)) for key in cameras}
    features = {
        "input_features": {STATE: PolicyFeature(FeatureType.STATE, (3,)), **visual},
        "output_features": {"action": PolicyFeature(FeatureType.ACTION, (3,))},
    }
    return NanoConfig(**{"device": "cpu", "action_feature_names": NAMES, **features, **TINY, **changes})


def build(stats=STATS, **changes):
    """A tiny policy of fixed weights with its pre- and post-processor."""
    config = make_config(**changes)
    torch.manual_seed(0)
    policy = get_policy_class("nano")(config)
    policy.set_anchor(*(stats[key][q] for key in (STATE, "action") for q in ("q01", "q99")))
    return policy, *make_pre_post_processors(config, dataset_stats=stats)


def make_batch(size=4, seed=1, task=None):
    """A raw batch as a dataset gives it: absolute actions on a ramp to a corner of their range, images, text."""
    draw = torch.Generator().manual_seed(seed)
    low, high = STATS["action"]["q01"], STATS["action"]["q99"]
    state = torch.rand(size, 3, generator=draw) * torch.tensor([1.0, 0.5, 0.07])
    corner = (torch.arange(size)[:, None, None] >> torch.arange(3)) % 2
    goal = torch.where(corner == 1, high, low)
    return {
        HEAD: torch.rand(size, 3, 32, 32, generator=draw),
        WRIST: torch.rand(size, 3, 32, 32, generator=draw),
        STATE: state,
        "action": goal * torch.linspace(0.2, 1, 6)[:, None] + state[:, None] * torch.tensor([1.0, 1.0, 0.0]),
        "task": task or ["Stack the bowls."] * size,
    }


def repeated(batch, times):
    """The same samples many times, so that one step sees many draws of noise and time."""
    return {key: torch.cat([value] * times) for key, value in batch.items() if isinstance(value, torch.Tensor)}


def fit(policy, batch, steps):
    """Train on one batch; returns the mean loss of the first and of the last five steps."""
    policy.train()
    optimizer = torch.optim.AdamW(policy.get_optim_params(), lr=2e-3, betas=(0.9, 0.95))
    losses = []
    for _ in range(steps):
        loss, _ = policy(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    policy.eval()
    return sum(losses[:5]) / 5, sum(losses[-5:]) / 5


@pytest.mark.parametrize("places", [[-5, 0, 1], [0, 1], [0, 1, 3], [], [0, 1, True]])
@pytest.mark.parametrize("relative", [True, False])
def test_states_to_count_from_are_those_of_the_robot(places, relative):
    with pytest.raises(HoldfastError, match=r"nano's relative_to must have a state from 0 to 2, or -1 for none"):
        make_config(relative_to=places, use_relative_actions=relative).validate_features()
    make_config(relative_to=[2, -1, 0], use_relative_actions=relative).validate_features()


def test_it_learns_a_batch_and_reproduces_its_actions():
    policy, pre, _ = build()
    batch = pre(make_batch())
    first, last = fit(policy, repeated(batch, 6), steps=120)
    assert last < first / 4
    error = (policy.predict_action_chunk(batch) - batch["action"]).abs().mean()
    spread = (batch["action"] - batch["action"].mean(0)).abs().mean()
    assert error < spread / 2


def test_the_instruction_decides_between_identical_images():
    policy, pre, _ = build()
    raw = make_batch(size=1)
    raw = {key: value.repeat(2, *[1] * (value.ndim - 1)) for key, value in raw.items() if key != "task"}
    raw["task"] = ["Lift the red cup.", "Lift the blue cup."]
    raw["action"] = raw[STATE][:, None] + torch.tensor([0.2, -0.2])[:, None, None].expand(2, 6, 3)
    batch = pre(raw)
    fit(policy, repeated(batch, 8), steps=80)
    noise = torch.randn(1, 6, 3).expand(2, 6, 3)
    red, blue = policy.predict_action_chunk(batch, noise=noise)[..., 0].mean(1)
    assert red > 0
    assert blue < 0
    assert red - blue > 0.5 * (batch["action"][0] - batch["action"][1])[..., 0].mean()


def test_save_and_load_through_lerobot_gives_equal_actions(tmp_path):
    policy, *pipelines = build()
    for part in (policy, *pipelines):
        part.save_pretrained(tmp_path)
    loaded = get_policy_class("nano").from_pretrained(tmp_path)
    loaded_pipelines = make_pre_post_processors(loaded.config, pretrained_path=str(tmp_path))
    assert torch.equal(loaded.anchor_scale, policy.anchor_scale)
    actions = []
    for model, (pre, post) in ((policy, pipelines), (loaded, loaded_pipelines)):
        torch.manual_seed(3)
        batch = pre(make_batch())
        actions.append(torch.stack([post(model.select_action(batch)) for _ in range(6)]))
        assert batch[TOKENS].shape == (4, 8)
    assert torch.equal(*actions)


def test_loading_refuses_a_file_without_all_weights(tmp_path):
    policy, _, _ = build()
    weights = policy.state_dict()
    del weights["network.action_out.bias"]
    policy.save_pretrained(tmp_path, state_dict=weights)
    with pytest.raises(RuntimeError, match=r"action_out\.bias"):
        get_policy_class("nano").from_pretrained(tmp_path)


def test_a_moving_robot_is_sent_where_the_chunk_pointed():
    """The queue, post-processed one by one as the state moves, equals the chunk post-processed at once."""
    policy, pre, post = build()
    raw = make_batch()
    noise = torch.randn(4, 6, 3)
    meant = post(policy.predict_action_chunk(pre(raw), noise=noise))
    for step in range(policy.config.n_action_steps):
        moved = {**raw, STATE: raw[STATE] + 0.1 * step}
        sent = post(policy.select_action(pre(moved), noise=noise))
        torch.testing.assert_close(sent, meant[:, step], atol=1e-5, rtol=1e-5)
    assert not policy._queue
    # The next chunk counts from where the robot is then.
    again = post(policy.select_action(pre(moved), noise=noise))
    torch.testing.assert_close(again, post(policy.predict_action_chunk(pre(moved), noise=noise))[:, 0])


def test_the_anchor_holds_where_a_dimension_never_moved():
    policy, _, _ = build()
    still = torch.tensor([0.5, 0.5, 0.5])
    policy.set_anchor(STATS[STATE]["q01"].numpy(), STATS[STATE]["q99"].numpy(), still, still)
    torch.testing.assert_close(policy.anchor_scale, torch.tensor([4.0 / 1e-8, 1.0 / 1e-8, 0.0]))


def test_the_anchor_comes_from_lerobots_factory_or_has_to_be_set():
    policy, pre, _ = build()
    torch.testing.assert_close(policy.anchor_scale, torch.tensor([8.0, 5.0, 0.0]))
    from_factory = get_policy_class("nano")(make_config(), dataset_stats=STATS, dataset_meta=None)
    assert torch.equal(from_factory.anchor_scale, policy.anchor_scale)
    unset = get_policy_class("nano")(make_config())
    assert not unset.anchor_scale.any()
    with pytest.raises(HoldfastError, match="set_anchor"):
        unset.select_action(pre(make_batch()))


def test_absolute_actions_need_no_anchor_and_no_state_of_their_size():
    stats = {STATE: {q: v[:2] for q, v in STATS[STATE].items()}, "action": STATS["action"]}
    inputs = {**make_config().input_features, STATE: PolicyFeature(FeatureType.STATE, (2,))}
    policy, pre, post = build(stats, use_relative_actions=False, action_feature_names=None, input_features=inputs)
    raw = make_batch()
    raw[STATE] = raw[STATE][:, :2]
    noise = torch.randn(4, 6, 3)
    chunk = post(policy.predict_action_chunk(pre(raw), noise=noise))
    for step in range(4):
        assert torch.equal(post(policy.select_action(pre(raw), noise=noise)), chunk[:, step])


def test_reset_forgets_the_queue():
    policy, pre, _ = build()
    batch = pre(make_batch())
    policy.select_action(batch)
    assert len(policy._queue) == policy.config.n_action_steps - 1
    policy.reset()
    assert not policy._queue


def test_padded_steps_do_not_influence_the_loss():
    policy, pre, _ = build()
    batch = pre(make_batch())
    padded = torch.zeros(4, 6, dtype=torch.bool)
    padded[0, 2:] = True
    losses = []
    for filler in (0.0, 1e3):
        torch.manual_seed(0)
        actions = torch.where(padded[..., None], filler, batch["action"])
        losses.append(policy({**batch, "action": actions, "action_is_pad": padded})[0])
    torch.testing.assert_close(*losses)
    torch.manual_seed(0)
    elements = policy.loss_elements({**batch, "action_is_pad": padded})
    assert elements.shape == (4, 6, 3)
    torch.testing.assert_close(losses[0], elements[~padded].mean())


def test_loss_follows_the_global_seed_and_noise_of_the_state_is_for_training_only():
    policy, pre, _ = build(state_noise=1.0)
    batch = pre(make_batch())

    def loss(training, seed=5):
        policy.train(training)
        torch.manual_seed(seed)
        return policy(batch)[0]

    assert torch.equal(loss(True), loss(True))
    assert not torch.equal(loss(True), loss(True, seed=6))
    assert not torch.equal(loss(True), loss(False))


def test_the_order_of_cameras_in_a_dataset_does_not_matter():
    batches, actions = [], []
    for cameras in ((HEAD, WRIST), (WRIST, HEAD)):
        policy, pre, _ = build(cameras=cameras)
        batches.append(pre(make_batch()))
        torch.manual_seed(0)
        actions.append(policy.predict_action_chunk(batches[-1]))
    assert torch.equal(*actions)
    swapped = {**batches[0], HEAD: batches[0][WRIST], WRIST: batches[0][HEAD]}
    torch.manual_seed(0)
    assert not torch.equal(policy.predict_action_chunk(swapped), actions[0])


def test_a_missing_camera_is_named():
    policy, pre, _ = build()
    batch = pre(make_batch())
    del batch[WRIST]
    with pytest.raises(HoldfastError, match="a_wrist"):
        policy.predict_action_chunk(batch)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heads": 3}, "heads=3 does not divide width=64"),
        ({"width": 40}, "multiple of 16"),
        ({"image_size": 40}, "multiple of 16"),
        ({"n_action_steps": 7}, "exceeds chunk_size=6"),
        ({"denoise_steps": 0}, "denoise_steps must be 1 to 1000, got 0"),
        ({"n_obs_steps": 2}, "one observation"),
        ({"vocabulary": 1}, "vocabulary"),
        ({"state_noise": -0.1}, "state_noise"),
        ({"state_noise": float("nan")}, "state_noise"),
    ],
)
def test_impossible_settings_are_refused(changes, message):
    with pytest.raises(HoldfastError, match=message):
        make_config(**changes)


def test_every_size_is_bounded():
    """Whole numbers of a config decide how much memory and time an observation takes."""
    whole = {field.name for field in fields(NanoConfig) if field.type in (int, "int")}
    assert whole - {"n_obs_steps", "warmup_steps"} == set(SIZES)
    for name, (lowest, highest) in SIZES.items():
        for value in (lowest - 1, highest + 1, 10**30):
            with pytest.raises(HoldfastError, match=f"{name} must be {lowest} to {highest}, got {value}"):
                make_config(**{name: value})


@pytest.mark.parametrize("size", [{"max_tokens": 10**10}, {"vocabulary": 1}])
def test_a_saved_pipeline_has_the_same_bounds(tmp_path, size):
    for part in build():
        part.save_pretrained(tmp_path)
    file = tmp_path / PREPROCESSOR
    pipeline = json.loads(file.read_text())
    next(step for step in pipeline["steps"] if step["registry_name"] == "nano_tokenizer")["config"].update(size)
    file.write_text(json.dumps(pipeline))
    with pytest.raises(HoldfastError, match=next(iter(size))):
        load_pipelines(load_config(tmp_path), tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cameras": ()}, "at least one camera"),
        ({"input_features": {HEAD: PolicyFeature(FeatureType.VISUAL, (3, 32, 32))}}, "observation.state"),
        ({"output_features": {}}, "needs 'action'"),
        ({"output_features": {"action": PolicyFeature(FeatureType.ACTION, (4,))}}, "state for every action"),
        ({"action_feature_names": None}, "names of all 3"),
        ({"action_feature_names": ["motors"]}, "names of all 3"),
    ],
)
def test_impossible_features_are_refused(changes, message):
    with pytest.raises(HoldfastError, match=message):
        get_policy_class("nano")(make_config(**changes))


def test_a_camera_must_have_three_channels():
    config = make_config()
    config.input_features[HEAD] = PolicyFeature(FeatureType.VISUAL, (1, 32, 32))
    with pytest.raises(HoldfastError, match="head"):
        config.validate_features()


def test_images_of_any_size_and_kind_are_taken():
    policy, pre, _ = build()
    noise = torch.randn(2, 6, 3)
    pixels = torch.randint(0, 256, (2, 3, 48, 64), dtype=torch.uint8)
    raw = make_batch(size=2)
    as_bytes = policy.predict_action_chunk(pre({**raw, HEAD: pixels}), noise=noise)
    as_floats = policy.predict_action_chunk(pre({**raw, HEAD: pixels / 255}), noise=noise)
    torch.testing.assert_close(as_bytes, as_floats)


@pytest.mark.parametrize(("height", "width"), [(60, 80), (80, 60), (12, 16), (32, 32), (33, 200)])
def test_resize_keeps_the_aspect(height, width):
    image = torch.full((1, 3, height, width), 0.2)
    side = min(height, width) // 2
    top, left = (height - side) // 2, (width - side) // 2
    image[..., top : top + side, left : left + side] = 1.0
    resized = resize_with_pad(image, 32)
    assert resized.shape == (1, 3, 32, 32)
    rows, columns = torch.nonzero(resized[0, 0] > 0.6, as_tuple=True)
    tall, wide = rows.max() - rows.min() + 1, columns.max() - columns.min() + 1
    assert abs(tall - wide) <= 1
    assert abs(wide - 32 * side / max(height, width)) <= 1
    assert abs(rows.float().mean() - 15.5) <= 1
    assert abs(columns.float().mean() - 15.5) <= 1


def test_resize_leaves_images_of_the_right_size_alone():
    image = torch.rand(1, 3, 32, 32)
    assert resize_with_pad(image, 32) is image


def test_words_are_hashed_alike_everywhere():
    assert hash_words("Fold the grey towel.", 2048, 6) == (225, 1925, 233, 1351, 0, 0)
    assert hash_words("  fold THE grey, towel", 2048, 6) == hash_words("Fold the grey towel.", 2048, 6)
    assert all(0 < bucket < 16 for bucket in hash_words("a b c d e f", 16, 6))


def test_words_beyond_the_limit_still_count():
    first, second = hash_words("put a b c in red", 2048, 3), hash_words("put a b c in blue", 2048, 3)
    assert first[:2] == second[:2]
    assert first[2] != second[2]


def test_one_instruction_serves_the_whole_batch():
    _, pre, _ = build()
    batch = pre(make_batch(task="Stack the bowls."))
    assert torch.equal(batch[TOKENS], pre(make_batch())[TOKENS])
    assert torch.equal(batch[WORDS].sum(1), torch.full((4,), 3))


@pytest.mark.parametrize("task", [None, "", " . ", ["Stack.", "", "Stack.", "Stack."], ["Stack.", "Stack."]])
def test_a_missing_instruction_is_an_error(task):
    _, pre, _ = build()
    raw = {**make_batch(), "task": task}
    with pytest.raises(HoldfastError, match="task"):
        pre(raw if task is not None else {key: value for key, value in raw.items() if key != "task"})


def test_padding_behind_the_instruction_is_not_read():
    policy, pre, _ = build()
    batch, noise = pre(make_batch()), torch.randn(4, 6, 3)
    scribbled = {**batch, TOKENS: torch.where(batch[WORDS], batch[TOKENS], 77)}
    torch.testing.assert_close(
        policy.predict_action_chunk(batch, noise=noise), policy.predict_action_chunk(scribbled, noise=noise)
    )


def test_the_tokenizer_declares_what_it_adds():
    _, pre, _ = build()
    step = next(step for step in pre.steps if hasattr(step, "max_tokens"))
    declared = step.transform_features({PipelineFeatureType.OBSERVATION: {}})[PipelineFeatureType.OBSERVATION]
    assert {key: feature.shape for key, feature in declared.items()} == {TOKENS: (8,), WORDS: (8,)}


def test_it_trains_in_bfloat16():
    policy, pre, _ = build()
    batch = pre(make_batch())
    with torch.autocast("cpu", torch.bfloat16):
        loss, _ = policy(batch)
        chunk = policy.predict_action_chunk(batch)
    loss.backward()
    assert loss.dtype == chunk.dtype == torch.float32
    assert all(p.grad is not None and p.grad.isfinite().all() for p in policy.parameters())


def test_the_loss_is_one_graph_without_breaks():
    """What `torch.compile` needs: no value is read back to decide what to do next."""
    policy, pre, _ = build()
    batch = pre(make_batch())
    inputs = {key: value for key, value in batch.items() if isinstance(value, torch.Tensor)}
    compiled = torch.compile(policy.loss_elements, backend="eager", fullgraph=True)
    torch.manual_seed(0)
    expected = policy.loss_elements(inputs)
    torch.manual_seed(0)
    torch.testing.assert_close(compiled(inputs), expected)


def test_the_default_size_is_small():
    shapes = {"input_features": {STATE: PolicyFeature(FeatureType.STATE, (14,))}, "output_features": {}}
    config = NanoConfig(device="cpu", use_relative_actions=False, **shapes)
    for camera in ("head", "front", "left_wrist", "right_wrist"):
        config.input_features[f"observation.images.{camera}"] = PolicyFeature(FeatureType.VISUAL, (3, 480, 640))
    config.output_features["action"] = PolicyFeature(FeatureType.ACTION, (14,))
    count = sum(p.numel() for p in get_policy_class("nano")(config).parameters())
    assert 5e6 < count < 12e6


def test_presets_for_lerobots_own_training():
    config = make_config(lr=1e-3, warmup_steps=7)
    optimizer = config.get_optimizer_preset().build([torch.nn.Parameter(torch.zeros(1))])
    schedule = config.get_scheduler_preset().build(optimizer, num_training_steps=20)
    rates = []
    for _ in range(20):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert max(rates) == rates[7] == 1e-3
    assert rates[-1] < 1e-4
