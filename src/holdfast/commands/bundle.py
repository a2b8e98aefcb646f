"""`holdfast bundle`: a stage's policy as one folder that can be checked, compared, deployed and rolled back."""

from __future__ import annotations

import argparse
from pathlib import Path

from holdfast.commands.parser import Parser
from holdfast.core.progress import working

_HELP = """\
A bundle is one folder with everything a policy needs to run: weights, normalization, transforms, prompts and rubrics of
its tasks, its robot, and a SHA-256 of every file. An altered or incomplete bundle does not load. LeRobot's own tools
load BUNDLE/policy.

  holdfast bundle RUN [--stage K] [--output FOLDER]   write the bundle of a run's stage
  holdfast bundle verify BUNDLE                       check every byte
  holdfast bundle diff OLD NEW                        list the differences; exit code 1 if there are any
  holdfast bundle deploy BUNDLE --to FOLDER           make it the bundle a robot uses: FOLDER/current
  holdfast bundle rollback FOLDER                     return to the bundle deployed before
"""
_EXAMPLES = """\
examples:
  holdfast bundle runs/kitchen-er --stage 2 --output kitchen-2
  holdfast bundle diff kitchen-1 kitchen-2
  holdfast bundle deploy kitchen-2 --to robot && holdfast serve robot/current
  holdfast bundle rollback robot                      then start `holdfast serve robot/current` again
"""
_ACTIONS = ("verify", "diff", "deploy", "rollback")


def main(argv: list[str]) -> int:
    """Run `holdfast bundle`."""
    parser = Parser(
        prog="holdfast bundle",
        usage="holdfast bundle RUN [--stage K] [--output FOLDER], or verify, diff, deploy, rollback as below",
        description=_HELP,
        epilog=_EXAMPLES,
    )
    if not argv or argv[0] not in _ACTIONS:
        parser.add_argument("run", metavar="RUN", type=Path, help="a run's folder")
        parser.add_argument("--stage", type=int, metavar="K", help="the stage (the last finished one)")
        parser.add_argument("--output", type=Path, metavar="FOLDER", help="the new folder (bundles/RUN-K)")
        parser.add_argument("--embodiment", help="the robot, if not the run's own: a name or a .toml file")
        return _make(parser.parse_args(argv))
    action, words = argv[0], argv[1:]
    parser.prog = f"holdfast bundle {action}"
    parser.usage = None
    return {"verify": _verify, "diff": _diff, "deploy": _deploy, "rollback": _rollback}[action](parser, words)


def _make(args: argparse.Namespace) -> int:
    from holdfast.runs.run import read_run
    from holdfast.serve.new_bundle import make

    stage = args.stage if args.stage is not None else read_run(args.run).stages[-1].number
    output = args.output or Path("bundles") / f"{args.run.resolve().name}-{stage}"
    with working("copying and hashing"):
        bundle = make(args.run, stage, output, args.embodiment)
    size = sum(path.stat().st_size for path in bundle.path.rglob("*"))
    print(f"{output}: {size / 2**20:.1f} MiB, knows {', '.join(bundle.tasks)}\nbundle {bundle.hash}")
    return 0


def _verify(parser: Parser, words: list[str]) -> int:
    parser.add_argument("bundle", metavar="BUNDLE", type=Path)
    args = parser.parse_args(words)
    from holdfast.serve.bundle import load

    with working("reading every byte"):
        bundle = load(args.bundle)
    print(f"{args.bundle} is intact: {', '.join(bundle.tasks)}\nbundle {bundle.hash}")
    return 0


def _diff(parser: Parser, words: list[str]) -> int:
    parser.add_argument("old", metavar="OLD", type=Path)
    parser.add_argument("new", metavar="NEW", type=Path)
    args = parser.parse_args(words)
    from holdfast.core.errors import printable
    from holdfast.serve.bundle import load
    from holdfast.serve.diff import differences

    with working("reading every byte"):
        found = list(differences(load(args.old), load(args.new)))
    print("\n".join(map(printable, found)) or "The bundles are the same.")
    return 1 if found else 0


def _deploy(parser: Parser, words: list[str]) -> int:
    parser.add_argument("bundle", metavar="BUNDLE", type=Path)
    parser.add_argument("--to", type=Path, metavar="FOLDER", required=True, help="the robot's folder")
    args = parser.parse_args(words)
    from holdfast.serve.deploy import deploy

    with working("copying and hashing"):
        bundle = deploy(args.bundle, args.to)
    print(f"{args.to}/current is {bundle.hash} now. Start it: holdfast serve {args.to}/current")
    return 0


def _rollback(parser: Parser, words: list[str]) -> int:
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="the robot's folder")
    args = parser.parse_args(words)
    from holdfast.serve.deploy import rollback

    with working("reading every byte"):
        bundle = rollback(args.folder)
    print(f"{args.folder}/current is {bundle.hash} again. Start it: holdfast serve {args.folder}/current")
    return 0
