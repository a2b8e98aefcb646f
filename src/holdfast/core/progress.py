"""The progress bar of all commands: count, elapsed and remaining time, and a note. And a spinner for unknown counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


def progress_bar(console: Console) -> Progress:
    """A bar whose tasks need the field `note`; hidden if there is no terminal."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=console,
        disable=not console.is_terminal,
    )


@contextmanager
def spinner(console: Console, doing: str) -> Iterator[Callable[[str], None]]:
    """Show what is being done and for how long, and nothing afterwards; what is yielded changes the text.

    Without a terminal each new text is printed as a line.
    """
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task("", total=None)

        def say(text: str) -> None:
            shown.update(task, description=escape(text))
            if not console.is_terminal:
                console.print(f"{text} ...", markup=False, soft_wrap=True)

        say(doing)
        yield say
