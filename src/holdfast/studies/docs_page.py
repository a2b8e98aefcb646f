"""A Markdown page whose tables, figures and numbers are made of evidence, so that it says what the data say.

People write the prose. What stands between markers is written anew every time:

    <!-- begin claims NAME -->        claims and verdicts; `claims NAME 1,3` takes some of them
    <!-- begin groups NAME -->        AS, BWT and FWT of all groups of runs
    <!-- begin tasks NAME -->         scores of every task right after its stage and at the end
    <!-- begin memory NAME -->        what all groups of runs keep, and the minutes that training took
    <!-- begin figure NAME FILE -->   a figure of the report
    <!-- begin cost NAME -->          command, evidence, seeds, trials, time
    ...
    <!-- end -->

    <!-- value NAME GROUP METRIC -->...<!-- / -->    a metric with its interval, in a sentence
    <!-- verdict NAME 1 -->holds<!-- / -->           the verdict of a claim

NAME is a file NAME.evidence.json.gz or, before there is one, a study that comes with the package. Any other number in
the prose is refused, unless it is code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from holdfast.core.errors import HoldfastError, unknown
from holdfast.core.json_records import to_json
from holdfast.core.names import without_folders
from holdfast.studies import markdown
from holdfast.studies.evidence_file import SUFFIX, read_evidence
from holdfast.studies.figures import draw
from holdfast.studies.figures.plot import ShownStream, StudyPlot, shown_streams
from holdfast.studies.results import StudyResults, evidence_results
from holdfast.studies.study import METRICS, Study, load_study, shipped
from holdfast.studies.summary import summary

EVIDENCE, FIGURES = "evidence", "pictures/study"  # folders beside the page
_BLOCK = re.compile(r"(?P<open><!-- begin (?P<words>[^\n]*?) -->\n)(?P<content>.*?)(?P<close><!-- end -->)", re.S)
_INLINE = re.compile(r"(?P<open><!-- (?P<words>v[^\n]*?) -->)(?P<content>[^\n]*?)(?P<close><!-- / -->)")
_MARKER = re.compile(r"<!-- (?:begin|end|value|verdict|/)[^\n]*?-->")
_NOT_PROSE = re.compile(
    r"^```.*?^```|`[^`\n]*`|\]\([^)\n]*\)|^(?:#+ )?\d+\. ", re.S | re.M
)  # links' targets, list numbers
_NUMBER = re.compile(r"(?<![\w.])\d[\d.,]*")


@dataclass(frozen=True)
class WrittenPage:
    """A page with everything between its markers written anew; its figures are SVG and CSV files beside it."""

    text: str
    files: dict[str, str]


class _PageStudy:
    """A study on the page, with its evidence if there is any."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, file = name, folder / f"{name}{SUFFIX}"
        there = sorted(path.name.removesuffix(SUFFIX) for path in folder.glob(f"*{SUFFIX}"))
        if name not in (*there, *shipped()):
            raise unknown("evidence or study", name, dict.fromkeys((*there, *shipped())))
        self.evidence = read_evidence(file) if name in there else None
        self.study = self.evidence.study if self.evidence else load_study(name)
        self.results = evidence_results(self.evidence, file) if self.evidence else StudyResults(self.study, ())

    @cached_property
    def numbers(self) -> dict[str, Any]:
        return summary(self.results)

    @cached_property
    def streams(self) -> list[ShownStream]:
        return shown_streams(self.results, self.numbers)

    @cached_property
    def plots(self) -> dict[str, StudyPlot]:
        return {plot.drawing.name: plot for plot in draw(self.streams)}

    @property
    def command(self) -> str:
        """How the study is run, and whether its file is still the same."""
        name = self.study.name
        if name not in shipped():
            return f"`holdfast study run {name}.toml`"
        changed = _settings(load_study(name)) != _settings(self.study)
        return f"`holdfast study run {name}`" + (", whose settings have changed since" if changed else "")

    def claim(self, number: str) -> dict[str, Any]:
        """A claim by its number, from 1."""
        found: list[dict[str, Any]] = self.numbers["claims"]
        if number not in (valid := [str(n) for n in range(1, len(found) + 1)]):
            raise unknown(f"claim of {self.name}", number, valid)
        return found[int(number) - 1]


def write_page(text: str, folder: Path) -> WrittenPage:
    """Write anew what stands between the markers of a page in `folder`, from the evidence there."""
    _check_prose(text)
    studies: dict[str, _PageStudy] = {}
    files: dict[str, str] = {}

    def said(kinds: dict[str, Marker], words: str) -> str:
        kind, _, rest = words.partition(" ")
        name, *more = rest.split() or [""]
        if kind not in kinds:
            raise unknown("marker", kind, kinds)
        if name not in studies:
            studies[name] = _PageStudy(name, folder / EVIDENCE)
        try:
            return kinds[kind](studies[name], more, files)
        except HoldfastError as error:
            raise HoldfastError(f"<!-- {words} -->: {error}") from None

    def block(match: re.Match[str]) -> str:
        content = said(_BLOCKS, match["words"])
        return match["open"] + (f"\n{content}\n\n" if content else "") + match["close"]

    def inline(match: re.Match[str]) -> str:
        return match["open"] + said(_INLINES, match["words"]) + match["close"]

    written = _INLINE.sub(inline, _BLOCK.sub(block, text))
    return WrittenPage(written, files)


def _check_prose(text: str) -> None:
    """Refuse markers without their other half, and numbers that no evidence stands behind."""

    def without(match: re.Match[str]) -> str:
        lines = match[0].count("\n")
        if found := _MARKER.search(match.groupdict().get("content") or ""):
            raise HoldfastError(f"{match['open'].strip()} is not closed before {found[0]}.")
        return "\n" * lines

    prose = _INLINE.sub(without, _BLOCK.sub(without, text))
    if found := _MARKER.search(prose):
        raise HoldfastError(
            f"The marker {found[0]} stands alone: a block ends with <!-- end -->, a value with <!-- / -->."
        )
    prose = _NOT_PROSE.sub(lambda match: "\n" * match[0].count("\n"), prose)
    for number, line in enumerate(prose.splitlines(), 1):
        if stated := _NUMBER.search(line):
            raise HoldfastError(
                f"Line {number} states the number {stated[0]} by hand. Take it from the evidence, with a marker like "
                "<!-- value NAME GROUP METRIC --><!-- / -->; a setting is `code`."
            )


def _claims(page: _PageStudy, words: Sequence[str], files: dict[str, str]) -> str:
    numbers = words[0].split(",") if words else [str(n) for n, _ in enumerate(page.study.claims, 1)]
    return markdown.claims_table([page.claim(number) for number in numbers])


def _groups(page: _PageStudy, words: Sequence[str], files: dict[str, str]) -> str:
    return _by_stream(page, markdown.groups_table)


def _tasks(page: _PageStudy, words: Sequence[str], files: dict[str, str]) -> str:
    caption = (
        "Score of each task right after its own stage → after the last one; a single score if there are no stages:"
    )
    return f"{caption}\n\n{_by_stream(page, markdown.tasks_table)}" if page.streams else ""


def _memory(page: _PageStudy, words: Sequence[str], files: dict[str, str]) -> str:
    found = page.evidence
    if found is None:
        return ""
    caption = "After the last stage: episodes of all tasks, and weights, those of the policy and what the method keeps:"
    return f"{caption}\n\n{_by_stream(page, lambda stream: markdown.memory_table(stream, found))}"


def _by_stream(page: _PageStudy, table: Callable[[ShownStream], str]) -> str:
    several = len(page.streams) > 1
    tables = [(f"**{markdown.plain(one.name)}**\n\n" if several else "") + table(one) for one in page.streams]
    return "\n\n".join(tables)


def _figure(page: _PageStudy, words: Sequence[str], files: dict[str, str]) -> str:
    if not page.streams:
        return ""
    if len(words) != 1 or words[0] not in page.plots:
        raise unknown(f"figure of {page.name}", " ".join(words), page.plots)
    path, plot = f"{FIGURES}/{page.name}-{words[0]}", page.plots[words[0]]
    files |= {f"{path}.svg": plot.drawing.on_white(), f"{path}.csv": plot.csv}
    return markdown.figure_block(plot, path)


def _cost(page: _PageStudy, words: Sequence[str], files: dict[str, str]) -> str:
    if page.evidence is None:
        seeds = ", ".join(map(str, page.study.seeds))
        return f"**Not measured.** {page.command} measures it: {len(page.study.runs())} runs with seeds {seeds}."
    link = f"[{page.name}{SUFFIX}]({EVIDENCE}/{page.name}{SUFFIX})"
    return markdown.cost_list(page.evidence, page.command, link)


def _value(page: _PageStudy, words: Sequence[str], files: dict[str, str]) -> str:
    label, metric = [*words, "", ""][:2]
    labels = [name for name, _ in page.study.groups]
    if label not in labels:
        raise unknown(f"group of {page.name}", label, labels)
    if metric not in METRICS:
        raise unknown("metric", metric, METRICS)
    found = [group[metric] for group in page.numbers["groups"] if group["label"] == label]
    return next((markdown.figure_words(figure, metric) for figure in found), "") or "not measured"


def _verdict(page: _PageStudy, words: Sequence[str], files: dict[str, str]) -> str:
    return str(page.claim(" ".join(words))["verdict"])


def _settings(study: Study) -> Any:
    return without_folders(to_json(replace(study, claims=())))


type Marker = Callable[[_PageStudy, Sequence[str], dict[str, str]], str]
_BLOCKS: dict[str, Marker] = {
    "claims": _claims,
    "groups": _groups,
    "tasks": _tasks,
    "memory": _memory,
    "figure": _figure,
    "cost": _cost,
}
_INLINES: dict[str, Marker] = {"value": _value, "verdict": _verdict}
