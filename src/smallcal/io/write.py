"""Write arrays by suffix, whole or not at all."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from smallcal.data.names import require_names
from smallcal.errors import FileError, needing
from smallcal.io.atomic import atomic_path
from smallcal.io.parts import write_tables
from smallcal.io.paths import require_folder
from smallcal.io.readers import suffix_of
from smallcal.io.tables import codes_of, csv_rows, to_columns
from smallcal.io.words import SCORE_KINDS, parse_name

NamedArrays: TypeAlias = Mapping[str, NDArray[Any]]
Writer: TypeAlias = Callable[[Path, NamedArrays], None]


def write_arrays(
    path: str | os.PathLike[str], arrays: NamedArrays, *, suffix: str | None = None
) -> None:
    """Write named arrays to a file whose suffix, or the one given, is in ``WRITERS``.

    If anything fails, no half file is left and an old file stays as it was. A .npy file holds
    only the logits or probabilities; tables (.csv, .parquet) hold one split.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "p.csv"
    >>> write_arrays(path, {"probabilities": np.array([[0.75, 0.25]]), "labels": np.array([0])})
    >>> print(path.read_text().strip())
    prob_0,prob_1,label
    0.75,0.25,0
    """
    file = require_writable(path, suffix=suffix)
    if "class_names" in arrays:
        require_names([str(name) for name in arrays["class_names"]])
    with atomic_path(file, suffix=suffix) as temporary:
        WRITERS[suffix_of(file) if suffix is None else suffix](temporary, arrays)


def require_writable(path: str | os.PathLike[str], *, suffix: str | None = None) -> Path:
    """Raise before the work is done if the arrays could not be written there."""
    file = Path(path)
    if (suffix_of(file) if suffix is None else suffix) not in WRITERS:
        raise FileError(
            f"cannot write {file}: the suffix must be one of {', '.join(WRITERS)}",
            code="file-write",
        )
    return require_folder(file)


def _npy(file: Path, arrays: NamedArrays) -> None:
    main = next((name for name in arrays if parse_name(name)[0] in SCORE_KINDS), next(iter(arrays)))
    np.save(file, arrays[main], allow_pickle=False)


def _npz(file: Path, arrays: NamedArrays) -> None:
    # Checked here because savez pickles Python objects, and older NumPy cannot be told not to.
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise FileError(
                f"{name} holds Python objects, which are never pickled; pass numbers or text",
                code="file-objects",
            )
    with file.open("wb") as handle:
        content: dict[str, Any] = dict(arrays)
        np.savez(handle, **content)


@contextmanager
def _text(file: Path) -> Iterator[IO[str]]:
    """Open a text file to write, packed if its name says so."""
    if file.suffix.lower() != ".gz":
        with file.open("w", newline="", encoding="utf-8") as plain:
            yield plain
        return
    # Without name and time, so that the same numbers give the same bytes.
    with (
        file.open("wb") as raw,
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as packed,
        io.TextIOWrapper(packed, encoding="utf-8", newline="") as text,
    ):
        yield text


def _csv(file: Path, arrays: NamedArrays, *, separator: str = ",") -> None:
    columns = to_columns(arrays)
    words = [column for column in columns.values() if column.dtype.kind == "U"]
    with _text(file) as handle:
        _csv_writer(handle, separator, columns).writerow(columns)
        # Each word once: a table has few.
        written = (str(word) for column in words for word in np.unique(column))
        _csv_writer(handle, separator, written).writerows(csv_rows(columns))


def _csv_writer(handle: IO[str], separator: str, texts: Iterable[str]) -> Any:
    """Return a writer that puts all in quotes where a text would not be read back without."""
    odd = any(text != text.strip() or "\r" in text for text in texts)
    how: Any = {"quoting": csv.QUOTE_ALL} if odd else {}
    return csv.writer(handle, lineterminator="\n", delimiter=separator, **how)


def _json_lines(file: Path, arrays: NamedArrays) -> None:
    columns = to_columns(arrays)
    with _text(file) as handle:
        for row in zip(*(column.tolist() for column in columns.values()), strict=True):
            record = dict(zip(columns, row, strict=True))
            handle.write(json.dumps(record, ensure_ascii=False) + "\n")


def _json(file: Path, arrays: NamedArrays) -> None:
    content = {name: values.tolist() for name, values in arrays.items()}
    with _text(file) as handle:
        handle.write(json.dumps(content, ensure_ascii=False) + "\n")


def _parquet(file: Path, arrays: NamedArrays) -> None:
    with needing("pyarrow", "parquet", "writing .parquet files"):
        import pyarrow.parquet as pq
    pq.write_table(_arrow_table(arrays), file)


def _arrow_table(arrays: NamedArrays) -> Any:
    import pyarrow as pa

    # Arrow would cut the text of an array at a NUL.
    return pa.table(
        {
            name: values.tolist() if values.dtype.kind == "U" else values
            for name, values in to_columns(arrays).items()
        }
    )


def _arrow(file: Path, arrays: NamedArrays) -> None:
    with needing("pyarrow", "parquet", f"writing {file.suffix} files"):
        import pyarrow  # noqa: F401 - before anything is written
    write_tables(file, "arrow", iter([_arrow_table(arrays)]))


def _safetensors(file: Path, arrays: NamedArrays) -> None:
    with needing("safetensors", "safetensors", "writing .safetensors files"):
        from safetensors import SafetensorError
        from safetensors.numpy import save_file

    names = arrays.get("class_names")  # text has no tensor type: it goes into the metadata
    metadata = None if names is None else {"class_names": json.dumps([str(n) for n in names])}
    numbers = {
        name: np.ascontiguousarray(_coded(name, values, names))
        for name, values in arrays.items()
        if name != "class_names"
    }
    try:
        save_file(numbers, file, metadata=metadata)
    except SafetensorError as error:  # it has no error of its own for a full disk
        raise OSError(str(error)) from error


def _coded(name: str, values: NDArray[Any], names: NDArray[Any] | None) -> NDArray[Any]:
    """Return text as the column numbers of its classes, for there are no tensors of text."""
    if values.dtype.kind != "U":
        return values
    try:
        return codes_of(values, [] if names is None else names)
    except KeyError as error:
        raise FileError(
            f"{name} holds text, such as {error}, which a .safetensors file cannot; write column "
            "numbers, or another type of file",
            code="file-type",
        ) from None


def _torch(file: Path, arrays: NamedArrays) -> None:
    with needing("torch", "torch", "writing .pt files"):
        import torch
    content = {
        name: [str(text) for text in values]
        if values.dtype.kind in "US"
        else torch.from_numpy(np.array(values))
        for name, values in arrays.items()
    }
    try:
        torch.save(content, file)
    except RuntimeError as error:  # all that it says of a full disk
        raise OSError("PyTorch could not write it; is the disk full?") from error


def _h5(file: Path, arrays: NamedArrays) -> None:
    with needing("h5py", "h5", "writing .h5 files"):
        import h5py
    made = io.BytesIO()  # not the file: HDF5 ends the process where a disk is full
    with h5py.File(made, "w") as content:
        for name, values in arrays.items():
            content[name] = np.char.encode(values, "utf-8") if values.dtype.kind == "U" else values
    file.write_bytes(made.getbuffer())


#: Every file type that can be written.
WRITERS: Mapping[str, Writer] = MappingProxyType(
    {
        ".npz": _npz,
        ".npy": _npy,
        **dict.fromkeys((".csv", ".csv.gz"), _csv),
        **dict.fromkeys((".tsv", ".tsv.gz"), partial(_csv, separator="\t")),
        **dict.fromkeys((".jsonl", ".jsonl.gz", ".ndjson"), _json_lines),
        **dict.fromkeys((".json", ".json.gz"), _json),
        ".parquet": _parquet,
        ".safetensors": _safetensors,
        **dict.fromkeys((".pt", ".pth"), _torch),
        **dict.fromkeys((".h5", ".hdf5"), _h5),
        **dict.fromkeys((".arrow", ".feather", ".ipc"), _arrow),
    }
)
