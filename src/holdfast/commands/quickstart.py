"""`holdfast quickstart`: generate a toy stream, train it without and with replay, and show what was forgotten."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console
from rich.table import Table

from holdfast import catalog, embodiment, metrics
from holdfast.records import Matrix, Stream

EPISODES, HELD_OUT = 40, 10
METHODS = ("sequential", "er")


def main(argv: list[str]) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="holdfast quickstart",
        description="Three toy tasks, learned one after the other without replay (sequential) and with it (er), on a "
        "CPU in minutes. Scores say how much of unseen demonstrations each policy would have predicted, 0 to 100.",
    )
    parser.add_argument("--output", default="runs/quickstart", help="where datasets and runs go (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of data and training (default: %(default)s)")
    options = parser.parse_args(argv)
    console, output = Console(), Path(options.output)
    stream = prepare(output / "data", options.seed, console)
    matrices = {method: run(method, stream, output, options.seed, console) for method in METHODS}
    for method, matrix in matrices.items():
        console.print(table(method, matrix))
    final = {method: metrics.summarize(matrix)[-1] for method, matrix in matrices.items()}
    for method, summary in final.items():
        console.print(f"{method:>10}: AS {summary.average_score.value:5.1f}   BWT {summary.bwt.value:+6.1f}")
    console.print(f"Runs are in {output}. Next: holdfast train --help")
    return 0


def prepare(folder: Path, seed: int, console: Console) -> Stream:
    """Write the stream file and the datasets that are not there yet."""
    from holdfast.data.generate import write_dataset
    from holdfast.recipes.quickstart import EMBODIMENT, STREAM

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "stream.toml").write_text(STREAM)
    stream = catalog.load_stream(str(folder / "stream.toml"))
    robot = embodiment.load(EMBODIMENT)
    for entry in stream.tasks:
        for root, episodes, its_seed in (
            (folder / entry.task.name, EPISODES, seed),
            (folder / f"{entry.task.name}-heldout", HELD_OUT, seed + 1_000_000),
        ):
            if not (root / ".whole").exists():
                console.print(f"recording {episodes} demonstrations into {root}")
                write_dataset(root, entry.task, robot, episodes=episodes, size=48, seed=its_seed)
                (root / ".whole").touch()
    return stream


def run(method: str, stream: Stream, output: Path, seed: int, console: Console) -> Matrix:
    """Train one method and score every task seen after every stage on its held-out demonstrations."""
    from holdfast.evaluate.heldout import explained
    from holdfast.recipes.quickstart import EMBODIMENT, quickstart
    from holdfast.train.engine import train

    folder = train(quickstart(output / "data", output, method, seed), stream, console)
    robot = embodiment.load(EMBODIMENT)
    cells = {}
    for j, stage in enumerate(sorted((folder / "stages").iterdir()), 1):
        for i, entry in enumerate(stream.tasks[:j], 1):
            active = robot.active(entry.task.arms)
            cells[i, j] = explained(stage / "checkpoint", entry.task, f"{entry.dataset}-heldout", active)
    return Matrix(stream.names, cells)


def table(method: str, matrix: Matrix) -> Table:
    """The matrix of one method, rows by stage as in the paper."""
    out = Table(title=f"{method}: held-out score after each stage", title_justify="left")
    out.add_column("after")
    for name in matrix.tasks:
        out.add_column(name, justify="right")
    for j, name in enumerate(matrix.tasks, 1):
        cells = [matrix.cells.get((i, j)) for i in range(1, len(matrix.tasks) + 1)]
        out.add_row(name, *("" if c is None else f"{sum(c) / len(c):.1f}" for c in cells))
    return out
