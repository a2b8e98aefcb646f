"""`holdfast report RUN [RUN...]`: write one HTML page about runs."""

from __future__ import annotations

from pathlib import Path

from holdfast.commands.parser import Parser
from holdfast.core.errors import HoldfastError

_HELP = """\
Make one self-contained HTML page about one or more runs: score matrices, AS, BWT and FWT with intervals, where tasks
break, replay, normalization, losses and videos of trials. It works offline. Several runs are compared, trial by trial
where they share seeds, and shown beside the published real-robot figures of their stream.

The page goes to <first RUN>/report/index.html, with metrics.json and figures/ (SVG and PNG for papers) beside it.
Add a run of method finetune to get the forward transfer of the others.
"""
_EXAMPLES = """\
examples:
  holdfast report runs/single_arm-er
  holdfast report runs/single_arm-sequential runs/single_arm-er runs/single_arm-finetune --output=compare/index.html
"""


def main(argv: list[str]) -> int:
    """Run `holdfast report`."""
    parser = Parser(
        prog="holdfast report",
        description=_HELP,
        epilog=_EXAMPLES,
    )
    parser.add_argument("runs", metavar="RUN", nargs="+", help="a run's folder")
    parser.add_argument("--output", metavar="F", help="the page (default: <first RUN>/report/index.html)")
    options = parser.parse_args(argv)
    output = Path(options.output) if options.output else None
    if output and output.suffix.lower() not in (".html", ".htm"):
        raise HoldfastError(f"--output must name an .html file, got {output}. Try --output={output / 'index.html'}.")

    from holdfast.report.page import write

    print(write([Path(run) for run in options.runs], output))
    return 0
