"""Reads the Parquet tables of a dataset, without filling the memory from a small file.

Parquet states a value that repeats once, so a few kilobytes can hold millions of rows. How many there are stands at the
end of each file and is looked at first. Tables may take `FREE` bytes of memory, and beyond that `TIMES` their size on
disk. What a robot measures never repeats that often: its frames take a few bytes each, however they are compressed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.core import outside
from holdfast.core.errors import HoldfastError

FREE = 2**28
TIMES = 1000
_VALUE = 64  # bytes that a value takes at most, as a Python number in a list; texts are counted by their length
_ERRORS = (pa.ArrowException, OSError, UnicodeDecodeError)


def read(paths: Sequence[Path], columns: Collection[str] | None = None, filters: Any = None) -> pa.Table:
    """Columns of tables that have the same columns, one below the other; None reads all columns.

    Texts and bytes are in Arrow's dictionaries: each is in memory once, however often it repeats.
    """
    texts = _check(paths, columns)
    tables: list[pa.Table] = []
    for path in paths:
        try:
            table = _read(path, columns, filters, texts)
        except _ERRORS as error:
            raise _damaged(path, error) from None
        if tables and table.schema != tables[0].schema:
            raise HoldfastError(f"{path} has other columns or types than {paths[0]}. Restore it or record again.")
        tables.append(table)
    return pa.concat_tables(tables)


def _read(path: Path, columns: Collection[str] | None, filters: Any, texts: set[str]) -> pa.Table:
    names = list(columns) if columns is not None else None
    try:
        return pq.read_table(path, columns=names, filters=filters, read_dictionary=sorted(texts))
    except pa.ArrowCapacityError:  # more than 2 GiB of images in one piece are too many for a dictionary
        return pq.read_table(path, columns=names, filters=filters)


def _check(paths: Sequence[Path], columns: Collection[str] | None) -> set[str]:
    """Refuse tables that are much larger in memory than on disk; return the paths of the columns that hold texts.

    All columns count, also those that are not read here: LeRobot reads them.
    """
    texts: set[str] = set()
    stored = needed = 0
    for path in paths:
        outside.check_file(path)
        stored += path.stat().st_size
        try:
            about = pq.read_metadata(path)
            missing = set(columns or ()).difference(about.schema.to_arrow_schema().names)
            for group in (about.row_group(number) for number in range(about.num_row_groups)):
                for part in (group.column(number) for number in range(group.num_columns)):
                    values = max(part.num_values, group.num_rows)
                    needed += max(values * _VALUE, part.total_uncompressed_size)
                    texts |= {part.path_in_schema} if part.physical_type == "BYTE_ARRAY" else set()
        except _ERRORS as error:
            raise _damaged(path, error) from None
        if missing:
            raise HoldfastError(f"{path} has no column {', '.join(sorted(missing))}. Restore it or record again.")
        if needed > FREE + TIMES * stored:
            raise HoldfastError(
                f"{path} would take {needed / 2**30:.1f} GiB of memory, with {stored / 2**10:.0f} KiB of tables on "
                f"disk. At most {FREE >> 20} MiB and {TIMES} times the size on disk are read: no recording repeats "
                "itself that often. Restore it or record again."
            )
    return texts


def _damaged(path: Path, error: Exception) -> HoldfastError:
    reason = str(error).split("\n")[0]
    return HoldfastError(f"{path} is truncated or damaged ({reason}). Restore it or record again.")
