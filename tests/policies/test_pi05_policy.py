"""Prompts, adapters and folders of `pi05_fast`: LeRobot's texts, only what should learn learns, nothing is lost."""

import json
from dataclasses import fields

import pytest
import torch
from lerobot.configs import PreTrainedConfig
from lerobot.policies.factory import get_policy_class, make_pre_post_processors
from lerobot.policies.pi05.processor_pi05 import Pi05PrepareStateTokenizerProcessorStep
from lerobot.processor import TokenizerProcessorStep
from pi05_tiny import CAMERAS, STATE, TOKENS, WORDS, Peer, make_batch, make_tokenizer, our_config, our_policy

from holdfast.core.errors import HoldfastError
from holdfast.policies.pi05 import recompute as memory
from holdfast.policies.pi05 import weights
from holdfast.policies.pi05.configuration_pi05 import SIZES as BOUNDS
from holdfast.policies.pi05.configuration_pi05 import Pi05FastConfig
from holdfast.policies.pi05.processor_pi05 import Pi05PromptProcessorStep, load_tokenizer
from holdfast.policies.pi05.stock import start_config, write_stock

STATS = {key: {"q01": torch.full((5,), -1.0), "q99": torch.full((5,), 1.0)} for key in (STATE, "action")}
TASKS = ["Please_reach.\n", "Please lift the large bowl."]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return make_tokenizer(tmp_path_factory.mktemp("tokenizer"))


def observation(rows=2, actions=True):
    batch = {
        STATE: torch.linspace(-1.2, 1.2, 5 * rows).view(rows, 5),
        "task": TASKS[:rows],
        **{key: torch.rand(rows, 3, 28, 28) for key in CAMERAS},
    }
    return {**batch, "action": torch.rand(rows, 6, 5)} if actions else batch


def stock_prompt(tokenizer, batch):
    """LeRobot's own two steps on the same batch."""
    from lerobot.lerobot_types import TransitionKey

    transition = {
        TransitionKey.OBSERVATION: {STATE: batch[STATE]},
        TransitionKey.COMPLEMENTARY_DATA: {"task": list(batch["task"])},
    }
    steps = (
        Pi05PrepareStateTokenizerProcessorStep(),
        TokenizerProcessorStep(tokenizer_name=tokenizer, max_length=64, padding_side="right", padding="max_length"),
    )
    for step in steps:
        transition = step(transition)
    return transition[TransitionKey.OBSERVATION]


def test_prompts_are_lerobots_token_by_token_but_for_the_padding(tokenizer):
    batch = observation()
    pre, _ = make_pre_post_processors(our_config(tokenizer_name=tokenizer), dataset_stats=STATS)
    ours, theirs = pre(batch), stock_prompt(tokenizer, batch)
    length = ours[TOKENS].shape[1]
    assert length < 64
    assert length % 16 == 0
    assert torch.equal(ours[TOKENS] * ours[WORDS], (theirs[TOKENS] * theirs[WORDS])[:, :length])
    assert torch.equal(ours[WORDS], theirs[WORDS][:, :length])
    assert not theirs[WORDS][:, length:].any()


def test_prompts_of_one_length_are_not_padded_in_training(tokenizer):
    config = our_config(tokenizer_name=tokenizer, state_in_prompt=False)
    pre, _ = make_pre_post_processors(config, dataset_stats=STATS)
    ours = pre({**observation(), "task": ["Please reach."] * 2})
    assert WORDS not in ours
    assert ours[TOKENS].all()  # 0 is padding


def test_a_robots_prompt_has_the_same_length_whoever_asks_with_it(tokenizer):
    pre, _ = make_pre_post_processors(our_config(tokenizer_name=tokenizer), dataset_stats=STATS)
    assert pre(observation(rows=1, actions=False))[TOKENS].shape == (1, 64)
    assert pre(observation(rows=2, actions=False))[TOKENS].shape == (2, 64)


def test_without_the_state_the_prompt_is_the_instruction_alone(tokenizer):
    config = our_config(tokenizer_name=tokenizer, state_in_prompt=False)
    pre, _ = make_pre_post_processors(config, dataset_stats=STATS)
    ours = pre(observation())
    text = load_tokenizer(tokenizer)
    said = [
        text.decode(row[mask], skip_special_tokens=True) for row, mask in zip(ours[TOKENS], ours[WORDS], strict=True)
    ]
    assert said == ["Please reach.\n", "Please lift the large bowl.\n"]


def test_a_tokenizer_that_is_not_there_says_what_to_accept_where(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(HoldfastError) as error:
        load_tokenizer(str(tmp_path / "nothing"))
    assert all(part in str(error.value) for part in ("accept its licence", "hf auth login", "--policy.tokenizer_name"))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"n_action_steps": 9}, "n_action_steps"),
        ({"image_resolution": (30, 30)}, "image_resolution"),
        ({"recompute": "sometimes"}, "sometimes"),
        ({"lora_rank": -1}, "lora_rank"),
        ({"image_resolution": (14000, 14000)}, "image_resolution must be .* up to 1024"),
        ({"min_period": 0.0}, "min_period"),
        ({"n_obs_steps": 2}, "n_obs_steps"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_name(change, named):
    with pytest.raises(HoldfastError, match=named):
        our_config(**change)


def test_every_size_is_bounded():
    numbers = {field.name for field in fields(Pi05FastConfig) if field.type in (int, "int")}
    assert numbers - {"n_obs_steps", "scheduler_warmup_steps"} == set(BOUNDS)
    for name, (lowest, highest) in BOUNDS.items():
        for value in (lowest - 1, highest + 1, 10**9):
            with pytest.raises(HoldfastError, match=f"pi05_fast's {name} must be {lowest} to {highest}, got {value}"):
                our_config(**{name: value})


@pytest.mark.parametrize("size", [{"max_length": 10**7}, {"max_length": "x"}, {"max_length": -3}, {"bucket": 0}])
def test_a_saved_prompt_has_the_same_bounds(tokenizer, size):
    with pytest.raises(HoldfastError, match="must be 1 to 2048, got"):
        Pi05PromptProcessorStep(tokenizer, **size)


def test_more_dimensions_than_it_holds_are_refused():
    with pytest.raises(HoldfastError, match="max_action_dim"):
        our_policy(max_action_dim=4)


def test_padded_steps_stay_out_of_the_loss():
    policy, batch = our_policy(), make_batch()
    batch["action_is_pad"] = torch.zeros(3, 6, dtype=torch.bool)
    batch["action_is_pad"][:, 4:] = True
    torch.manual_seed(1)
    elements = policy.loss_elements(batch)
    torch.manual_seed(1)
    assert torch.isclose(policy(batch)[0], elements[:, :4].mean())
    assert elements.shape == (3, 6, 5)


def test_states_to_count_from_are_those_of_the_robot():
    count = our_config().action_feature.shape[0]
    our_config(relative_to=[-1] * count).validate_features()
    for places in ([-5] * count, [0] * (count - 1), [1000] * count):
        with pytest.raises(HoldfastError, match="pi05_fast's relative_to must have a state from 0 to"):
            our_config(relative_to=places).validate_features()


def test_queued_relative_actions_are_refused():
    policy = our_policy(use_relative_actions=True, relative_exclude_joints=[])
    with pytest.raises(HoldfastError, match="predict_action_chunk"):
        policy.select_action(make_batch())


def test_a_queue_hands_out_the_chunk_step_by_step():
    policy, batch = our_policy(), make_batch()
    noise = torch.randn(3, *policy.noise_shape)
    chunk = policy.predict_action_chunk(batch, noise=noise)
    steps = [policy.select_action(batch, noise=noise) for _ in range(4)]
    torch.testing.assert_close(torch.stack(steps, 1), chunk[:, :4])


def test_only_adapters_and_the_ends_learn_and_merging_changes_no_answer(tmp_path):
    policy, batch = our_policy(lora_rank=4).train(), make_batch()
    learning = {name for name, p in policy.named_parameters() if p.requires_grad}
    assert all("lora_" in name or name.startswith(("model.action_", "model.time_")) for name in learning)
    before = {name: p.detach().clone() for name, p in policy.named_parameters()}
    optimizer = torch.optim.AdamW(policy.get_optim_params(), lr=1e-2)
    for _ in range(3):
        policy.loss_elements(batch).mean().backward()
        optimizer.step()
    changed = {name for name, p in policy.named_parameters() if not torch.equal(before[name], p)}
    assert changed == learning
    weights.write(weights.plain_state(policy.model), tmp_path / weights.FILE)
    plain = our_policy(seed=9)
    plain.read_weights(tmp_path / weights.FILE)
    noise = torch.randn(3, *policy.noise_shape)
    merged, adapted = (p.eval().predict_action_chunk(batch, noise=noise) for p in (plain, policy))
    torch.testing.assert_close(merged, adapted, rtol=1e-4, atol=1e-4)
    policy.read_weights(tmp_path / weights.FILE)  # a next stage: adapters go on beside the merged weights
    assert policy.predict_action_chunk(batch, noise=noise).isfinite().all()


def test_a_saved_folder_comes_back_through_lerobots_loader(tmp_path):
    policy, batch = our_policy(), make_batch()
    policy.save_pretrained(tmp_path)
    config = PreTrainedConfig.from_pretrained(tmp_path)
    again = get_policy_class("pi05_fast").from_pretrained(tmp_path, config=config)
    noise = torch.randn(3, *policy.noise_shape)
    assert torch.equal(*(p.predict_action_chunk(batch, noise=noise) for p in (policy, again)))


def test_a_folder_is_rewritten_so_that_stock_pi05_acts_alike(tokenizer, tmp_path):
    policy = our_policy(tokenizer_name=tokenizer)
    pre, post = make_pre_post_processors(policy.config, dataset_stats=STATS)
    for part in (policy, pre, post):
        part.save_pretrained(tmp_path / "ours")
    write_stock(tmp_path / "ours", tmp_path / "stock")
    config = PreTrainedConfig.from_pretrained(tmp_path / "stock")
    assert config.type == "pi05"
    peer = Peer.from_pretrained(tmp_path / "stock", config=config).eval()
    stock_pre, stock_post = make_pre_post_processors(config, pretrained_path=str(tmp_path / "stock"))
    noise, batch = torch.randn(2, *policy.noise_shape), observation(actions=False)
    ours = post(policy.predict_action_chunk(pre(batch), noise=noise))
    theirs = stock_post(peer.predict_action_chunk(stock_pre(batch), noise=noise))
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_stock_cannot_be_given_a_policy_that_never_saw_the_state(tokenizer, tmp_path):
    our_policy(state_in_prompt=False).save_pretrained(tmp_path)
    with pytest.raises(HoldfastError, match="state_in_prompt"):
        write_stock(tmp_path, tmp_path / "stock")


def test_a_start_from_lerobots_folder_takes_its_settings_and_the_order_of_its_cameras(tmp_path):
    stored = {
        "type": "pi05",
        "chunk_size": 12,
        "n_action_steps": 12,
        "dtype": "bfloat16",
        "compile_model": True,
        "input_features": {key: {"type": "VISUAL", "shape": [3, 224, 224]} for key in CAMERAS},
        "output_features": {},
    }
    (tmp_path / "config.json").write_text(json.dumps(stored))
    options = {"device": "cpu", "n_action_steps": "5"}
    config = start_config(str(tmp_path), options, sorted(CAMERAS))
    assert isinstance(config, Pi05FastConfig)
    assert (config.chunk_size, config.n_action_steps) == (12, 5)
    assert list(config.image_features) == list(CAMERAS)
    assert not start_config(str(tmp_path), options, ["observation.images.other"]).input_features
    (tmp_path / "config.json").write_text(json.dumps({"type": "act"}))
    with pytest.raises(HoldfastError, match="'act'"):
        start_config(str(tmp_path), options, [])


def test_layers_are_computed_twice_only_as_far_as_memory_asks():
    config = Pi05FastConfig(device="cpu")
    plans = [memory.choose(config, gib * 2**30, 16, 4, 200) for gib in (200, 40, 20, 10, 1)]
    assert plans[0] == memory.RecomputePlan(0, 0)
    assert plans[-1] == memory.RecomputePlan(config.depth, config.vision_layers)
    assert [p.language for p in plans] == sorted(p.language for p in plans)
    assert all(p.vision == 0 or p.language == config.depth for p in plans)
