"""`holdfast report RUN [RUN...]`: write one HTML page about runs."""

from __future__ import annotations

import argparse
import webbrowser
from pathlib import Path

from holdfast.core.errors import HoldfastError

_HELP = """\
Make one self-contained HTML page about one or more runs: score matrices, AS, BWT and FWT with intervals, where tasks
break, replay, normalization, losses and videos of trials. It works offline. Several runs are compared, trial by trial
where they share seeds, and shown beside the published real-robot figures of their stream. Trials of different sources,
as of the twin and of operators, are never averaged: they stand side by side, or --source shows one.

The page goes to <first RUN>/report/index.html, with metrics.json and figures/ (SVG and PNG for papers) beside it.
Add a run of method finetune to get the forward transfer of the others.
"""
_EXAMPLES = """\
examples:
  holdfast report runs/single_arm-er --open
  holdfast report runs/single_arm-er --source operator
  holdfast report runs/single_arm-sequential runs/single_arm-er runs/single_arm-finetune --output=compare/index.html
"""


def main(argv: list[str]) -> int:
    """Run `holdfast report`."""
    parser = argparse.ArgumentParser(
        prog="holdfast report",
        description=_HELP,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("runs", metavar="RUN", nargs="+", help="a run's folder")
    parser.add_argument("--output", metavar="F", help="the page (default: <first RUN>/report/index.html)")
    parser.add_argument("--source", help="only the trials of this source, as twin or operator (all, side by side)")
    parser.add_argument("--open", action="store_true", help="open the page in a browser")
    options = parser.parse_args(argv)
    output = Path(options.output) if options.output else None
    if output and output.suffix.lower() not in (".html", ".htm"):
        raise HoldfastError(f"--output must name an .html file, got {output}. Try --output={output / 'index.html'}.")

    from holdfast.report.page import write

    page = write([Path(run) for run in options.runs], output, options.source)
    print(page)
    if options.open and not webbrowser.open(page.resolve().as_uri()):
        print("No browser was found on this machine: open the page by hand.")
    return 0
