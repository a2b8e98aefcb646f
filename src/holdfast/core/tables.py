"""Tables in the terminal."""

from __future__ import annotations

import re

from rich.table import Table

_NOTHING = ("", "-")


def broken_label(label: str, width: int) -> str:
    """A long label on several lines, broken after a dash or before an equals sign."""
    lines = [""]
    for part in re.split(r"(?<=-)|(?==)", label):
        if lines[-1] and len(lines[-1] + part) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def without_empty_columns(table: Table) -> Table:
    """The table, without columns in which no row has a value."""
    kept = [column for column in table.columns if any(str(cell) not in _NOTHING for cell in column.cells)]
    if table.rows:
        for place, column in enumerate(kept):
            column._index = place
        table.columns = kept
    return table
