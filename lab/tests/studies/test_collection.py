"""Collections: read lazily, checked before any work, written for logits that are there already."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from smallcal import FileError, InputError
from smallcal_lab.studies import STUDIES, Study, load_collection
from smallcal_lab.studies.check import LEAK_SHARE, check_collection, shared_rows
from smallcal_lab.studies.collection import kept_split
from smallcal_lab.studies.importers import import_calarena, import_folder
from support import real
from support.simulated import simulate

CLASSES = 5


def save(file, **arrays):
    file.parent.mkdir(parents=True, exist_ok=True)
    np.savez(file, **arrays)


def cell_arrays(seed, n=(120, 200), classes=CLASSES):
    (z, y), (tz, ty) = (simulate(m, classes, seed=10 * seed + i) for i, m in enumerate(n))
    return {"val_logits": z, "val_labels": y, "test_logits": tz, "test_labels": ty}


def write_folder(root, seeds=(0, 1)):
    """A folder as import_folder wants it: two seeds, paired noise, villages from elsewhere."""
    for seed in seeds:
        arrays = cell_arrays(seed)
        save(root / f"towns__mlp-seed{seed}.npz", **arrays)
        noisy = arrays["test_logits"] + np.random.default_rng(seed).normal(size=(200, CLASSES))
        for severity in (1, 3):
            file = root / "shift" / f"towns__mlp-seed{seed}__noise-s{severity}.npz"
            save(file, logits=severity * noisy, labels=arrays["test_labels"])
        z, y = simulate(90, CLASSES, seed=77 + seed)
        save(root / "shift" / f"towns__mlp-seed{seed}__villages.npz", logits=z, labels=y)
    return root


@pytest.fixture
def folder(tmp_path):
    return write_folder(tmp_path / "data")


@pytest.fixture
def collection(folder):
    return import_folder(folder, folder).collection


# Reading the description.

GOOD = """
name = "mine"
[[cell]]
dataset = "a"
backbone = "b"
calibration = "x.npz:val"
test = "x.npz:test"
"""


def described(tmp_path, text):
    (tmp_path / "collection.toml").write_text(text, encoding="utf-8")
    return load_collection(tmp_path)


def test_a_description_is_read_without_its_files(tmp_path):
    found = described(tmp_path, GOOD)
    (cell,) = found.cells
    assert (found.name, cell.name, cell.seed, cell.shifts) == ("mine", "a__b__s0", 0, ())
    assert cell.files == (str(tmp_path / "x.npz"),)
    with pytest.raises(FileError, match=r"x\.npz"):
        cell.read("test")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "lacks cell"),
        ("cell = []", "names no cell"),
        ("cell = [", "cannot be read as a collection"),
        ("cell = [1]", "cell 1: expected a table"),
        (GOOD + "colour = 3", "does not know colour"),
        (GOOD.replace('test = "x.npz:test"', ""), "cell 1: lacks test"),
        (GOOD + 'seed = "0"', "seed must be of type int"),
        (GOOD + "seed = true", "seed must be of type int"),
        (GOOD + "seed = 99999999999999999999999", "seed must be from 0 to 4,294,967,295"),
        (GOOD + "seed = -1", "seed must be from 0 to 4,294,967,295"),
        (GOOD + "[[cell.shift]]\nkind = 'k'\nseverity = 1", "shift 1: lacks file"),
        (GOOD + GOOD.replace('name = "mine"', ""), "a__b__s0 occurs more than once"),
    ],
)
def test_a_wrong_description_is_one_line_that_says_where(text, message, tmp_path):
    with pytest.raises(FileError, match=message):
        described(tmp_path, text)


def test_a_missing_description_names_the_importer(tmp_path):
    with pytest.raises(FileError, match="smallcal study import"):
        load_collection(tmp_path)


def test_cells_are_chosen_by_parts_of_their_names(collection):
    assert [cell.seed for cell in collection.only(["s1"]).cells] == [1]
    assert collection.only([]) is collection
    with pytest.raises(InputError, match="no cell is called like luck"):
        collection.only(["luck"])


def test_a_file_that_is_written_again_is_read_again(collection, folder):
    cell = collection.cells[1]
    first = cell.read("test")
    assert cell.read("test") is first
    _one_shared_row(folder)
    assert not np.array_equal(cell.read("test").logits, first.logits)


# Checking.


def test_a_good_collection_has_no_problems_and_nothing_is_kept_in_memory(collection):
    kept_split.cache_clear()
    steps = []
    assert check_collection(collection, advance=steps.append) == []
    assert steps == [1, 1]
    assert kept_split.cache_info().currsize == 0


def changed(folder, file, **arrays):
    """Write a file anew with some arrays changed; None leaves one out."""
    path = folder / file
    with np.load(path) as old:
        content = {**{name: old[name] for name in old.files}, **arrays}
    np.savez(path, **{name: array for name, array in content.items() if array is not None})


CELL = "towns__mlp-seed1.npz"
NOISE = "shift/towns__mlp-seed1__noise-s3.npz"
FAR = "shift/towns__mlp-seed1__villages.npz"


def labels_of(file, name="labels"):
    with np.load(file) as arrays:
        return arrays[name]


def _missing(folder):
    (folder / CELL).unlink()


def _garbage(folder):
    (folder / NOISE).write_bytes(b"PK\x03\x04 not really")


def _unlabelled(folder):
    changed(folder, CELL, test_labels=None)


def _out_of_range(folder):
    labels = labels_of(folder / CELL, "val_labels")
    labels[[4, 9]] = CLASSES
    changed(folder, CELL, val_labels=labels)


def _infinite(folder):
    logits = labels_of(folder / FAR, "logits")
    logits[7, 2] = np.inf
    changed(folder, FAR, logits=logits)


def _wider(folder):
    changed(folder, CELL, test_logits=simulate(200, CLASSES + 1, seed=5)[0])


def _wider_shift(folder):
    z, y = simulate(90, CLASSES + 2, seed=6)
    changed(folder, FAR, logits=z, labels=y)


def _other_labels(folder):
    labels = labels_of(folder / NOISE)
    labels[[3, 150]] = (labels[[3, 150]] + 1) % CLASSES
    changed(folder, NOISE, labels=labels)


def _other_length(folder):
    z, y = simulate(150, CLASSES, seed=6)
    changed(folder, NOISE, logits=z, labels=y)


def _one_shared_row(folder):
    arrays = cell_arrays(1)
    arrays["test_logits"][17] = arrays["val_logits"][3]
    changed(folder, CELL, test_logits=arrays["test_logits"])


def _leak(folder):
    arrays = cell_arrays(1)
    arrays["test_logits"][20:30] = arrays["val_logits"][:10]
    changed(folder, CELL, test_logits=arrays["test_logits"])


def _simplex(folder):
    changed(folder, CELL, val_logits=np.random.default_rng(1).dirichlet(np.ones(CLASSES), size=120))


def _simplex_test(folder):
    changed(folder, FAR, logits=np.random.default_rng(0).dirichlet(np.ones(CLASSES), size=90))


def _few(folder):
    changed(folder, CELL, val_logits=np.eye(CLASSES)[:4] * 3, val_labels=np.arange(4))


def _absent_class(folder):
    labels = labels_of(folder / CELL, "val_labels")
    changed(folder, CELL, val_labels=np.where(labels == 2, 1, labels))


def _same_labels(folder):
    changed(folder, FAR, logits=simulate(200, CLASSES, seed=8)[0], labels=labels_of(folder / NOISE))


def _ragged(folder):
    changed(folder, CELL, val_labels=np.arange(3))


def _pickled(folder):
    changed(folder, CELL, val_logits=np.array([object()]))


FAULTS = [
    (_missing, [(CELL + ":val", "error", "No such file"), (CELL + ":test", "error", "No such")]),
    (_garbage, [(NOISE, "error", "cannot be read as .npz")]),
    (_unlabelled, [(CELL + ":test", "error", "has no labels")]),
    (
        _out_of_range,
        [(CELL + ":val", "error", "labels must lie in 0 .. 4 (there are 5 columns); rows 4, 9")],
    ),
    (_infinite, [(FAR, "error", "1 of 90 rows are not: row 7")]),
    (_wider, [(CELL + ":test", "error", "has 6 columns; the calibration split has 5")]),
    (_wider_shift, [(FAR, "error", "has 7 columns; the calibration split has 5")]),
    (_other_labels, [(NOISE, "error", "2 labels differ from the test split's: rows 3, 150")]),
    (_other_length, [(NOISE, "error", "it has 150 rows and the test split 200")]),
    (_one_shared_row, [(CELL + ":test", "note", "1 of 200 rows")]),
    (_leak, [(CELL + ":test", "error", "10 of 200 rows")]),
    (_simplex, [(CELL + ":val", "error", "look like probabilities")]),
    (_simplex_test, [(FAR, "error", "look like probabilities")]),
    (
        _few,
        [
            (CELL + ":val", "error", "has 4 samples"),
            (CELL + ":val", "note", "1 of 5 classes have no sample"),
        ],
    ),
    (_absent_class, [(CELL + ":val", "note", "1 of 5 classes have no sample")]),
    (_same_labels, [(FAR, "note", "labels are those of the test split")]),
    (_ragged, [(CELL + ":val", "error", "120 rows of logits and 3 labels")]),
    (_pickled, [(CELL + ":val", "error", "never unpickled")]),
]


@pytest.mark.parametrize(("spoil", "expected"), FAULTS, ids=[f.__name__ for f, _ in FAULTS])
def test_each_fault_is_found_where_it_is_and_nothing_else(spoil, expected, folder, collection):
    spoil(folder)
    found = check_collection(collection)
    assert [(p.cell, p.file, p.severity) for p in found] == [
        ("towns__mlp__s1", file, severity) for file, severity, _ in expected
    ]
    for problem, (_, _, words) in zip(found, expected, strict=True):
        assert words in problem.what
        assert "\n" not in problem.what


def test_shifts_are_compared_with_what_can_be_read(folder, collection):
    _wider_shift(folder)
    changed(folder, CELL, val_labels=None)
    found = check_collection(collection)
    assert [problem.file for problem in found] == [CELL + ":val", FAR]
    assert found[1].what == "has 7 columns; the test split has 5"


def test_rows_in_both_splits_are_counted_and_named(folder, collection):
    _one_shared_row(folder)
    (problem,) = check_collection(collection)
    assert problem.what.endswith("calibration split has too: row 17")
    _leak(folder)
    (problem,) = check_collection(collection)
    assert problem.what.endswith("rows 20, 21, 22, 23, 24 and 5 more")
    assert 1 < LEAK_SHARE * 200 < 10


@given(
    nps.arrays(np.float32, (6, 2), elements=st.sampled_from([0.0, -0.0, 1.0, 2.5])),
    nps.arrays(np.float64, (7, 2), elements=st.sampled_from([0.0, -0.0, 1.0, 2.5, 1 + 1e-12])),
)
def test_shared_rows_are_those_of_a_plain_loop(ours, theirs):
    expected = [i for i, row in enumerate(theirs) if any((row == other).all() for other in ours)]
    assert shared_rows(ours, theirs).tolist() == expected


def edited(collection, **changes):
    """The collection with something else in its second cell."""
    first, second = collection.cells
    return replace(collection, cells=(first, replace(second, **changes)))


def test_one_split_in_two_places_is_an_error(collection, folder):
    second = collection.cells[1]
    found = check_collection(edited(collection, test=second.calibration, shifts=()))
    assert "is already the calibration split of towns__mlp__s1" in found[0].what
    assert "120 of 120 rows" in found[1].what
    assert {problem.severity for problem in found} == {"error"}
    other = collection.cells[0].test
    (problem,) = check_collection(edited(collection, test=other, shifts=()))
    assert "is already the test split of towns__mlp__s0" in problem.what
    (folder / "alias.npz").symlink_to(folder / CELL)
    found = check_collection(edited(collection, test="alias.npz:val", shifts=()))
    assert "is already the calibration split of towns__mlp__s1" in found[0].what


def test_names_that_tables_or_files_cannot_tell_apart_are_errors(collection):
    noise, *_ = collection.cells[1].shifts
    clean = replace(noise, kind="clean")
    found = check_collection(edited(collection, shifts=(clean,)))
    assert [problem.what for problem in found] == [
        "no shift may be called clean: that is the test split"
    ]
    found = check_collection(edited(collection, shifts=(noise, noise)))
    assert found[0].what == "shift noise, severity 1, occurs twice"
    found = check_collection(edited(collection, dataset="a/b", shifts=()))
    assert found[0].what == "data set and backbone must be valid in file names"


@pytest.mark.parametrize("name", ["a\0b.npz", "x" * 5000 + ".npz", ".", "loop.npz", "no.suffix"])
def test_no_file_name_is_too_strange(name, collection, folder):
    (folder / "loop.npz").symlink_to(folder / "loop.npz")
    found = check_collection(edited(collection, calibration=name, shifts=()))
    assert [(p.file, p.severity) for p in found] == [(name, "error")]


# Importing a folder.


def test_a_folder_becomes_a_collection(folder, tmp_path):
    found = import_folder(folder, tmp_path / "out")
    assert found.left_out == ()
    collection = found.collection
    assert collection == load_collection(tmp_path / "out")
    assert (collection.name, [cell.name for cell in collection.cells]) == (
        "data",
        ["towns__mlp__s0", "towns__mlp__s1"],
    )
    cell = collection.cells[1]
    assert (cell.dataset, cell.backbone, cell.seed) == ("towns", "mlp", 1)
    assert cell.calibration == f"../data/{CELL}:val"
    assert [(s.kind, s.severity, s.paired) for s in cell.shifts] == [
        ("noise", 1, True),
        ("noise", 3, True),
        ("villages", 1, False),
    ]
    arrays = cell_arrays(1)
    np.testing.assert_array_equal(cell.read("calibration").logits, arrays["val_logits"])
    np.testing.assert_array_equal(cell.read(cell.shifts[0]).labels, arrays["test_labels"])
    assert sorted(os.listdir(tmp_path / "out")) == ["collection.toml"]


def test_paths_are_relative_so_that_both_folders_can_move(folder, tmp_path):
    import_folder(folder, tmp_path / "out")
    (tmp_path / "moved").mkdir()
    for name in ("data", "out"):
        (tmp_path / name).rename(tmp_path / "moved" / name)
    assert check_collection(load_collection(tmp_path / "moved" / "out")) == []


def test_a_linked_folder_is_seen_through(folder, tmp_path):
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "deep" / "er")
    assert check_collection(import_folder(folder, tmp_path / "link").collection) == []


def test_pairs_are_told_by_labels_and_not_by_names(folder):
    _other_labels(folder)
    cell = import_folder(folder, folder).collection.cells[1]
    assert [shift.paired for shift in cell.shifts] == [True, False, False]


def test_names_with_quotes_and_letters_of_all_kinds_survive(tmp_path):
    name = 'straße "x" \\ \x7f'
    save(tmp_path / f"{name}__modèle__two.npz", **cell_arrays(0))
    (cell,) = import_folder(tmp_path, tmp_path).collection.cells
    assert (cell.dataset, cell.backbone, cell.seed) == (name, "modèle__two", 0)
    assert cell.read("test").n == 200


def test_what_is_no_part_of_it_is_told(folder):
    save(folder / "plain.npz", logits=np.eye(3), labels=np.arange(3))
    save(folder / "towns__one-split.npz", logits=np.eye(3), labels=np.arange(3))
    save(folder / "shift" / "towns__one-split__fog-s1.npz", logits=np.eye(3), labels=np.arange(3))
    save(folder / "shift" / "rivers__mlp__fog-s1.npz", logits=np.eye(3), labels=np.arange(3))
    (folder / NOISE).write_bytes(b"")
    found = import_folder(folder, folder)
    assert [len(cell.shifts) for cell in found.collection.cells] == [3, 2]
    told = "\n".join(found.left_out)
    assert len(found.left_out) == 5
    for words in (
        "plain.npz: not called DATASET__MODEL.npz",
        "one-split.npz: it does not hold two splits",
        "fog-s1.npz: its model is left out",
        "fog-s1.npz: there is no rivers__mlp.npz",
        "noise-s3.npz is empty",
    ):
        assert words in told


def test_an_old_description_is_not_lost(folder):
    (folder / "collection.toml").write_text("mine")
    with pytest.raises(FileError, match="already exists; force=True replaces it"):
        import_folder(folder, folder)
    assert (folder / "collection.toml").read_text() == "mine"
    import_folder(folder, folder, force=True)
    assert len(load_collection(folder).cells) == 2


def test_folders_without_cells_are_refused(tmp_path, folder):
    with pytest.raises(FileError, match="is not a folder"):
        import_folder(folder / CELL, tmp_path)
    with pytest.raises(FileError, match=r"no cell called DATASET__MODEL\.npz: there is no \.npz"):
        import_folder(tmp_path, tmp_path)
    save(folder / "towns__mlp.npz", **cell_arrays(0))
    with pytest.raises(FileError, match="towns__mlp__s0 occurs more than once"):
        import_folder(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_shipped_real_logits_become_a_collection_without_errors(tmp_path):
    for name in real.SHIPPED:
        np.savez(tmp_path / f"{name.partition('__')[0]}__model.npz", **real.cell(name))
    found = import_folder(tmp_path, tmp_path / "out")
    assert found.left_out == ()
    assert sorted(cell.dataset for cell in found.collection.cells) == ["digits10", "quickdraw345"]
    assert {problem.severity for problem in check_collection(found.collection)} <= {"note"}


def test_the_real_logits_become_a_collection_without_errors(tmp_path):
    root = real.data_folder()
    if root is None:
        pytest.skip("no real logits here: set SMALLCAL_DATA to their folder")
    found = import_folder(root, tmp_path)
    assert found.left_out == ()
    assert len(found.collection.cells) == len(list(root.glob("*.npz")))
    shifts = [(cell.dataset, shift) for cell in found.collection.cells for shift in cell.shifts]
    assert len(shifts) == len(list((root / "shift").glob("*.npz")))
    assert {name for name, shift in shifts if shift.paired} == {"cifar10", "banking77", "clinc150"}
    assert {name for name, shift in shifts if not shift.paired} == {
        "cities158",
        "debian55",
        "fashion10",
    }
    few = found.collection.only(["banking77", "cities158"])
    assert {problem.severity for problem in check_collection(few)} == {"note"}


# CalArena's layout.


def probabilities(n, classes, seed):
    z, y = simulate(n, classes, seed=seed)
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True), y


def write_group(group, seed, *, binary=False):
    for i, (split, n) in enumerate((("cal", 60), ("test", 80))):
        p, y = probabilities(n, 2 if binary else 4, seed + i)
        group[f"probas_{split}"] = p[:, 1] if binary else p
        group[f"labels_{split}"] = y


@pytest.fixture
def h5py():
    return pytest.importorskip("h5py", reason=".h5 needs h5py")


def test_calarenas_groups_become_cells(tmp_path, h5py):
    with h5py.File(tmp_path / "bench.h5", "w") as file:
        write_group(file.create_group("birds (small)/RealMLP_GPU"), 0)
        write_group(file.create_group("birds (small)/XGBoost"), 10)
        write_group(file.create_group("breast/XGBoost"), 20, binary=True)
        file.create_group("empty/XGBoost")
        file.create_group("half/XGBoost")["probas_cal"] = np.eye(3)
        file["elsewhere"] = h5py.ExternalLink("other.h5", "/")
    steps = []
    found = import_calarena(tmp_path / "bench.h5", tmp_path / "out", advance=steps.append)
    assert [cell.name for cell in found.collection.cells] == [
        "birds-small__RealMLP_GPU__s0",
        "birds-small__XGBoost__s0",
        "breast__XGBoost__s0",
    ]
    assert len(found.left_out) == 1
    assert "bench.h5:half/XGBoost: it does not hold two splits" in found.left_out[0]
    assert sum(steps) == 4
    assert check_collection(found.collection) == []
    first, _, binary = found.collection.cells
    p, y = probabilities(80, 4, 1)
    np.testing.assert_allclose(np.exp(first.read("test").logits), p, atol=1e-12)
    np.testing.assert_array_equal(first.read("test").labels, y)
    p, y = probabilities(60, 2, 20)
    np.testing.assert_allclose(np.exp(binary.read("calibration").logits), p, atol=1e-12)
    np.testing.assert_array_equal(binary.read("calibration").labels, y)


def test_arrays_outside_of_groups_are_referred_to(tmp_path, h5py):
    with h5py.File(tmp_path / "one.h5", "w") as file:
        write_group(file, 0)
    (cell,) = import_calarena(tmp_path / "one.h5", tmp_path / "out").collection.cells
    assert (cell.name, cell.calibration) == ("one__model__s0", "../one.h5:cal")
    assert (cell.read("calibration").n, cell.read("test").n) == (60, 80)
    assert os.listdir(tmp_path / "out") == ["collection.toml"]


def test_groups_of_one_level_are_models_of_the_file(tmp_path, h5py):
    with h5py.File(tmp_path / "birds.h5", "w") as file:
        write_group(file.create_group("XGBoost"), 0)
    (cell,) = import_calarena(tmp_path / "birds.h5", tmp_path / "out").collection.cells
    assert cell.name == "birds__XGBoost__s0"


def test_what_an_import_would_overwrite_stays(tmp_path, h5py):
    with h5py.File(tmp_path / "bench.h5", "w") as file:
        write_group(file.create_group("a/b"), 0)
        write_group(file.create_group("a/c"), 5)
    (tmp_path / "a__c.npz").write_text("mine")
    with pytest.raises(FileError, match=r"a__c\.npz already exists"):
        import_calarena(tmp_path / "bench.h5", tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["a__c.npz", "bench.h5"]
    import_calarena(tmp_path / "bench.h5", tmp_path, force=True)
    assert len(load_collection(tmp_path).cells) == 2


def test_other_files_are_refused(tmp_path, h5py):
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["a/b/numbers"] = np.arange(3)
    with pytest.raises(FileError, match="is not in CalArena's layout"):
        import_calarena(tmp_path / "other.h5", tmp_path / "out")
    with h5py.File(tmp_path / "twins.h5", "w") as file:
        write_group(file.create_group("a/b?"), 0)
        write_group(file.create_group("a/b!"), 5)
    with pytest.raises(FileError, match="two models would be called a__b"):
        import_calarena(tmp_path / "twins.h5", tmp_path / "out")
    (tmp_path / "bad.h5").write_bytes(b"not HDF5")
    with pytest.raises(FileError, match=r"cannot be read as \.h5"):
        import_calarena(tmp_path / "bad.h5", tmp_path / "out")
    with h5py.File(tmp_path / "circle.h5", "w") as file:
        file["a/b/c"] = file["/"]  # a group that holds itself must not be walked for ever
    with pytest.raises(FileError, match="is not in CalArena's layout"):
        import_calarena(tmp_path / "circle.h5", tmp_path / "out")


# A study from its manifest.


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_comes_back_from_its_manifest(name):
    study = STUDIES[name].with_options(budgets=(100, 0), draws=3, n_boot=7)
    again = Study.from_document(json.loads(json.dumps(study.document())), known=STUDIES[name])
    assert again.document() == study.document()
    assert again.tasks_of(["x", "y"]) == study.tasks_of(["x", "y"])
    assert (again.title, again.tables, again.settings) == (
        study.title,
        study.tables,
        study.settings,
    )


@pytest.mark.parametrize("document", [{}, {"entries": 3}, {"entries": [{"colour": 1}]}])
def test_a_damaged_manifest_is_one_line(document):
    with pytest.raises(FileError, match="does not describe a study"):
        Study.from_document(document, known=STUDIES["clean"])


def test_names_with_numbers_that_are_no_seed_or_severity_are_left_out(tmp_path):
    write_folder(tmp_path)
    (tmp_path / "towns__mlp-seed1.npz").rename(tmp_path / f"towns__mlp-seed{10**20}.npz")
    far = tmp_path / "shift" / "towns__mlp-seed0__villages.npz"
    far.rename(far.with_name(f"towns__mlp-seed0__villages-s{10**20}.npz"))
    found = import_folder(tmp_path, tmp_path)
    assert [cell.seed for cell in found.collection.cells] == [0]
    assert "villages" not in {shift.kind for shift in found.collection.cells[0].shifts}
    assert any("seed must be from 0 to" in line for line in found.left_out)
    assert any("severity must be from 0 to" in line for line in found.left_out)
