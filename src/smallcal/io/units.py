"""Rows of Parquet and Arrow files, by the units they were written in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from smallcal.io.readers import opened, parquet_tables


def unit_rows(kind: str, content: Any, file: Path) -> tuple[int, ...]:
    """Return the number of rows in each row group or record batch."""
    if kind == "parquet":
        groups = range(content.metadata.num_row_groups)
        return tuple(content.metadata.row_group(number).num_rows for number in groups)
    import pyarrow as pa

    # One plain column is enough to count by, and a map reads none of what is not packed.
    plain = [i for i, field in enumerate(content.schema) if pa.types.is_primitive(field.type)]
    options = pa.ipc.IpcReadOptions(included_fields=plain[:1], use_threads=False)
    with pa.memory_map(str(file)) as mapped:
        batches = pa.ipc.open_file(mapped, options=options)
        return tuple(batches.get_batch(i).num_rows for i in range(batches.num_record_batches))


def tables_of(
    kind: str, file: Path, units: tuple[int, int], columns: list[str], step: int
) -> Iterator[Any]:
    """Yield the rows of some units as tables of at most ``step`` rows."""
    import pyarrow as pa

    with opened(kind, file) as content:
        if kind == "parquet":
            groups = range(*units)
            yield from parquet_tables(content, file, step=step, groups=groups, columns=columns)
            return
        for number in range(*units):
            batch = content.get_batch(number)
            batch.validate(full=True)  # a damaged file could point outside of itself
            table = pa.Table.from_batches([batch]).select(columns)
            for start in range(0, table.num_rows, step):
                yield table.slice(start, step)
