"""What differs between two bundles is said in words."""

from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from holdfast.serve.diff import differences


def test_a_bundle_does_not_differ_from_itself(bundle):
    assert list(differences(bundle, bundle)) == []


def test_stages_differ_in_weights_and_tasks(bundle, trained, tmp_path):
    from holdfast.serve.new_bundle import make

    lines = list(differences(make(trained, 1, tmp_path / "one"), bundle))
    assert "stage: 1 -> 2" in lines
    (new,) = [line for line in lines if line.startswith("task place_fruits: new, ")]
    assert new.endswith("with left and right")
    (weights,) = [line for line in lines if line.startswith("weights")]
    assert "tensors differ; most changed: " in weights


def test_one_changed_tensor_is_named_with_its_change(bundle, tmp_path):
    tensors = load_file(bundle.path / "policy" / "model.safetensors")
    name = sorted(key for key, value in tensors.items() if value.size > 10 and np.abs(value).sum() > 0)[0]
    (tmp_path / "policy").mkdir()
    save_file({**tensors, name: tensors[name] * np.float32(1.5)}, tmp_path / "policy" / "model.safetensors")
    other = replace(bundle, path=tmp_path, weights="other")
    (line,) = differences(bundle, other)
    assert line == f"weights: 1 of {len(tensors)} tensors differ; most changed: {name} by 50 %"


def test_changed_words_are_shown(bundle):
    name = "press_button"
    task = bundle.tasks[name]
    milestone = replace(task.milestones[0], text="Another text.")
    changed = replace(task, instruction="Push it.", milestones=(milestone, *task.milestones[1:]), final="Else.")
    lines = list(differences(bundle, replace(bundle, tasks={**bundle.tasks, name: changed})))
    assert f"task {name}, prompt: {task.instruction!r} -> 'Push it.'" in lines
    assert any(line.startswith(f"task {name}, rubric, milestone {milestone.name}: ") for line in lines)
    assert any(line.startswith(f"task {name}, rubric, final: ") for line in lines)
    assert len(lines) == 3


@pytest.mark.parametrize("feature", ["state", "action"])
def test_changed_statistics_are_shown_by_dimension(bundle, feature):
    first, space = next(iter(bundle.normalization.measured.items()))
    stats = getattr(space, feature)
    moved = replace(stats, q99=(*stats.q99[:3], stats.q99[3] + 1, *stats.q99[4:]))
    measured = {**bundle.normalization.measured, first: replace(space, **{feature: moved})}
    other = replace(bundle, normalization=replace(bundle.normalization, measured=measured))
    (line,) = differences(bundle, other)
    assert "left_joint_4.pos" in line
    assert f"{stats.q99[3]:.4g} -> " in line
    assert f"{stats.q99[3] + 1:.4g}" in line


def test_another_robot_is_named(bundle):
    robot = bundle.embodiment
    slower = replace(robot, dimensions=(replace(robot.dimensions[0], step=0.01), *robot.dimensions[1:]))
    (line,) = differences(bundle, replace(bundle, embodiment=slower))
    assert "left_joint_1.pos" in line
    (line,) = differences(bundle, replace(bundle, embodiment=None))
    assert line == "embodiment: piper_x_pair -> none"
