"""Damaged and hostile files: a reader returns arrays or raises one of our errors, nothing else."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import zipfile
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smallcal import SmallcalError
from smallcal.io import READERS, open_source, read, read_labels, read_names, splits, write_arrays
from support.fuzzing import command, in_time, thrown
from support.nasty_names import ODD_NAMES

NEEDS = {".parquet": "pyarrow", ".safetensors": "safetensors", ".pt": "torch", ".h5": "h5py"}
NEEDS[".arrow"] = "pyarrow"
SUFFIXES = [suffix for suffix in READERS if suffix not in (".pth", ".hdf5", ".feather", ".ipc")]
TEXTS = [".csv", ".tsv", ".jsonl", ".json"]


def need(suffix):
    if suffix in NEEDS:
        pytest.importorskip(NEEDS[suffix], reason=f"{suffix} needs {NEEDS[suffix]}")


@cache
def sound(suffix: str) -> bytes:
    with TemporaryDirectory() as folder:
        file = Path(folder) / f"a{suffix}"
        logits = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
        arrays = {"logits": logits, "labels": np.arange(6) % 3}
        write_arrays(file, arrays | {"class_names": np.array(["a", "b", "c"])})
        return file.read_bytes()


def damaged(data: bytes, edits: list[tuple[int, int]], keep: float) -> bytes:
    changed = bytearray(data)
    for place, value in edits:
        changed[place % len(changed)] = value
    return bytes(changed[: max(1, int(keep * len(changed)))])


def read_every_way(suffix: str, data: bytes) -> None:
    """Read a file in all ways there are; each gives arrays or one of our errors."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / f"a{suffix}"
        file.write_bytes(data)
        for look in (read, read_labels, splits, open_source):
            if look is open_source and suffix not in (".npy", ".parquet", ".arrow"):
                continue
            with in_time(), contextlib.suppress(SmallcalError):
                loaded = look(file)
                if look is read:
                    assert isinstance(loaded.logits, np.ndarray)
        assert file.read_bytes() == data


@pytest.mark.parametrize("suffix", SUFFIXES)
@thrown(60)
@given(
    edits=st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), max_size=8),
    keep=st.one_of(st.just(1.0), st.floats(0.01, 1.0)),
)
def test_damaged_bytes_raise_only_our_errors(suffix, edits, keep):
    need(suffix)
    read_every_way(suffix, damaged(sound(suffix), edits, keep))


@pytest.mark.parametrize("suffix", SUFFIXES)
@thrown(15)
@given(
    cuts=st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 400)), min_size=1, max_size=4),
    other=st.sampled_from(SUFFIXES),
    way=st.sampled_from(["drop", "double", "zeros", "other"]),
)
def test_blocks_that_are_gone_doubled_or_of_another_file(suffix, cuts, other, way):
    need(suffix)
    need(other)
    data = sound(suffix)
    for place, size in cuts:
        first = place % max(len(data), 1)
        block = data[first : first + size]
        put = {"drop": b"", "double": 2 * block, "zeros": bytes(size), "other": sound(other)[:size]}
        data = data[:first] + put[way] + data[first + size :]
    read_every_way(suffix, data or b"x")


CELL = st.one_of(
    st.sampled_from(["", " ", "nan", "-inf", "1e999", "1_0", "0x10", "--", '"', '""', "'", "\0"]),
    st.sampled_from(["٣", "½", "\ufeff1", "1\u2028", "9" * 400, "x" * 300, "\r", "\n", "a,b\tc"]),
    st.floats().map(str),
    st.integers(-(10**25), 10**25).map(str),
    st.sampled_from(list(ODD_NAMES.values())),
    st.text(max_size=5),
)
CODECS = ["utf-8", "utf-8-sig", "utf-16", "utf-32", "latin-1", "cp1252", "utf-7"]


@pytest.mark.parametrize("separator", [",", "\t"])
@pytest.mark.parametrize("packed", [False, True])
@thrown(60)
@given(
    header=st.lists(st.one_of(CELL, st.sampled_from(["logit_a", "prob_b", "label", "id"]))),
    rows=st.lists(st.lists(CELL, max_size=5), max_size=4),
    codec=st.sampled_from(CODECS),
    end=st.sampled_from(["\n", "\r\n", "\r", "\n\n"]),
)
def test_tables_of_odd_cells(separator, packed, header, rows, codec, end):
    text = end.join(separator.join(row) for row in [header, *rows])
    data = text.encode(codec, errors="replace") or b"\n"
    suffix = ".csv" if separator == "," else ".tsv"
    read_every_way(suffix + ".gz" if packed else suffix, gzip.compress(data) if packed else data)


VALUE = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.floats(),
        st.integers(-(10**30), 10**30),
        st.sampled_from(list(ODD_NAMES.values())),
        st.sampled_from(["\ud800", "NaN", "a"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.sampled_from(["logits", "label", "labels", "probs", "a", "logit_a", "\ud800", ""]),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".json.gz"])
@thrown(100)
@given(values=st.lists(VALUE, min_size=1, max_size=3))
def test_json_of_any_shape(suffix, values):
    text = json.dumps(values[0]) if ".jsonl" not in suffix else "\n".join(map(json.dumps, values))
    data = text.encode()
    read_every_way(suffix, gzip.compress(data) if suffix.endswith(".gz") else data)


@pytest.mark.parametrize("opening", ["[", '{"a":', "[[1],"])
def test_deep_json_is_one_line(opening):
    read_every_way(".json", (opening * 100_000).encode())
    read_every_way(".jsonl", (opening * 100_000).encode())


HEADER = st.one_of(
    st.sampled_from(["'descr'", "'fortran_order'", "'shape'", "'<f4'", "'|O'", "'<U9999999'"]),
    st.sampled_from(["{", "}", "(", ")", "[", ",", ":", "True", "-1", "3L", "9" * 30, "'", "\\"]),
    st.sampled_from(["'<M8[ns]'", "'<c16'", "'|V2'", "[('a', '<f4')]", "lambda: 0", " ", "\0"]),
    st.integers(-(2**70), 2**70).map(str),
)


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
@thrown(200)
@given(
    words=st.lists(HEADER, max_size=14),
    replaced=st.sampled_from([None, "'<f4'", "(6, 3)", "False", "'shape'", "}"]),
    version=st.sampled_from([(1, 0), (2, 0), (3, 0), (1, 7), (0, 0)]),
    lie=st.sampled_from([0, 0, 0, -5, 7, 2**15, -(2**31)]),
)
def test_npy_headers_of_any_words(suffix, words, replaced, version, lie):
    text = "".join(words)
    if replaced is not None:
        whole = "{'descr': '<f4', 'fortran_order': False, 'shape': (6, 3), }\n"
        text = whole.replace(replaced, text)
    header = text.encode("latin-1", errors="replace")
    wide = 2 if version[0] == 1 else 4
    length = (len(header) + lie) % 2 ** (8 * wide)
    data = b"\x93NUMPY" + bytes(version) + length.to_bytes(wide, "little") + header + bytes(72)
    if suffix == ".npz":
        kept = io.BytesIO()
        with zipfile.ZipFile(kept, "w") as archive:
            archive.writestr("logits.npy", data)
            archive.writestr("labels.npy", data[: len(data) // 2])
        data = kept.getvalue()
    read_every_way(suffix, data)


DTYPES = ["f2", "f4", "f8", "i1", "i8", "u8", "b1", "U3", "S2", "c8", "M8[s]"]


@pytest.mark.parametrize("suffix", [".npz", ".h5", ".safetensors", ".pt"])
@thrown(25)
@given(
    names=st.lists(
        st.sampled_from(["logits", "labels", "val_logits", "class_names", "probs", "a", "\n", "y"]),
        unique=True,
        max_size=4,
    ),
    data=st.data(),
)
def test_arrays_of_any_shape_and_type(suffix, names, data):
    need(suffix)
    arrays = {}
    for name in names:
        shape = data.draw(st.lists(st.integers(0, 4), max_size=4), label="shape")
        dtype = data.draw(st.sampled_from(DTYPES), label="dtype")
        arrays[name] = np.zeros(shape, dtype=dtype)
    with TemporaryDirectory() as folder:
        file = Path(folder) / f"a{suffix}"
        try:
            write_arrays(file, arrays)
        except Exception:  # noqa: BLE001 - what other packages can write is theirs to say
            return
        made = file.read_bytes()
    read_every_way(suffix, made)


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
@thrown(40)
@given(data=st.data())
def test_columnar_tables_of_any_type(suffix, data):
    need(suffix)
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = [pa.float32(), pa.float64(), pa.int8(), pa.uint64(), pa.bool_(), pa.string()]
    kinds += [pa.binary(), pa.list_(pa.float32()), pa.list_(pa.list_(pa.int8())), pa.null()]
    kinds += [pa.timestamp("s"), pa.decimal128(9, 2), pa.struct([("x", pa.int8())]), pa.float16()]
    kinds += [pa.list_(pa.float32(), 3), pa.dictionary(pa.int8(), pa.string()), pa.large_string()]
    headers = ["logits", "label", "logit_a", "logit_b", "prob_a", "id", "", "\n", "probabilities"]
    headers += ["a.b", "logits.x"]
    n = data.draw(st.integers(0, 4))
    fields = data.draw(st.lists(st.tuples(st.sampled_from(headers), st.sampled_from(kinds))))
    values = {True: 1, False: None}
    columns, names = [], []
    for name, kind in fields:
        there = data.draw(st.booleans())
        try:
            columns.append(pa.array([_value(kind, pa) if there else None] * n, type=kind))
        except (pa.ArrowException, TypeError, ValueError):
            columns.append(pa.array([values[there]] * n, type=pa.int64()))
        names.append(name)
    table = pa.table(columns, names=names)
    with TemporaryDirectory() as folder:
        file = Path(folder) / f"a{suffix}"
        try:
            if suffix == ".parquet":
                pq.write_table(table, file, row_group_size=2)
            else:
                with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, table.schema) as out:
                    out.write_table(table, 2)
        except (pa.ArrowException, NotImplementedError, ValueError):
            return
        made = file.read_bytes()
    read_every_way(suffix, made)


def _value(kind, pa):
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return [_value(kind.value_type, pa)] * 3
    if pa.types.is_struct(kind):
        return {"x": 1}
    if pa.types.is_dictionary(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "a"
    return b"a" if pa.types.is_binary(kind) else 1


@thrown(40)
@given(data=st.binary(max_size=60))
def test_files_of_names_are_any_bytes(data):
    with TemporaryDirectory() as folder:
        file = Path(folder) / "names.txt"
        file.write_bytes(data)
        with contextlib.suppress(SmallcalError):
            assert all(isinstance(name, str) for name in read_names(file))
        for suffix in (".txt", ".csv"):
            (Path(folder) / f"a{suffix}").write_bytes(data)
            with contextlib.suppress(SmallcalError):
                read_labels(Path(folder) / f"a{suffix}")


@pytest.mark.parametrize("suffix", SUFFIXES)
@thrown(8)
@given(
    edits=st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), min_size=1, max_size=6),
    keep=st.one_of(st.just(1.0), st.floats(0.5, 1.0)),
    verb=st.sampled_from(["fit", "evaluate", "plan"]),
)
def test_commands_say_one_line_of_a_damaged_file(suffix, edits, keep, verb, tmp_path_factory):
    need(suffix)
    folder = tmp_path_factory.mktemp("damaged")
    file = folder / f"a{suffix}"
    file.write_bytes(damaged(sound(suffix), edits, keep))
    wanted = ["-o", folder / "cal.json"] if verb == "fit" else []
    command(verb, file, *wanted, folder=folder, outputs=[folder / "cal.json"])
