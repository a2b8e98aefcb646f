"""The page of all tasks: what each asks for, how it is scored, and the expert doing it, seen by all cameras."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from holdfast.catalog import task as catalog_task
from holdfast.core.records import Task
from holdfast.twin.cell import CONTROL_HZ
from holdfast.twin.env import CellEnv
from holdfast.twin.gym import gym_id
from holdfast.twin.scripted import expert
from holdfast.twin.sheet import ROWS, contact_sheet
from holdfast.twin.tasks import task_class

_SEED, _MOMENTS, _TILE, _QUALITY = 3, 5, (198, 264), 84
_HEAD = f"""\
# The tasks of the twin

<!-- Written by `holdfast twin docs`: change the catalog or the tasks, then run it again. -->

Each milestone is worth one point. Penalties take points away. The score is what remains, not below 0, as a share of
100; without the final condition the last milestone is withheld. In the twin a milestone counts only when the milestones
it needs count too; a [person who scores](scoring.md) may give one without the one before.

The pictures show the expert at level `standard`, from left to right through time; from top to bottom what a visitor
sees, then the cameras {{cameras}}. Policies see
[plainer images](twin.md#what-policies-see-and-what-people-see) of the same moments. Control runs at {CONTROL_HZ} Hz.
Watch a task with `holdfast watch --task NAME --out video.mp4`, score a scripted policy with
`holdfast twin score --task NAME --as expert`.

Where a rubric leaves something open, the twin's scorers read it as each task lists below, and all of them like this:

- Held: both pads of one hand touch the thing. Grasped or lifted: held, and visibly off the table.
- Where the hand is: the point between its pads.
- A result counts when it has lasted half a second; bread in the pot 0.27 s, fruit in the basket 0.33 s.
- A milestone about how a thing was left is taken back when that is undone. Others stay.
- Penalties stay, except those that judge an outcome: `off_centre` and `sleeve_partial`.
"""


def page(names: Sequence[str]) -> str:
    """The page as Markdown; pictures are expected beside it, under pictures/."""
    cameras = ", ".join(camera.replace("_", " ") for camera in ROWS[1:])
    return "\n".join([_HEAD.format(cameras=cameras), *(_section(catalog_task(name)) for name in names)])


def draw(name: str, file: Path) -> None:
    """Write the picture of a task: a strip through time for each camera, as a small JPEG."""
    env = CellEnv(name)
    env.reset(_SEED, "standard")
    sheet = contact_sheet(env, expert(env, None), _MOMENTS, _TILE)
    env.close()
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(sheet).save(file, quality=_QUALITY, optimize=True)


def overview(pictures: Sequence[Path], file: Path, columns: int = 5) -> None:
    """Write one picture of all tasks: each a little after half time, as a visitor sees it."""
    height, width = _TILE
    rows = -(-len(pictures) // columns)
    out = Image.new("RGB", (columns * width, rows * height))
    for place, picture in enumerate(pictures):
        moment = Image.open(picture).crop((3 * width, 0, 4 * width, height))
        out.paste(moment, (place % columns * width, place // columns * height))
    out.save(file, quality=_QUALITY, optimize=True)


def _section(task: Task) -> str:
    limit = task_class(task.name).max_steps
    arms = " and ".join(task.arms) + (" arm" if len(task.arms) == 1 else " arms")
    lines = [
        f"## {task.title}",
        "",
        f"*{task.instruction}* `{task.name}`, {arms}, at most {limit} control steps ({limit / CONTROL_HZ:.0f} s), "
        f"Gymnasium id `{gym_id(task.name)}`.",
        "",
        f"![{task.title}](pictures/{task.name}.jpg)",
        "",
        "| milestone | | needs |",
        "|---|---|---|",
        *(f"| `{m.name}` | {m.text} | {', '.join(f'`{n}`' for n in m.needs)} |" for m in task.milestones),
        "",
    ]
    if task.penalties:
        lines += ["| penalty | | points |", "|---|---|---|"]
        for penalty in task.penalties:
            most = f", at most {penalty.most} times" if penalty.most > 1 else ""
            lines.append(f"| `{penalty.name}` | {penalty.text} | -{penalty.value:g}{most} |")
        lines.append("")
    if task.final:
        lines += [f"At the end: {task.final}", ""]
    if readings := task_class(task.name).readings:
        lines += ["In the twin:", "", *(f"- {reading}" for reading in readings), ""]
    return "\n".join(lines)
