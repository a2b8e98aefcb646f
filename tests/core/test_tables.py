"""Columns without a value are not shown."""

from rich.console import Console
from rich.table import Table

from holdfast.core.tables import without_empty_columns


def shown(*rows):
    table = Table("task", "bwt", "fwt", "note")
    for row in rows:
        table.add_row(*row)
    console = Console(width=80)
    with console.capture() as said:
        console.print(without_empty_columns(table))
    return said.get()


def test_a_column_of_nothing_is_left_out_and_the_others_keep_their_values():
    said = shown(("bowls", "-", "", "first"), ("button", "-3.5", "-", ""))
    assert "fwt" not in said
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in said.splitlines() if "│" in line]
    assert cells == [["bowls", "-", "first"], ["button", "-3.5", ""]]


def test_a_table_without_rows_keeps_its_headings():
    assert "fwt" in shown()
