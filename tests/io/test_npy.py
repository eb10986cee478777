"""Headers of .npy arrays, alone and in .npz: what is damaged is one line, and nothing is run."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from smallcal import FileError
from smallcal.io import is_source, read
from smallcal.io.npy import map_npy, parse_header, read_npy
from support.refused import refused

DAMAGED = {
    "open bracket": "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4",
    "no brace": "'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)",
    "deep": "(" * 9000,
    "deep shape": "{'descr': '<f4', 'fortran_order': False, 'shape': " + "(" * 5000 + "}",
    "signs": "{'descr': '<f4', 'fortran_order': False, 'shape': (" + "-" * 9000 + "1,)}",
    "negative": "{'descr': '<f4', 'fortran_order': False, 'shape': (-3, 4)}",
    "huge": "{'descr': '<f4', 'fortran_order': False, 'shape': (" + "9" * 900 + ",)}",
    "overflow": "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
    "many axes": "{'descr': '<f4', 'fortran_order': False, 'shape': (" + "1," * 90 + ")}",
    "fraction": "{'descr': '<f4', 'fortran_order': False, 'shape': (3.0, 4)}",
    "no type": "{'descr': '<z4', 'fortran_order': False, 'shape': (3, 4)}",
    "odd width": "{'descr': '<f3', 'fortran_order': False, 'shape': (3, 4)}",
    "wide": "{'descr': '<U999999999', 'fortran_order': False, 'shape': (3, 4)}",
    "objects": "{'descr': '|O', 'fortran_order': False, 'shape': (3, 4)}",
    "objects inside": "{'descr': [('a', '|O')], 'fortran_order': False, 'shape': (3,)}",
    "records": "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,)}",
    "order": "{'descr': '<f4', 'fortran_order': 2, 'shape': (3, 4)}",
    "twice": "{'descr': '<f4', 'descr': '<f4', 'shape': (3, 4)}",
    "missing": "{'descr': '<f4', 'shape': (3, 4)}",
    "more": "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), 'x': 1}",
    "call": "{'descr': '<f4', 'fortran_order': False, 'shape': (__import__('os').getpid(),)}",
    "no text": "\x00\xff" * 20,
    "empty": "",
}


def array_of(header: str, *, version=(1, 0), length: int | None = None, data=b"\0" * 48) -> bytes:
    text = header.encode("latin-1")
    size = len(text) if length is None else length
    field = size.to_bytes(2 if version[0] == 1 else 4, "little")
    return b"\x93NUMPY" + bytes(version) + field + text + data


SOUND = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }\n"
CASES = {name: array_of(text) for name, text in DAMAGED.items()} | {
    "length lies": array_of(SOUND, length=20),
    "length beyond": array_of(SOUND, length=60000),
    "length of 4 GB": array_of(SOUND, version=(2, 0), length=2**32 - 1),
    "version 9": array_of(SOUND, version=(9, 0)),
    "version 0": array_of(SOUND, version=(0, 0)),
    "only magic": b"\x93NUMPY",
    "half magic": b"\x93NU",
    "cut short": array_of(SOUND, data=b"\0" * 47),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_a_damaged_header_is_one_line(name, suffix, cli, here):
    if suffix == ".npy":
        (here / "a.npy").write_bytes(CASES[name])
    else:
        with zipfile.ZipFile(here / "a.npz", "w") as archive:
            archive.writestr("logits.npy", CASES[name])
            archive.writestr("labels.npy", array_of(SOUND))
    with pytest.raises(FileError):
        read(f"a{suffix}")
    for verb in (["evaluate", f"a{suffix}"], ["fit", f"a{suffix}", "-o", "cal.json"]):
        code, out, err = cli(*verb)
        assert (code, out) == (2, "")
        assert err.startswith("smallcal: error: ")
        assert len(err.splitlines()) == 1
        assert f"a{suffix}" in err
    assert not is_source(here / "a.npy") or name in ("cut short", "overflow")


@pytest.mark.parametrize("name", ["huge", "overflow", "wide", "length of 4 GB", "deep"])
def test_no_memory_is_taken_for_what_is_only_promised(name, tmp_path):
    pytest.importorskip("resource", reason="there are no limits on this system")
    (tmp_path / "a.npy").write_bytes(CASES[name])
    code = (
        "import sys, resource, smallcal.io as io, smallcal\n"
        "most = 2 * 2**30\n"
        "resource.setrlimit(resource.RLIMIT_AS, (most, most))\n"
        "try: io.read(sys.argv[1])\n"
        "except smallcal.FileError as error: print(str(error)[:300])\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a.npy")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "fit in memory" not in found.stdout
    assert len(found.stdout.splitlines()) == 1


@pytest.mark.parametrize("dtype", ["<f4", ">f8", "<f2", "<i8", "|u1", "|b1", "<U7", "|S3"])
@pytest.mark.parametrize("shape", [(), (5,), (3, 4), (2, 3, 4), (0, 3), (3, 0)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_sound_arrays_are_read_as_numpy_does(dtype, shape, order, tmp_path):
    values = np.arange(np.prod(shape, dtype=int)).astype(dtype).reshape(shape, order=order)
    np.save(tmp_path / "a.npy", values)
    kept = io.BytesIO((tmp_path / "a.npy").read_bytes())
    for found in (map_npy(tmp_path / "a.npy"), read_npy(kept, len(kept.getvalue()), "a")):
        assert found.dtype == values.dtype
        np.testing.assert_array_equal(found, values)
        assert found.shape == values.shape


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_version_and_old_spellings_are_read(version):
    old = "{\"shape\": (3L, 4L), 'fortran_order': False, 'descr': '<f4'}   \n"
    header = parse_header(io.BytesIO(array_of(old, version=version)), "a")
    assert (header.shape, header.dtype, header.in_rows) == ((3, 4), np.dtype("<f4"), True)


def test_python_objects_are_refused_by_name(tmp_path):
    np.savez(tmp_path / "a.npz", logits=np.eye(3), labels=np.array([1, None, 2], dtype=object))
    with refused("file-objects"):
        read(tmp_path / "a.npz")
