"""How runs are evaluated: every task they have seen, after every stage, on the same layouts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from holdfast import arenas
from holdfast.arenas.arena import Arena
from holdfast.core.checked_folder import check_no_link
from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.progress import WatchSteps
from holdfast.core.records import Matrix, Trial, TrialProtocol
from holdfast.evaluate.cells import CELLS, Cell, is_measured
from holdfast.evaluate.equal_trials import each_once
from holdfast.evaluate.fit import check_fits
from holdfast.evaluate.rollout import TrialOrder
from holdfast.evaluate.workers import Done, Setup, Workers, local, on_ray
from holdfast.runs.run import FinishedStage, Run
from holdfast.runs.sources import by_source, matrix_of
from holdfast.runs.trials import Trials

WORKERS = ("processes", "ray")
_EARLY = 3  # trials in a row that fail before their first step: it is not the trials, it is the arena


@dataclass(frozen=True)
class Choice:
    """What is evaluated and how. With 0 `trials` nothing is run. Empty `stages` and `tasks` mean all."""

    trials: int = 20
    first_seed: int = 0
    arena: str = "twin"
    level: str | None = None  # the arena's default
    horizon: int | None = None
    width: float | None = None
    videos: int = 0
    stages: Sequence[int] = ()
    tasks: Sequence[str] = ()
    unseen: bool = False
    cells: str = "all"
    device: str = "cpu"
    workers: str = "processes"
    processes: int | None = None

    def __post_init__(self) -> None:
        least = {"trials": 0, "first_seed": 0, "horizon": 1, "videos": 0, "processes": 1}
        for name, lowest in least.items():
            value = getattr(self, name)
            if value is not None and value < lowest:
                raise HoldfastError(f"--{name.replace('_', '-')} must be at least {lowest}, got {value}.")
        if self.width is not None and not 0 < self.width < 100:
            raise HoldfastError(f"--width must be between 0 and 100 points, got {self.width}.")
        object.__setattr__(self, "level", arenas.load(self.arena).level(self.level))
        for flag, value, valid in (("--workers", self.workers, WORKERS), ("--cells", self.cells, CELLS)):
            if value not in valid:
                raise unknown(flag, value, valid)


@dataclass(frozen=True)
class Evaluation:
    """One run that is evaluated: the cells to measure, and the file of its trials."""

    run: Run
    cells: list[Cell]
    trials: Trials


def plan(run: Run, choice: Choice, trials: Trials) -> list[Cell]:
    """The cells to measure, with their trials from earlier evaluations."""
    _check_tasks(run, choice)
    arena = arenas.load(choice.arena)
    stages = [stage for stage in run.stages if stage.number in choice.stages or not choice.stages]
    wanted = [name for name in run.names if name in (choice.tasks or run.names)]
    seeds = range(choice.first_seed, choice.first_seed + choice.trials)
    cells: list[Cell] = []
    for stage in stages if choice.trials else ():
        if choice.videos:
            check_no_link(run.paths.videos / stage.folder / arena.name, run.path)
        for task in wanted:
            last = stage.number == run.planned
            if not (task in stage.seen or choice.unseen):
                continue
            if not is_measured(choice.cells, run.arrangement, task, stage.name, last):
                continue
            check_fits(run, arena, stage, task)
            known = _known(trials, arena, stage, task)
            _check_alike(run, choice, stage, known.values())
            scores = {seed: trial.score for seed, trial in known.items() if trial.valid and trial.score is not None}
            useful = [seed for seed in seeds if seed in scores or seed not in known]  # an invalid one is not repeated
            cells.append(Cell(stage, task, useful, choice.width, scores))
    return cells


def share_out(run: Run, choices: Sequence[Choice]) -> list[Choice]:
    """What is tried where, of a choice for each arena: a task goes to the first arena that has it."""
    _check_tasks(run, choices[0])
    asked = choices[0].tasks
    left, shares = list(asked or run.names), []
    for choice in choices:
        known = arenas.load(choice.arena).tasks
        if tasks := tuple(task for task in left if task in known):
            shares.append(replace(choice, tasks=tasks))
        left = [task for task in left if task not in known]
    if left and (asked or not shares):
        named = ", ".join(repr(choice.arena) for choice in choices)
        valid = dict.fromkeys(task for choice in choices for task in arenas.load(choice.arena).tasks)
        raise HoldfastError(
            f"{left[0]!r} is not a task of the arena {named}, so only operators can try it. Name others with "
            f"--tasks, or another --arena. Valid: {', '.join(valid)}."
        )
    return shares


def measure(
    evaluations: Sequence[Evaluation], choice: Choice, watch: WatchSteps = lambda steps: None
) -> Iterator[tuple[Evaluation, Cell, Trial]]:
    """Run the remaining trials of all runs; yields each trial that was written, with its run and its cell.

    Trials that runs have in common, because they share a stage, are run once. `watch` gets the control steps so far, at
    least every second.
    """
    by_name = {(of.run.path, cell.stage.number, cell.task): (of, cell) for of in evaluations for cell in of.cells}
    if all(cell.settled for _, cell in by_name.values()):
        return
    orders = chain.from_iterable(_orders(of.run, choice, of.cells) for of in evaluations)
    workers = _workers([of.run for of in evaluations], choice, watch)
    written: list[tuple[Evaluation, Cell, Trial]] = []

    def write(order: TrialOrder, trial: Trial) -> None:
        of, cell = by_name[order.run, order.stage, order.task.name]
        for due in cell.add(trial):
            of.trials.add(due)
            written.append((of, cell, due))

    for order, trial in each_once(lambda different: _unless_broken(workers(different)), orders, write):
        write(order, trial)
        while written:
            yield written.pop(0)
    yield from written


def _unless_broken(done: Iterator[Done]) -> Iterator[Done]:
    """Hold back trials that fail before their first step, until one does not; several in a row are an error."""
    early: list[Done] = []
    for order, trial in done:
        early.append((order, trial))
        if trial.valid or trial.seconds:
            yield from early
            early.clear()
        elif len(early) == _EARLY:
            raise HoldfastError(f"{_EARLY} trials in a row failed before their first step. {trial.notes}")
    yield from early


def matrix(run: Run, trials: Iterable[Trial], source: str, baseline: Run | None = None) -> Matrix:
    """A run's scores by one source as the metrics read them, with those of a `finetune` run as baseline."""
    own = run.arranged(matrix_of(run.names, by_source(trials).get(source, ())))
    if baseline is None:
        return own
    with Trials(baseline.trials) as file:
        alone = matrix(baseline, file.counted(), source).baseline
    places = {name: i for i, name in enumerate(run.names, 1)}
    scores = {places[n]: alone[i] for i, n in enumerate(baseline.names, 1) if n in places and i in alone}
    return Matrix(own.tasks, own.cells, scores)


def _orders(run: Run, choice: Choice, cells: Sequence[Cell]) -> Iterator[TrialOrder]:
    tasks, arena = {task.name: task for task in run.tasks}, arenas.load(choice.arena).name
    assert choice.level is not None
    robot = run.robot
    for cell in cells:
        stage, task = cell.stage, cell.task
        for seed in cell.left():
            filmed = seed - choice.first_seed < choice.videos
            yield TrialOrder(
                run=run.path,
                checkpoint=stage.checkpoint.folder,
                stage=stage.number,
                task=tasks[task],
                seed=seed,
                level=choice.level,
                weights=stage.checkpoint.weights_hash,
                normalization=stage.checkpoint.normalization.execute(task).hash,
                protocol=_protocol(choice, stage),
                robot=robot,
                video=run.paths.evaluation_video(stage.folder, arena, task, seed) if filmed else "",
            )


def _workers(runs: Sequence[Run], choice: Choice, watch: WatchSteps) -> Workers:
    setup = Setup(choice.device, choice.horizon, choice.arena)
    if choice.workers == "ray":
        return on_ray(setup)
    return local(setup, [run.stages[0].checkpoint.folder for run in runs], choice.processes, watch)


def _check_tasks(run: Run, choice: Choice) -> None:
    for name in choice.tasks:
        if name not in run.names:
            raise unknown(f"task of {run.path}", name, run.names)


def _known(trials: Trials, arena: Arena, stage: FinishedStage, task: str) -> dict[int, Trial]:
    """The trials that this arena has judged, by seed."""
    found = [trial for trial in trials.all(task, stage.number) if trial.source == arena.name]
    weights = stage.checkpoint.weights_hash
    return {trial.seed: trial for trial in found if trial.seed is not None and trial.weights == weights}


def _check_alike(run: Run, choice: Choice, stage: FinishedStage, known: Iterable[Trial]) -> None:
    """Refuse to mix trials of different levels or protocols. Operators' corrections may differ."""
    asked = choice.level, _protocol(choice, stage)
    for trial in known:
        if not trial.operator and (trial.level, trial.protocol) != asked:
            raise HoldfastError(
                f"{run.path} was evaluated at level {trial.level!r} with {trial.protocol or trial.notes}, now asked "
                f"for {asked[0]!r} with {asked[1]}. Use the same, or move {run.trials} away to start over."
            )


def _protocol(choice: Choice, stage: FinishedStage) -> TrialProtocol:
    return TrialProtocol(choice.horizon or int(stage.checkpoint.policy_config["n_action_steps"]))
