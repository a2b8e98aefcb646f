"""The figures of a study: `plot.py` is what a plot is, every other file one kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import matplotlib

from holdfast.report.drawing import STYLE, unique
from holdfast.studies.figures.arms import arms
from holdfast.studies.figures.comparison import comparison
from holdfast.studies.figures.curves import curves
from holdfast.studies.figures.kept import kept
from holdfast.studies.figures.matrices import matrices
from holdfast.studies.figures.plot import ShownStream, StudyPlot
from holdfast.studies.figures.strips import strips
from holdfast.studies.figures.transfer import transfer

type Plotter = Callable[[Sequence[ShownStream]], Iterator[StudyPlot]]

KINDS: tuple[Plotter, ...] = (matrices, kept, comparison, curves, transfer, arms, strips)


def draw(streams: Sequence[ShownStream]) -> list[StudyPlot]:
    """All figures for which the study has data."""
    with matplotlib.rc_context(STYLE):
        plots = [plot for kind in KINDS for plot in kind(streams)]
    drawings = unique([plot.drawing for plot in plots])
    return [replace(plot, drawing=drawing) for plot, drawing in zip(plots, drawings, strict=True)]
