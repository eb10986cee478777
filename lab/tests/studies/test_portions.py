"""Which columns and rows of a file a cell sees: classes, draws, one file split in two."""

from __future__ import annotations

import numpy as np
import pytest

from smallcal import FileError, InputError
from smallcal_lab.studies import check_collection, load_collection, run, study_named
from smallcal_lab.studies.portions import WAYS, draw_rows
from support.simulated import simulate

WIDE = 12
CHOSEN = (7, 2, 9, 4)


@pytest.fixture
def folder(tmp_path):
    """One wide file, and a shifted one of the chosen classes alone."""
    z, y = simulate(600, WIDE, seed=1)
    np.savez(tmp_path / "wide.npz", logits=z, labels=y)
    z, y = simulate(400, WIDE, seed=2)
    kept = np.isin(y, CHOSEN)
    np.savez(tmp_path / "far.npz", logits=z[kept], labels=y[kept])
    within = np.array([CHOSEN.index(label) for label in y[kept]])
    np.savez(tmp_path / "counted.npz", logits=z[kept], labels=within)
    np.savez(tmp_path / "narrow.npz", logits=z[kept][:, CHOSEN], labels=within)
    (tmp_path / "chosen.txt").write_text("7, 2  # the first two\n9\n4\n", encoding="utf-8")
    return tmp_path


def arrays(folder, name):
    with np.load(folder / name) as file:
        return file["logits"], file["labels"]


SPLIT = 'split = {file = "wide.npz", per_class = 3}'


def described(folder, *keys, shifts=""):
    head = ['name = "w"', "[[cell]]", 'dataset = "d"', 'backbone = "b"']
    (folder / "collection.toml").write_text("\n".join([*head, *keys, shifts]), encoding="utf-8")
    return load_collection(folder)


def shift(file, *more, kind="far"):
    return "\n".join(
        ["[[cell.shift]]", f'kind = "{kind}"', "severity = 1", f'file = "{file}"', *more]
    )


# Classes.


@pytest.mark.parametrize("classes", ["[7, 2, 9, 4]", '"chosen.txt"'])
def test_classes_are_chosen_before_anything_else(classes, folder):
    keys = (f"classes = {classes}", SPLIT)
    (cell,) = described(folder, *keys, shifts=shift("far.npz")).cells
    logits, labels = arrays(folder, "wide.npz")
    rows = [i for i in range(len(labels)) if labels[i] in CHOSEN]
    expected = np.array([[logits[i, column] for column in CHOSEN] for i in rows])
    numbers = np.array([CHOSEN.index(labels[i]) for i in rows])
    cal, test = cell.read("calibration"), cell.read("test")
    assert (cal.n, cal.n_classes, cal.n + test.n) == (12, 4, len(rows))
    together = np.concatenate([cal.logits, test.logits])
    order = np.lexsort(together.T), np.lexsort(expected.T)
    np.testing.assert_array_equal(together[order[0]], expected[order[1]])
    both = np.concatenate([cal.labels, test.labels])
    np.testing.assert_array_equal(both[order[0]], numbers[order[1]])
    far = cell.read(cell.shifts[0])
    z, y = arrays(folder, "far.npz")
    np.testing.assert_array_equal(far.logits, z[:, CHOSEN])
    assert far.labels.tolist() == [CHOSEN.index(label) for label in y]


def test_a_range_has_both_its_ends(folder):
    (cell,) = described(folder, 'classes = "3-6"', SPLIT).cells
    assert cell.columns("test") == (3, 4, 5, 6)
    assert cell.read("test").n_classes == 4


def test_labels_may_count_the_classes_and_files_may_have_no_other_columns(folder):
    shifts = "\n".join(
        [
            shift("far.npz", kind="columns"),
            shift("counted.npz", 'labels = "classes"', kind="counted"),
            shift("narrow.npz", 'classes = "all"', kind="narrow"),
        ]
    )
    collection = described(folder, 'classes = "chosen.txt"', SPLIT, shifts=shifts)
    (cell,) = collection.cells
    first, *others = [cell.read(one) for one in cell.shifts]
    for other in others:
        np.testing.assert_array_equal(first.logits, other.logits)
        np.testing.assert_array_equal(first.labels, other.labels)
    found = {(p.file, p.severity) for p in check_collection(collection)}
    assert found == {("wide.npz", "note")}


def test_labels_that_count_the_classes_without_saying_so_are_found(folder):
    collection = described(folder, "classes = [7, 2, 9, 4]", SPLIT, shifts=shift("counted.npz"))
    errors = [p for p in check_collection(collection) if p.severity == "error"]
    assert [p.file for p in errors] == ["counted.npz"]
    assert 'labels = "classes"' in errors[0].what
    assert str(errors[0]).startswith("d__b__s0: counted.npz: classes: the largest label is 3")


def test_rows_of_other_classes_are_counted(folder):
    collection = described(folder, "classes = [7, 2, 9, 4]", SPLIT)
    (problem,) = check_collection(collection)
    _, labels = arrays(folder, "wide.npz")
    left = sum(label not in CHOSEN for label in labels)
    said = f"classes: {left} of 600 samples belong to other classes and are left out"
    assert problem.what == said
    assert problem.severity == "note"


def test_probabilities_are_restricted_as_their_logits_are(folder):
    logits, labels = arrays(folder, "wide.npz")
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    np.savez(folder / "wide.npz", probabilities=p, labels=labels)
    (cell,) = described(folder, "classes = [7, 2, 9, 4]", SPLIT).cells
    got = cell.read("test")
    own = np.exp(got.logits)
    rows = np.isin(labels, CHOSEN)
    expected = p[rows][:, CHOSEN] / p[rows][:, CHOSEN].sum(axis=1, keepdims=True)
    own /= own.sum(axis=1, keepdims=True)
    known = {row.tobytes() for row in expected.round(9)}
    assert all(row.tobytes() in known for row in own.round(9))


# Draws.


@pytest.mark.parametrize("way", WAYS)
def test_draws_are_those_of_a_plain_loop(way):
    labels = np.random.default_rng(0).permutation(np.arange(240) % 6)
    rows = draw_rows(labels, 30, seed=3, draw=2, way=way)
    assert rows.tolist() == sorted(set(rows.tolist()))
    assert len(rows) == 30
    again = draw_rows(labels, 30, seed=3, draw=2, way=way)
    other = draw_rows(labels, 30, seed=3, draw=1, way=way)
    np.testing.assert_array_equal(rows, again)
    assert np.array_equal(rows, other) == way.startswith("first")
    if way == "first":
        assert rows.tolist() == list(range(30))
    else:
        assert np.bincount(labels[rows]).tolist() == [5] * 6
    if way == "first-per-class":
        seen = dict.fromkeys(range(6), 0)
        expected = []
        for row, label in enumerate(labels):
            seen[label] += 1
            expected += [row] * (seen[label] <= 5)
        assert rows.tolist() == expected


def test_as_many_of_each_class_must_be_possible():
    labels = np.array([0, 0, 0, 1, 1, 1, 2])
    with pytest.raises(InputError, match="cannot be divided equally among 3 classes; 3 or 6"):
        draw_rows(labels, 4, seed=0, draw=0, way="per-class")
    with pytest.raises(InputError, match="2 of each class: class 2 has only 1 samples"):
        draw_rows(labels, 6, seed=0, draw=0, way="first-per-class")


def test_the_first_draw_may_be_made_in_another_way_than_the_rest(folder):
    keys = ('calibration = "wide.npz"', 'test = "far.npz"')
    (cell,) = described(folder, *keys, 'draw = ["first-per-class", "stratified"]').cells
    _, labels = arrays(folder, "wide.npz")
    for draw, way in enumerate(["first-per-class", "stratified", "stratified"]):
        rows = draw_rows(labels, 60, seed=0, draw=draw, way=way)
        np.testing.assert_array_equal(cell.draw(60, draw).labels, labels[rows])


# One file, split.


def test_a_split_is_a_draw_and_all_the_rest(folder):
    collection = described(folder, "seed = [0, 3]", 'split = {file = "wide.npz", samples = 150}')
    logits, labels = arrays(folder, "wide.npz")
    assert [cell.name for cell in collection.cells] == ["d__b__s0", "d__b__s3"]
    for cell in collection.cells:
        rows = draw_rows(labels, 150, seed=cell.seed, draw=0)
        rest = [i for i in range(600) if i not in set(rows.tolist())]
        np.testing.assert_array_equal(cell.read("calibration").logits, logits[rows])
        np.testing.assert_array_equal(cell.read("test").logits, logits[rest])
    assert check_collection(collection) == []


def test_a_paired_set_follows_the_split_and_an_unpaired_one_is_whole(folder):
    logits, labels = arrays(folder, "wide.npz")
    np.savez(folder / "noise.npz", logits=logits + 1.5, labels=labels)
    both = [shift("noise.npz", "paired = true"), shift("noise.npz")]
    (cell,) = described(folder, SPLIT, shifts=both[0]).cells
    twins = cell.read(cell.shifts[0])
    np.testing.assert_array_equal(twins.logits, cell.read("test").logits + 1.5)
    (cell,) = (whole := described(folder, SPLIT, shifts=both[1])).cells
    assert cell.read(cell.shifts[0]).n == 600
    (note,) = check_collection(whole)
    assert note.severity == "note"
    assert "paired = true leaves them out" in note.what


def test_seeds_of_a_split_share_their_shifted_sets_and_others_do_not(folder):
    shared = described(folder, "seed = [1, 2]", SPLIT, shifts=shift("far.npz"))
    assert check_collection(shared) == []
    text = (folder / "collection.toml").read_text(encoding="utf-8")
    other = text.replace('backbone = "b"', 'backbone = "c"').replace('name = "w"', "")
    (folder / "collection.toml").write_text(text + "\n" + other, encoding="utf-8")
    found = check_collection(load_collection(folder))
    assert {p.cell for p in found} == {"d__c__s1", "d__c__s2"}
    assert any("it is already the calibration split of d__b__s1" in p.what for p in found)
    assert any("it is already the shift far-1 of d__b__s1" in p.what for p in found)


def test_one_file_may_be_seen_with_other_classes_by_another_cell(folder):
    one = ["[[cell]]", 'dataset = "e"', 'backbone = "b"', 'classes = "0-5"', SPLIT]
    found = check_collection(
        described(folder, "classes = [7, 2, 9, 4]", SPLIT, shifts="\n".join(one))
    )
    assert {p.severity for p in found} == {"note"}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (["classes = [1]", SPLIT], r"cell 1 \(d b\): classes: give at least two columns"),
        (["classes = [1, 1]", SPLIT], "classes: column 1 occurs twice"),
        (["classes = [1, 2.5]", SPLIT], "classes must be column numbers"),
        (["classes = 3", SPLIT], "classes must be of type str | list"),
        (["draw = 'luck'", SPLIT], r"cell 1 \(d b\): draw: one or more of .*; got 'luck'"),
        (["draw = []", SPLIT], "draw: one or more of stratified"),
        (["split = {file = 'wide.npz'}"], "split: give either samples or per_class"),
        (
            ["split = {file = 'wide.npz', samples = 2, per_class = 2}"],
            "split: give either samples or per",
        ),
        (["split = {file = 'wide.npz', per_class = 0}"], "at least 1"),
        (
            ["split = {file = 'wide.npz', per_class = 1, draw = 'first-per-clas'}"],
            "split: draw: one or",
        ),
        (["split = {samples = 5}"], "split: lacks file"),
        ([SPLIT, 'test = "far.npz"'], "does not know test"),
        (['test = "far.npz"'], "lacks calibration; keys are .* split"),
        (["seed = [0, 1]", 'test = "far.npz"', 'calibration = "wide.npz"'], "several seeds need"),
        (["seed = [0, 0]", SPLIT], "seed must be whole numbers that differ"),
        ([SPLIT.replace("3}", "3, draw = 'first'}"), "seed = [0, 1]"], "drawn at random"),
        ([SPLIT, shift("far.npz", "labels = 'mine'")], "labels must be columns or classes"),
        ([SPLIT, shift("far.npz", "classes = [3, 3]")], r"shift 1: classes: column 3 occurs twice"),
    ],
)
def test_a_wrong_key_is_one_line_that_says_where(keys, message, folder):
    with pytest.raises(FileError, match=message):
        described(folder, *keys)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (['classes = "9-4"', SPLIT], "classes: give at least two columns"),
        (['classes = "none.txt"', SPLIT], "classes: cannot read"),
        (['classes = "wide.npz"', SPLIT], "classes: "),
        (["classes = [3, 12]", SPLIT], "classes: there is no column 12, only 0 .. 11"),
        (["split = {file = 'wide.npz', samples = 600}"], "split takes 600 of 600 samples: none"),
        (["split = {file = 'wide.npz', per_class = 45}"], "split: 45 of each class: class"),
        (["split = {file = 'gone.npz', per_class = 4}"], "No such file"),
    ],
)
def test_what_only_the_files_tell_is_found_by_the_check(keys, words, folder):
    found = check_collection(described(folder, *keys))
    assert len(found) == 1
    assert found[0].severity == "error"
    assert words in found[0].what
    assert found[0].cell == "d__b__s0"
    assert "\n" not in found[0].what
    assert not found[0].what.startswith(str(folder))


def test_a_draw_that_cannot_be_made_is_a_failure_with_its_reason(folder, tmp_path):
    pytest.importorskip("pyarrow", reason="studies keep their rows as Parquet")
    keys = ('calibration = "wide.npz"', 'test = "far.npz"', 'draw = "per-class"')
    study = study_named("proper-scores").with_options(methods=("ts-nll",), budgets=(50,), n_boot=9)
    outcome = run(study, described(folder, *keys), tmp_path / "run")
    assert "50 samples cannot be divided equally among 12 classes; 48 or 60" in outcome.failures[0]


@pytest.mark.parametrize(
    "changed",
    [
        ["classes = [7, 2, 9]", 'split = {file = "wide.npz", samples = 60}'],
        ["classes = [7, 2, 9, 4]", 'split = {file = "wide.npz", samples = 61}'],
        ["classes = [7, 2, 9, 4]", 'split = {file = "wide.npz", samples = 60, draw = "first"}'],
        ["classes = [7, 2, 9, 4]", "draw = 'first'", 'split = {file = "wide.npz", samples = 60}'],
        ["classes = 'chosen.txt'", 'split = {file = "wide.npz", samples = 60}'],
    ],
)
def test_collections_that_differ_in_a_key_never_share_a_run(changed, folder):
    pytest.importorskip("pyarrow", reason="studies keep their rows as Parquet")
    study = study_named("proper-scores").with_options(methods=("ts-nll",), n_boot=9)
    first = described(folder, "classes = [7, 2, 9, 4]", 'split = {file = "wide.npz", samples = 60}')
    run(study, first, folder / "run")
    run(study, first, folder / "run")
    with pytest.raises(InputError, match="holds another run"):
        run(study, described(folder, *changed), folder / "run")


def test_a_list_of_classes_that_changed_is_another_run(folder):
    pytest.importorskip("pyarrow", reason="studies keep their rows as Parquet")
    study = study_named("proper-scores").with_options(methods=("ts-nll",), n_boot=9)
    keys = ('classes = "chosen.txt"', 'split = {file = "wide.npz", samples = 60}')
    run(study, described(folder, *keys), folder / "run")
    (folder / "chosen.txt").write_text("7 2 9 5", encoding="utf-8")
    with pytest.raises(InputError, match="holds another run"):
        run(study, described(folder, *keys), folder / "run")
