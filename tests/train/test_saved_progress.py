"""Progress is read from a folder that somebody may have made up: nothing in it runs, and what does not fit is named."""

import json
import os
import pickle
import shutil
from pathlib import Path, PosixPath
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.distributed.checkpoint.metadata import BytesStorageMetadata, Metadata

from holdfast.core import checked_folder
from holdfast.core.errors import HoldfastError
from holdfast.replay.looks import Look
from holdfast.train.config import OptimConfig
from holdfast.train.distributed.shard_metadata import METADATA
from holdfast.train.distributed.shards import read_shards, shard_shapes, write_shards
from holdfast.train.state import TrainingState

SHARD = "__0_0.distcp"


class Evil:
    """Unpickles to a file that should not be there."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


class Toy(nn.Sequential):
    """A policy with weights and buffers."""

    config = SimpleNamespace(get_optimizer_preset=lambda: SimpleNamespace(lr=0.1))

    def __init__(self, width=3):
        super().__init__(nn.Linear(4, width), nn.BatchNorm1d(width))

    def get_optim_params(self):
        return self.parameters()


def trained(steps=3, ema=0.9):
    torch.manual_seed(0)
    policy = Toy()
    state = TrainingState(policy, OptimConfig(lr=0.1, ema=ema))
    for _ in range(steps):
        policy(torch.randn(5, 4)).square().sum().backward()
        state.advance(1.0)
    return state


def tensors_of(state):
    """What `save` writes, by name."""
    found = {f"buffer/{name}": value for name, value in state.policy.named_buffers()}
    for name, parameter in state.parameters.items():
        found[f"weight/{name}"] = parameter.detach()
        found[f"average/{name}"] = state.average.values[name]
        found |= {f"{key}/{name}": value for key, value in state.optimizer.state[parameter].items()}
    return found


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Sharded progress of one process: a shard and the metadata."""
    folder = tmp_path_factory.mktemp("written")
    with pytest.warns(UserWarning, match=r"torch\.distributed"):
        write_shards(folder, tensors_of(trained()), None)
    (folder / "state.json").write_text('{"step": 3}')
    return folder


@pytest.fixture
def folder(written, tmp_path):
    return shutil.copytree(written, tmp_path / "step-00000003")


def rewrite(folder, change):
    metadata = pickle.loads((folder / METADATA).read_bytes())
    (folder / METADATA).write_bytes(pickle.dumps(change(metadata) or metadata))


def refused(folder, says):
    with pytest.raises(HoldfastError, match=says) as caught:
        trained().load(folder, 3)
    assert "\n" not in str(caught.value)


def test_shards_are_read_back(folder):
    wanted = tensors_of(trained())
    assert shard_shapes(folder) == {name: tuple(value.shape) for name, value in wanted.items()}
    found = {name: torch.zeros_like(value) for name, value in wanted.items()}
    read_shards(folder, found, None)
    assert all(torch.equal(found[name], value) for name, value in wanted.items())
    fresh = trained(steps=1)
    fresh.load(folder, 3)
    assert fresh.step == 3
    assert all(torch.equal(value, wanted[name]) for name, value in tensors_of(fresh).items())


def test_metadata_that_run_code_are_refused_even_if_the_folder_verifies(folder, tmp_path):
    (folder / METADATA).write_bytes(pickle.dumps(Evil(tmp_path / "ran")))
    content = {path.name: checked_folder.file_hash(path) for path in folder.iterdir()}
    (folder / checked_folder.MANIFEST).write_text(json.dumps(content))
    assert checked_folder.verify(folder) is None
    refused(folder, r"\.metadata: it names posix\.mkdir, which has no place in it")
    assert not (tmp_path / "ran").exists()


def test_code_anywhere_inside_the_metadata_is_refused(folder, tmp_path):
    def hide(metadata):
        metadata.planner_data = {"x": Evil(tmp_path / "ran")}

    rewrite(folder, hide)
    refused(folder, "has no place in it")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("module", ["builtins\neval", "os\nsystem", "torch\nload", "torch\nhub.load", "holdfast\ncli"])
def test_only_records_of_the_metadata_are_known(folder, module):
    (folder / METADATA).write_bytes(f"c{module}\n.".encode())
    refused(folder, "has no place in it")


def named(module, name):
    """The opcode that looks up a name."""
    return f"c{module}\n{name}\n".encode()


@pytest.mark.parametrize("kind", [("pathlib", "PosixPath"), ("torch.distributed.checkpoint.metadata", "Metadata")])
def test_metadata_change_no_class(folder, kind):
    """Pickle's BUILD sets attributes of whatever the pickle names."""
    build = b"\x80\x04" + named(*kind) + b"(N}X\x07\0\0\0changed" + named("pathlib", "PosixPath") + b"stb0"
    (folder / METADATA).write_bytes(build + (folder / METADATA).read_bytes())
    refused(folder, r"\.metadata: ")
    assert not hasattr(Path, "changed")
    assert not hasattr(PosixPath, "changed")
    assert not hasattr(Metadata, "changed")


def test_names_in_the_metadata_are_never_called(folder, tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(torch.serialization, "_get_layout", lambda name: calls.append(name))
    call = b"\x80\x04" + named("torch.serialization", "_get_layout") + b"(X\x01\0\0\0xtR0"
    (folder / METADATA).write_bytes(call + (folder / METADATA).read_bytes())
    assert shard_shapes(folder)
    assert calls == []


def change_size(tensor):
    tensor.size = (4, 3)


def change_dtype(tensor):
    tensor.properties.dtype = "float32"


def change_chunks(tensor):
    tensor.chunks[0].offsets = torch.Size([5, *tensor.chunks[0].offsets[1:]])


def change_dimension(tensor):
    tensor.size = Sized((-4, 3))


class Sized:
    """Pickled as a torch.Size of anything."""

    def __init__(self, numbers):
        self.numbers = numbers

    def __reduce__(self):
        return torch.Size, (self.numbers,)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (change_size, "has no size"),
        (change_dimension, "a dimension of .* is not a whole number"),
        (change_dtype, "has no dtype"),
        (change_chunks, "a chunk of 'weight/0.weight' is not inside the tensor"),
    ],
)
def test_a_tensor_that_cannot_be_is_refused(folder, change, says):
    rewrite(folder, lambda metadata: change(metadata.state_dict_metadata["weight/0.weight"]))
    refused(folder, says)


@pytest.mark.parametrize("field", ["offset", "length"])
@pytest.mark.parametrize("value", [-1, 1.5, True, 2**70, "0"])
def test_a_place_that_is_no_range_of_bytes_is_refused(folder, field, value):
    def misplace(metadata):
        for place in metadata.storage_data.values():
            setattr(place, field, value)

    rewrite(folder, misplace)
    refused(folder, "in its shard is not a whole number")


def nested(depth):
    """A pickle of a tuple that holds the one before twice, and so on: small, and endless to hash or to compare."""
    return b")\x94" + b"".join(b"h" + bytes([place]) + b"\x86\x94" for place in range(depth))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\x80\x04Nr\xff\xff\xff\xff.", "instructions that DCP does not write"),  # a memo of 2**32 entries
        (b"\x80\x04\x8f.", "instructions"),  # a set
        (b"\x80\x04}" + nested(200) + b"Ns.", "a key that is not text"),
        (b"\x80\x04}(" + nested(200) + b"Nu.", "a key that is not text"),
    ],
)
def test_a_few_bytes_of_metadata_take_neither_memory_nor_time(folder, content, says):
    (folder / METADATA).write_bytes(content)
    refused(folder, says)


def test_chunks_that_are_listed_twice_are_refused(folder):
    def share(metadata):
        first, *others = metadata.state_dict_metadata.values()
        first.chunks.extend(first.chunks * 20)
        for other in others:
            other.chunks = first.chunks

    rewrite(folder, share)
    refused(folder, r"it lists \d+ chunks and says of \d+ where they are")


def test_a_tensor_of_endless_dimensions_is_refused(folder):
    def endless(metadata):
        metadata.state_dict_metadata["weight/0.weight"].size = torch.Size([1] * 65)

    rewrite(folder, endless)
    refused(folder, "it has no size")


def test_metadata_of_a_single_rank_are_not_read_instead(folder, tmp_path):
    (folder / METADATA).unlink()
    (folder / f"__0{METADATA}").write_bytes(pickle.dumps(Evil(tmp_path / "ran")))
    refused(folder, "No such file")
    assert not (tmp_path / "ran").exists()


def test_a_value_that_is_no_tensor_is_refused(folder, tmp_path):
    """DCP unpickles such a value from its shard."""
    bytes_of = pickle.dumps(Evil(tmp_path / "ran"))
    (folder / SHARD).write_bytes(bytes_of)

    def as_bytes(metadata):
        name = next(iter(metadata.state_dict_metadata))
        metadata.state_dict_metadata[name] = BytesStorageMetadata()

    rewrite(folder, as_bytes)
    refused(folder, "BytesStorageMetadata, which has no place in it")
    assert not (tmp_path / "ran").exists()


def test_a_shard_that_is_a_pickle_is_not_unpickled(folder, tmp_path):
    size = (folder / SHARD).stat().st_size
    torch.save({"weight": Evil(tmp_path / "ran")}, folder / "evil")
    evil = (folder / "evil").read_bytes()
    (folder / SHARD).write_bytes(evil.ljust(size, b"\0"))

    def whole(metadata):
        for place in metadata.storage_data.values():
            place.offset, place.length = 0, len(evil)

    rewrite(folder, whole)
    refused(folder, r"cannot be read: a shard is damaged \(UnpicklingError\)\. Delete this folder")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("path", ["../secret.distcp", "/etc/passwd", "model.pt", "", 7])
def test_a_shard_elsewhere_is_refused(folder, path):
    def elsewhere(metadata):
        for place in metadata.storage_data.values():
            place.relative_path = path

    rewrite(folder, elsewhere)
    refused(folder, "is not the name of a shard")


@pytest.mark.parametrize("content", [b"", b"\x80", b"nonsense", b"N.", b"\x80\x05]\x94.", b"(" * 100_000])
def test_metadata_that_are_none_are_named(folder, content):
    (folder / METADATA).write_bytes(content)
    refused(folder, r"step-00000003 cannot be read: \.metadata")


def test_a_missing_or_cut_shard_is_named(folder):
    whole = (folder / SHARD).read_bytes()
    (folder / SHARD).write_bytes(whole[: len(whole) // 2])
    refused(folder, "cannot be read: .*shard")
    (folder / SHARD).unlink()
    refused(folder, "cannot be read: .*shard")


def test_what_does_not_fit_the_policy_is_named(folder):
    def without(metadata):
        del metadata.state_dict_metadata["weight/0.bias"]

    rewrite(folder, without)
    refused(folder, r"lacks 1 tensors: weight/0\.bias")
    other = TrainingState(Toy(width=5), OptimConfig(lr=0.1, ema=0.9))
    with pytest.raises(HoldfastError, match="tensors"):
        other.load(folder, 3)


def test_a_folder_without_any_tensors_is_named(tmp_path):
    (tmp_path / "state.json").write_text('{"step": 3}')
    refused(tmp_path, "cannot be read")


@pytest.mark.parametrize("text", ["[]", "{}", '{"step": "3"}', '{"step": -1}', '{"step": true}', "", "[" * 9999])
def test_a_step_that_is_none_is_named(folder, text):
    (folder / "state.json").write_text(text)
    refused(folder, r"state\.json")


def test_a_step_beyond_the_stage_is_named(tmp_path):
    trained().save(tmp_path)
    with pytest.raises(HoldfastError, match="at step 3 of 2"):
        trained().load(tmp_path, 2)


def test_what_one_rank_saved_comes_back_and_other_tensors_are_refused(tmp_path):
    state = trained()
    state.save(tmp_path)
    fresh = trained(steps=1)
    fresh.load(tmp_path, 3)
    assert all(torch.equal(value, tensors_of(state)[name]) for name, value in tensors_of(fresh).items())
    with pytest.raises(HoldfastError, match="has unexpected"):
        trained(ema=0).load(tmp_path, 3)
    (tmp_path / "training.safetensors").write_bytes(b"\x80\x04nonsense")
    refused(tmp_path, r"training\.safetensors")


def looked(folder):
    """Progress with looks at watched episodes."""
    state = trained()
    state.looks = [Look(0, {"a": 0.5}), Look(2, {"a": 0.25})]
    folder.mkdir()
    state.save(folder)
    return state


def test_looks_are_read_back(tmp_path):
    wanted = looked(tmp_path / "progress").looks
    fresh = trained(steps=1)
    fresh.load(tmp_path / "progress", 3)
    assert (fresh.step, fresh.looks) == (3, wanted)
    trained().save(tmp_path / "progress")
    assert json.loads((tmp_path / "progress" / "state.json").read_text()) == {"step": 3}
    fresh.load(tmp_path / "progress", 3)
    assert fresh.looks == []


@pytest.mark.parametrize(
    ("looks", "says"),
    [
        ({}, "must hold a list of looks, got {}"),
        ([7], "state.json cannot be used"),
        ([{"step": 0}], "losses is missing"),
        ([{"step": 0, "losses": {"a": "much"}}], "losses.a: input should be a valid number"),
        ([{"step": 2, "losses": {"a": 1}}, {"step": 1, "losses": {"a": 1}}], "at steps from 0 to 3 in order"),
        ([{"step": 0, "losses": {"a": 1}}, {"step": 1, "losses": {}}], "looks at the same tasks"),
    ],
)
def test_looks_that_cannot_be_are_named(tmp_path, looks, says):
    looked(tmp_path / "progress")
    (tmp_path / "progress" / "state.json").write_text(json.dumps({"step": 3, "looks": looks}))
    refused(tmp_path / "progress", says)
