"""The numbers of a study as Markdown: the tables of its report for a page that people read on a phone, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.report.drawing import METRICS
from holdfast.studies.evidence import TIMED, Evidence
from holdfast.studies.figures.plot import ShownGroup, ShownStream, StudyPlot
from holdfast.train.config_flags import flag_text

_WORK = {"train": "training", "evaluate": "trials"}
_SHRINKS = 480  # figures up to this width are made to fit a phone; wider ones scroll there
# How to read a figure, by its section.
_READING = {
    "arms": "Training loss of each arm, means over seeds; grey: tasks of one arm.",
    "comparison": "Bars are means, lines their 95 % intervals, dots the seeds.",
    "curves": "Bands are 95 % intervals; level lines are runs of other methods.",
    "kept": "Means over seeds.",
    "matrices": "Means over seeds; a dot is a task that was learned, but not tried after that stage.",
}


def claims_table(claims: Sequence[Mapping[str, Any]]) -> str:
    """Claims of a study's summary: text, verdict, our difference and what it rests on, what the paper reports."""
    rows = [(plain(c["text"]), f"**{c['verdict']}**", _measured(c), plain(c["paper"])) for c in claims]
    return _table(("claim", "verdict", "ours", "the paper reports"), rows)


def groups_table(stream: ShownStream) -> str:
    """AS, BWT and FWT of all groups of a stream, with their intervals, seeds and trials."""
    rows = [
        (
            plain(group.short),
            *(figure_words(group.numbers[metric], metric) for metric in METRICS),
            str(len(group.numbers["seeds"])),
            f"{group.numbers['trials']:,}",
        )
        for group in stream.groups
    ]
    return _table(("runs", *(short for short, _ in METRICS.values()), "seeds", "trials"), rows)


def tasks_table(stream: ShownStream) -> str:
    """Scores of every task: right after its stage and after the last one; once if there are no stages.

    Groups are columns unless there are more of them than tasks.
    """
    tasks, groups = [plain(task["title"]) for task in stream.numbers["tasks"]], [plain(g.short) for g in stream.groups]
    cells = [[_task_words(group, position) for group in stream.groups] for position in range(len(tasks))]
    if len(groups) > len(tasks):
        columns = zip(*cells, strict=True)
        return _table(("runs", *tasks), [(name, *cell) for name, cell in zip(groups, columns, strict=True)])
    return _table(("task", *groups), [(name, *cell) for name, cell in zip(tasks, cells, strict=True)])


def memory_table(stream: ShownStream, evidence: Evidence) -> str:
    """What each group of a stream keeps after its last stage, and the minutes that training a run of it took."""
    rows = []
    for group in stream.groups:
        episodes, size = group.numbers["kept_episodes"], group.numbers["weights_bytes"]
        runs = [run for run in evidence.study.runs() if run.label == group.group.label and run.name in evidence.runs]
        took = [seconds["train"] / 60 for run in runs if "train" in (seconds := evidence.runs[run.name].seconds)]
        rows.append(
            (
                plain(group.short),
                "" if episodes is None else str(episodes),
                f"{size / 1e6:.1f}" if size else "",
                _range(took),
            )
        )
    return _table(("runs", "kept episodes", "MB of weights", "minutes of training a run"), rows)


def cost_list(evidence: Evidence, command: str, link: str) -> str:
    """What it took: command, runs, trials, demonstrations, flags and time, as far as the evidence holds them."""
    study, runs = evidence.study, evidence.runs.values()
    trials = sum(len(run.trials) for run in runs)
    planned = study.runs()
    there = {run.seed for run in planned if run.name in evidence.runs}
    seeds = ", ".join(str(seed) for seed in study.seeds if seed in there)
    lines = [
        f"Command: {command}",
        f"Evidence: {link} of {len(runs)} of {len(planned)} runs with seeds {seeds}; {trials:,} trials.",
    ]
    if missing := _missing(evidence):
        lines.append(f"Not measured yet: {', '.join(f'`{name}`' for name in missing)}")
    if study.record:
        size = study.record.size
        lines.append(
            f"Demonstrations: {study.record.episodes} of each task in `{study.arena}`, {size} x {size} pixels."
        )
    flags = " ".join(f"{name}={flag_text(value)}" for name, value in study.train.items())
    lines.append(f"Flags of all runs: `{flags}`")
    return "\n".join(f"- {line}" for line in [*lines, f"Time: {_time_words(evidence)}."])


def figure_block(plot: StudyPlot, path: str) -> str:
    """A figure whose SVG and CSV lie at `path`, with a text for those who do not see it."""
    groups = list(dict.fromkeys(str(row["group"]) for row in plot.rows if "group" in row))
    means = [row for row in plot.rows if row.get("source") == "all seeds" and row["value"] is not None]
    said = ", ".join(f"{row['group']} {_number(row['value'])}" for row in means) or ", ".join(groups)
    title = plain(plot.drawing.title)
    shown = title if plain(said) in ("", title) else f"{title}: {plain(said)}"
    picture = f"![{shown}]({path}.svg)".replace("\n", " ")
    words = " ".join(filter(None, [f"{title}.", _READING.get(plot.drawing.section)]))
    if plot.drawing.width > _SHRINKS:
        picture = f'<div class="plot" markdown>\n\n{picture}\n\n</div>'
    return f"{picture}\n\n*{words} [Its data]({path}.csv).*"


def figure_words(figure: Mapping[str, Any], metric: str) -> str:
    """A value with its interval, as `96.3 (94.1 to 98.0)`; with a sign if it is a difference, empty if not measured."""
    if figure["value"] is None:
        return ""
    sign = "" if metric == "average_score" else "+"
    value = _number(figure["value"], sign)
    if figure["low"] is None:
        return value
    interval = "\N{NO-BREAK SPACE}to\N{NO-BREAK SPACE}".join(_number(figure[end], sign) for end in ("low", "high"))
    return f"{value} ({interval})"


def plain(text: str) -> str:
    """Text in which Markdown and HTML find nothing to do."""
    for char in "\\`*_[]|":
        text = text.replace(char, f"\\{char}")
    return text.replace("<", "&lt;")


def _measured(claim: Mapping[str, Any]) -> str:
    if claim["difference"]["value"] is None:
        return ""
    than = f", to be above {claim['than']:g}" if claim["than"] else ""
    words = figure_words(claim["difference"], claim["metric"] if claim["worse"] is None else "difference")
    short = METRICS[claim["metric"]][0] + ("" if claim["worse"] is None else " difference")
    return f"{short} {words}{than}; {_count(claim['seeds'], 'seed')}, {_count(claim['trials'], 'trial')}"


def _task_words(group: ShownGroup, position: int) -> str:
    task = group.numbers["tasks"][position]
    after, final = task["after_own"]["value"], task["final"]["value"]
    shown = ["–" if value is None else _number(value) for value in (after, final)]
    return " → ".join(shown) if group.continual else shown[1]


def _range(values: Sequence[float]) -> str:
    if not values:
        return ""
    low, high = f"{min(values):.1f}", f"{max(values):.1f}"
    return low if low == high else f"{low} to {high}"


def _missing(evidence: Evidence) -> list[str]:
    """What the seeds of the evidence lack: groups of which no run is there, then single runs."""
    runs = evidence.study.runs()
    there = [run for run in runs if run.name in evidence.runs]
    seeds, labels = {run.seed for run in there}, {run.label for run in there}
    lacking = [run for run in runs if run.seed in seeds and run.name not in evidence.runs]
    groups = dict.fromkeys(run.label for run in lacking if run.label not in labels)
    return [*groups, *(run.name for run in lacking if run.label in labels)]


def _time_words(evidence: Evidence) -> str:
    """Minutes of every kind of job, and how many runs they are of."""
    parts = []
    for kind in TIMED:
        found = [run.seconds[kind] for run in evidence.runs.values() if kind in run.seconds]
        if found:
            parts.append(
                f"{sum(found) / 60:,.0f} minutes of {_WORK[kind]} in {len(found)} of {len(evidence.runs)} runs"
            )
    return f"{', '.join(parts)}, summed also where runs shared the machine" if parts else "not in the evidence"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table without the columns that are empty in every row."""
    kept = [n for n, _ in enumerate(headings) if any(row[n] for row in rows)]
    lines = [[headings[n] for n in kept], ["---"] * len(kept), *([row[n] for n in kept] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _number(value: float, sign: str = "") -> str:
    rounded = round(value, 1)
    return format(rounded, f"{sign}.1f") if rounded else "0.0"  # with a sign it would look as if it were not zero


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"
