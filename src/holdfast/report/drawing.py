"""What all figures share: style, colours, panels, and the finished drawing as SVG and PNG."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure as Canvas

from holdfast.core.files import write_bytes, write_text

# Colours of the light theme; in the page each becomes a CSS variable of the same name, so that dark mode works.
COLOURS = {
    "ink": "#16202b",
    "muted": "#5b6b7c",
    "line": "#dbe2ea",
    "run-1": "#0a5bb0",
    "run-2": "#c4500f",
    "run-3": "#0d7a60",
    "run-4": "#86519b",
    "run-5": "#8a6a00",
}
COLD, HOT = "#edf2f8", "#0a4a8f"  # colour scale of scores, 0 to 100
_SCALE = LinearSegmentedColormap.from_list("score", [COLD, HOT])
_WHITE_ABOVE = 72  # above it white text reads better than black; both have a contrast above 4.5 here
METRICS = {
    "average_score": ("AS", "average score"),
    "bwt": ("BWT", "backward transfer"),
    "fwt": ("FWT", "forward transfer"),
}
COLOUR_COUNT = sum(name.startswith("run-") for name in COLOURS)
_MARKERS, _DASHES = "osD^v", ("-", "--", "-.", ":", (0, (3, 1, 1, 1)))
STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 8,
    "svg.fonttype": "none",
    "text.parse_math": False,  # names may contain a dollar sign
    "axes.edgecolor": COLOURS["line"],
    "axes.labelcolor": COLOURS["muted"],
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "grid.color": COLOURS["line"],
    "grid.linewidth": 0.7,
    "xtick.color": COLOURS["muted"],
    "ytick.color": COLOURS["muted"],
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "text.color": COLOURS["ink"],
    "legend.frameon": False,
    "savefig.transparent": True,
}


@dataclass(frozen=True)
class Drawing:
    """A finished figure. `section` says where in the page it goes."""

    name: str
    section: str
    title: str
    svg: str
    png: bytes

    def write(self, folder: Path) -> None:
        """Write the SVG and the PNG."""
        write_text(folder / f"{self.name}.svg", self.svg)
        write_bytes(folder / f"{self.name}.png", self.png)

    @property
    def width(self) -> int:
        """How wide it is on a screen, in pixels of CSS."""
        found = re.search(r'viewBox="0 0 ([\d.]+) ', self.svg)
        return round(float(found[1]) * 4 / 3) if found else 0

    def on_white(self) -> str:
        """The SVG with a white background, for pages that may be dark."""
        return re.sub(r"<svg[^>]*>", r'\g<0>\n <rect width="100%" height="100%" fill="#fff"/>', self.svg, count=1)

    def inline(self) -> str:
        """The SVG for embedding: no prolog, no clashing ids, colours and font of the page."""
        text = self.svg[self.svg.index("<svg") :]
        text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
        text = re.sub(r' id="(?:[A-Za-z0-9.]+_\d+|image[0-9a-f]+)"', "", text)  # of groups and images: not referenced
        for size in ("width", "height"):
            text = re.sub(rf'(<svg[^>]*?) {size}="[^"]*"', r"\1", text, count=1)
        text = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", text)
        for name, colour in COLOURS.items():
            text = text.replace(colour, f"var(--{name})")
        return text.replace("<svg", '<svg aria-hidden="true"', 1)


def finish(canvas: Canvas, name: str, section: str, title: str) -> Drawing:
    """Save a canvas: the same bytes for the same content."""
    svg, png = io.StringIO(), io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": name}):
        canvas.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
    canvas.savefig(png, format="png", dpi=200, transparent=False, metadata={"Software": None})
    return Drawing(name, section, title, svg.getvalue(), png.getvalue())


def panel(width: float = 3.5, height: float = 2.2) -> tuple[Canvas, Axes]:
    """An empty canvas with one panel, by default as wide as a column of a paper; sizes in inches."""
    canvas = Canvas(figsize=(width, height), layout="constrained")
    return canvas, canvas.subplots()


def look_of(position: int) -> dict[str, Any]:
    """Colour, dash and marker of a run: three ways to tell runs apart. No two of the first 25 are equal."""
    k, form = position % COLOUR_COUNT, (position + position // COLOUR_COUNT) % 5
    return {"color": COLOURS[f"run-{k + 1}"], "linestyle": _DASHES[form], "marker": _MARKERS[form]}


def legend(axes: Axes, shown: int) -> None:
    """Add a legend above the axes, in one column when names are long, so that the axes keep their width."""
    if shown > 1:
        longest = max(len(label) for label in axes.get_legend_handles_labels()[1])
        columns = 2 if longest <= 14 else 1
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, borderaxespad=0.2, handlelength=2.4)


def line_with_band(axes: Axes, points: Sequence[tuple[float, Any]], label: str, look: dict[str, Any]) -> None:
    """A line through figures, and a band of their intervals."""
    axes.plot([x for x, _ in points], [y["value"] for _, y in points], label=label, linewidth=1.8, markersize=4, **look)
    banded = [(x, y["low"], y["high"]) for x, y in points if y["low"] is not None]
    if banded:
        x, low, high = zip(*banded, strict=True)
        axes.fill_between(x, low, high, color=look["color"], alpha=0.14, linewidth=0)


def transfer_limits(axes: Axes) -> None:
    """Mark no change by a line, and show 10 points on both sides, so that a change of one does not look large."""
    axes.axhline(0, color=COLOURS["muted"], linewidth=0.8)
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, -10), max(high, 10))


def heat(axes: Axes, values: Any, columns: Sequence[str], rows: Sequence[str], form: str) -> None:
    """Cells on one colour scale, with their numbers; empty where nothing was measured."""
    numbers = np.array([[np.nan if value is None else value for value in row] for row in values], dtype=float)
    axes.imshow(numbers, cmap=_SCALE, vmin=0, vmax=100, aspect="auto")
    for (j, i), value in np.ndenumerate(numbers):
        if np.isfinite(value):
            colour = "#ffffff" if value > _WHITE_ABOVE else "#000000"
            axes.text(i, j, format(value, form), ha="center", va="center", color=colour)
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.xaxis.tick_top()
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)


def wrapped(text: str, width: int, lines: int = 3) -> str:
    """A text in at most so many lines of so many characters."""
    return "\n".join(textwrap.wrap(text, width, max_lines=lines, placeholder=" …", break_on_hyphens=False))


def slug(name: str) -> str:
    """A name that is safe in a file name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:100].strip("-.") or "unnamed"


def unique(drawings: Sequence[Drawing]) -> list[Drawing]:
    """The drawings, each with a name of its own: names may differ only in characters that slug() replaces."""
    found: dict[str, Drawing] = {}
    for drawing in drawings:
        name, n = drawing.name, 1
        while name in found:
            n += 1
            name = f"{drawing.name}-{n}"
        found[name] = replace(drawing, name=name)
    return list(found.values())
