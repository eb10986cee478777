"""Standard input as a file: ``-`` in place of a path."""

from __future__ import annotations

import atexit
import gzip
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from smallcal.errors import FileError, file_errors

#: What messages call it.
NAMED = "standard input"

#: How files of each type begin.
_BEGINNINGS = {
    b"\x93NUMPY": ".npy",
    b"PAR1": ".parquet",
    b"ARROW1": ".arrow",
    b"\x89HDF\r\n": ".h5",
    b"\x1f\x8b": ".gz",
}
#: Bytes of a header that are looked at.
_MOST_HEADER = 2**20
#: What was read, with the stream it came from: it can be read once, and may be asked for twice.
_kept: dict[str, Any] = {}


def spooled() -> Path:
    """Return a file with the content of standard input, named by what it seems to be.

    It is removed when the process ends.
    """
    stream = sys.stdin
    if _kept.get("stream") is not stream:
        if stream is None or stream.isatty():
            raise FileError(
                f"{NAMED} is a terminal; pipe a file into it: smallcal ... - < FILE",
                code="file-type",
            )
        with file_errors(f"cannot keep a copy of {NAMED}"):
            folder = tempfile.mkdtemp(prefix="smallcal-")
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            file = Path(folder) / "stdin"
            with file.open("wb") as copy:
                shutil.copyfileobj(stream.buffer, copy)
        _kept.update(stream=stream, file=file.rename(f"{file}{sniffed(file)}"))
    found: Path = _kept["file"]
    return found


def sniffed(file: Path) -> str:
    r"""Return the suffix that the content of a file asks for; text is CSV, TSV or JSON lines.

    Examples
    --------
    >>> file = Path(tempfile.mkdtemp()) / "x"
    >>> _ = file.write_text("cat,dog,label\n1,2,cat\n")
    >>> sniffed(file)
    '.csv'
    """
    with file.open("rb") as handle:
        first = handle.read(16)
    known = next((name for start, name in _BEGINNINGS.items() if first.startswith(start)), None)
    if known == ".gz":
        with gzip.open(file, "rb") as packed:
            return _sniffed_text(packed) + known
    if known is not None:
        return known
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            arrays = all(name.endswith(".npy") for name in archive.namelist())
        return ".npz" if arrays else ".pt"
    with file.open("rb") as plain:
        return _sniffed_text(plain)


def _sniffed_text(handle: Any) -> str:
    try:
        first = handle.readline()
        # A name in quotes may go on in the next line.
        while not first.lstrip().startswith((b"{", b"[")) and first.count(b'"') % 2:
            more = handle.readline()
            if not more or len(first) > _MOST_HEADER:
                break
            first += more
        rest = handle.read(1)
    except (OSError, EOFError) as error:
        raise FileError(f"{NAMED} is damaged gzip data: {error}", code="file-damaged") from None
    line = first.decode("utf-8-sig", errors="replace").strip()
    if line.startswith("["):
        return ".json"
    if line.startswith("{"):
        return ".jsonl" if line.endswith("}") and rest else ".json"
    return ".tsv" if "\t" in line and "," not in line else ".csv"
