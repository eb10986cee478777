"""Groups of rows, as files hold them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from smallcal import io
from smallcal.data.groups import as_groups, group_codes, group_names
from smallcal.errors import InputError
from support.refused import refused

Z = np.array([[1.5, -0.5], [0.25, 2.0], [0.125, -3.0]])
Y = np.array([0, 1, -100])
G = ["north", "", "south"]


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (["a", "", "b"], ["a", "", "b"]),
        (["a", None, "b"], ["a", "", "b"]),
        ([3, 1, 2], ["3", "1", "2"]),
        ([3.0, float("nan"), 2.5], ["3", "", "2.5"]),
        (np.array([b"a", b"b", b"c"]), ["a", "b", "c"]),
        (np.array(["a", 3, None], dtype=object), ["a", "3", ""]),
        (np.array([["a"], ["b"], ["c"]]), ["a", "b", "c"]),
        ([True, False, True], ["True", "False", "True"]),
    ],
)
def test_any_label_names_a_group_and_missing_is_none(values, names):
    assert as_groups(values, n=3).tolist() == names


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (["a", "b"], "3 rows, 2 groups"),
        (np.zeros((3, 2)), "one name or number per row"),
        ([{}, {}, {}], "one name or number per row"),
        (np.zeros(3, dtype=complex), "one name or number per row"),
    ],
)
def test_what_names_no_groups_is_refused(values, why):
    with pytest.raises(InputError, match=why):
        as_groups(values, n=3)


def test_frames_and_their_missing_values():
    pd = pytest.importorskip("pandas")
    assert as_groups(pd.Series(["a", None, "b"])).tolist() == ["a", "", "b"]
    assert as_groups(pd.Series(["a", pd.NA], dtype="string")).tolist() == ["a", ""]
    assert as_groups(pd.Categorical(["b", "a"])).tolist() == ["b", "a"]


def test_codes_are_places_among_names():
    groups = as_groups(["b", "a", "", "z"])
    assert group_names(groups) == ("a", "b", "z")
    assert group_codes(groups, ("b", "a")).tolist() == [0, 1, -1, -1]


def test_arrays_of_splits_and_chosen_ones(tmp_path):
    path = tmp_path / "a.npz"
    arrays = {"val_logits": Z, "val_labels": Y, "val_groups": np.array(G), "test_logits": Z}
    np.savez(path, **arrays, test_site=np.array([1, 2, 3]), val_site=np.array([4, 5, 6]))
    loaded = io.read(f"{path}:val")
    assert loaded.groups.tolist() == ["north", ""]  # without the row of label -100
    assert io.read(f"{path}:val", group="site").groups.tolist() == ["4", "5"]
    assert io.read(f"{path}:test", group="site").groups.tolist() == ["1", "2", "3"]
    assert io.read(f"{path}:test").groups is None
    with refused("file-column", "'nothing'"):
        io.read(f"{path}:val", group="nothing")


def test_an_array_called_groups_that_is_none_is_left_out_and_said(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, logits=Z, groups=np.arange(2))
    loaded = io.read(path)
    assert loaded.groups is None
    assert "left out groups: it does not give one group per row" in loaded.notes[0]
    with refused("groups-invalid", "3", "2"):
        io.read(path, group="groups")


def rows(**more):
    columns = {"cat": Z[:, 0].tolist(), "dog": Z[:, 1].tolist(), "label": ["cat", "dog", "cat"]}
    columns |= more
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def written(path, records):
    if path.suffix == ".parquet":
        pa = pytest.importorskip("pyarrow")
        pq = pytest.importorskip("pyarrow.parquet")
        pq.write_table(pa.Table.from_pylist(records), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
    else:
        lines = [",".join("" if c is None else str(c) for c in r.values()) for r in records]
        path.write_text("\n".join([",".join(records[0]), *lines]) + "\n")
    return path


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
@pytest.mark.parametrize("values", [["north", None, "south"], [7, 8, 9]])
def test_a_column_called_group(tmp_path, suffix, values):
    path = written(tmp_path / f"a{suffix}", rows(group=values))
    loaded = io.read(path)
    assert loaded.class_names == ("cat", "dog")
    assert loaded.groups.tolist() == ["" if one is None else str(one) for one in values]
    assert loaded.notes == ()


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_a_column_that_is_chosen(tmp_path, suffix):
    path = written(tmp_path / f"a{suffix}", rows(site=["x", "y", "x"]))
    loaded = io.read(path, group="site")
    assert loaded.groups.tolist() == ["x", "y", "x"]
    assert loaded.class_names == ("cat", "dog")
    with refused("file-ambiguous", "'cat'"):
        io.read(path, columns=["cat", "dog"], group="cat")


def test_a_class_called_group_stays_a_class(tmp_path):
    path = written(tmp_path / "a.csv", rows(group=[0.5, 0.25, -1.5]))
    loaded = io.read(path)
    assert loaded.class_names == ("cat", "dog", "group")
    assert loaded.groups is None


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_beside_a_column_of_lists(tmp_path, suffix):
    records = [
        {"logits": z, "label": 0, "group": g} for z, g in zip(Z.tolist(), "aab", strict=True)
    ]
    assert io.read(written(tmp_path / f"a{suffix}", records)).groups.tolist() == ["a", "a", "b"]


def test_a_folder_of_parts(tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    written(folder / "1.parquet", rows(group=["a", "b", "a"]))
    written(folder / "2.parquet", rows(group=["c", None, "a"]))
    assert io.read(folder).groups.tolist() == ["a", "b", "a", "c", "", "a"]
