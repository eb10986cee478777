"""Damaged bytes: a reader returns arrays or raises one of our errors, never anything else."""

from __future__ import annotations

import contextlib
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smallcal import SmallcalError
from smallcal.io import READERS, read, write_arrays
from support.fuzzing import thrown

NEEDS = {".parquet": "pyarrow", ".safetensors": "safetensors", ".pt": "torch", ".h5": "h5py"}
NEEDS[".arrow"] = "pyarrow"
SUFFIXES = [suffix for suffix in READERS if suffix not in (".pth", ".hdf5", ".feather", ".ipc")]


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


@pytest.mark.parametrize("suffix", SUFFIXES)
@thrown(60)
@given(
    edits=st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), max_size=8),
    keep=st.one_of(st.just(1.0), st.floats(0.01, 1.0)),
)
def test_damaged_bytes_raise_only_our_errors(suffix, edits, keep):
    if suffix in NEEDS:
        pytest.importorskip(NEEDS[suffix], reason=f"{suffix} needs {NEEDS[suffix]}")
    with TemporaryDirectory() as folder:
        file = Path(folder) / f"a{suffix}"
        file.write_bytes(damaged(sound(suffix), edits, keep))
        with contextlib.suppress(SmallcalError):
            loaded = read(file)
            assert isinstance(loaded.logits, np.ndarray)
