"""Names of classes: every file type keeps them as they are, or refuses them by name."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smallcal import FileError, InputError
from smallcal.io import WRITERS, open_source, read, read_labels, read_names, write_arrays
from smallcal.io.stdin import sniffed
from support.fuzzing import thrown
from support.nasty_names import NASTY, ODD_NAMES
from support.refused import refused

NEEDS = {".parquet": "pyarrow", ".safetensors": "safetensors", ".pt": "torch", ".h5": "h5py"}
NEEDS[".arrow"] = "pyarrow"
TWINS = (".pth", ".hdf5", ".feather", ".ipc", ".ndjson", ".npy")
SUFFIXES = [suffix for suffix in WRITERS if suffix not in TWINS]
TABLES = (".csv", ".csv.gz", ".tsv", ".jsonl", ".parquet", ".arrow")


def need(suffix):
    if suffix in NEEDS:
        pytest.importorskip(NEEDS[suffix], reason=f"{suffix} needs {NEEDS[suffix]}")


def round_trip(folder: Path, suffix: str, names, kind: str = "logits"):
    n = 3 * len(names)
    scores = np.random.default_rng(0).dirichlet(np.ones(len(names)), size=n)
    words = np.array(names)[np.arange(n) % len(names)]
    file = folder / f"a{suffix}"
    write_arrays(file, {kind: scores, "labels": words, "class_names": np.array(names)})
    return scores, words, read(file)


def labels_of(loaded):
    """The labels as names; numbers count columns."""
    found = loaded.labels.tolist()
    return found if loaded.labels.dtype.kind == "U" else [loaded.class_names[i] for i in found]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("name", ODD_NAMES)
@pytest.mark.parametrize("kind", ["logits", "probabilities"])
def test_any_name_is_read_back(suffix, name, kind, tmp_path):
    need(suffix)
    if "\0" in name and suffix in (".csv", ".csv.gz", ".tsv") and sys.version_info < (3, 11):
        pytest.skip("the csv module reads no NUL before Python 3.11")
    names = ("plain", ODD_NAMES[name], "other")
    scores, words, loaded = round_trip(tmp_path, suffix, names, kind)
    assert loaded.class_names == names
    assert loaded.input == kind
    np.testing.assert_allclose(loaded.logits, scores)
    assert labels_of(loaded) == words.tolist()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_all_odd_names_at_once(suffix, tmp_path):
    need(suffix)
    names = tuple(name for name in {**ODD_NAMES, **dict(enumerate(NASTY))}.values())
    names = tuple(name for name in names if "\0" not in name or sys.version_info >= (3, 11))
    _, _, loaded = round_trip(tmp_path, suffix, names)
    assert loaded.class_names == names


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_what_is_read_in_parts_has_the_same_names(suffix, tmp_path):
    need(suffix)
    names = tuple(ODD_NAMES.values())
    round_trip(tmp_path, suffix, names)
    source = open_source(tmp_path / f"a{suffix}")
    assert source.class_names == names
    blocks = [block for part in source.parts(4) for block in source.blocks(part)]
    assert blocks[0].scores.shape[1] == len(names)


BAD = {
    "half a character": ("\ud800x", "is not valid text"),
    "NUL at the end": ("dog\0", "ends with NUL"),
    "very long": ("x" * 10_001, "10,001 characters; at most 10,000"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".json", ".parquet"])
def test_a_name_that_cannot_be_kept_is_refused(name, suffix, tmp_path):
    need(suffix)
    bad, why = BAD[name]
    names = np.array(["cat", bad, "bird"], dtype=object)
    with pytest.raises(InputError, match=why):
        write_arrays(tmp_path / f"a{suffix}", {"logits": np.eye(3), "class_names": names})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", BAD)
def test_such_a_name_in_a_file_is_refused(name, tmp_path):
    bad, why = BAD[name]
    record = {"logit_cat": 1.0, f"logit_{bad}": 2.0, "label": 0}
    (tmp_path / "a.jsonl").write_text(json.dumps(record) + "\n")
    with pytest.raises(InputError, match=why):
        read(tmp_path / "a.jsonl")


def test_two_classes_of_one_name_are_refused(tmp_path):
    names = np.array(["cat", "cat"])
    with refused("file-ambiguous", "'logit_cat'"):
        write_arrays(tmp_path / "a.csv", {"logits": np.eye(2), "class_names": names})
    with refused("class-names-invalid", "1", "class_names", "2"):
        write_arrays(tmp_path / "a.csv", {"logits": np.eye(2), "class_names": names[:1]})
    with refused("file-ambiguous", "'logit_0'"):
        write_arrays(tmp_path / "a.csv", {"logits": np.eye(2), "features": np.eye(2)})


def test_blanks_around_headers_without_quotes_do_not_count(tmp_path):
    (tmp_path / "a.csv").write_text("logit_cat , logit_dog ,  label\n1,2,cat\n2,1, dog\n")
    loaded = read(tmp_path / "a.csv")
    assert loaded.class_names == ("cat", "dog")
    assert loaded.labels.tolist() == ["cat", "dog"]


@pytest.mark.parametrize("suffix", TABLES)
@pytest.mark.parametrize(
    "names",
    [
        ("nan", "inf", "1e3"),
        ("c0", "c1", "c2"),
        ("cat", "0", "x"),
        ("class_1", "class_2"),
        ("1999", "2005", "1987"),
    ],
)
def test_names_that_look_like_numbers_stay_names(suffix, names, tmp_path):
    need(suffix)
    _, words, loaded = round_trip(tmp_path, suffix, names)
    assert loaded.class_names == names
    assert loaded.labels.tolist() == words.tolist()


@pytest.mark.parametrize("suffix", TABLES)
def test_classes_called_1_2_3_keep_their_labels(suffix, tmp_path):
    need(suffix)
    loaded = round_trip(tmp_path, suffix, ("1", "2", "3"))[2]
    assert loaded.class_names is None  # numbered columns
    assert loaded.labels.tolist() == [0, 1, 2] * 3


def test_a_file_of_tensors_refuses_text_that_names_no_class(tmp_path):
    pytest.importorskip("safetensors", reason=".safetensors needs safetensors")
    arrays = {"logits": np.eye(2), "labels": np.array(["cat", "dog"])}
    with refused("file-type", "'cat'"):
        write_arrays(tmp_path / "a.safetensors", arrays)
    assert list(tmp_path.iterdir()) == []


def test_labels_alone_are_found_under_a_header_of_several_lines(tmp_path):
    write_arrays(
        tmp_path / "a.csv",
        {
            "logits": np.eye(2),
            "labels": np.array([1, 0]),
            "class_names": np.array(["a\nb", "c"]),
        },
    )
    assert read_labels(tmp_path / "a.csv").tolist() == [1, 0]


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_standard_input_is_known_by_a_header_of_several_lines(suffix, tmp_path):
    names = ("a\nb", "c", "d")
    round_trip(tmp_path, suffix, names)
    assert sniffed(tmp_path / f"a{suffix}") == suffix


def test_a_file_of_names_breaks_lines_where_people_do(tmp_path):
    (tmp_path / "names.txt").write_text("a\u2028b\r\nc\x0cd\ne", encoding="utf-8", newline="")
    assert read_names(tmp_path / "names.txt") == ("a\u2028b", "c\x0cd", "e")


NAME = st.text(st.characters(exclude_categories=["Cs"]), max_size=12).filter(
    lambda text: not text.endswith("\0")
)


@pytest.mark.parametrize("suffix", SUFFIXES)
@thrown(25)
@given(names=st.lists(NAME, min_size=2, max_size=5, unique=True))
def test_names_of_any_letters_are_kept_or_refused(suffix, names, tmp_path_factory):
    need(suffix)
    folder = tmp_path_factory.mktemp("names")
    try:
        scores, words, loaded = round_trip(folder, suffix, tuple(names))
    except (FileError, InputError):
        return
    assert loaded.class_names in (tuple(names), None)
    np.testing.assert_allclose(loaded.logits, scores)
    assert labels_of(replace(loaded, class_names=tuple(names))) == words.tolist()
