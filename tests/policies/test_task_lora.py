"""A LoRA per task: against merged weights, row by row; which of them an instruction means; what is refused."""

import json

import numpy as np
import pytest
import torch
from pi05_tiny import make_batch, our_config, our_policy
from safetensors.torch import load_file

from holdfast.core.errors import HoldfastError
from holdfast.norm.stats import Stats
from holdfast.norm.strategies import Space
from holdfast.policies import adapter as adapters
from holdfast.policies.fresh_nano import fresh_nano
from holdfast.policies.nano.modeling_nano import NanoPolicy
from holdfast.policies.pi05.acting import half_copy
from holdfast.policies.pi05.modeling_pi05 import Pi05FastPolicy
from holdfast.policies.saved_folder import load_pipelines
from holdfast.policies.task_lora import ROWS, TaskLora, by_images, by_words
from holdfast.policies.task_router import TaskRouterStep

NAMES = ("a", "b", "c")
CAMERAS = ("head", "front")
UNIT = Stats.from_range(-np.ones(3), np.ones(3))
RANK = 3


def task(instruction, grey=0.5, rank=RANK, cameras=CAMERAS):
    return TaskLora(instruction, rank, {f"observation.images.{name}": [grey] * 64 for name in cameras})


def add(policy, instruction, seed=1, **more):
    """Add a LoRA that does something."""
    policy.add_task_lora(task(instruction, **more), seed)
    with torch.no_grad():
        for name, weight in policy.named_parameters():
            if weight.requires_grad and ".up." in name:
                weight.normal_(0, 0.1, generator=torch.Generator().manual_seed(seed))


def nano(*instructions):
    sizes = {"width": 32, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "chunk_size": 4, "n_action_steps": 2}
    policy = fresh_nano(NAMES, CAMERAS, 32, "cpu", 0, **sizes).policy
    for number, instruction in enumerate(instructions):
        add(policy, instruction, number)
    return policy.eval()


def pi05(*instructions, **more):
    policy = our_policy(**more)
    for number, instruction in enumerate(instructions):
        add(policy, instruction, number)
    return policy.eval()


def nano_batch(rows):
    draw = torch.Generator().manual_seed(3)
    images = {f"observation.images.{name}": torch.rand(rows, 3, 32, 32, generator=draw) for name in CAMERAS}
    tokens = torch.randint(1, 2048, (rows, 24), generator=draw)
    mask = torch.ones_like(tokens, dtype=torch.bool)
    language = {"observation.language.tokens": tokens, "observation.language.attention_mask": mask}
    actions = {"action": torch.randn(rows, 4, 3, generator=draw)}
    return {**images, **language, **actions, "observation.state": torch.randn(rows, 3, generator=draw)}


def merged(policy, number):
    """The weights of one task by plain arithmetic: W + up down."""
    state = dict(policy.state_dict())
    for name in [name for name in state if name.endswith(f".down.{number}")]:
        layer = name.removesuffix(f"down.{number}")
        added = torch.einsum("or,ri->oi", state[f"{layer}up.{number}"], state[name])
        state[f"{layer}weight"] = state[f"{layer}weight"] + added
    return {name: value for name, value in state.items() if ".down." not in name and ".up." not in name}


def plain(policy, number):
    config = our_config() if policy.name == "pi05_fast" else nano().config
    one = type(policy)(config)
    one.load_state_dict(merged(policy, number))
    return one.eval()


MADE = {"nano": (nano, nano_batch(3)), "pi05_fast": (pi05, make_batch())}


@pytest.mark.parametrize("kind", MADE)
def test_every_row_is_answered_by_the_merged_weights_of_its_own_task(kind):
    make, batch = MADE[kind]
    policy = make("stack it", "press it")
    noise = torch.randn(3, *policy.noise_shape, generator=torch.Generator().manual_seed(4))
    rows = torch.tensor([1, 0, 1])
    found = policy.predict_action_chunk({**batch, ROWS: rows}, noise)
    wanted = [plain(policy, number).predict_action_chunk(batch, noise) for number in (0, 1)]
    assert not torch.allclose(*wanted, atol=1e-2)
    for row, number in enumerate(rows):
        torch.testing.assert_close(found[row], wanted[number][row], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", MADE)
def test_more_tasks_and_other_rows_change_no_bit(kind):
    make, batch = MADE[kind]
    one, three = make("stack it"), make("stack it", "press it", "hang it")
    noise = torch.randn(3, *one.noise_shape, generator=torch.Generator().manual_seed(4))
    alone = one.predict_action_chunk({**batch, ROWS: torch.zeros(3, dtype=torch.int64)}, noise)
    mixed = three.predict_action_chunk({**batch, ROWS: torch.tensor([0, 2, 0])}, noise)
    assert torch.equal(alone[[0, 2]], mixed[[0, 2]])
    assert not torch.equal(alone[1], mixed[1])


@pytest.mark.parametrize("kind", MADE)
def test_the_newest_lora_alone_learns_and_all_of_it(kind):
    make, batch = MADE[kind]
    policy = make("stack it", "press it").train()
    torch.manual_seed(0)
    policy.loss_elements(batch).mean().backward()
    learning = {name for name, weight in policy.named_parameters() if weight.grad is not None and weight.grad.any()}
    assert learning == {name for name, _ in policy.named_parameters() if name.endswith((".down.1", ".up.1"))}
    torch.manual_seed(0)
    drawn = policy.draw_noise(batch)
    found = policy.velocity_errors(batch, drawn)
    policy.eval()
    torch.testing.assert_close(found, policy.velocity_errors({**batch, ROWS: torch.ones(3, dtype=torch.int64)}, drawn))


@pytest.mark.parametrize("kind", MADE)
def test_a_new_lora_changes_nothing_and_another_seed_is_another_start(kind):
    make, batch = MADE[kind]
    before, policy, other = make(), make(), make()
    policy.add_task_lora(task("stack it"), 1)
    other.add_task_lora(task("stack it"), 2)
    noise = torch.randn(3, *policy.noise_shape, generator=torch.Generator().manual_seed(4))
    routed = {**batch, ROWS: torch.zeros(3, dtype=torch.int64)}
    torch.testing.assert_close(
        policy.eval().predict_action_chunk(routed, noise), before.predict_action_chunk(batch, noise)
    )
    downs = [{n: w for n, w in one.named_parameters() if n.endswith(".down.0")} for one in (policy, other)]
    assert downs[0]
    assert all(not torch.equal(weight, downs[1][name]) for name, weight in downs[0].items())


def test_a_saved_folder_is_loaded_by_us_and_by_lerobot_and_routes_by_itself(tmp_path):
    policy = nano("Stack the bowls.", "Press the button.")
    adapters.Adapter(policy, NAMES).save(tmp_path, Space(UNIT, UNIT))
    loaded = adapters.load(tmp_path, NAMES, "cpu").policy
    theirs = NanoPolicy.from_pretrained(tmp_path)
    assert not any(weight.requires_grad for weight in [*loaded.parameters(), *theirs.parameters()])
    pre, _ = load_pipelines(loaded.config, tmp_path)
    batch = {key: value for key, value in nano_batch(3).items() if "language" not in key and key != "action"}
    ready = pre({**batch, "task": ["press the button", "Stack the bowls.", "Please stack some bowls"]})
    assert ready[ROWS].tolist() == [1, 0, 0]
    noise = torch.randn(3, *policy.noise_shape, generator=torch.Generator().manual_seed(4))
    wanted = policy.predict_action_chunk(ready, noise)
    assert torch.equal(loaded.predict_action_chunk(ready, noise), wanted)
    assert torch.equal(theirs.predict_action_chunk(ready, noise), wanted)
    with pytest.raises(HoldfastError, match=r"LoRA per task, and the batch lacks 'observation\.task_lora'"):
        loaded.predict_action_chunk(nano_batch(3), noise)


def test_pi05_keeps_published_names_and_its_half_copy_has_the_loras(tmp_path):
    policy = pi05("stack it", "press it")
    policy.save_pretrained(tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    base = pi05()
    base.save_pretrained(tmp_path / "base")
    assert load_file(tmp_path / "base" / "model.safetensors").keys() <= stored.keys()
    loaded = Pi05FastPolicy.from_pretrained(tmp_path)
    batch = {**make_batch(), ROWS: torch.tensor([0, 1, 1])}
    noise = torch.randn(3, *policy.noise_shape, generator=torch.Generator().manual_seed(4))
    assert torch.equal(loaded.predict_action_chunk(batch, noise), policy.predict_action_chunk(batch, noise))
    copy = half_copy(policy.model)
    added = {name for name, _ in policy.model.named_parameters() if ".down." in name or ".up." in name}
    assert added <= {name for name, _ in copy.named_parameters()}
    assert not any("language_model.layers.2.mlp" in name for name in added)  # of the last layer, keys and values


def test_what_cannot_be_told_apart_or_added_is_refused():
    policy = nano("Stack the bowls.")
    with pytest.raises(HoldfastError, match="the same instruction, 'stack the bowls'"):
        policy.add_task_lora(task("stack the bowls"), 1)
    with pytest.raises(HoldfastError, match="All LoRAs of a policy need one rank, got 2, 3"):
        policy.add_task_lora(task("press it", rank=2), 1)
    assert [lora.instruction for lora in policy.config.task_loras] == ["Stack the bowls."]
    with pytest.raises(HoldfastError, match=r"Leave --policy\.lora_rank out and give --method\.rank"):
        our_policy(lora_rank=2).add_task_lora(task("stack it"), 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"instruction": "?!"}, "needs words in its instruction"),
        ({"rank": 0}, "must be at least 1, got 0"),
        ({"images": {"head": [0.5]}}, "must hold 64 finite numbers"),
        ({"images": {"head": [float("nan")] * 64}}, "is nan, not a finite number"),
        ({"rank": "many"}, "rank"),
        ({"images": 3}, "images"),
    ],
)
def test_a_folder_with_damaged_loras_is_refused(tmp_path, change, message):
    adapters.Adapter(nano("Stack the bowls."), NAMES).save(tmp_path, Space(UNIT, UNIT))
    for file in ("config.json", "policy_preprocessor.json"):
        text = json.loads((tmp_path / file).read_text())
        loras = text["task_loras"] if file == "config.json" else text["steps"][-2]["config"]["loras"]
        loras[0] |= change
        (tmp_path / file).write_text(json.dumps(text))
    with pytest.raises(HoldfastError) as error:
        adapters.load(tmp_path, NAMES, "cpu")
    assert message in str(error.value)
    with pytest.raises(HoldfastError):
        TaskRouterStep([{"instruction": "Stack the bowls.", "rank": 1, "images": {}} | change])


def test_a_pipeline_cannot_choose_between_loras_that_the_policy_lacks(tmp_path):
    adapters.Adapter(nano("Stack the bowls."), NAMES).save(tmp_path, Space(UNIT, UNIT))
    config, file = adapters.load(tmp_path, NAMES, "cpu").config, tmp_path / "policy_preprocessor.json"
    text = json.loads(file.read_text())
    loras = text["steps"][-2]["config"]["loras"]
    loras.append({**loras[0], "instruction": "Press it."})
    file.write_text(json.dumps(text))
    with pytest.raises(HoldfastError, match=r"lists other LoRAs than the policy's config\.json"):
        load_pipelines(config, tmp_path)
    with pytest.raises(HoldfastError, match="must list some"):
        TaskRouterStep([])


def test_a_config_cannot_describe_more_loras_than_its_weights_hold(tmp_path):
    adapters.Adapter(nano("Stack the bowls."), NAMES).save(tmp_path, Space(UNIT, UNIT))
    text = json.loads((tmp_path / "config.json").read_text())
    text["task_loras"] = [{**text["task_loras"][0], "instruction": f"do {n}"} for n in range(5000)]
    (tmp_path / "config.json").write_text(json.dumps(text))
    with pytest.raises(HoldfastError, match="times as large as its weights"):
        adapters.load(tmp_path, NAMES, "cpu")


KNOWN = [
    task("Put the cup left of the bowl", 0.2),
    task("Put the bowl left of the cup", 0.8),
    task("Fold a towel", 0.5),
]


@pytest.mark.parametrize(
    ("instruction", "number"),
    [
        ("put the bowl left of the cup!", 1),  # the same words in the same order
        ("put the cup left of the bowl", 0),
        ("fold the green towel", 2),  # two of five words, against one of eight
        ("towels: fold", 2),
        ("the", 0),  # equals: the first
        ("Räum den Tisch auf", None),
    ],
)
def test_an_instruction_goes_to_the_nearest_by_words(instruction, number):
    assert by_words(instruction, KNOWN) == number


def test_new_words_go_to_the_task_that_looks_alike():
    for grey, number in ((0.1, 0), (0.9, 1), (0.55, 2)):
        seen = {"observation.images.head": np.full(64, grey), "observation.images.unknown": np.zeros(64)}
        assert by_images(seen, KNOWN) == number
    step = TaskRouterStep([{"instruction": lora.instruction, "rank": 1, "images": lora.images} for lora in KNOWN])
    pixels = torch.stack([torch.full((3, 20, 30), value, dtype=torch.uint8) for value in (230, 25, 128)])
    seen = {f"observation.images.{camera}": pixels for camera in CAMERAS}
    step._current_transition = {"complementary_data": {"task": ["Räum auf", "Räum auf", "Fold a towel"]}}
    assert step.observation({"observation.state": torch.zeros(3, 3), **seen})[ROWS].tolist() == [1, 0, 2]
