"""One number per row and its outcome, in every type of file."""

from __future__ import annotations

import numpy as np
import pytest

from smallcal.errors import FileError
from smallcal.io import Choice, is_source, open_source, read, splits, write_arrays
from support import real
from support.refused import refused

RNG = np.random.default_rng(0)
S = RNG.normal(size=40).round(3)
Y = RNG.random(40) < 0.5


def table(path, columns):
    if path.suffix == ".csv":
        rows = zip(*columns.values(), strict=True)
        text = "\n".join(",".join(map(str, row)) for row in rows)
        path.write_text(f"{','.join(columns)}\n{text}\n")
    else:
        pa = pytest.importorskip("pyarrow")
        pq = pytest.importorskip("pyarrow.parquet")
        pq.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize("scores", ["scores", "score", "val_scores", "confidence", "y_score"])
@pytest.mark.parametrize("outcomes", ["outcomes", "outcome", "correct", "labels"])
def test_arrays_are_known_by_name(scores, outcomes, tmp_path):
    outcomes = f"val_{outcomes}" if scores.startswith("val_") else outcomes
    write_arrays(tmp_path / "a.npz", {scores: S, outcomes: Y})
    for asked in ({}, {"input": "score"}):
        loaded = read(tmp_path / "a.npz", **asked)
        assert loaded.input == "score"
        np.testing.assert_array_equal(loaded.logits, S)
        np.testing.assert_array_equal(loaded.labels, Y)


def test_outcomes_go_before_labels(tmp_path):
    write_arrays(tmp_path / "a.npz", {"scores": S, "labels": np.arange(40), "outcomes": Y})
    np.testing.assert_array_equal(read(tmp_path / "a.npz").labels, Y)


def test_what_is_called_scores_may_be_logits(tmp_path):
    write_arrays(tmp_path / "a.npz", {"scores": np.eye(3), "labels": np.arange(3)})
    assert read(tmp_path / "a.npz").input == "logits"
    write_arrays(tmp_path / "b.npz", {"logits": np.eye(3), "scores": S[:3], "labels": Y[:3]})
    assert read(tmp_path / "b.npz").logits.shape == (3, 3)
    assert read(tmp_path / "b.npz", input="score").logits.shape == (3,)


@pytest.mark.parametrize("name", ["logits", "probabilities"])
@pytest.mark.parametrize("column", [False, True])
def test_one_column_under_another_name_needs_the_option(name, column, tmp_path):
    write_arrays(tmp_path / "a.npz", {name: S[:, None] if column else S, "labels": Y})
    assert read(tmp_path / "a.npz").input == name
    loaded = read(tmp_path / "a.npz", input="score")
    assert (loaded.input, loaded.logits.shape) == ("score", (40,))


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_tables(suffix, tmp_path):
    words = np.where(Y, "true", "False")
    named = {"row_id": np.arange(40), "score": S, "age": S[::-1], "outcome": words}
    file = table(tmp_path / f"a{suffix}", named)
    for asked in ({}, {"input": "score"}, {"score": "score"}, {"columns": ["score"]}):
        loaded = read(file, **({"input": "score"} | asked if "columns" in asked else asked))
        assert loaded.input == "score"
        np.testing.assert_array_equal(loaded.logits, S)
        np.testing.assert_array_equal(loaded.labels, Y)
    np.testing.assert_array_equal(read(file, score="age").logits, S[::-1])
    plain = table(tmp_path / f"b{suffix}", {"margin_of_svm": S, "y": Y.astype(int)})
    assert read(plain, input="score").logits.tolist() == S.tolist()
    several = table(tmp_path / f"c{suffix}", {"a": S, "b": S, "y": Y.astype(int)})
    with refused("file-ambiguous", "'a'", "'b'"):
        read(several, input="score")
    with refused("file-column", "'scoer'"):
        read(file, score="scoer")


def test_a_column_may_stand_alone(tmp_path):
    np.savetxt(tmp_path / "s.csv", S)
    (tmp_path / "t.csv").write_text("\n".join(["score", *map(str, S)]))
    np.save(tmp_path / "s.npy", S)
    (tmp_path / "y.txt").write_text("\n".join("yes" if one else "no" for one in Y))
    for name in ("s.csv", "t.csv", "s.npy"):
        loaded = read(tmp_path / name, labels=tmp_path / "y.txt", input="score")
        np.testing.assert_allclose(loaded.logits, S)
        np.testing.assert_array_equal(loaded.labels, Y)
    with refused("file-header", "'score'"):
        read(tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("outcomes", "message"),
    [
        ([0, 1, 2, 1], r"0 or 1 .* row 2 is not \(row 2 is 2\)"),
        ([0.0, 0.5, 1, 0.25], r"rows 1, 3 are not \(row 1 is 0.5\)"),
        (["good", "true", "false", "bad"], r"rows 0, 3 are not \(row 0 is 'good'\)"),
        (np.eye(4), "one per row"),
    ],
)
def test_outcomes_are_0_or_1(outcomes, message, tmp_path):
    write_arrays(tmp_path / "a.npz", {"scores": S[:4], "outcomes": np.array(outcomes)})
    with pytest.raises(FileError, match=message):
        read(tmp_path / "a.npz")


def test_several_columns_are_no_score(tmp_path):
    np.save(tmp_path / "a.npy", np.eye(2))
    with refused("array-shape", "2", "1"):
        read(tmp_path / "a.npy", input="score")
    with refused("array-shape"):
        open_source(tmp_path / "a.npy", choice=Choice(input="score"))


def test_one_number_is_refused_with_the_option_that_takes_it(tmp_path):
    write_arrays(tmp_path / "a.npz", {"logits": S, "labels": Y})
    from smallcal.data.predictions import Predictions

    loaded = read(tmp_path / "a.npz")
    with refused("array-shape", "'score'"):
        Predictions.of(loaded.logits, loaded.labels)


@pytest.mark.parametrize("shape", [(40,), (40, 1)])
def test_npy_streams(shape, tmp_path):
    np.save(tmp_path / "s.npy", S.reshape(shape))
    assert is_source(tmp_path / "s.npy", input="score")
    source = open_source(tmp_path / "s.npy", choice=Choice(input="score"))
    blocks = [block.scores for part in source.parts(7) for block in source.blocks(part)]
    assert (source.n_classes, source.rows) == (2, 40)
    np.testing.assert_array_equal(np.concatenate(blocks), S)


def test_parquet_streams(tmp_path):
    file = table(tmp_path / "a.parquet", {"score": S, "age": S[::-1], "outcome": Y})
    source = open_source(file)
    (block,) = (block for part in source.parts() for block in source.blocks(part, carry=False))
    assert (source.input, source.n_classes) == ("score", 2)
    np.testing.assert_array_equal(block.scores, S)
    np.testing.assert_array_equal(block.labels, Y)


def test_the_sets_of_scores_that_come_with_the_data():
    folder = real.data_folder()
    files = sorted(folder.glob("scores/*.npz")) if folder else []
    if not files:
        pytest.skip("needs the folder of real data: SMALLCAL_DATA")
    file = files[0]
    assert splits(file) == ("val", "test")
    loaded = read(f"{file}:val", input="score")
    assert loaded.logits.shape == loaded.labels.shape
    assert set(loaded.labels.tolist()) == {0, 1}
