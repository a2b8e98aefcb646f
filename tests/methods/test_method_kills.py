"""Every method and selection ends with the same bits, weights and what it keeps, however often it was killed."""

import pytest
from method_runs import STAGES, killed, train

from holdfast.core import checked_folder

KEPT = ("policy/model.safetensors", "method.safetensors")
REPLAY = ("policy/model.safetensors", "buffer.json")
HALF = ("--replay.frequency=0.5",)
STEP = ("holdfast.train.step", "Stepper.__call__")
# Flags, files of a checkpoint that must be the same, and where each attempt is killed: in the steps of the second stage
# (the first has six), after its end, and when what is kept has shrunk already.
METHODS = {
    "l2": (("--method.strength=1",), KEPT, [("holdfast.methods.l2", "L2.extra_loss", 11)]),
    "lwf": ((), KEPT, [("holdfast.methods.lwf", "Lwf.extra_loss", 11)]),
    "derpp": (HALF, (*KEPT, "buffer.json"), [("holdfast.methods.derpp", "Derpp.extra_loss", 14)]),
    "agem": (HALF, REPLAY, [("holdfast.methods.agem", "Agem.combine", 5)]),
    "merge": (
        ("--replay.store=copy", "--method.parts=2"),
        KEPT,  # the fingerprint of a copy in buffer.json differs from run to run
        [("holdfast.methods.merge", "Merge.finish", 2), ("holdfast.train.keep", "copy_kept", 1)],
    ),
    "adapters": (
        ("--method.rank=2",),
        ("policy/model.safetensors", "policy/config.json", "policy/policy_preprocessor.json"),
        [("holdfast.methods.adapters", "Adapters.begin", 2), (*STEP, 5)],
    ),
    "joint-cumulative": ((), REPLAY, [(*STEP, 11)]),
    "er": (("--replay.mix=row", *HALF), REPLAY, [(*STEP, 11)]),
}
# Killed while the second stage decides what is kept.
SELECTIONS = {
    "hard": ("holdfast.train.loss_probe", "LossProbe.episode_scores"),
    "coverage": ("holdfast.train.keep", "thumbnails"),
}


@pytest.mark.parametrize("name", METHODS)
def test_killed_it_ends_with_the_same_weights(toy, name):
    flags, files, kills = METHODS[name]
    ends_alike(toy, (f"--method={name}", *flags), files, kills)


@pytest.mark.parametrize("name", SELECTIONS)
def test_killed_it_keeps_the_same_episodes(toy, name):
    ends_alike(toy, (f"--replay.selection={name}", "--replay.ratio=1"), REPLAY, [(*SELECTIONS[name], 2)])


def ends_alike(toy, flags, files, kills):
    for kill in kills:
        killed(toy, "killed", *flags, kill=kill)
    train(toy, "killed", *flags)
    train(toy, "whole", *flags)
    for stage in STAGES:
        for file in files:
            found, wanted = (toy / run / "stages" / stage / "checkpoint" / file for run in ("killed", "whole"))
            assert checked_folder.file_hash(found) == checked_folder.file_hash(wanted), (stage, file)
