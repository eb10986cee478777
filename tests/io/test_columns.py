"""Which columns of a table are classes: by what the caller says, by names, labels and numbers."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smallcal import FileError, InputError, SmallcalError
from smallcal.data.checks import as_scores
from smallcal.io import Choice, open_source, read
from smallcal.io.columns import Columns
from support.refused import refused

NAMES = ("cat", "dog", "bird")
N = 60
SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet", ".arrow")


def scores(n: int = N, seed: int = 0) -> dict[str, np.ndarray]:
    z = np.random.default_rng(seed).normal(size=(n, 3))
    return {name: z[:, i] for i, name in enumerate(NAMES)}


def words(n: int = N) -> np.ndarray:
    return np.array(NAMES)[np.arange(n) % 3]


def table(file: Path, columns: dict) -> Path:
    """Write columns as they are, in the type that the suffix says."""
    columns = {name: np.asarray(values) for name, values in columns.items()}
    rows = list(zip(*(values.tolist() for values in columns.values()), strict=True))
    if file.suffix in (".csv", ".tsv"):
        with file.open("w", newline="", encoding="utf-8") as handle:
            writer = csv.writer(handle, delimiter="," if file.suffix == ".csv" else "\t")
            writer.writerow(columns)
            writer.writerows(rows)
    elif file.suffix == ".jsonl":
        lines = (json.dumps(dict(zip(columns, row, strict=True))) for row in rows)
        file.write_text("\n".join(lines) + "\n")
    else:
        pa = pytest.importorskip("pyarrow", reason=f"{file.suffix} needs pyarrow")
        made = pa.table(columns)
        if file.suffix == ".parquet":
            import pyarrow.parquet as pq

            pq.write_table(made, file)
        else:
            with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, made.schema) as out:
                out.write_table(made)
    return file


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
@pytest.mark.parametrize("kind", ["columns without names", "lists of lists"])
def test_what_cannot_be_streamed_is_one_line(suffix, kind, tmp_path):
    pa = pytest.importorskip("pyarrow", reason=f"{suffix} needs pyarrow")
    import pyarrow.parquet as pq

    file = tmp_path / f"a{suffix}"
    made = pa.table([[1.0], [2.0]], names=["", ""])
    if kind == "lists of lists":
        made = pa.table({"logits": pa.array([[[1.0, 2.0]]])})
    if suffix == ".parquet":
        pq.write_table(made, file)
    else:
        with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, made.schema) as out:
            out.write_table(made)

    def streamed():
        source = open_source(file)
        blocks = [block for part in source.parts() for block in source.blocks(part)]
        return as_scores(blocks[0].scores, name=str(file))

    with pytest.raises(SmallcalError, match=re.escape(str(file))):
        streamed()
    with pytest.raises(SmallcalError):
        as_scores(read(file).logits)


NOT_CLASSES = {
    "id": np.arange(N),
    "image_id": [f"im{i}" for i in range(N)],
    "index": np.arange(N) * 2,
    "Unnamed: 0": np.arange(N),
    "row": np.arange(N),
    "text": [f"a text, {i}" for i in range(N)],
    "count": np.arange(N)[::-1],
    "number": np.random.default_rng(1).permutation(N) + 1000,
}


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("name", NOT_CLASSES)
@pytest.mark.parametrize("labels", ["names", "numbers", "none"])
def test_what_is_no_class_is_left_out_with_a_note(suffix, name, labels, tmp_path):
    label = {"names": {"label": words()}, "numbers": {"label": np.arange(N) % 3}, "none": {}}
    columns = {name: NOT_CLASSES[name], **scores(), **label[labels]}
    loaded = read(table(tmp_path / f"a{suffix}", columns))
    assert loaded.class_names == NAMES
    np.testing.assert_allclose(loaded.logits, np.column_stack(list(scores().values())))
    (note,) = loaded.notes
    assert f"not used as classes, going by names and values: '{name}'" in note
    assert "columns" in note


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("name", ["age", "confidence"])
def test_a_number_that_may_be_a_class_is_asked_about(suffix, name, tmp_path):
    other = np.random.default_rng(2).normal(size=N)
    columns = {name: other, **scores(), "label": np.arange(N) % 3}
    file = table(tmp_path / f"a{suffix}", columns)
    with refused("file-ambiguous"):
        read(file)
    loaded = read(file, columns=["cat", "dog", "bird"])
    assert (loaded.class_names, loaded.notes, loaded.ordered) == (NAMES, (), True)


def test_labels_that_are_names_say_which_columns_are_classes(tmp_path):
    other = np.random.default_rng(2).normal(size=N)
    file = table(tmp_path / "a.csv", {"age": other, **scores(), "label": words()})
    message = "cannot tell whether 'age' is a class; .* columns cat,dog,bird"
    with pytest.raises(FileError, match=message):
        read(file)
    file = table(tmp_path / "b.csv", {"confidence": other, **scores(), "label": words()})
    assert "'confidence'" in read(file).notes[0]
    named = table(tmp_path / "c.csv", {**scores(), "id": other, "label": [*words()[:-1], "id"]})
    assert read(named).class_names == (*NAMES, "id")


def test_labels_of_another_file_say_it_too(tmp_path):
    other = np.random.default_rng(2).normal(size=N)
    file = table(tmp_path / "a.csv", {"age": other, **scores()})
    (tmp_path / "y.txt").write_text("\n".join(words()))
    with refused("file-ambiguous", "'age'"):
        read(file, labels=tmp_path / "y.txt")


def test_classes_that_never_occur_are_classes_where_others_are_rare(tmp_path):
    rng = np.random.default_rng(0)
    # One of them is called "kind id": it has fractions, so it counts no rows.
    names = [f"kind {chr(97 + i)}{chr(97 + j)}" for i in range(10) for j in range(10)]
    y = rng.integers(100, size=200)
    assert len(set(y.tolist())) < 100
    columns = {name: rng.normal(size=200) for name in names}
    file = table(tmp_path / "a.csv", {**columns, "label": np.array(names)[y]})
    assert read(file).class_names == tuple(names)
    file = table(tmp_path / "b.csv", {**columns, "label": y})
    assert read(file).class_names == tuple(names)


def test_probabilities_that_add_up_answer_the_question(tmp_path):
    z = np.column_stack(list(scores().values()))
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    three = dict(zip(NAMES, p.T, strict=True))
    other = {"age": np.linspace(20.5, 80.2, N)}
    loaded = read(table(tmp_path / "a.csv", {**other, **three, "label": words()}))
    assert loaded.class_names == NAMES
    assert "'age'" in loaded.notes[0]
    # A class without a label belongs to them: without it they would not add up.
    two = np.array(NAMES)[np.arange(N) % 2]
    loaded = read(table(tmp_path / "b.csv", {**three, "label": two}))
    assert (loaded.class_names, loaded.notes) == (NAMES, ())


def test_a_column_beside_numbered_ones_is_not_a_class(tmp_path):
    numbered = dict(zip("012", scores().values(), strict=True))
    loaded = read(
        table(tmp_path / "a.csv", {"id": np.arange(N), **numbered, "y": np.arange(N) % 3})
    )
    assert (loaded.logits.shape, loaded.class_names) == ((N, 3), None)
    other = np.random.default_rng(2).normal(size=N)
    with refused("file-ambiguous", "'age'", "0,1,2"):
        read(table(tmp_path / "b.csv", {"age": other, **numbered}))


def test_whole_numbers_alone_are_no_reason(tmp_path):
    z = {name: np.round(10 * values).astype(int) for name, values in scores().items()}
    assert read(table(tmp_path / "a.csv", {**z, "label": words()})).class_names == NAMES
    margin = {"no": np.zeros(N, dtype=int), "yes": scores()["cat"]}
    assert read(table(tmp_path / "b.csv", margin)).class_names == ("no", "yes")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_columns_are_taken_in_the_order_they_are_named(suffix, tmp_path):
    columns = {"age": np.linspace(0, 1, N), **scores(), "label": words()}
    file = table(tmp_path / f"a{suffix}", columns)
    loaded = read(file, columns=["dog", "cat"])
    assert loaded.class_names == ("dog", "cat")
    np.testing.assert_allclose(loaded.logits[:, 0], scores()["dog"])
    assert read(file, columns=["*d*"]).class_names == ("dog", "bird")
    with refused("file-column", "'wolf'", "'age'", "'cat'"):
        read(file, columns=["cat", "wolf"])
    with refused("file-ambiguous", "'label'"):
        read(file, columns=["cat", "label"], labels_key="label")
    with refused("too-few-options", "1"):
        read(file, columns=["cat"])


def test_columns_of_what_is_no_table_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", logits=np.eye(3))
    np.save(tmp_path / "a.npy", np.eye(3))
    for name in ("a.npz", "a.npy"):
        with refused("file-type"):
            read(tmp_path / name, columns=["a", "b"])
    with refused("file-type"):
        open_source(tmp_path / "a.npy", choice=Choice(columns=("a", "b")))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_labels_may_be_called_anything(suffix, tmp_path):
    file = table(tmp_path / f"a{suffix}", {**scores(), "gold": words()})
    assert read(file, labels_key="gold").labels.tolist() == words().tolist()
    with refused("file-column", "labels_key", "'truth'"):
        read(file, labels_key="truth")
    twice = table(tmp_path / f"b{suffix}", {**scores(), "label": words(), "y": words()})
    with refused("file-ambiguous", "labels_key"):
        read(twice)
    assert read(twice, labels_key="y", columns=list(NAMES)).labels.tolist() == words().tolist()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_word_that_score_columns_begin_with_chooses_them(suffix, tmp_path):
    out = {f"out_{name}": values for name, values in scores().items()}
    file = table(tmp_path / f"a{suffix}", {"age": np.linspace(0, 1, N), **out, "label": words()})
    assert read(file, logits_key="out").logits.shape == (N, 3)
    with refused("array-shape", "'age'"):
        read(file, logits_key="age")


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_a_source_takes_the_columns_that_a_file_read_at_once_has(suffix, tmp_path):
    columns = {"id": np.arange(N), "note": ["x"] * N, **scores(), "label": words()}
    file = table(tmp_path / f"a{suffix}", columns)
    source = open_source(file)
    assert (source.class_names, source.notes) == (NAMES, read(file).notes)
    assert source.others == ("id", "note", "label")
    with refused("file-ambiguous", "'age'"):
        open_source(table(tmp_path / f"b{suffix}", {**columns, "age": np.linspace(0.5, 1, N)}))


def test_known_classes_choose_their_columns(tmp_path):
    other = np.random.default_rng(2).normal(size=N)
    file = table(tmp_path / "a.csv", {"confidence": other, "id": range(N), **scores()})
    loaded = read(file, known=["bird", "cat", "dog"])
    assert loaded.class_names == NAMES
    with refused("file-ambiguous", "'bird'"):
        read(file, known=["cat", "dog"])


def test_names_that_are_given_order_columns_of_that_name(tmp_path):
    file = table(tmp_path / "a.csv", {**scores(), "label": words()})
    loaded = read(file, class_names=["dog", "bird", "cat"])
    np.testing.assert_allclose(loaded.logits[:, 0], scores()["dog"])
    assert (loaded.class_names, loaded.ordered) == (("dog", "bird", "cat"), True)
    assert read(file, class_names=["a", "b", "c"]).class_names == ("a", "b", "c")
    with refused("class-names-invalid", "'wolf'", "'bird'"):
        read(file, class_names=["cat", "dog", "wolf"])
    np.savez(tmp_path / "a.npz", logits=np.eye(3), class_names=np.array(NAMES))
    with refused("class-names-invalid"):
        read(tmp_path / "a.npz", class_names=["dog", "bird", "cat"])


# In the order of a fit


@settings(max_examples=30, deadline=None)
@given(order=st.permutations(range(3)))
def test_columns_in_any_order_are_the_same_columns(order):
    loaded = read_order(order, labels=words())
    again = loaded.in_order_of(NAMES)
    np.testing.assert_array_equal(again.logits, np.column_stack(list(scores().values())))
    assert again.labels.tolist() == words().tolist()


def read_order(order, *, labels, ordered=False):
    from smallcal.io import Loaded

    z = np.column_stack(list(scores().values()))[:, order]
    names = tuple(NAMES[i] for i in order)
    return Loaded(logits=z, class_names=names, labels=labels, ordered=ordered, source="a.csv")


@settings(max_examples=30, deadline=None)
@given(order=st.permutations(range(3)))
def test_numbers_of_columns_move_with_the_columns(order):
    places = np.argsort(order)
    y = np.arange(N) % 3
    moved = read_order(order, labels=places[y], ordered=True).in_order_of(NAMES)
    np.testing.assert_array_equal(moved.labels, y)


def test_numbers_of_which_the_order_is_unknown_are_refused():
    loaded = read_order([2, 1, 0], labels=np.arange(N) % 3)
    with refused("labels-unknown"):
        loaded.in_order_of(NAMES)
    assert read_order([0, 1, 2], labels=np.arange(N) % 3).in_order_of(NAMES).notes == ()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("cat", "dog"), "missing 'bird'$"),
        (("cat", "dog", "wolf"), "missing 'bird'; unknown 'wolf'"),
        (("a", "b", "c"), "missing 'cat', 'dog', 'bird'; unknown 'a', 'b', 'c'"),
    ],
)
def test_other_names_are_refused(names, message):
    from smallcal.io import Loaded

    loaded = Loaded(logits=np.zeros((2, len(names))), class_names=names, source="a.csv")
    with pytest.raises(InputError, match=message):
        loaded.in_order_of(NAMES)
    assert loaded.in_order_of(None) is loaded


@settings(max_examples=100, deadline=None)
@given(headers=st.lists(st.text(max_size=8), max_size=6), n=st.integers(0, 30))
def test_any_header_gives_columns_or_one_of_our_errors(headers, n):
    values = np.linspace(0, 1, n)
    try:
        found = Columns.of(
            headers, source="a.csv", look=lambda places: dict.fromkeys(places, values)
        )
    except (FileError, InputError):
        return
    assert len(set(found.scores)) == len(found.scores)
    assert found.label not in found.scores
