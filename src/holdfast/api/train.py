"""`holdfast.train`: what `holdfast train` does with its settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from rich.console import Console

from holdfast import catalog
from holdfast.api.trained import TrainedRun, load
from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.json_records import to_json
from holdfast.core.own_code import unchanged
from holdfast.core.records import Stream
from holdfast.core.torch_environment import set_up_torch
from holdfast.methods import name_of
from holdfast.methods.method import Method
from holdfast.replay.selection import Candidates, Selection, name_selection
from holdfast.train import plan as plans
from holdfast.train.config import TrainConfig
from holdfast.train.distributed.micro_batches import deal
from holdfast.train.distributed.ranks import Ranks
from holdfast.train.early_checks import check_early


def train(
    config: TrainConfig,
    *,
    method: Method | None = None,
    selection: Selection | Callable[[Candidates], Sequence[int]] | None = None,
    console: Console | None = None,
) -> TrainedRun:
    """Train a policy on a stream of tasks, one stage after another, and return the run.

    A run that was stopped continues where it was, and ends with the same weights. One that is finished is returned as
    it is. In a program that torchrun starts, every rank calls this function.

    Args:
        config: The settings; its fields are the flags of `holdfast train`.
        method: A method of your own with its options, instead of `config.method`. Its class must stand at the top level
            of a file: the run stores the file's hash, and is only continued with the same file.
        selection: A selection of your own, instead of `config.replay.selection`; likewise from a file.
        console: Where the plan and the progress are printed; `Console(quiet=True)` prints nothing.
    """
    if config.dry_run:
        raise HoldfastError("With dry_run nothing is trained. Leave it out, or run: holdfast train --dry-run")
    ranks = Ranks.from_environment()
    console = console or Console(quiet=not ranks.first)
    if method is not None:
        config = with_method(config, method)
    if selection is not None:
        config = replace(config, replay=replace(config.replay, selection=name_selection(selection)))
    config, stream = settle(config, ranks)
    console.print(plans.table(plans.make_plan(config, stream, look=False, ranks=ranks.count)))
    set_up_torch()
    from holdfast.train.engine import train as train_stages

    with unchanged(config.method, config.replay.selection):  # also if their files are edited meanwhile
        return load(train_stages(config, stream, console, ranks))


def settle(config: TrainConfig, ranks: Ranks) -> tuple[TrainConfig, Stream]:
    """The settings with what the ranks decide, and the stream that they name. What cannot work is refused."""
    config = deal(config, ranks.count)
    stream = catalog.load_stream(config.stream, config.data_root).only(config.tasks)
    for name in config.task_steps:
        if name not in stream.names:
            raise unknown("task in --task_steps", name, stream.names)
    check_early(config, stream)
    return config, stream


def with_method(config: TrainConfig, method: Method) -> TrainConfig:
    """The settings with a method that is given as an object."""
    changed = replace(config, method=name_of(type(method)), method_options=to_json(method))
    if changed.make_method() != method:
        raise HoldfastError(f"The options of {method} cannot be stored: use numbers, text, lists and tables of them.")
    return changed
