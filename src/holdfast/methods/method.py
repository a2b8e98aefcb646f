"""The interface of continual-learning methods. Every hook has a default, so a method overrides only what it changes.

Light to import: `--help`, plans and reports use methods without torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from inspect import get_annotations
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from holdfast.core.records import Stage, Stream, Task
from holdfast.methods.guard import guard_hooks
from holdfast.methods.overrides import check_overrides
from holdfast.replay.config import ReplayConfig
from holdfast.replay.schedule import Mix, replayed_rows, stage_steps

if TYPE_CHECKING:
    import numpy as np
    import torch

    from holdfast.methods.state import MethodState
    from holdfast.policies.adapter import Loss

# How the stages of a run map to its matrix. stream: one after the other, a row each; together: one stage that knows
# all tasks, like the last row of a stream; alone: each task by itself, a baseline for the others.
Arrangement = Literal["stream", "together", "alone"]
# What a method reads of a policy beside its loss. elements: the loss of every row, which policies with `loss_elements`
# give; velocities: `Loss.flow`, which those with `draw_noise` and `velocity_errors` give; loras: a LoRA per task, which
# those with `add_task_lora` take.
Needs = Literal["nothing", "elements", "velocities", "loras"]


def learned_visits(arrangement: Arrangement, tasks: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """The visits that each stage learns, by their positions; `tasks` has the task of every visit.

    Together and alone a task that comes back is learned once. This is all that readers of a run know of its stages.
    """
    first: dict[str, int] = {}
    for position, name in enumerate(tasks):
        first.setdefault(name, position)
    if arrangement == "together":
        return (tuple(first.values()),)
    return tuple((position,) for position in (range(len(tasks)) if arrangement == "stream" else first.values()))


@dataclass(frozen=True)
class Method:
    """Base of all methods; by itself it learns one task after the other.

    The fields of a subclass are its options: `--method.FIELD` on the command line, checked in `__post_init__`.
    """

    arrangement: ClassVar[Arrangement] = "stream"
    # Whether episodes of finished tasks are kept for replay.
    replays: ClassVar[bool] = False
    # How replayed samples are mixed in, whatever --replay.mix says; None: as it says.
    mix: ClassVar[Mix | None] = None
    # What it reads of the policy; a policy that does not give it is refused.
    needs: ClassVar[Needs] = "nothing"

    def __init_subclass__(cls) -> None:
        """Find mistakes that would otherwise show after the first stage, or never; guard the hooks of a user's own."""
        for name in ("arrangement", "replays", "mix", "needs"):
            if "ClassVar" not in str(get_annotations(cls).get(name, "ClassVar")):
                raise TypeError(f"{cls.__name__}.{name} would become an option. Write `{name} = ...` without a type.")
        check_overrides(cls, Method)
        if not cls.is_ours():
            guard_hooks(cls, Method)
        if cls.keep is not Method.keep and cls.kept_shapes is Method.kept_shapes:
            raise TypeError(f"{cls.__name__} has keep() and therefore needs kept_shapes(), too.")
        if cls.arrangement not in get_args(Arrangement):
            raise TypeError(
                f"{cls.__name__}.arrangement must be one of {get_args(Arrangement)}, got {cls.arrangement!r}."
            )
        if cls.needs not in get_args(Needs):
            raise TypeError(f"{cls.__name__}.needs must be one of {get_args(Needs)}, got {cls.needs!r}.")
        if not isinstance(cls.replays, bool):
            raise TypeError(f"{cls.__name__}.replays must be True or False, got {cls.replays!r}.")
        if cls.mix not in (None, *get_args(Mix)):
            raise TypeError(f"{cls.__name__}.mix must be one of {get_args(Mix)}, got {cls.mix!r}.")
        if cls.replays and cls.arrangement != "stream":
            raise TypeError(f"{cls.__name__}.replays needs arrangement 'stream': no stage of it comes after another.")
        if cls.combine is not Method.combine:
            if cls.needs not in ("elements", "velocities"):
                raise TypeError(f"{cls.__name__} has combine() and therefore needs `needs = 'elements'`.")
            if cls.extra_loss is not Method.extra_loss:
                raise TypeError(f"{cls.__name__} has combine() and extra_loss(): which gradient would get the term?")
        for name in ("replayed_rows", "combine"):
            if getattr(cls, name) is not getattr(Method, name) and not cls.replays:
                raise TypeError(f"{cls.__name__} has {name}() and therefore needs `replays = True`.")

    @classmethod
    def is_ours(cls) -> bool:
        """Whether the class is one of the package, not of a user."""
        return cls.__module__.startswith("holdfast.methods.")

    @property
    def needs_whole_policy(self) -> bool:
        """Whether the method needs whole weights, which --parallel=fsdp does not leave on any rank.

        This holds for all methods that override one of these hooks, which are given weights or gradients.
        """
        hooks = ("begin", "extra_loss", "combine", "finish", "keep")
        return any(getattr(type(self), hook) is not getattr(Method, hook) for hook in hooks)

    @property
    def combines(self) -> bool:
        """Whether new and replayed rows get a gradient each, which the method combines."""
        return type(self).combine is not Method.combine

    @property
    def takes_plain_steps(self) -> bool:
        """Whether its steps are those of the base class, so that runs of other methods can have them in common.

        Only of the package's own methods it is known what else they depend on.
        """
        kind = type(self)
        return (
            kind.is_ours()
            and not self.combines
            and all(getattr(kind, h) is getattr(Method, h) for h in ("begin", "extra_loss", "replayed_rows"))
        )

    @property
    def costs_more_later(self) -> bool:
        """Whether steps of later stages may take longer than the first stage's: a term of the loss, two gradients."""
        return self.combines or type(self).extra_loss is not Method.extra_loss

    def stages(self, stream: Stream, steps: Sequence[int], frequency: float) -> tuple[Stage, ...]:
        """The stages of a stream: here one per visit of a task, each from the weights before.

        They must learn what `learned_visits` says of the arrangement, in that order. Their length, replay frequency
        and start are free. One that learns a single task has its name.

        A method that replays has nothing to replay until there are two tasks; later stages are longer by 1 / (1 - f_r).

        Args:
            stream: The tasks.
            steps: Updates with new data, visit by visit.
            frequency: The replay frequency f_r.
        """
        names = stream.names
        replayed = [frequency if self.replays and {*names[:i]} - {name} else 0.0 for i, name in enumerate(names)]
        return tuple(
            Stage(i + 1, name, (i,), stage_steps(steps[i], replayed[i]), replayed[i], "previous" if i else "base")
            for i, name in enumerate(names)
        )

    def begin(
        self, policy: torch.nn.Module, task: Task, first_images: Callable[[], dict[str, np.ndarray]], seed: int
    ) -> str | None:
        """Change the policy before a stage's first step: what it consists of, or which weights learn.

        All ranks call it, and so does a run that is resumed, so it must depend only on its arguments. The policy's
        folder must hold what it has changed. Returns what to tell the user.

        Args:
            policy: The network with the weights of the stage before, or of the base.
            task: The task that the stage learns, the last one if there are several.
            first_images: Thumbnails of the first frames of its episodes, by camera.
            seed: Another number in every stage.
        """
        return None

    def replayed_rows(self, stage: Stage, step: int, batch_size: int, replay: ReplayConfig, seed: int) -> int:
        """How many rows of a step's batch come from kept episodes: none, some or all.

        It must depend only on its arguments: every rank calls it, and so does a run that is resumed.
        """
        place = seed, stage.number, step, stage.steps
        return replayed_rows(*place, stage.frequency, batch_size, self.mix or replay.mix, replay.coin)

    def extra_loss(
        self, batch: dict[str, torch.Tensor], loss: Loss, policy: torch.nn.Module, kept: MethodState | None
    ) -> torch.Tensor | None:
        """A term that is added to the loss of a batch; None adds nothing.

        It is computed for each micro-batch and weighted like the micro-batch's loss, so a mean must be over all of
        the micro-batch's elements. On a GPU it is captured in a CUDA graph: it must not branch on values, read them on
        the host, or draw from a generator of its own.

        Args:
            batch: The preprocessed batch, tensors only. `task_index` counts the tasks that the stage learns, then those
                that it replays: where it learns one task, rows above 0 are replayed.
            loss: The policy's loss of it.
            policy: The network; its weights are `policy.named_parameters()`.
            kept: What `keep` returned at the end of the previous stage; None in the first.
        """
        return None

    def combine(self, new: list[torch.Tensor], replayed: list[torch.Tensor]) -> list[torch.Tensor]:
        """The gradient of a step, given that of its new and that of its replayed rows, one tensor per weight.

        A method that overrides it needs `needs = "elements"`, and its steps take twice as long where something is
        replayed. All ranks call it with the same gradients. It must not read values of tensors: a GPU would wait.
        """
        raise RuntimeError(f"{type(self).__name__} leaves gradients as they are, so there is nothing to combine.")

    def finish(
        self, policy: torch.nn.Module, score: Callable[[], float], kept: MethodState | None
    ) -> dict[str, Any] | None:
        """Change the weights at the end of a stage, before they are saved; returns what to note in the run log.

        A run that was killed here calls it again, so it must depend only on its arguments.

        Args:
            policy: The network with the weights after the last step, the averaged ones if there is an average.
            score: Measures the mean loss of all kept episodes with the weights as they are; needs `replays = True`.
            kept: What was kept at the end of the previous stage.
        """
        return None

    def keep(
        self, policy: torch.nn.Module, losses: Callable[[int], Iterator[Loss]], kept: MethodState | None
    ) -> MethodState | None:
        """What to keep at the end of a stage, in its checkpoint; None keeps nothing.

        A run that was killed here calls it again, so it must depend only on its arguments.

        Args:
            policy: The network with the weights that are about to be saved.
            losses: Yields the losses, with gradients, of the given number of samples of the stage's data, one by one.
            kept: What was kept at the end of the previous stage.
        """
        return None

    def kept_shapes(self, policy: torch.nn.Module) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the floating-point tensors that `keep` returns for this policy; others are refused."""
        return {}
