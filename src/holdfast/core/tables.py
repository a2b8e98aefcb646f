"""Tables in the terminal."""

from __future__ import annotations

from rich.table import Table

_NOTHING = ("", "-")


def without_empty_columns(table: Table) -> Table:
    """The table, without columns in which no row has a value."""
    kept = [column for column in table.columns if any(str(cell) not in _NOTHING for cell in column.cells)]
    if table.rows:
        for place, column in enumerate(kept):
            column._index = place
        table.columns = kept
    return table
