"""Files as people have them: other names, batches, packed text, standard input, ignored labels."""

from __future__ import annotations

import gzip
import io as bytes_io
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from smallcal import FileError
from smallcal.io import open_source, read, read_labels, splits, write_arrays
from smallcal.io.memory import MOST_UNPACKED
from smallcal.io.readers import opened, parquet_tables
from support.refused import refused

Z = np.random.default_rng(0).normal(size=(12, 3))
Y = np.arange(12) % 3
P = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)


def packed(file: Path) -> Path:
    made = file.with_name(file.name + ".gz")
    made.write_bytes(gzip.compress(file.read_bytes()))
    return made


@pytest.mark.parametrize(
    ("names", "input"),
    [
        (("predictions", "label_ids"), "logits"),
        (("outputs", "targets"), "logits"),
        (("preds", "y"), "logits"),
        (("scores", "gt"), "logits"),
        (("y_pred", "y_true"), "logits"),
        (("softmax", "y_true"), "probabilities"),
        (("y_proba", "y_true"), "probabilities"),
        (("val_outputs", "val_targets"), "logits"),
    ],
)
def test_arrays_are_found_under_the_names_they_have(names, input, tmp_path):
    scores = P if input == "probabilities" else Z
    np.savez(tmp_path / "a.npz", **{names[0]: scores, names[1]: Y})
    loaded = read(tmp_path / "a.npz")
    assert loaded.input == input
    np.testing.assert_array_equal(loaded.logits, scores)
    np.testing.assert_array_equal(loaded.labels, Y)


def test_logits_go_before_what_else_a_file_calls_outputs(tmp_path):
    np.savez(tmp_path / "a.npz", logits=Z, preds=Z.argmax(axis=1), outputs=P, y_true=Y, y_pred=Y)
    loaded = read(tmp_path / "a.npz")
    np.testing.assert_array_equal(loaded.logits, Z)
    np.testing.assert_array_equal(loaded.labels, Y)
    np.savez(tmp_path / "b.npz", val_logits=Z, val_preds=Y, test_logits=Z, test_preds=Y)
    assert set(splits(tmp_path / "b.npz")) == {"val", "test"}


def test_predicted_classes_are_not_taken_for_scores(tmp_path):
    np.savez(tmp_path / "a.npz", preds=Z.argmax(axis=1), y=Y)
    with refused("array-shape"):
        read(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", outputs=Z, preds=Z, y=Y)
    with refused("file-ambiguous", "logits_key"):
        read(tmp_path / "b.npz")
    np.testing.assert_array_equal(read(tmp_path / "b.npz", logits_key="preds").logits, Z)


@pytest.mark.parametrize("suffix", [".npz", ".pt", ".safetensors", ".json", ".h5"])
def test_any_name_can_be_given(suffix, tmp_path):
    needed = {".pt": "torch", ".safetensors": "safetensors", ".h5": "h5py"}.get(suffix, "numpy")
    pytest.importorskip(needed, reason=f"{suffix} needs {needed}")
    file = tmp_path / f"a{suffix}"
    write_arrays(file, {"foo": Z, "bar": Y, "val_probs": P, "labels": Y + 7, "y": Y})
    loaded = read(file, logits_key="foo", labels_key="bar")
    np.testing.assert_array_equal(loaded.logits, Z)
    np.testing.assert_array_equal(loaded.labels, Y)
    assert read(file, logits_key="val_probs", labels_key="bar").input == "probabilities"
    with refused("file-column", "logits_key", "'baz'"):
        read(file, logits_key="baz", labels_key="bar")
    np.save(tmp_path / "z.npy", Z)
    found = read(tmp_path / "z.npy", labels=file, labels_key="bar")
    np.testing.assert_array_equal(found.labels, Y)


def test_a_column_of_lists_may_have_any_name(tmp_path):
    rows = [{"out": z.tolist(), "gold": int(y)} for z, y in zip(Z, Y, strict=True)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    loaded = read(tmp_path / "a.jsonl", logits_key="out", labels_key="gold")
    np.testing.assert_array_equal(loaded.logits, Z)
    np.testing.assert_array_equal(loaded.labels, Y)
    pa = pytest.importorskip("pyarrow", reason=".parquet needs pyarrow")
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"out": Z.tolist(), "gold": Y}), tmp_path / "a.parquet")
    loaded = read(tmp_path / "a.parquet", logits_key="out", labels_key="gold")
    np.testing.assert_array_equal(loaded.logits, Z)
    np.testing.assert_array_equal(loaded.labels, Y)


# Batches


def test_batches_of_tensors_are_joined(tmp_path):
    torch = pytest.importorskip("torch", reason=".pt needs torch")
    z, y = torch.tensor(Z), torch.tensor(Y)
    cuts = (slice(0, 5), slice(5, 10), slice(10, 12))
    pairs = [(z[cut], y[cut]) for cut in cuts]
    shapes = {
        "pairs": pairs,
        "lists": [list(pair) for pair in pairs],
        "two pairs": [(z[:5], y[:5]), (z[5:], y[5:])],
        "dicts": [{"logits": a, "labels": b} for a, b in pairs],
        "other names": [{"outputs": a, "targets": b} for a, b in pairs],
        "dict of lists": {"logits": [a for a, _ in pairs], "labels": [b for _, b in pairs]},
        "pair of lists": ([a for a, _ in pairs], [b for _, b in pairs]),
        "single rows": [(z[i : i + 1], y[i]) for i in range(12)],
    }
    for name, content in shapes.items():
        torch.save(content, tmp_path / "a.pt")
        loaded = read(tmp_path / "a.pt")
        np.testing.assert_array_equal(loaded.logits, Z, err_msg=name)
        np.testing.assert_array_equal(loaded.labels, Y, err_msg=name)
    for content in ([z[cut] for cut in cuts], [z[:5], z[5:]], [z]):
        torch.save(content, tmp_path / "a.pt")
        loaded = read(tmp_path / "a.pt")
        np.testing.assert_array_equal(loaded.logits, Z)
        assert loaded.labels is None


def test_batches_that_differ_are_refused(tmp_path):
    torch = pytest.importorskip("torch", reason=".pt needs torch")
    z = torch.tensor(Z)
    torch.save([z, z[:, :2], z], tmp_path / "a.pt")
    with refused("file-ragged", "12", "3"):
        read(tmp_path / "a.pt")
    torch.save([{"logits": z}, {"logits": z, "labels": torch.tensor(Y)}], tmp_path / "b.pt")
    with refused("file-ragged", "1"):
        read(tmp_path / "b.pt")
    torch.save([z, "x"], tmp_path / "c.pt")
    with refused("file-type"):
        read(tmp_path / "c.pt")
    torch.save([], tmp_path / "d.pt")
    with refused("file-type"):
        read(tmp_path / "d.pt")


# Text


def test_json_comes_in_three_shapes(tmp_path):
    names = ("cat", "dog", "bird")
    rows = [{"logits": z.tolist(), "label": int(y)} for z, y in zip(Z, Y, strict=True)]
    by_class = [
        {"logits": dict(zip(names, z.tolist(), strict=True)), "label": names[y]}
        for z, y in zip(Z, Y, strict=True)
    ]
    arrays = {"logits": Z.tolist(), "labels": Y.tolist(), "class_names": names, "model": "m1"}
    for content in (rows, by_class, arrays):
        (tmp_path / "a.json").write_text(json.dumps(content))
        loaded = read(tmp_path / "a.json")
        np.testing.assert_array_equal(loaded.logits, Z)
        assert loaded.class_names == (None if content is rows else names)
        assert len(loaded.labels) == 12
    (tmp_path / "one.json").write_text(json.dumps(rows[0]))
    assert read(tmp_path / "one.json").logits.shape == (1, 3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{\n", "line 1: not JSON"),
        ("[1, 2]\n", "one JSON object per sample"),
        ('{"logits": [1, 2]}\n{"logits": [1]}\n', "sample 2 has 1 options"),
        ('{"probs": [1, 0]}\n{"probs": [1]}\n', "lists of one length"),
        ('{"a": 1, "b": 2}\n{"a": 1}\n', "do not have the same keys: only one of them has 'b'"),
        ('{"a": 1.5, "b": 2}\n{"a": null, "b": 1}\n', "'a' must be a number in every sample"),
        ('{"logits": [1, 2], "label": null}\n', "a label is missing"),
        ('{"logits": {"a": 1, "b": 2}}\n{"logits": {"a": 1}}\n', "the same classes"),
    ],
)
def test_json_lines_that_cannot_be_used_say_where(text, message, tmp_path):
    (tmp_path / "a.jsonl").write_text(text)
    with pytest.raises(FileError, match=message):
        read(tmp_path / "a.jsonl")


def test_packed_text_is_unpacked(tmp_path):
    for suffix in (".csv", ".tsv", ".jsonl", ".json"):
        file = tmp_path / f"a{suffix}"
        write_arrays(file, {"logits": Z, "labels": Y})
        np.testing.assert_array_equal(read(packed(file)).logits, Z)
    (tmp_path / "y.csv").write_text("label\n" + "\n".join(map(str, Y)))
    np.testing.assert_array_equal(read_labels(packed(tmp_path / "y.csv")), Y)
    with refused("file-missing", "a.npz"):
        read(tmp_path / "a.npz.gz")


@pytest.mark.parametrize(
    ("name", "start", "unit"),
    [
        ("a.csv.gz", "a,b\n", "0,1\n"),
        ("a.json.gz", '{"logits": [', "[],"),
        ("a.jsonl.gz", '{"logits": [', "0,"),
    ],
)
def test_a_packed_bomb_is_not_unpacked(name, start, unit, tmp_path, monkeypatch):
    monkeypatch.setenv(MOST_UNPACKED, "1")
    with gzip.open(tmp_path / name, "wt") as file:
        file.write(start + unit * (2_000_000 // len(unit)))
    with refused("file-too-large", "0.0", "1"):
        read(tmp_path / name)
    monkeypatch.setenv(MOST_UNPACKED, "many")
    with refused("option-format", "'many'"):
        read(tmp_path / name)


def test_the_bound_of_packed_files_can_be_raised(tmp_path, monkeypatch):
    with gzip.open(tmp_path / "a.csv.gz", "wt") as file:
        file.write("a,b\n" + "0,1\n" * 400_000)
    monkeypatch.setenv(MOST_UNPACKED, "1")
    with pytest.raises(FileError, match=f"set {MOST_UNPACKED}=2 or more"):
        read(tmp_path / "a.csv.gz")
    monkeypatch.setenv(MOST_UNPACKED, "2")
    assert read(tmp_path / "a.csv.gz").logits.shape == (400_000, 2)


def parquet_bomb(kind, file):
    """Write a small Parquet file that grows: numbers, a long word often, a row of many numbers."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    n = 3000
    columns = {name: np.random.default_rng(0).random(n) for name in "ab"}
    if kind == "numbers":
        columns = {name: np.zeros(10**7) for name in "ab"}
    elif kind == "words":
        words = pa.array(["x" * 10**5])
        columns["label"] = pa.DictionaryArray.from_arrays(np.zeros(n, dtype=np.int32), words)
    else:
        ends = pa.array([0, 10**7], pa.int32())
        columns = {"logits": pa.ListArray.from_arrays(ends, pa.array(np.zeros(10**7)))}
    pq.write_table(pa.table(columns), file, compression="zstd", store_schema=False)


def streamed(file):
    """Return how many rows are read block by block."""
    source = open_source(file)
    return sum(len(block.scores) for part in source.parts() for block in source.blocks(part))


@pytest.mark.parametrize("kind", ["numbers", "words", "row"])
def test_a_parquet_bomb_is_not_unpacked(kind, tmp_path, monkeypatch):
    file = tmp_path / "a.parquet"
    parquet_bomb(kind, file)
    monkeypatch.setenv(MOST_UNPACKED, "20")
    with refused("file-too-large", "0"):
        read(file)
    if kind == "numbers":  # its rows are never all in memory: nothing to refuse
        assert streamed(file) == 10**7
        return
    with refused("file-too-large"):
        streamed(file)


def test_words_that_are_read_one_by_one_are_the_same(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pa.table(
        {
            "id": pa.array(["a", None, "b", "a"]),
            "raw": pa.array([b"x", b"", None, b"x"], pa.large_binary()),
            "kind": pa.array(["u", "v", "u", None]).dictionary_encode(),
            "deep": pa.array([["p"], [], None, ["p", "q"]]),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    with opened("parquet", tmp_path / "a.parquet") as content:
        for names in (None, ["deep", "id"], ["kind", "raw"]):
            found = parquet_tables(content, tmp_path / "a.parquet", step=3, columns=names)
            assert pa.concat_tables(found, promote_options="default").equals(
                table if names is None else table.select(names)
            )


# Labels that mean no label


def test_ignored_labels_are_left_out_with_a_note(tmp_path):
    y = np.where(np.arange(12) % 4 == 0, -100, Y)
    np.savez(tmp_path / "a.npz", predictions=Z, label_ids=y, features=Z)
    loaded = read(tmp_path / "a.npz")
    kept = y != -100
    np.testing.assert_array_equal(loaded.logits, Z[kept])
    np.testing.assert_array_equal(loaded.labels, Y[kept])
    np.testing.assert_array_equal(loaded.features, Z[kept])
    assert "left out 3 of 12 rows, whose label is -100" in loaded.notes[0]
    assert len(read(tmp_path / "a.npz", keep_ignored=True).labels) == 12
    np.savez(tmp_path / "b.npz", logits=Z, labels=np.full(12, -100))
    with refused("no-labels", "100"):
        read(tmp_path / "b.npz")


def test_tokens_become_rows(tmp_path):
    y = np.where(np.arange(12) % 4 == 0, -100, Y)
    np.savez(tmp_path / "a.npz", predictions=Z.reshape(3, 4, 3), label_ids=y.reshape(3, 4))
    loaded = read(tmp_path / "a.npz")
    np.testing.assert_array_equal(loaded.logits, Z[y != -100])
    assert "flattened to 12 rows, one per label" in loaded.notes[0]


# Standard input


@pytest.fixture
def piped(monkeypatch):
    def pipe(content: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", bytes_io.TextIOWrapper(bytes_io.BytesIO(content)))

    return pipe


@pytest.mark.parametrize(
    "suffix", [".npz", ".npy", ".csv", ".tsv", ".jsonl", ".json", ".csv.gz", ".jsonl.gz", ".pt"]
)
def test_standard_input_is_read_by_what_it_holds(suffix, tmp_path, piped):
    if suffix == ".pt":
        pytest.importorskip("torch", reason=".pt needs torch")
    file = tmp_path / f"a{suffix}"
    write_arrays(file, {"logits": Z, "labels": Y})
    piped(file.read_bytes())
    for _ in range(2):  # what is gone from the pipe is still there
        loaded = read("-")
        np.testing.assert_array_equal(loaded.logits, Z)
        assert loaded.source == "standard input"


def test_a_split_of_standard_input_can_be_named(tmp_path, piped):
    np.savez(tmp_path / "a.npz", val_logits=Z, val_labels=Y, test_logits=Z[:4], test_labels=Y[:4])
    piped((tmp_path / "a.npz").read_bytes())
    assert len(read("-:test").logits) == 4


def test_what_is_wrong_with_standard_input_names_it(piped, monkeypatch):
    piped(b"")
    with refused("file-damaged"):
        read("-")
    piped(b"cat,dog\n1,2\n1,x\n")
    with refused("file-value", "3", "'dog'"):
        read("-")
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("smallcal.io.stdin._kept", {})
    with refused("file-type"):
        read("-")


def test_a_file_called_by_its_old_suffix_is_still_read(tmp_path):
    write_arrays(tmp_path / "a.csv", {"logits": Z, "labels": Y})
    shutil.copy(tmp_path / "a.csv", tmp_path / "B.CSV")
    np.testing.assert_array_equal(read(tmp_path / "B.CSV").logits, Z)


def test_notes_on_standard_input_do_not_name_its_copy(piped):
    piped(
        b"id,cat,dog,label\n"
        + b"".join(b"%d,0.5,1.25,%s\n" % (i, (b"cat", b"dog")[i % 2]) for i in range(20))
    )
    (note,) = read("-").notes
    assert note.startswith("standard input: not used as classes, going by names and values: 'id'")
