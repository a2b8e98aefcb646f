"""A study's summary for the terminal: its groups, and its claims with their verdicts."""

from __future__ import annotations

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from holdfast.core.errors import printable
from holdfast.core.tables import without_empty_columns
from holdfast.studies.figures.labels import MEANINGS, flag_words, labels

_COLOURS = {"holds": "green", "does not hold": "red", "undecided": "yellow", "not measured": "dim"}


def summary_tables(summary: dict[str, Any]) -> Group:
    """Tables of a study's `summary`: one of its groups and, if it makes claims, one of them."""
    return Group(_groups(summary), *([_claims(summary)] if summary["claims"] else []))


def _groups(summary: dict[str, Any]) -> Table:
    table = _table(f"{summary['study']}: {summary['question'] or 'no question given'}")
    table.add_column("runs", overflow="fold")
    for heading in ("AS", "BWT", "FWT", "kept", "MB", "seeds", "trials"):
        table.add_column(heading, justify="right", overflow="fold")
    for group, name in zip(summary["groups"], labels(summary["groups"]), strict=True):
        figures = [figure_text(group[metric]) for metric in ("average_score", "bwt", "fwt")]
        episodes, size = group["kept_episodes"], group["weights_bytes"]
        kept = "" if episodes is None else str(episodes), f"{size / 1e6:.1f}" if size else ""
        table.add_row(
            Text(printable(name)),
            *figures,
            *kept,
            str(len(group["seeds"])),
            f"{group['trials']:,}",
        )
    single = any(len(group["seeds"]) == 1 for group in summary["groups"])
    caption = "95 % intervals over seeds and layouts" + ("; one seed: layouts only" if single else "")
    caption += ". AS: average score; BWT: change of earlier tasks; FWT: gain over learning a task alone"
    varied = {flag for group in summary["groups"] for flag in group["settings"]}
    caption += "".join(f"; {flag_words(flag)}: {long}" for flag, (long, _) in MEANINGS.items() if flag in varied)
    caption += ". After the last stage: kept episodes, MB of weights (the policy's and the method's)"
    if summary["other_sources"]:
        others = (f"{count:,} of {source}" for source, count in summary["other_sources"].items())
        caption += f"; trials judged by {summary['source']}, not shown: {', '.join(others)}"
    table.caption = Text(printable(caption))  # sources may hold what rich or the terminal takes for a command
    return without_empty_columns(table)


def _claims(summary: dict[str, Any]) -> Table:
    table = _table("Claims")
    table.add_column("claim", overflow="fold")
    table.add_column("verdict", no_wrap=True)
    for heading in ("difference", "than", "seeds", "trials"):
        table.add_column(heading, justify="right", overflow="fold")
    for claim in summary["claims"]:
        verdict, cells = Text(claim["verdict"], _COLOURS[claim["verdict"]]), figure_text(claim["difference"])
        numbers = f"{claim['than']:g}", str(claim["seeds"]), f"{claim['trials']:,}"
        table.add_row(Text(claim["text"]), verdict, cells, *numbers)
    table.caption = Text("A claim holds if the whole 95 % interval of the difference lies above `than`")
    return table


def figure_text(figure: dict[str, Any]) -> Text:
    """A value with its interval, as `97.2 [94.1, 99.0]`; empty where it was not measured."""
    if figure["value"] is None:
        return Text("")
    if figure["low"] is None:
        return Text(f"{figure['value']:.1f}")
    return Text(f"{figure['value']:.1f} [{figure['low']:.1f}, {figure['high']:.1f}]")  # breaks at spaces


def _table(title: str) -> Table:
    return Table(box=SIMPLE_HEAD, title=Text(title), title_justify="left", caption_justify="left", padding=(0, 1, 0, 0))
