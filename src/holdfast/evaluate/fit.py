"""Whether a policy fits an arena: task and rubric, rate, dimensions, cameras, robot. Checked before any trial."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.arenas.arena import Arena
from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.records import Task
from holdfast.data.lerobot.folder import ACTION, STATE, camera_name, is_image
from holdfast.embodiments.embodiment import TARGETS
from holdfast.runs.run import FinishedStage, Run


def check_fits(run: Run, arena: Arena, stage: FinishedStage, name: str) -> None:
    """Check that the arena has the run's task with the same rubric, and what the policy reads and commands."""
    arena.task(name)
    own = next(task for task in run.tasks if task.name == name)
    _check_rubric(own, arena)
    schema, config = stage.checkpoint.schema, stage.checkpoint.policy_config
    if (fps := schema["fps"]) != arena.rate:
        raise HoldfastError(
            f"The policy of {run.path} was trained at {fps:g} steps a second, the arena {arena.name!r} takes "
            f"{arena.rate}. Name the one it was trained for with --arena. If its datasets hold the arena's steps but "
            f"say otherwise, write rate = {fps:g} into the arena's file (docs/arenas.md)."
        )
    features = {**config["input_features"], **config["output_features"]}
    known = {"state": schema.get("state_names", schema["names"]), "action": schema["names"]}
    for word, key, names in (("state", STATE, arena.state), ("action", ACTION, arena.action)):
        if key in features:
            _check_dimensions(run, arena, word, features[key]["shape"], known[word], names)
    for camera in (camera_name(key) for key in features if is_image(key)):
        if camera not in arena.cameras:
            raise unknown(f"camera of the arena {arena.name!r}", camera, arena.cameras)
    _check_robot(run, arena, own)


def _check_rubric(own: Task, arena: Arena) -> None:
    """Check for the same milestones and penalties; a run's task without milestones counts plain success."""
    theirs = arena.tasks[own.name]
    for word, has, gives in (
        ("milestones", own.milestones, theirs.milestones),
        ("penalties", own.penalties, theirs.penalties),
    ):
        names, given = ([part.name for part in parts] for parts in (has, gives))
        if own.milestones and set(names) != set(given):
            raise HoldfastError(
                f"Task {own.name!r} was trained with the {word} {', '.join(names) or 'none'}, the arena {arena.name!r} "
                f"judges {', '.join(given) or 'none'}: such scores would be meaningless. Train with the arena's rubric."
            )


def _check_dimensions(
    run: Run, arena: Arena, word: str, shape: list[int], trained: Sequence[str], names: Sequence[str]
) -> None:
    """Check for as many dimensions, in the same order: a name that both have stands at one place.

    Other names may mean the same. Datasets call LIBERO's actions by many, and those without names are counted.
    """
    if shape != [len(names)]:
        raise HoldfastError(
            f"The policy of {run.path} has {shape[0]} dimensions of {word}, the arena {arena.name!r} {len(names)}: "
            f"{', '.join(names)}. Name the one it was trained for with --arena."
        )
    if any(name in trained and name != own for name, own in zip(names, trained, strict=False)):
        raise HoldfastError(
            f"The policy of {run.path} was trained on the {word} {', '.join(trained)}, the arena {arena.name!r} has it "
            f"in another order: {', '.join(names)}. Name the one it was trained for with --arena, or train again with "
            "`dimensions = [...]` in the arena's order under each [[task]] of the stream."
        )


def _check_robot(run: Run, arena: Arena, own: Task) -> None:
    """Check that the run's robot can hold the arms that the task does not use, and means the actions as the arena."""
    robot = run.robot
    if robot is None:
        return
    robot.active(own.arms)  # arms it does not have are named
    if len(robot.dimensions) != len(arena.action) or (robot.states and len(robot.states) != len(arena.state)):
        raise HoldfastError(
            f"The robot {robot.name!r} in {run.paths.embodiment} is not one of {len(arena.state)} dimensions of state "
            f"and {len(arena.action)} of action, as the arena {arena.name!r} has. Restore the file from a backup."
        )
    for name, dimension in zip(arena.action, robot.dimensions, strict=True):
        asked = arena.kinds.get(name, dimension.kind)
        if asked != dimension.kind and not {asked, dimension.kind} <= set(TARGETS):
            raise HoldfastError(
                f"The policy of {run.path} was trained for {dimension.name!r} as a {dimension.kind}, in the arena "
                f"{arena.name!r} {name!r} is a {asked}. Name the one it was trained for with --arena, or correct the "
                "kind in the robot's file and train again."
            )
