"""What a plot of a study is, and what it is drawn from."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from holdfast.core.files import write_text
from holdfast.methods import METHODS
from holdfast.report.drawing import COLOUR_COUNT, Drawing, look_of, panel, slug, wrapped
from holdfast.report.gather import RunResults
from holdfast.studies.figures.labels import STREAM, labels, stream_names
from holdfast.studies.results import RunGroup, StudyResults

FEW = 6  # tasks whose titles fit side by side

type Row = dict[str, Any]


@dataclass(frozen=True)
class StudyPlot:
    """A drawing, and its data: rows that all have the same columns."""

    drawing: Drawing
    rows: list[Row]

    def write(self, folder: Path) -> None:
        """Write the SVG, the PNG and the CSV."""
        self.drawing.write(folder)
        write_text(folder / f"{self.drawing.name}.csv", self.csv)

    @property
    def csv(self) -> str:
        """Its data as a table."""
        text = io.StringIO()
        table = csv.DictWriter(text, fieldnames=list(self.rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows({key: _harmless(value) for key, value in row.items()} for row in self.rows)
        return text.getvalue()


def _harmless(value: Any) -> Any:
    """Text that a spreadsheet would take for a formula gets an apostrophe in front."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def figure_columns(figure: dict[str, Any]) -> Row:
    """A figure of the summary as columns of a table."""
    return {"value": figure["value"], "low": figure["low"], "high": figure["high"]}


@dataclass(frozen=True)
class ShownGroup:
    """A group of runs with its numbers in the summary. `short` is its label without the stream.

    Groups of the same method have the same `hue`, in most studies the one that the method has in others.
    """

    position: int
    hue: int
    label: str
    short: str
    numbers: dict[str, Any]
    group: RunGroup

    @property
    def continual(self) -> bool:
        """Whether its tasks were learned one after another."""
        return bool(self.numbers["continual"])

    @property
    def runs(self) -> tuple[RunResults, ...]:
        """Its runs, one for each seed."""
        return tuple(self.group.runs.values())

    @property
    def file_name(self) -> str:
        """Its label as part of a file's name."""
        return slug(self.short.replace("ρ", "rho"))

    def setting(self, flag: str) -> Any:
        """The value of a flag, given or by default; None if it is unknown."""
        if flag in self.group.flags:
            return self.group.flags[flag]
        value: Any = self.runs[0].config
        for part in flag.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        return value


def looks(groups: Sequence[ShownGroup]) -> list[dict[str, Any]]:
    """Colour, dash and marker of each group: the colour is that of its method, and no two are the same."""
    taken: list[int] = []
    for group in groups:
        position = group.hue
        while position in taken:
            position += COLOUR_COUNT
        taken.append(position)
    return [look_of(position) for position in taken]


@dataclass(frozen=True)
class ShownStream:
    """A stream and the groups that learned it. `prefix` starts the names of its figures; empty if there is only one."""

    name: str
    prefix: str
    numbers: dict[str, Any]
    groups: tuple[ShownGroup, ...]

    def title(self, text: str) -> str:
        """A figure's title, which names the stream where there are several."""
        return f"{text}, {self.name}" if self.prefix else text


def task_titles(tasks: Sequence[dict[str, Any]]) -> list[str]:
    """The tasks' titles as they fit along an axis: side by side with a word in each line, or upright in one line."""
    titles = [task["title"] for task in tasks]
    if len(titles) > FEW:
        return [wrapped(title, 20, lines=1) for title in titles]
    return [wrapped(title, min(12, max(map(len, title.split()), default=1))) for title in titles]


def stage_panel(stream: ShownStream, group: ShownGroup, first: float) -> tuple[Canvas, Axes]:
    """A panel with the tasks of a group's stages along its axis, from `first` on; the titles of many stand upright."""
    titles = task_titles([stream.numbers["tasks"][row["learned"] - 1] for row in group.numbers["matrix"]])
    few = len(titles) <= FEW
    canvas, axes = panel(height=2.4 if few else 2.9)
    axes.set_xticks([first + n for n in range(len(titles))], titles, rotation=0 if few else 90)
    return canvas, axes


def shown_streams(results: StudyResults, numbers: dict[str, Any]) -> list[ShownStream]:
    """The results of a study and their summary, as figures and the page show them."""
    by_label = {group.label: group for group in results.groups}
    full = labels(numbers["groups"])
    found = dict.fromkeys(group["method"] for group in numbers["groups"])
    methods = [*(name for name in METHODS if name in found), *(name for name in found if name not in METHODS)]
    several = len(numbers["streams"]) > 1
    streams = []
    names = stream_names(numbers["streams"], numbers["groups"])
    for n, stream in enumerate(numbers["streams"]):
        mine = [(position, group) for position, group in enumerate(numbers["groups"]) if group["stream"] == n]
        if not mine:
            continue
        short = labels([group for _, group in mine], without=STREAM)
        groups = tuple(
            ShownGroup(position, methods.index(group["method"]), full[position], name, group, by_label[group["label"]])
            for (position, group), name in zip(mine, short, strict=True)
        )
        streams.append(ShownStream(names[n], f"stream-{n + 1}-" if several else "", stream, groups))
    return streams
