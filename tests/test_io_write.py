"""Writing: whole or not at all, and in pieces when the array is large."""

from __future__ import annotations

import numpy as np
import pytest

from smallcal import FileError
from smallcal.io import map_rows, require_writable, row_count, streamable, write_arrays
from smallcal.io import stream as stream_module


def test_a_type_that_cannot_be_written_is_refused_early(tmp_path):
    with pytest.raises(FileError, match=r"the suffix must be one of .npz, .npy"):
        require_writable(tmp_path / "a.xlsx")
    with pytest.raises(FileError, match=r"folder .*nowhere does not exist"):
        require_writable(tmp_path / "nowhere" / "a.npz")
    (tmp_path / "a.npz").mkdir()
    with pytest.raises(FileError, match="is a folder"):
        require_writable(tmp_path / "a.npz")


def test_a_table_holds_one_split(tmp_path):
    with pytest.raises(FileError, match="val_logits has the prefix 'val'"):
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
def test_pieces_equal_the_whole(dtype, tmp_path, monkeypatch):
    values = np.arange(70).reshape(35, 2).astype(dtype)
    np.save(tmp_path / "a.npy", values)
    monkeypatch.setattr(stream_module, "BLOCK_BYTES", 37)
    starts, done = [], []

    def double(block, start):
        starts.append(start)
        assert block.dtype.isnative
        return 2 * block

    shape = map_rows(tmp_path / "a.npy", tmp_path / "b.npy", double, advance=done.append)
    assert shape == (35, 2)
    assert len(starts) > 3
    assert sum(done) == 35 == row_count(tmp_path / "a.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), 2 * values)


def test_an_interrupted_stream_leaves_the_old_file(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", np.ones((35, 2)))
    np.save(tmp_path / "b.npy", np.zeros(3))
    monkeypatch.setattr(stream_module, "BLOCK_BYTES", 37)

    def stop(block, start):
        if start > 10:
            raise KeyboardInterrupt
        return block

    with pytest.raises(KeyboardInterrupt):
        map_rows(tmp_path / "a.npy", tmp_path / "b.npy", stop)
    assert np.load(tmp_path / "b.npy").shape == (3,)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npy", "b.npy"]


def test_only_plain_matrices_are_streamed(tmp_path):
    target = tmp_path / "out.npy"
    np.save(tmp_path / "rows.npy", np.ones((3, 2)))
    np.save(tmp_path / "columns.npy", np.asfortranarray(np.ones((3, 2))))
    np.save(tmp_path / "vector.npy", np.ones(3))
    np.save(tmp_path / "none.npy", np.ones((0, 2)))
    np.save(tmp_path / "text.npy", np.array([["a"]]))
    (tmp_path / "broken.npy").write_bytes(b"not numpy")
    names = ("rows", "columns", "vector", "none", "text", "broken", "missing")
    assert [streamable(tmp_path / f"{name}.npy", target) for name in names] == [True] + 6 * [False]
    assert not streamable(tmp_path / "rows.npy", tmp_path / "out.csv")
    with pytest.raises(FileError, match=r"not a plain .npy matrix"):
        row_count(tmp_path / "vector.npy")


def test_a_matrix_that_is_cut_short_is_refused(tmp_path):
    file = tmp_path / "a.npy"
    np.save(file, np.ones((30, 2)))
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(FileError, match="cut short: it should hold 30 rows"):
        map_rows(file, tmp_path / "b.npy", lambda block, start: block)
    assert not (tmp_path / "b.npy").exists()
