"""One reader per file type. Each gives the names in the file and a way to get one array.

Only the arrays that are asked for are loaded. A foreign parser may raise anything on a damaged
file, so :func:`readable` turns whatever it raises into one line that names the file.
"""

from __future__ import annotations

import os
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from smallcal.errors import FileError, SmallcalError, code_of, missing_file, needing
from smallcal.io.batches import arrays_of, tensors_of
from smallcal.io.layout import Choice
from smallcal.io.memory import refuse_bomb
from smallcal.io.npy import map_npy, read_npy
from smallcal.io.records import read_json, read_json_lines
from smallcal.io.tables import Table, read_parquet
from smallcal.io.text import one_column, read_csv, read_lines

#: Groups of an HDF5 file that a message names.
_SHOWN_GROUPS = 3


class Arrays(NamedTuple):
    """The names of a file's arrays, and how to load one.

    ``table`` is what a table told: there the reader has done what the caller asked for, and the
    arrays are called after their roles.
    """

    names: tuple[str, ...]
    get: Callable[[str], Any]
    table: Table | None = None


Opener: TypeAlias = Callable[[Path], AbstractContextManager[Arrays]]
Reader: TypeAlias = Callable[[Path, Choice], AbstractContextManager[Arrays]]


@contextmanager
def loading(load: Callable[[Path], Mapping[str, Any]], file: Path) -> Iterator[Arrays]:
    """Read a file that is loaded whole."""
    content = load(file)
    yield Arrays(tuple(content), content.__getitem__)


@contextmanager
def tabled(
    load: Callable[[Path, Choice], Table | Mapping[str, Any]], file: Path, choice: Choice
) -> Iterator[Arrays]:
    """Read a table."""
    found = load(file, choice)
    if isinstance(found, Table):
        yield Arrays(tuple(found.arrays), found.arrays.__getitem__, found)
    else:
        yield Arrays(tuple(found), found.__getitem__)


@contextmanager
def readable(file: Path, reader: Opener) -> Iterator[Arrays]:
    """Open a file, turning every failure to read it into one :class:`FileError`."""
    with explained(file):
        if os.path.isdir(file):
            raise FileError(f"{file} is a folder; name a file in it", code="file-type")
        require_bytes(file)
        with reader(file) as arrays:
            yield arrays


def require_bytes(file: Path) -> None:
    """Raise when a file is empty."""
    if file.stat().st_size == 0:
        raise FileError(f"{file} is empty (0 bytes); write it again", code="file-damaged")


@contextmanager
def explained(file: Path) -> Iterator[None]:
    """Turn whatever a foreign parser raises into one line that names the file."""
    try:
        yield
    except SmallcalError:
        raise
    except MemoryError as error:
        raise FileError(
            f"{file} does not fit in memory: {_first_line(error)}", code="file-too-large"
        ) from error
    except Exception as error:
        if isinstance(error, OSError) and error.strerror and error.filename:
            why = f"{error.strerror}{missing_file(file)}"
            raise FileError(f"cannot read {file}: {why}", code=code_of(error)) from error
        raise FileError(
            f"{file} cannot be read as {suffix_of(file)}: {_first_line(error)}. It is damaged or "
            "of another type; write it again",
            code="file-damaged",
        ) from error


#: Rows of a Parquet file that are decoded at a time.
_BATCH_ROWS = 1 << 16


@contextmanager
def _npz(file: Path) -> Iterator[Arrays]:
    refuse_zip_bomb(file)
    with file.open("rb") as handle:
        start = handle.read(6)
    if start.startswith(b"\x93NUMPY"):
        raise FileError(
            f"{file} is a single .npy array, not an .npz archive; rename it to .npy",
            code="file-type",
        )
    if not start.startswith(b"PK"):
        raise FileError(
            f"{file} is not an .npz archive; write it with numpy.savez", code="file-damaged"
        )
    with zipfile.ZipFile(file) as archive:
        members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}

        def get(name: str) -> Any:
            with archive.open(members[name]) as handle:
                return read_npy(handle, members[name].file_size, f"{file}: {name}")

        yield Arrays(tuple(members), get)


def refuse_zip_bomb(file: Path) -> None:
    """Raise if what a zip archive holds is far larger than the archive."""
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            for member in archive.infolist():
                what = f"{file}: {member.filename}"
                refuse_bomb(what, size=member.file_size, stored=member.compress_size)


def _label_csv(file: Path, choice: Choice, *, separator: str = ",") -> Table | Mapping[str, Any]:
    if one_column(file, separator):
        return _labels(file, choice)
    return read_csv(file, choice, separator=separator)


def _labels(file: Path, choice: Choice) -> Mapping[str, Any]:
    return {"labels": read_lines(file)}


@contextmanager
def opened(kind: str, file: Path) -> Iterator[Any]:
    """Open a Parquet or Arrow file; what is wrong with it is said in one line."""
    with needing("pyarrow", "parquet", f"reading {file.suffix} files"):
        import pyarrow as pa
        import pyarrow.parquet as pq
    with explained(file):
        require_bytes(file)
        if kind == "parquet":
            # A stream with a small buffer: a row group of any size is read page by page.
            with pq.ParquetFile(file, buffer_size=2**20, pre_buffer=False) as content:
                yield content
        else:
            with pa.OSFile(str(file)) as handle:
                yield pa.ipc.open_file(handle)


def _parquet(file: Path, choice: Choice) -> Table:
    with opened("parquet", file) as content:
        return read_parquet(_decoded(content, file), source=str(file), choice=choice)


def _decoded(content: Any, file: Path) -> Any:
    """Read a Parquet file batch by batch."""
    import pyarrow as pa

    tables = parquet_tables(content, file, whole=True)
    return pa.concat_tables([content.schema_arrow.empty_table(), *tables])


def parquet_tables(
    content: Any,
    file: Path,
    *,
    step: int = _BATCH_ROWS,
    groups: Iterable[int] | None = None,
    columns: list[str] | None = None,
    whole: bool = False,
) -> Iterator[Any]:
    """Yield rows of a Parquet file as tables; stop where they grow out of all proportion.

    ``whole`` says that all are kept. Text is read word by word first, for a file can repeat a long
    word at no cost. What columns say of their values is not asked: pyarrow ends the process where
    that is damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    known, stored = content.metadata, file.stat().st_size
    numbers = list(range(known.num_row_groups) if groups is None else groups)
    nested = [content.schema.column(i).max_repetition_level > 0 for i in range(known.num_columns)]
    sizes = []
    for group in map(known.row_group, numbers):
        counts = (group.column(i).num_values for i, deep in enumerate(nested) if whole or deep)
        sizes.append(max(group.total_byte_size, 8 * sum(counts)))
        refuse_bomb(str(file), size=sum(sizes) if whole else sizes[-1], stored=stored)
    schema, size = content.schema_arrow, 0
    plain = schema if columns is None else pa.schema([schema.field(name) for name in columns])
    words = [field.name for field in schema if _is_text(field.type)]
    with pq.ParquetFile(
        file, metadata=known, read_dictionary=words, buffer_size=2**20, pre_buffer=False
    ) as again:
        for batch in again.iter_batches(
            step, row_groups=numbers, columns=columns, use_threads=False
        ):
            size = sum(map(_unpacked, batch.columns), size if whole else 0)
            refuse_bomb(str(file), size=size, stored=stored)
            table = pa.Table.from_batches([batch])
            found = table.columns if columns is None else map(table.column, columns)
            pairs = zip(found, plain, strict=True)
            yield pa.table(
                [one if one.type == field.type else one.cast(field.type) for one, field in pairs],
                schema=plain,
            )


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    tests = (pa.types.is_string, pa.types.is_large_string)
    return any(test(kind) for test in (*tests, pa.types.is_binary, pa.types.is_large_binary))


def _unpacked(column: Any) -> int:
    """Return the bytes of a column when each row has its own word."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_dictionary(column.type) or not _is_text(column.type.value_type):
        return int(column.nbytes)
    lengths = pc.binary_length(column.dictionary).cast(pa.int64())
    return 4 * len(column) + int(pc.sum(lengths.take(column.indices)).as_py() or 0)


def _arrow(file: Path, choice: Choice) -> Table:
    with opened("arrow", file) as content:
        table = content.read_all()
        table.validate(full=True)  # a damaged file could point outside of itself
        return read_parquet(table, source=str(file), choice=choice)


@contextmanager
def _safetensors(file: Path) -> Iterator[Arrays]:
    with needing("safetensors", "safetensors", "reading .safetensors files"):
        from safetensors import deserialize, safe_open
    import json

    parse: Any = deserialize
    with safe_open(file, framework="numpy") as content:
        names: str | None = (content.metadata() or {}).get("class_names")

        def get(name: str) -> Any:
            if name == "class_names" and names is not None:
                return np.array(json.loads(names), dtype=str)
            if content.get_slice(name).get_dtype() != "BF16":
                return content.get_tensor(name)
            # NumPy has no bfloat16: its bits are the upper half of a float32.
            raw = dict(parse(file.read_bytes()))[name]
            bits = np.frombuffer(raw["data"], dtype="<u2").astype(np.uint32) << 16
            return bits.view(np.float32).reshape(raw["shape"])

        yield Arrays((*content.keys(), *(["class_names"] if names else [])), get)


def _torch(file: Path) -> Mapping[str, Any]:
    with needing("torch", "torch", f"reading {file.suffix} files"):
        import torch
    refuse_zip_bomb(file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            content = torch.load(file, map_location="cpu", weights_only=True)
        except Exception as error:
            raise FileError(
                f"{file} cannot be read as plain tensors (pickled objects are never executed): "
                "write it with torch.save({'logits': logits, 'labels': labels}, path)",
                code="file-objects",
            ) from error
    size = 0
    for tensor in tensors_of(content, torch.Tensor):
        # An expanded tensor is a huge view of a few numbers.
        size += tensor.numel() * tensor.element_size()
    refuse_bomb(str(file), size=size, stored=file.stat().st_size)
    return arrays_of(content, torch.Tensor, torch.cat, source=str(file))


@contextmanager
def _h5(file: Path) -> Iterator[Arrays]:
    with nested_h5(file, depth=0) as arrays:
        if not arrays.names:
            with nested_h5(file) as inner:
                _refuse_groups(file, inner.names)
        yield arrays


def _refuse_groups(file: Path, names: tuple[str, ...]) -> None:
    """Raise when all arrays of a file lie in groups, of which one must be named."""
    groups = list(dict.fromkeys(name.rpartition("/")[0] for name in names))
    if groups:
        more = f" and {len(groups) - _SHOWN_GROUPS} more" if len(groups) > _SHOWN_GROUPS else ""
        # A slash tells a group from a split.
        paths = [group if "/" in group else f"/{group}" for group in groups[:_SHOWN_GROUPS]]
        shown = ", ".join(f"{file}:{path}" for path in paths)
        raise FileError(
            f"{file} holds its arrays in groups; name one: {shown}{more}", code="file-ambiguous"
        )


@contextmanager
def nested_h5(file: Path, *, depth: int = 3, group: str = "") -> Iterator[Arrays]:
    """Open an HDF5 file, or a group of it.

    Datasets in groups of that, down to a depth, are called like ``a/b/labels``.
    """
    with needing("h5py", "h5", "reading .h5 files"):
        import h5py
    with h5py.File(file, "r") as whole:
        content = _h5_group(whole, group, file)
        # Text of variable length lies in a heap in which HDF5 can walk for ever when the file is
        # damaged, and then not even Ctrl-C helps. Names are optional: such ones are left out.
        names = [
            key
            for key in _h5_names(content, depth)
            if "class_names" not in key or content[key].dtype != object
        ]

        def get(name: str) -> Any:
            dataset = content[name]
            if dataset.dtype == object:
                raise FileError(
                    f"{file}: {name} holds text of variable length; store it with "
                    "np.char.encode(names), or as numbers",
                    code="file-type",
                )
            if dataset.is_virtual or dataset.external:
                raise FileError(
                    f"{file}: {name} points to other files; copy their data into this one",
                    code="file-type",
                )
            stored = dataset.id.get_storage_size()
            refuse_bomb(f"{file}: {name}", size=dataset.nbytes, stored=stored)
            return dataset[()]

        yield Arrays(tuple(names), get)


def _h5_group(content: Any, path: str, file: Path) -> Any:
    """Return a group by its path; links to other places are not followed."""
    import h5py

    for part in path.strip("/").split("/") if path else ():
        there = isinstance(content.get(part, getlink=True), h5py.HardLink) if part else False
        if not there or not isinstance(content[part], h5py.Group):
            offer = ", ".join(list(content)[:_SHOWN_GROUPS])
            inside = f"; {content.name} holds {offer}" if offer else ""
            raise FileError(f"{file} has no group {path!r}{inside}", code="file-column")
        content = content[part]
    return content


def _h5_names(group: Any, depth: int) -> Iterator[str]:
    """Yield the datasets in a group; links to other places are not followed."""
    import h5py

    for key in group:
        if not isinstance(group.get(key, getlink=True), h5py.HardLink):
            continue
        if isinstance(group[key], h5py.Dataset):
            yield key
        elif depth and isinstance(group[key], h5py.Group):
            yield from (f"{key}/{name}" for name in _h5_names(group[key], depth - 1))


def _container(opener: Opener) -> Reader:
    """Let a reader of named arrays stand beside those of tables, which look at the choice."""
    return lambda file, choice: opener(file)


#: Every file type that can hold logits.
READERS: Mapping[str, Reader] = MappingProxyType(
    {
        ".npz": _container(_npz),
        ".npy": _container(partial(loading, lambda file: {"logits": map_npy(file)})),
        **dict.fromkeys((".csv", ".csv.gz"), partial(tabled, read_csv)),
        **dict.fromkeys((".tsv", ".tsv.gz"), partial(tabled, partial(read_csv, separator="\t"))),
        **dict.fromkeys((".jsonl", ".jsonl.gz", ".ndjson"), partial(tabled, read_json_lines)),
        **dict.fromkeys((".json", ".json.gz"), partial(tabled, read_json)),
        ".parquet": partial(tabled, _parquet),
        ".safetensors": _container(_safetensors),
        **dict.fromkeys((".pt", ".pth"), _container(partial(loading, _torch))),
        **dict.fromkeys((".h5", ".hdf5"), _container(_h5)),
        **dict.fromkeys((".arrow", ".feather", ".ipc"), partial(tabled, _arrow)),
    }
)

#: File types that may also hold labels alone, one per line.
TEXT_READERS: Mapping[str, Reader] = MappingProxyType(
    {
        **dict.fromkeys((".csv", ".csv.gz"), partial(tabled, _label_csv)),
        **dict.fromkeys((".tsv", ".tsv.gz"), partial(tabled, partial(_label_csv, separator="\t"))),
        ".txt": partial(tabled, _labels),
    }
)


def suffix_of(file: Path) -> str:
    """Return a file's suffix; what gzip packed keeps the one before.

    Examples
    --------
    >>> suffix_of(Path("a.b/scores.CSV.gz")), suffix_of(Path("v1.2.npz")), suffix_of(Path("a.gz"))
    ('.csv.gz', '.npz', '.gz')
    """
    last = file.suffix.lower()
    return Path(file.stem).suffix.lower() + last if last == ".gz" else last


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    line = text[0].rstrip(". ") if text else type(error).__name__
    return line if len(line) <= 160 else line[:157] + "..."
