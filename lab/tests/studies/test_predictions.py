"""Predictions that a run keeps, and the tables of resampled test samples that are made of them."""

import json
import shutil
import warnings
from dataclasses import replace

import numpy as np
import pytest

import smallcal as sc
from smallcal.errors import FileError, InputError
from smallcal.metrics import METRICS
from smallcal.metrics.kept import LOST, value
from smallcal_lab.studies import import_folder, load_collection, run, study_named
from smallcal_lab.studies.engine import finished
from smallcal_lab.studies.predictions import read_predictions
from smallcal_lab.studies.simulate import World
from support.real import data_folder

pytest.importorskip("pyarrow", reason="studies keep their rows as Parquet")

METHODS = ("none", "ts-nll", "tva-ts", "srts-bce", "srts-nll")
N, N_BOOT = 400, 2_000
#: Standard errors of two bootstraps' percentiles, of 2,000 resamples each, in standard deviations.
MONTE_CARLO = 0.09


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three seeds with a shifted set of the same samples for all, one of other samples for each."""
    root = tmp_path_factory.mktemp("collection")
    for seed in range(3):
        world = World(n_classes=6, accuracy=0.8, structure=0.4, seed=seed)
        same = World(n_classes=6, accuracy=0.8, structure=0.4, seed=9).draw(N, split="test")
        parts = {"val": world.draw(300), "test": world.draw(N, split="test")}
        arrays = {f"{name}_logits": part.logits for name, part in parts.items()}
        arrays |= {f"{name}_labels": part.labels for name, part in parts.items()}
        np.savez(root / f"world__plain-seed{seed}.npz", **arrays)
        (root / "shift").mkdir(exist_ok=True)
        other = world.draw(N, split="test", severity=2)
        warped = same.logits * (1 + 0.1 * seed)
        mixed = np.random.default_rng(seed).permutation(N)
        own = (other.logits[mixed], other.labels[mixed])
        for kind, (z, y) in {"same": (warped, same.labels), "own": own}.items():
            np.savez(root / "shift" / f"world__plain-seed{seed}__{kind}.npz", logits=z, labels=y)
    import_folder(root, root)
    return root


@pytest.fixture(scope="module")
def clean(folder, tmp_path_factory):
    """The study `clean` with few methods: its folder, and what it gave."""
    out = tmp_path_factory.mktemp("clean") / "run"
    study = study_named("clean").with_options(methods=METHODS, n_boot=N_BOOT)
    return out, run(study, load_collection(folder), out)


def table_named(tables, name):
    return next(table for table in tables if table.name == name)


def cells(table, **wanted):
    rows = (dict(zip(table.header, row, strict=True)) for row in table.rows)
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def arrays_of(folder, seed, name="world__plain"):
    with np.load(folder / f"{name}-seed{seed}.npz") as file:
        return {key: file[key] for key in file.files}


def probabilities(method, seed, arrays, z):
    """Fit as a user would, and apply."""
    made = sc.make(method)
    if "random_state" in made.get_params():
        made.set_params(random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return made.fit(arrays["val_logits"], arrays["val_labels"]).predict_proba(z)


def sides(proba, labels):
    """Return each sample's bin, and its confidence minus whether it is right."""
    confidence = proba.max(axis=1)
    bins = np.minimum((confidence * 15).astype(int), 14)
    return bins, confidence - (proba.argmax(axis=1) == labels)


def ece(side, rows):
    bins, gaps = side
    return np.abs(np.bincount(bins[rows], gaps[rows], minlength=15)).sum() / len(rows)


def near(number, values, point):
    """Whether a number of a table has the interval of a plain loop, to within Monte Carlo error."""
    wanted = 100 * np.quantile(values, [0.025, 0.975])
    reach = 4 * MONTE_CARLO * 100 * np.std(values)
    assert number.value == pytest.approx(100 * point, abs=1e-4)
    np.testing.assert_allclose([number.low, number.high], wanted, atol=reach)
    assert number.below == pytest.approx((values < 0).mean(), abs=0.05)


def check_seed_samples(table, own, *, ours, theirs, n_boot):
    """Compare both intervals of a table with loops over the sides of both methods, by seed."""
    rng = np.random.default_rng(1)
    n = len(own[0][ours][0])

    def gap(seed, rows):
        return ece(own[seed][ours], rows) - ece(own[seed][theirs], rows)

    point = np.mean([gap(seed, np.arange(n)) for seed in range(3)])
    hierarchical = [
        np.mean([gap(seed, rng.integers(n, size=n)) for seed in rng.integers(3, size=3)])
        for _ in range(n_boot)
    ]
    pooled = [gap(seed, rng.integers(n, size=n)) for seed in range(3) for _ in range(n_boot)]
    for resampled, values in (("seeds x samples", hierarchical), ("samples, pooled", pooled)):
        (row,) = cells(table, method=ours, minus=theirs, resampled=resampled)
        values = np.array(values)
        near(row["ECE points"], values, point)
        mean = row["ECE, mean of resamples"].value
        assert mean == pytest.approx(100 * values.mean(), abs=0.1 * 100 * values.std())
        assert row["P(ECE < 0)"].value == row["ECE points"].below


def test_seeds_and_samples_are_resampled_as_in_a_plain_loop(folder, clean):
    own = []
    for seed in range(3):
        arrays = arrays_of(folder, seed)
        z, y = arrays["test_logits"], arrays["test_labels"]
        own.append({m: sides(probabilities(m, seed, arrays, z), y) for m in METHODS})
    table = table_named(clean[1].tables, "seed-samples")
    check_seed_samples(table, own, ours="srts-bce", theirs="tva-ts", n_boot=N_BOOT)
    # Each method's own interval, as the paper has it for a single model.
    (row,) = cells(table_named(clean[1].tables, "samples"), method="ts-nll")
    rng = np.random.default_rng(2)
    values = [ece(own[s]["ts-nll"], rng.integers(N, size=N)) for s in range(3) for _ in range(1000)]
    number = row["ECE %"]
    np.testing.assert_allclose(
        [number.low, number.high],
        100 * np.quantile(values, [0.025, 0.975]),
        atol=4 * MONTE_CARLO * 100 * np.std(values),
    )
    assert number.text().count("+") == 0


@pytest.mark.skipif(data_folder() is None, reason="needs the folder of real logits")
def test_on_three_real_seeds_too(tmp_path):
    names = [f"banking77__tfidf-mlp-seed{seed}.npz" for seed in range(3)]
    for name in names:
        shutil.copy(data_folder() / name, tmp_path / name)
    collection = import_folder(tmp_path, tmp_path).collection
    study = study_named("clean").with_options(methods=("srts-bce",))
    study = replace(study, metrics=("ece15",), settings={**study.settings, "resampled": ("ece15",)})
    assert study.n_boot == 20_000
    table = table_named(run(study, collection, tmp_path / "run").tables, "seed-samples")
    own = []
    for seed in range(3):
        arrays = arrays_of(tmp_path, seed, "banking77__tfidf-mlp")
        z, y = arrays["test_logits"], arrays["test_labels"]
        methods = ("srts-bce", "tva-ts")
        own.append({m: sides(probabilities(m, seed, arrays, z), y) for m in methods})
    check_seed_samples(table, own, ours="srts-bce", theirs="tva-ts", n_boot=1_500)


def test_a_shifted_sets_samples_are_resampled_for_all_seeds_together(folder, tmp_path):
    study = study_named("shift").with_options(methods=METHODS, n_boot=N_BOOT)
    study = replace(study, tables=("shift-means", "image-samples"), metrics=("ece15", "nll"))
    table = table_named(
        run(study, load_collection(folder), tmp_path / "run").tables, "image-samples"
    )
    assert "world plain" in table.sentences[0]  # its set `own` is not of the same samples
    for kind in ("same", "own"):
        own = []
        for seed in range(3):
            with np.load(folder / "shift" / f"world__plain-seed{seed}__{kind}.npz") as file:
                z, y = file["logits"], file["labels"]
            arrays = arrays_of(folder, seed)
            methods = ("tva-ts", "ts-nll")
            own.append({m: sides(probabilities(m, seed, arrays, z), y) for m in methods})
        rng, values = np.random.default_rng(3), []
        for _ in range(N_BOOT):
            rows = rng.integers(N, size=(3, N))
            rows = rows[[0, 0, 0]] if kind == "same" else rows
            pairs = zip(own, rows, strict=True)
            values.append(np.mean([ece(s["tva-ts"], r) - ece(s["ts-nll"], r) for s, r in pairs]))
        every = np.arange(N)
        point = np.mean([ece(s["tva-ts"], every) - ece(s["ts-nll"], every) for s in own])
        (row,) = cells(table, set=f"{kind} 1", method="tva-ts", minus="ts-nll")
        near(row["ECE points"], np.array(values), point)


def test_what_is_kept_gives_every_metric_of_the_rows(clean):
    out, outcome = clean
    files = sorted((out / "predictions").iterdir())
    assert len(files) == 3
    for file in files:
        for one in read_predictions(file):
            rows = outcome.frame.where(cell=file.stem.partition("__n0")[0], label=one.label)
            found = dict(zip(rows["metric"].tolist(), rows["value"].tolist(), strict=True))
            for name in set(METRICS) - set(LOST):
                assert value(METRICS[name], one.kept) == found[name]


def test_tables_come_back_without_logits_and_without_predictions_where_they_are_lost(
    folder, clean, tmp_path
):
    out, outcome = clean
    again = tmp_path / "run"
    shutil.copytree(out, again)
    tables = finished(again)[1].tables
    assert [t.document() for t in tables] == [t.document() for t in outcome.tables]
    assert json.loads((again / "tables.json").read_text())["tables"][2]["name"] == "seed-samples"
    shutil.rmtree(again / "predictions")
    less = finished(again)[1]
    assert [t.name for t in less.tables] == ["means", "differences"]
    assert "tables that need predictions are left out: seed-samples, samples" in less.notes[0]
    # A run that goes on makes them again, and says so.
    study = study_named("clean").with_options(methods=METHODS, n_boot=N_BOOT)
    mended = run(study, load_collection(folder), again)
    assert len(mended.notes) == 3
    assert "is damaged, or its predictions are; it will be computed again" in mended.notes[0]
    assert [t.document() for t in mended.tables] == [t.document() for t in outcome.tables]


@pytest.mark.parametrize("harm", ["cut", "other", "bit", "empty"])
def test_damaged_predictions_are_one_line_and_are_done_again(harm, clean, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = tmp_path / "file.parquet"
    shutil.copy(sorted((clean[0] / "predictions").iterdir())[0], file)
    if harm == "cut":
        file.write_bytes(file.read_bytes()[:-100])
    elif harm == "empty":
        file.write_bytes(b"")
    elif harm == "other":
        pq.write_table(pa.table({"row": [1, 2]}), file)
    else:
        table = pq.read_table(file)
        column = table["confidence"].to_numpy().copy()
        column[0] += 1e-9
        place = table.column_names.index("confidence")
        table = table.set_column(place, "confidence", pa.array(column))
        pq.write_table(table, file)
    with pytest.raises(FileError) as caught:
        read_predictions(file)
    assert len(str(caught.value).splitlines()) == 1


def test_one_seed_has_intervals_of_its_samples_and_the_table_says_so(folder, tmp_path):
    study = study_named("clean").with_options(methods=("ts-nll",), n_boot=50)
    collection = load_collection(folder).only(["s0"])
    table = table_named(run(study, collection, tmp_path / "run").tables, "seed-samples")
    assert {row["resampled"] for row in cells(table)} == {"samples"}
    assert "One seed, so intervals are of its test samples alone" in table.sentences[0]


def test_a_method_that_fails_on_a_seed_is_left_out_and_the_others_go_on(
    folder, tmp_path, monkeypatch
):
    from smallcal_lab.studies.probes import Site

    real = Site.scores

    def failing(site, entry, *args):
        found = real(site, entry, *args)
        if (entry.label, site.cell.seed) == ("ts-nll", 1):
            raise ValueError("bad luck")
        return found

    monkeypatch.setattr(Site, "scores", failing)
    study = study_named("clean").with_options(methods=("ts-nll", "none"), n_boot=50)
    found = run(study, load_collection(folder), tmp_path / "run")
    assert len(found.failures) == 1
    table = table_named(found.tables, "seed-samples")
    assert {row["minus"] for row in cells(table)} == {"none"}


def test_draws_of_a_seed_are_averaged_in_each_resample(folder, tmp_path):
    study = study_named("clean").with_options(
        methods=("ts-nll",), n_boot=50, budgets=(100,), draws=2
    )
    outcome = run(study, load_collection(folder), tmp_path / "run")
    (row, *_) = cells(table_named(outcome.tables, "seed-samples"), resampled="seeds x samples")
    rows = outcome.frame.where(metric="ece15")
    means = {label: rows.where(label=label)["value"].mean() for label in ("tva-ts", "ts-nll")}
    wanted = 100 * (means["tva-ts"] - means["ts-nll"])
    assert row["ECE points"].value == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"resampled": "cwece15"}, "cwece15 needs the probabilities of all classes"),
        ({"sampled": ("nll", "smece")}, "smece cannot be resampled: it takes milliseconds"),
        ({"resampled": ("ece",)}, "unknown metric 'ece'"),
        ({"resampled": ()}, "resampled must name at least one metric"),
        ({"pooled_boot": 0}, "pooled_boot must be a whole number of at least 2; got 0"),
    ],
)
def test_what_cannot_be_resampled_is_told_before_any_fit(setting, said, folder, tmp_path):
    study = study_named("clean")
    study = replace(study, settings={**study.settings, **setting})
    with pytest.raises(InputError, match=said):
        run(study, load_collection(folder), tmp_path / "run")
    assert not (tmp_path / "run").exists()
