"""`holdfast.evaluate`: what `holdfast evaluate` does before it shows the matrix."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import TypedDict, Unpack

from rich.console import Console

from holdfast import arenas
from holdfast.api.trained import TrainedRun
from holdfast.arenas.arena import Arena
from holdfast.core.clock import STEADY, Clock
from holdfast.core.device_name import check_device
from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.gpu_driver import has_gpu_driver
from holdfast.core.progress import progress_bar
from holdfast.core.torch_environment import set_up_torch
from holdfast.evaluate.engine import Choice, Evaluation, measure, plan, share_out
from holdfast.runs.run import Run, has_finished_stage, read_run
from holdfast.runs.trials import Trials

type ArenaName = str | type[Arena]

_TICK = 0.5  # seconds between two looks at the stages


class EvaluateSettings(TypedDict, total=False):
    """What `evaluate` may be told. The flags of `holdfast evaluate` have the same names."""

    trials: int
    first_seed: int
    level: str | None
    horizon: int | None
    width: float | None
    videos: int
    stages: Sequence[int]
    tasks: Sequence[str]
    cells: str
    unseen: bool
    workers: str
    processes: int | None


def evaluate(
    *runs: TrainedRun | str | Path,
    arena: ArenaName | Sequence[ArenaName] = "twin",
    heldout: str | Path | None = None,
    device: str = "auto",
    wait: bool = False,
    console: Console | None = None,
    **settings: Unpack[EvaluateSettings],
) -> None:
    """Run trials of every task that the runs have seen, after every stage, on the same layouts.

    Every trial is stored in its run as it ends, and trials that are there already are not repeated. `TrainedRun.matrix`
    shows the scores.

    Args:
        runs: Runs, or their folders.
        arena: The arena's name, the path of one of your own, `package.module:Class`, or its class. Of several, each
            task is tried in the first that has it.
        heldout: Also score demonstrations `heldout/<task>`, which the runs have not seen.
        device: Where policies compute: auto, cpu, cuda.
        wait: Also wait for the stages (of `stages`, or all) that are not finished, and evaluate each as it is finished.
        console: Where progress is printed; `Console(quiet=True)` prints nothing.
        settings: Trials of each cell (`trials`, 20; 0 runs none) and the seed of the first layout (`first_seed`, 0);
            how far layouts vary (`level`), executed steps of a chunk (`horizon`), trials of each cell to film
            (`videos`); only these `stages` or `tasks`; `cells="needed"` for each task after its own and after the last
            stage only; with `unseen` also tasks not yet learned; stop a cell once its 95 % interval is narrower than
            `width` points; environments in parallel (`processes`, all cores), or `workers="ray"`.
    """
    console = console or Console(highlight=False)
    places = [run.path if isinstance(run, TrainedRun) else Path(run) for run in runs]
    if len({place.resolve() for place in places}) < len(places):
        raise HoldfastError(f"A run is given twice: {', '.join(map(str, places))}. Name each once.")
    given = [arena] if isinstance(arena, str | type) else list(arena)
    named = dict.fromkeys(arenas.path_of(one) for one in given)
    choices = {name: Choice(arena=name, device=_device(device), **settings) for name in named}
    if wait:
        _wait_for_runs(places, console)
    found = [read_run(place) for place in places]
    asked = settings.get("stages", ())
    _check_stages(found, asked, wait)
    before = 0.0
    while True:
        if heldout is not None:
            for run in found:
                _score_heldout(run, Path(heldout), next(iter(choices.values())), console)
        now = _finished_part(found, asked)
        _evaluate(found, choices, console, (before, now if wait else 1.0))
        if not wait or now >= 1:
            return
        before, found = now, _further(found)


def _evaluate(found: Sequence[Run], choices: dict[str, Choice], console: Console, part: tuple[float, float]) -> None:
    """Run all trials of the stages that are finished; they are a part of the whole work."""
    for run in found:
        if len(run.stages) < run.planned:
            said = f"{run.path}: {len(run.stages)} of {run.planned} stages are finished."
            console.print(said, soft_wrap=True, markup=False)
    with ExitStack() as files:
        parts: dict[str, list[Evaluation]] = {name: [] for name in choices}
        for run in found:
            stored = files.enter_context(Trials(run.trials))
            for share in _shares(run, list(choices.values()), console):
                parts[share.arena].append(Evaluation(run, plan(run, share, stored), stored))
        _measure([(choices[name], evaluations) for name, evaluations in parts.items()], console, part)


def _wait_for_runs(places: Sequence[Path], console: Console, clock: Clock = STEADY) -> None:
    """Wait until all runs have finished a stage."""
    for place in places:
        if not has_finished_stage(place):
            console.print(f"Waiting for the first stage of {place}.", soft_wrap=True, markup=False)
        while not has_finished_stage(place):
            clock.sleep(_TICK)


def _check_stages(found: Sequence[Run], asked: Sequence[int], wait: bool) -> None:
    """Refuse stages that are not finished, or with `wait` those that never will be."""
    for run in found:
        valid = range(1, run.planned + 1) if wait else [stage.number for stage in run.stages]
        for number in asked:
            if number not in valid:
                raise unknown(f"{'' if wait else 'finished '}stage of {run.path}", number, valid)


def _finished_part(found: Sequence[Run], asked: Sequence[int]) -> float:
    """How much of the stages asked for, or of all, is finished."""
    wanted = [(run, number) for run in found for number in asked or range(1, run.planned + 1)]
    return sum(any(stage.number == number for stage in run.stages) for run, number in wanted) / len(wanted)


def _further(found: Sequence[Run], clock: Clock = STEADY) -> list[Run]:
    """The runs as soon as one of them has finished another stage."""
    while True:
        now = [read_run(run.path) for run in found]
        if any(len(run.stages) > len(old.stages) for run, old in zip(now, found, strict=True)):
            return now
        clock.sleep(_TICK)


def _shares(run: Run, choices: list[Choice], console: Console) -> list[Choice]:
    """What is tried where; says which tasks no arena has."""
    if not choices[0].trials:
        return []
    shares = share_out(run, choices)
    tried = [task for share in shares for task in share.tasks]
    if not choices[0].tasks and (missing := [name for name in run.names if name not in tried]):
        where = " or ".join(repr(choice.arena) for choice in choices)
        said = f"Left out: {', '.join(dict.fromkeys(missing))}. The arena {where} does not have them."
        console.print(said, markup=False)
    return shares


def _measure(parts: list[tuple[Choice, list[Evaluation]]], console: Console, part: tuple[float, float]) -> None:
    """Run the trials of each arena, and print every cell that is done and every trial that is not valid."""
    evaluations = [of for _, some in parts for of in some]
    for of in evaluations:
        left = sum(cell.remaining for cell in of.cells)
        if of.cells:
            said = f"{len(of.cells)} cells, {left} trials to run, into {of.run.trials}"
            console.print(said, soft_wrap=True, markup=False)
    cells = [cell for of in evaluations for cell in of.cells]
    if not cells:
        return
    with progress_bar(console, part=part) as progress:
        bar = progress.add_task("trials", total=sum(cell.remaining for cell in cells), note="starting")

        def watch(steps: int) -> None:
            progress.update(bar, note=f"{steps:,} steps" if steps else "loading the policy")

        told: set[int] = set()
        written = chain.from_iterable(measure(some, choice, watch) for choice, some in parts)
        for done, (of, cell, trial) in enumerate(written, 1):
            said = f"{cell.task} after stage {cell.stage.number}"
            said = f"{of.run.path.name}: {said}" if len(evaluations) > 1 else said
            if not trial.valid:
                progress.console.print(f"{said}, seed {trial.seed}: not valid. {trial.notes}", markup=False)
            mean = f"{sum(cell.scores) / len(cell.scores):.1f}" if cell.scores else "no score"
            said = f"{said}: {mean} over {len(cell.scores)} trials"
            progress.update(bar, completed=done, total=done + sum(c.remaining for c in cells))
            if cell.settled and id(cell) not in told:  # trials may be written together
                told.add(id(cell))
                progress.console.print(said, markup=False)


def _score_heldout(run: Run, folder: Path, choice: Choice, console: Console) -> None:
    from holdfast.evaluate.heldout import write_heldout

    with progress_bar(console) as progress:
        bar = progress.add_task("held-out episodes", total=None, note="")
        for done, total, note in write_heldout(run, folder, choice.unseen, choice.device):
            progress.update(bar, completed=done, total=total, note=note)
    console.print(f"wrote {run.paths.heldout}", soft_wrap=True, markup=False)


def _device(asked: str) -> str:
    check_device(asked)
    if asked == "cpu" or (asked == "auto" and not has_gpu_driver()):  # do not import torch, which takes seconds
        return "cpu"
    set_up_torch()
    from holdfast.policies.device import choose_device

    return choose_device(asked)
