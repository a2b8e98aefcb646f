"""A trained run as Python code uses it: results as pandas tables, and policies that act."""

from __future__ import annotations

from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.api.policy import TrainedPolicy
from holdfast.core.errors import unknown
from holdfast.core.records import Trial
from holdfast.core.torch_environment import set_up_torch
from holdfast.metrics import Figure, summarize
from holdfast.report.gather import WITHOUT_STAGES, RunResults, gather
from holdfast.runs.run import FinishedStage, Run, read_baseline, read_run
from holdfast.runs.sources import by_source, choose_source
from holdfast.runs.trials import Trials

if TYPE_CHECKING:
    import pandas as pd

# What most readers look for comes first.
_COLUMNS = ("task", "stage", "seed", "score", *(f.name for f in fields(Trial) if f.name not in ("task", "stage")))


def load(run: str | Path, *, baseline: str | Path | None = None, source: str | None = None) -> TrainedRun:
    """Read a run that `holdfast train` has written. Only small files are opened, and nothing in them is executed.

    Args:
        run: The run's folder.
        baseline: A run of method `finetune`, which forward transfer compares with.
        source: Whose trials count: an arena by its name, or `operator`. Needed only where several have judged the run,
            since their scores are never averaged.
    """
    return TrainedRun(read_run(Path(run)), read_baseline(Path(baseline)) if baseline is not None else None, source)


class TrainedRun:
    """A run with at least one finished stage.

    Its tables are read from the folder whenever they are asked for, so they show trials that were just made.
    """

    def __init__(self, record: Run, baseline: Run | None = None, source: str | None = None) -> None:
        self.record, self._baseline, self._source = record, baseline, source

    def __repr__(self) -> str:
        done, planned = len(self.record.stages), self.record.planned
        return f"<run {self.path}: {self.method} on {', '.join(self.tasks)}; {done} of {planned} stages>"

    @property
    def path(self) -> Path:
        """The run's folder."""
        return self.record.path

    @property
    def method(self) -> str:
        """How it was trained."""
        return self.record.method

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks' names, in the stream's order."""
        return self.record.names

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that decide its weights, as `run.yaml` lists them."""
        return self.record.config

    @cached_property
    def stages(self) -> tuple[TrainedStage, ...]:
        """The finished stages."""
        return tuple(TrainedStage(self.record, stage) for stage in self.record.stages)

    def stage(self, which: int | str) -> TrainedStage:
        """A finished stage, by its number from 1 or by its name, which is its task's."""
        for stage in self.stages:
            if which in (stage.number, stage.name):
                return stage
        raise unknown(f"finished stage of {self.path}", which, [f"{s.number} ({s.name})" for s in self.stages])

    @property
    def trials(self) -> pd.DataFrame:
        """All trials that count, one per row: valid ones, of a stage's newest weights. `source` is who judged them."""
        import pandas as pd

        found: list[Trial] = []
        if self.record.trials.exists():
            with Trials(self.record.trials) as file:
                found = file.counted()
        if self._source is not None:
            found = by_source(found).get(self._source, [])
        table = pd.DataFrame([vars(trial) for trial in found], columns=list(dict.fromkeys(_COLUMNS)))
        table["when"] = pd.to_datetime(table["when"], unit="s", utc=True)
        return table

    @property
    def matrix(self) -> pd.DataFrame:
        """Mean scores: a row for each stage, a column for each task; NaN where nothing was measured.

        Runs without a sequence of stages have one row.
        """
        import pandas as pd

        results = self._results()
        cells = results.matrix.cells
        rows = [
            [np.mean(cells[i, stage]) if cells.get((i, stage)) else np.nan for i in range(1, len(self.tasks) + 1)]
            for stage in results.rows
        ]
        return pd.DataFrame(rows, index=_index(results), columns=pd.Index(self.tasks, name="task"))

    @property
    def metrics(self) -> pd.DataFrame:
        """After each stage: average score (`as`), backward and forward transfer, with 95 % intervals over trials.

        A metric is NaN where a score that it needs was not measured. Forward transfer needs `load(..., baseline=...)`.
        """
        import pandas as pd

        results = self._results()
        stages = summarize(results.matrix)
        rows = []
        for number in results.rows:
            stage, none = stages[number - 1], Figure(None)
            transfer = (stage.bwt, stage.fwt) if results.continual else (none, none)
            rows.append([value for f in (stage.average_score, *transfer) for value in (f.value, f.low, f.high)])
        names = [f"{metric}{part}" for metric in ("as", "bwt", "fwt") for part in ("", "_low", "_high")]
        return pd.DataFrame(rows, index=_index(results), columns=names, dtype=float)

    def _results(self) -> RunResults:
        """The run as the report shows it."""
        found = gather([run.path for run in (self.record, self._baseline) if run], self._source)
        judged = {results.source: results for results in found if results.path == self.path}
        return judged[choose_source(judged, None, str(self.path))]


def _index(results: RunResults) -> pd.Index:
    import pandas as pd

    labels = results.rows if results.continual else [WITHOUT_STAGES[results.arrangement]]
    return pd.Index(labels, name="stage")


class TrainedStage:
    """A finished stage of a run; `seen` are the tasks that have been learned by its end."""

    def __init__(self, run: Run, record: FinishedStage) -> None:
        self._run, self._record = run, record
        self.number, self.name, self.seen = record.number, record.name, record.seen

    def __repr__(self) -> str:
        return f"<stage {self.number} of {self._run.path}: {self.name}>"

    @property
    def folder(self) -> Path:
        """The policy's folder, which LeRobot loads."""
        return self._record.checkpoint.policy

    @cached_property
    def policy(self) -> TrainedPolicy:
        """The stage's policy, loaded when it is first asked for; on a GPU if there is one."""
        set_up_torch()
        from holdfast.policies.device import choose_device
        from holdfast.policies.pilot import Pilot

        checkpoint = self._record.checkpoint
        _ = checkpoint.weights_hash  # refuses weights that are not those that were trained
        action = checkpoint.schema["names"]
        return TrainedPolicy(
            Pilot(checkpoint.folder, action, choose_device("auto")),
            self._run.tasks,
            checkpoint.schema.get("state_names", action),
            action,
            self._run.robot,
        )
