"""Valid content for every reader, small, so that a change of a byte meets something that matters."""

import hashlib
import json
import shutil
from pathlib import Path

NAMES = ("stack_bowls", "press_button")
SCORES = {"tasks": ["a", "b"], "cells": [[[100, 50]], [[50, 25.5], [75, 100]]], "baseline": [90, None]}
REPORTED = {"holdfast": "0", "runs": [{"name": "er", "source": "twin", "continual": True, "scores": SCORES}]}
SCORES_CSV = 'stage,"stack, bowls",hang_cup\n1,100,\n2,70.5,90\nbaseline,95,80\n'
STREAM = """\
name = "kitchen"
embodiment = "piper_x_pair"
[[task]]
name = "stack_bowls"
dataset = "data/stack_bowls"
[[task]]
name = "wipe"
instruction = "Wipe the table."
arms = ["left"]
dataset = "me/wipe"
cameras = {top = "head"}
fps = 15
[[task.milestone]]
name = "cloth"
text = "Takes the cloth."
[[task.milestone]]
name = "clean"
text = "The table is clean."
needs = ["cloth"]
[[task.penalty]]
name = "spill"
text = "Spills."
value = 0.5
"""
ARENA = """\
name = "points"
python = "sh"
worker = "gymnasium"
timeout = 60
[options]
id = "Pendulum-v1"
cameras = {top = ""}
"""
DESCRIPTION = {
    "protocol": 1,
    "tasks": {"touch": {"instruction": "Go.", "max_steps": 20, "milestones": {"near": "Close."}}},
    "state": ["x", "y"],
    "action": ["x", "y"],
    "cameras": ["top"],
    "levels": [""],
    "rate": 10,
    "expert": True,
}
ROBOT = """\
name = "one"
[[dimension]]
name = "lift.pos"
arm = "left"
kind = "joint"
lower = -1.5
upper = 2
step = 0.05
[[dimension]]
name = "grip.pos"
arm = "left"
kind = "gripper"
lower = 0.0
upper = 0.08
step = 0.01
fastest = 0.02
"""
PAIR = """\
left_port = "can_left"
width = 640
height = 480
[cameras]
head = "123"
[workspace]
low = [0.0, -0.5, 0.0]
high = [0.8, 0.5, 0.9]
"""
STUDY = """\
name = "mini"
question = "Does replay help?"
seeds = [1, 2]
[record]
episodes = 4
[train]
stream = "single_arm"
policy.path = "/base"
[[grid]]
method = ["er", "joint"]
[[grid]]
replay.frequency = [0.1, 0.5]
[evaluate]
trials = 3
"""
STORED_STUDY = {
    "name": "mini", "train": {"stream": "single_arm", "policy.path": "/base"}, "question": "", "arena": "twin",
    "seeds": [1, 2], "grids": [{"method": ["er", "joint"]}], "record": {"episodes": 4, "size": 96, "seed": None},
    "evaluate": {"trials": 3, "horizon": None, "first_seed": 0, "cells": "needed"},
}  # fmt: skip
RUN = {
    "config": {"method": "er", "seed": 1, "norm": {"limit": 10.0}, "replay": {"mix": "step"}, "method_options": {}},
    "tasks": [{"name": "reach", "arms": ["left"]}],
}
_DIMENSION = {"name": "a", "arm": "left", "kind": "joint", "lower": -1.0, "upper": 1.0, "step": 0.1, "fastest": 0.2}
_EMBODIMENT = {"name": "one", "dimensions": [_DIMENSION]}
OWN_METHOD = {"name": "my_methods.py:Mine", "sha256": "0" * 64, "arrangement": "stream"}
OWN_SELECTION = {"name": "choosing.py:shortest", "sha256": hashlib.sha256(b"").hexdigest()}
STORED_ROBOT = {
    "embodiment": _EMBODIMENT,
    "sha256": hashlib.sha256(json.dumps(_EMBODIMENT, sort_keys=True).encode()).hexdigest(),
}
_TABLE = {"q01": [-1.0, -2, 0], "q99": [1, 2, 0], "mean": [0, 0.5, 0], "std": [1, 1, 0]}
POLICY = {
    "type": "nano",
    "input_features": {"observation.state": {"type": "STATE", "shape": [14]}},
    "output_features": {"action": {"type": "ACTION", "shape": [14]}},
}
NORM_STATS = {"norm_stats": {"state": _TABLE, "actions": _TABLE}}
RELEASED_BUFFER = {
    "mode": "episode",
    "buffer_indices": [*range(10), *range(25, 30)],
    "original_dataset_size": 30,
    "episode_indices": ["0", "2"],
    "original_num_episodes": 3,
}
BUFFER = {"ratio": 0.2, "tasks": [{"task": "a", "fingerprint": "x", "total": 5, "episodes": [3, 1]}]}
ORDER = {
    "task": "press_button", "episodes": 2, "level": "standard", "height": 32, "width": 32, "seed": 1_000_000,
    "arena": "twin",
}  # fmt: skip
NOTES = {"order": ORDER, "seeds": [1_000_000, 1_000_002], "dropped": [1_000_001]}
HISTORY = "".join(
    json.dumps({"when": "2026-11-15T16:10:02Z", "action": "deploy", "stack": stack}) + "\n"
    for stack in (["a" * 64], ["a" * 64, "b" * 64])
)
PROGRESS = {"text": "push_box 100 of 400", "share": 0.25}
JOBS = "".join(
    json.dumps({"job": f"{kind}-er-1", "kind": kind, "error": error, "seconds": 12.5, "amount": 100}) + "\n"
    for kind, error in (("train", ""), ("evaluate", "it broke"))
)
TRIALS_CSV = (
    "task,stage,when,operator,seed,milestones,penalties,final,seconds,times,notes\n"
    "stack_bowls,1,2026-11-15T16:10:02,ann,3,,,yes,12.5,,fine\n"
    'press_button,2,1700000000.5,bob,,,,no,,,"one, two"\n'
)
PLAIN_SCORES = "task,stage,seed,success\nstack_bowls,1,0,yes\npress_button,2,1,no\n"
EVAL_INFO = json.dumps({
    "per_task": [{"task_group": "stack_bowls", "task_id": 0, "metrics": {"successes": [True, False]}}],
    "overall": {"pc_success": 50.0},
})  # fmt: skip
TRIAL = {
    "run": "run", "task": "stack_bowls", "stage": 1, "milestones": "[]", "penalties": "{}", "source": "twin", "seed": 3,
    "level": "standard", "seconds": 12.0, "score": 0.0, "valid": 1, "final": 1, "operator": "", "when": 1.7e9,
    "video": "", "notes": "slow", "protocol": "horizon 8, asked 2 ahead", "policy": "x",
    "normalization": "y", "times": "{}",
}  # fmt: skip
ROLLOUT = {
    "protocol": {"horizon": 8, "ahead": 4, "limits": True}, "limited": {"speed": 3}, "slow": 0, "stopped_after": 0.0,
    "episode": None, "seed": 3, "milestones": ["lifted"],
}  # fmt: skip
EVENT = {
    "key": "0123456789abcdef", "ticket": "t", "operator": "ann", "kind": "milestone", "when": 1.7e9,
    "value": '{"name": "lifted", "on": true, "at": 1.5}',
}  # fmt: skip
HEADER = {
    "codebase_version": "v2.1",
    "fps": 30,
    "total_episodes": 1,
    "total_frames": 14,
    "data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
    "video_path": None,
    "features": {"action": {"dtype": "float32", "shape": [2], "names": None}},
}
CACHE = {
    "spec": {
        "dataset": "data/reach", "format": "jpeg", "frames": 84, "blocks": [[0, 42], [42, 84]],
        "cameras": {"head": [32, 32]},
    },
    "numbers": {},
}  # fmt: skip


def row(file: Path, valid: dict) -> dict:
    """A valid row with the values that the file has; lists and objects are stored as their text."""
    try:
        content = json.loads(file.read_bytes())
    except (ValueError, RecursionError):
        content = {}
    values = {**valid, **{k: v for k, v in content.items() if k in valid}} if isinstance(content, dict) else valid
    return {k: json.dumps(v) if isinstance(v, dict | list) else v for k, v in values.items()}


def exportable(folder, get):
    """A run's checkpoint, with an empty buffer."""
    place = folder / "run" / "stages" / "01-reach" / "checkpoint"
    place.mkdir(parents=True)
    task = {"name": "reach", "instruction": "Reach.", "arms": ["arm"], "milestones": [], "penalties": []}
    (folder / "run" / "run.yaml").write_text(json.dumps({"config": {"method": "er", "seed": 1}, "tasks": [task]}))
    (place / "buffer.json").write_text(json.dumps({"ratio": 0.2, "tasks": []}))
    (place / "config.json").write_text(json.dumps({"stream": "single_arm", "data_root": "data", "steps": 100}))
    return place / "config.json"


def method_values(folder, get):
    """What a method keeps."""
    import torch

    from holdfast.methods.state import MethodState

    MethodState({"w": torch.ones(2)}, {"seen": 3}).write(folder)
    return folder / "method.json"


def method_tensors(folder, get):
    """The other file of it."""
    return method_values(folder, get).with_name("method.safetensors")


def tiny_policy():
    """Something with two weights that can be trained."""
    import torch

    class Preset:
        lr = 0.001

    policy = torch.nn.Linear(1, 1)
    policy.config = type("Config", (), {"get_optimizer_preset": lambda self: Preset})()
    policy.get_optim_params = lambda: list(policy.parameters())
    return policy


def progress(name):
    """Makes the saved progress of a training, and takes one of its files."""

    def make(folder, get):
        from holdfast.train.config import OptimConfig
        from holdfast.train.state import TrainingState

        state = TrainingState(tiny_policy(), OptimConfig())
        for parameter in state.parameters.values():
            parameter.grad = parameter.detach().clone()
        state.advance(1.0)
        state.save(folder)
        return folder / name

    return make


def run_with(name, text):
    """Makes a copy of the run without trials, with a file in it."""

    def make(folder, get):
        shutil.copytree(get("run"), folder / "run")
        (folder / "run" / name).write_text(text)
        return folder / "run" / name

    return make


def sheets(folder, get):
    """A file of score sheets."""
    from holdfast.console.sheets import Sheets

    with Sheets(folder / "scoring.sqlite") as stored, stored.writing():
        stored.add("1" * 16, "t", "ann", "open", None)
        stored.add("2" * 16, "t", "ann", "milestone", {"name": "lifted", "on": True, "at": 1.5})
    return folder / "scoring.sqlite"
