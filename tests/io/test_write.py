"""Writing: whole or not at all, and in pieces when the array is large."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from smallcal.io import Target, is_source, open_source, read, require_writable, write_arrays
from smallcal.io.npy import npy_rows
from smallcal.io.text import text_of
from support.refused import refused


def test_a_type_that_cannot_be_written_is_refused_early(tmp_path):
    with refused("file-write"):
        require_writable(tmp_path / "a.xlsx")
    with refused("file-missing"):
        require_writable(tmp_path / "nowhere" / "a.npz")
    (tmp_path / "a.npz").mkdir()
    with refused("file-write"):
        require_writable(tmp_path / "a.npz")


def test_a_table_holds_one_split(tmp_path):
    with refused("file-ambiguous", "val_logits", "'val'"):
        write_arrays(tmp_path / "a.csv", {"val_logits": np.eye(2)})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", [".npz", ".npy", ".csv"])
def test_a_failed_write_leaves_the_old_file(suffix, tmp_path):
    file = tmp_path / f"a{suffix}"
    write_arrays(file, {"logits": np.eye(3)})
    before = file.read_bytes()

    class Broken(np.ndarray):
        def astype(self, *args, **kwargs):
            raise KeyboardInterrupt

        def __array__(self, *args, **kwargs):
            raise KeyboardInterrupt

    broken = np.empty((2, 2), dtype=object) if suffix != ".csv" else np.eye(2).view(Broken)
    with pytest.raises((ValueError, KeyboardInterrupt)):
        write_arrays(file, {"logits": broken})
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, ">f8", np.int16])
def test_rows_in_blocks_are_the_rows_of_the_file(dtype, tmp_path):
    values = np.arange(70).reshape(35, 2).astype(dtype)
    np.save(tmp_path / "a.npy", values)
    blocks = list(npy_rows(tmp_path / "a.npy", 3, 31, 9))
    assert [len(block) for block in blocks] == [9, 9, 9, 1]
    assert all(block.dtype.isnative for block in blocks)
    np.testing.assert_array_equal(np.concatenate(blocks), values[3:31])


def test_only_plain_matrices_are_streamed(tmp_path):
    np.save(tmp_path / "rows.npy", np.ones((3, 2)))
    np.save(tmp_path / "columns.npy", np.asfortranarray(np.ones((3, 2))))
    np.save(tmp_path / "vector.npy", np.ones(3))
    np.save(tmp_path / "none.npy", np.ones((0, 2)))
    np.save(tmp_path / "text.npy", np.array([["a"]]))
    (tmp_path / "broken.npy").write_bytes(b"not numpy")
    names = ("rows", "columns", "vector", "none", "text", "broken", "missing")
    assert [is_source(tmp_path / f"{name}.npy") for name in names] == [True] + 6 * [False]
    assert Target.of("out.csv", "npy") is None
    with refused("file-damaged"):
        open_source(tmp_path / "vector.npy")


def test_a_matrix_that_is_cut_short_is_refused(tmp_path):
    file = tmp_path / "a.npy"
    np.save(file, np.ones((30, 2)))
    file.write_bytes(file.read_bytes()[:-8])
    with refused("file-damaged", "30"):
        open_source(file)


#: Names that a spreadsheet would run, one that it would not, and escapes of such.
FORMULAS = ("=cmd()", "+1+1", "-x", "@SUM(A1)", "\tt", "\rr", "'=cmd()", "plain", "-1", "'tis")


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz"])
def test_no_cell_of_text_is_a_formula_and_all_are_read_back(suffix, tmp_path):
    file, n = tmp_path / f"a{suffix}", len(FORMULAS)
    names = np.array(FORMULAS)
    arrays = {"probabilities": np.full((n, n), 1 / n), "class_names": names, "labels": names}
    write_arrays(file, {**arrays, "groups": names, "decision": names})
    with text_of(file) as handle:
        header, *rows = csv.reader(handle, delimiter="\t" if suffix == ".tsv" else ",")
    for cells in zip(header, *rows, strict=True):
        for cell in cells:
            assert cell == "-1" or cell[:1] not in tuple("=+-@\t\r")
    assert [row[-1] for row in rows][:2] == ["'=cmd()", "'+1+1"]
    loaded = read(file, group="groups")
    assert loaded.class_names == FORMULAS
    assert loaded.labels.tolist() == list(FORMULAS)
    assert loaded.groups.tolist() == [name.strip() for name in FORMULAS]


def test_numbers_and_other_files_are_not_escaped(tmp_path):
    write_arrays(tmp_path / "a.csv", {"logits": -np.eye(2), "labels": np.array([-100, 1])})
    assert "'" not in (tmp_path / "a.csv").read_text()
    write_arrays(tmp_path / "a.json", {"logits": np.eye(2), "labels": np.array(["=a", "=b"])})
    assert '"=a"' in (tmp_path / "a.json").read_text()
