"""Parquet files that know their own fingerprint: what is read is what was written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from smallcal.errors import FileError
from smallcal.io.atomic import atomic_path

#: Where a file keeps its fingerprint. Parquet's own checksums leave out what describes columns.
DIGEST = b"smallcal.sha256"

#: From a table to its fingerprint.
Digest = Callable[[Any], bytes]


def write_signed(file: Path, table: Any, digest: Digest) -> None:
    """Write a table, whole or not at all; equal ones give equal bytes."""
    import pyarrow.parquet as pq

    signed = table.replace_schema_metadata({DIGEST: digest(table)})
    with atomic_path(file) as path:
        pq.write_table(signed, path, compression="zstd")


def read_signed(file: Path, schema: Any, digest: Digest, *, what: str) -> Any:
    """Read a table, and make sure that it is the one that was written.

    Raises
    ------
    FileError
        If the file is missing, damaged, or holds something else than ``what``.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(file).combine_chunks()
        found = digest(table)
    except FileNotFoundError:
        raise FileError(f"{file} is missing: the run is not complete") from None
    except (OSError, ValueError, pa.ArrowException) as error:
        said = " ".join(str(error).split())
        raise FileError(f"{file} cannot be read ({said}); delete it and run again") from None
    if not table.schema.equals(schema):
        raise FileError(f"{file} does not hold the {what} of a study")
    if (table.schema.metadata or {}).get(DIGEST) != found:
        raise FileError(f"{file} is damaged; delete it and run again")
    return table
