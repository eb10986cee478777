"""Every study on a small world: it runs, and its numbers are those of a plain loop."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.model_selection import train_test_split

import smallcal as sc
from smallcal_lab.statistics import nested
from smallcal_lab.studies import STUDIES, load_collection, run, study_named
from smallcal_lab.studies.frame import ALL, Frame
from smallcal_lab.studies.importers import import_folder
from smallcal_lab.studies.probes import Site, with_groups
from smallcal_lab.studies.simulate import World
from smallcal_lab.studies.study import Entry
from smallcal_lab.studies.tables.catalogue import tables_of
from smallcal_lab.studies.tables.clean import paired, seeds
from smallcal_lab.studies.tables.shift import cube, heterogeneity
from smallcal_lab.studies.tables.table import Number
from support.cases import QUICK, features_of, missing_package
from support.judged import marks

pytest.importorskip("pyarrow", reason="studies keep their rows as Parquet")

SEEDS = (0, 1)
KINDS = {"fog": 0.0, "noise": 0.8, "blur": 1.6, "snow": 2.4}
SEVERITIES = (1, 2)
N_BOOT = 200


def rows_of(part):
    logits = part.logits
    return {"logits": logits, "labels": part.labels, "features": features_of(logits)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two seeds of one model, with four corruptions at two severities, all paired."""
    root = tmp_path_factory.mktemp("collection")
    lines = ['name = "simulated"']
    for seed in SEEDS:
        world = World(n_classes=10, accuracy=0.75, structure=0.4, seed=seed)
        np.savez(root / f"cal{seed}.npz", **rows_of(world.draw(320)))
        np.savez(root / f"test{seed}.npz", **rows_of(world.draw(500, split="test")))
        lines += ["[[cell]]", 'dataset = "world"', 'backbone = "plain"', f"seed = {seed}"]
        lines += [f'calibration = "cal{seed}.npz"', f'test = "test{seed}.npz"']
        for kind, extra in KINDS.items():
            for severity in SEVERITIES:
                name = f"{kind}{severity}-{seed}.npz"
                part = world.draw(500, split="test", severity=severity + extra)
                np.savez(root / name, **rows_of(part))
                lines += ["[[cell.shift]]", f'kind = "{kind}"', f"severity = {severity}"]
                lines += [f'file = "{name}"', "paired = true"]
    (root / "collection.toml").write_text("\n".join(lines), encoding="utf-8")
    return root


def judges(root):
    """Two judges, whose rows are one number: what a study of scores is about."""
    for seed in SEEDS:
        (s, y), (t, u) = marks(320, seed), marks(500, seed + 10)
        arrays = {"val_scores": s, "val_outcomes": y, "test_scores": t, "test_outcomes": u}
        np.savez(root / f"judge__plain-seed{seed}.npz", **arrays)
    import_folder(root, root)
    return root


def small(name, *, methods=None, **options):
    """Return a study with few draws and fast fits, and without what is not installed."""
    study = study_named(name)
    if study.draws > 1:
        options = {"budgets": (120, 200), "draws": 2, **options}
    study = study.with_options(n_boot=N_BOOT, methods=methods, **options)
    quick = [
        replace(entry, options={**entry.options, **SHORT.get(entry.name, {})})
        for entry in study.entries
        if not missing_package(entry.name)
    ]
    settings = {**study.settings, **{k: v for k, v in CHEAP.items() if k in study.settings}}
    return replace(study, entries=tuple(quick), settings=settings)


SHORT = {name: {**options, "epochs": 5} for name, options in QUICK.items() if "epochs" in options}
CHEAP = {"repeats": 2, "folds": 3, "n_null": 19}


@pytest.fixture(scope="module")
def outcome(folder, tmp_path_factory):
    """Run a study once, however many tests look at it."""
    done = {}

    def call(name, **options):
        key = (name, *sorted(options.items()))
        if key not in done:
            out = tmp_path_factory.mktemp(name) / "run"
            data = judges(tmp_path_factory.mktemp("judges")) if name == "scores" else folder
            done[key] = run(small(name, **options), load_collection(data), out)
        return done[key]

    return call


def test_the_issue_names_these_studies():
    text = """
        clean budget k-ablation objective routing-signal routing-target matched-maps heads shift
        requantize paired-clean heterogeneity deployment thresholds matched-coverage selector
        nested-k oracle-k audit signal-to-noise efficiency top1-audit proper-scores
        k-ablation-nll within-margin risk-score risk-flow
        natural-shift scope-map on-off
    """
    assert set(STUDIES) >= set(text.split())


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_runs_and_prints_numbers(name, outcome):
    found = outcome(name)
    assert found.failures == ()
    assert len(found.tables) >= 1
    for table in found.tables:
        text = table.markdown()
        assert table.rows
        assert all(len(row) == len(table.header) for row in table.rows)
        assert len(set(table.header)) == len(table.header)
        told = "one outcome only" in text  # too few models for a threshold between them
        assert told or re.search(r"\| [-+*]*\d+\.\d", text), text
        assert table.latex().count(r"\\") == len(table.rows) + 1
    labels = {entry.label for entry in small(name).entries}
    assert set(found.frame.unique("label")) == labels


# Plain loops ------------------------------------------------------------------------------------


def read(folder, name):
    with np.load(folder / f"{name}.npz") as arrays:
        return arrays["logits"].astype(np.float64), arrays["labels"]


def ece(proba, labels):
    """Fifteen bins, one by one."""
    confidence, right = proba.max(axis=1), proba.argmax(axis=1) == labels
    total = 0.0
    for i in range(15):
        low, high = i / 15, (i + 1) / 15
        rows = (confidence >= low) & ((confidence < high) if i < 14 else (confidence <= 1))
        if rows.any():
            total += rows.sum() * abs(confidence[rows].mean() - right[rows].mean())
    return total / len(labels)


def fitted(name, seed, z, y, **options):
    estimator = sc.make(name, **options)
    if "random_state" in estimator.get_params():
        estimator.set_params(random_state=seed)
    return estimator.fit(z, y)


def scaled(z, temperature):
    scores = z / np.asarray(temperature)[:, None]
    weight = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)


def cells(table, **wanted):
    """Return a table's rows, by heading, that have these words."""
    rows = [dict(zip(table.header, row, strict=True)) for row in table.rows]
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def table_named(found, name):
    return next(table for table in found.tables if table.name == name)


@pytest.mark.filterwarnings("ignore::smallcal.FitWarning")
def test_budget_is_a_plain_loop_over_draws(folder, outcome):
    found = outcome("budget", methods=("none", "srts-bce"))
    errors = {name: np.zeros((2, 2)) for name in ("none", "tva-ts", "srts-bce")}
    budget = 200
    for i, seed in enumerate(SEEDS):
        z, y = read(folder, f"cal{seed}")
        test = read(folder, f"test{seed}")
        for draw in range(2):
            state = seed * 10**6 + budget * 10**3 + draw
            rows, _ = train_test_split(
                np.arange(len(y)), train_size=budget, stratify=y, random_state=state
            )
            rows.sort()
            for name, values in errors.items():
                cal = fitted(name, seed, z[rows], y[rows])
                values[i, draw] = ece(cal.predict_proba(test[0]), test[1])
    for name, values in errors.items():
        (row,) = cells(table_named(found, "means"), samples="200", method=name)
        assert row["ECE %"].value == pytest.approx(100 * values.mean(), abs=1e-4)
        assert row["ECE %"].spread == pytest.approx(100 * values.mean(axis=1).std(), abs=1e-4)
    gap = errors["srts-bce"] - errors["tva-ts"]
    (row,) = cells(table_named(found, "wins"), samples="200", method="srts-bce")
    assert row["ECE %"].value == pytest.approx(100 * (gap < 0).mean())
    (row,) = cells(table_named(found, "differences"), samples="200", method="srts-bce")
    expected = nested.nested(100 * gap[None], n_boot=N_BOOT)
    assert row["ECE points"].value == pytest.approx(expected.point, abs=1e-4)
    assert (row["ECE points"].low, row["ECE points"].high) == pytest.approx(
        tuple(expected), abs=1e-4
    )
    (row,) = cells(table_named(found, "seeds"), samples="200", method="srts-bce", minus="tva-ts")
    expected = nested.nested(100 * gap, n_boot=N_BOOT)
    alone = nested.clustered(100 * gap, n_boot=N_BOOT)
    found = row["ECE points"]
    assert (found.low, found.high) == pytest.approx(tuple(expected), abs=1e-4)
    last = row["ECE, seeds alone"]
    assert (last.low, last.high) == pytest.approx(tuple(alone), abs=1e-4)
    assert row["ECE lower in"].text() == f"{(gap.mean(axis=1) < 0).sum()} of 2"


def test_lower_in_is_counted_for_the_metric_it_stands_beside():
    study = replace(study_named("budget"), n_boot=N_BOOT, metrics=("ece15", "nll"))
    rows = []
    for seed, (ece, nll) in enumerate(((-0.01, 0.2), (-0.02, -0.1), (-0.03, 0.3))):
        about = {"cell": f"a__b__s{seed}", "dataset": "a", "backbone": "b", "seed": seed}
        about |= {"budget": 250, "set": "clean"}
        for label, factor in (("tva-ts", 0), ("srts-bce", 1)):
            for metric, gap in (("ece15", ece), ("nll", nll)):
                one = {"label": label, "metric": metric, "value": 0.5 + factor * gap}
                rows.append({**about, **one})
    table = seeds(study, Frame.of(rows))
    assert table.header[4:8] == (
        "ECE points",
        "ECE lower in",
        "log-loss points",
        "log-loss lower in",
    )
    assert [table.rows[0][place].text() for place in (5, 7)] == ["3 of 3", "1 of 3"]
    assert table.document()["rows"][0][7] == {"value": 1, "of": 3, "best": False}


def test_models_fitted_on_whole_splits_of_any_size_are_in_one_row_together():
    study = replace(study_named("proper-scores"), n_boot=N_BOOT)
    rows = [
        {
            **{"cell": f"{model}__b__s0", "dataset": model, "backbone": "b", "budget": size},
            **{"label": label, "metric": "nll", "value": value, "set": "clean"},
        }
        for model, size in (("x", 500), ("y", 800))
        for label, value in (("none", 0.7), ("ts-nll", size / 2000))
    ]
    tables = {table.name: table for table in tables_of(study, Frame.of(rows))}
    assert [row[:3] for row in tables["differences"].rows] == [
        ("all", "ts-nll", "better: log-loss")
    ]
    assert [row[:2] for row in tables["means"].rows[::2]] == [
        *(("500", "x b"), ("800", "y b"), ("all", "all"))
    ]


def test_who_asks_for_the_default_sees_its_name_everywhere(folder, tmp_path):
    study = study_named("proper-scores").with_options(
        methods=("default", "adaptive", "lts-feature"), n_boot=N_BOOT
    )
    labels = [entry.label for entry in study.entries]
    assert labels == ["none", "smallcal", "sats-features-nll"]
    assert Entry("default") == Entry("adaptive") == Entry("smallcal")
    assert replace(study, baseline="default").with_options(methods=()).entries == (
        Entry("smallcal"),
    )
    assert Entry("mine", "default").method == "smallcal"
    assert not any("default" in entry.label for one in STUDIES.values() for entry in one.entries)
    assert all("default" not in one.settings.get("ours", ()) for one in STUDIES.values())
    quick = study_named("proper-scores").with_options(methods=("default",), n_boot=N_BOOT)
    found = run(quick, load_collection(folder), tmp_path / "run")
    text = "".join(table.markdown() for table in found.tables)
    assert "| smallcal |" in text
    assert "default" not in text
    assert "default" not in (tmp_path / "run" / "manifest.json").read_text()


def shifted_errors(folder, name):
    """Return ECE by seed, corruption and severity, and the share of samples in each group."""
    errors = np.zeros((len(SEEDS), len(KINDS), len(SEVERITIES)))
    groups = np.zeros((*errors.shape, 3))
    for i, seed in enumerate(SEEDS):
        cal = fitted(name, seed, *read(folder, f"cal{seed}"))
        for j, kind in enumerate(KINDS):
            for k, severity in enumerate(SEVERITIES):
                z, y = read(folder, f"{kind}{severity}-{seed}")
                errors[i, j, k] = ece(cal.predict_proba(z), y)
                for group in range(3):
                    groups[i, j, k, group] = (cal.group(z) == group).mean()
    return errors, groups


def test_shift_is_means_over_sets_then_over_seeds(folder, outcome):
    found = outcome("shift")
    ours, groups = shifted_errors(folder, "srts-bce")
    theirs, _ = shifted_errors(folder, "tva-ts")
    for name, errors in (("srts-bce", ours), ("tva-ts", theirs)):
        (row,) = cells(table_named(found, "shift-means"), method=name)
        assert row["ECE %"].value == pytest.approx(100 * errors.mean(), abs=1e-4)
        spread = 100 * errors.mean(axis=(1, 2)).std()
        assert row["ECE %"].spread == pytest.approx(spread, abs=1e-4)
        (row,) = cells(table_named(found, "severity"), method=name)
        for k, severity in enumerate(SEVERITIES):
            value = row[f"severity {severity}"].value
            assert value == pytest.approx(100 * errors[:, :, k].mean(), abs=1e-4)
    where = {"method": "srts-bce", "minus": "tva-ts", "metric": "ece15"}
    (row,) = cells(table_named(found, "tiers"), **where)
    expected = nested.tiers(100 * (ours - theirs), n_boot=N_BOOT)
    for name, interval in expected.items():
        assert row[name].value == pytest.approx(interval.point, abs=1e-4)
        assert (row[name].low, row[name].high) == pytest.approx(tuple(interval), abs=1e-4)
    whole = expected["seed x corruption x severity"]
    assert row["verdict"].startswith(whole.verdict())
    table = table_named(found, "occupancy")
    (row,) = cells(table, method="srts-bce", set="shifted")
    for group in range(3):
        share = 100 * groups[..., group].mean()
        assert row[f"group {group} %"].value == pytest.approx(share)
    high = [
        cells(table, method="srts-bce", set=where)[0]["group 2 %"].value
        for where in ("clean", "severity 1", "severity 2")
    ]
    assert high == sorted(high)  # samples move to the risky group as severity grows
    assert high[2] == pytest.approx(100 * groups[:, :, 1, 2].mean())


def signed_gaps(folder, name):
    """Return mean confidence minus accuracy in points, for each corruption."""
    found = np.zeros((len(SEEDS), len(KINDS), len(SEVERITIES)))
    for i, seed in enumerate(SEEDS):
        cal = fitted(name, seed, *read(folder, f"cal{seed}"))
        for j, kind in enumerate(KINDS):
            for k, severity in enumerate(SEVERITIES):
                z, y = read(folder, f"{kind}{severity}-{seed}")
                p = cal.predict_proba(z)
                found[i, j, k] = p.max(axis=1).mean() - (p.argmax(axis=1) == y).mean()
    return 100 * found.mean(axis=(0, 2))


def test_heterogeneity_ranks_corruptions_by_the_raw_error(folder, outcome):
    found = outcome("heterogeneity", methods=("none", "srts-bce"))
    raw, ours, theirs = (
        100 * shifted_errors(folder, name)[0].mean(axis=(0, 2))
        for name in ("none", "srts-bce", "tva-ts")
    )
    gaps = {name: signed_gaps(folder, name) for name in ("none", "tva-ts")}
    (table,) = found.tables
    assert table.header[-2:] == ("gap of none", "gap of tva-ts")
    order = np.argsort(raw)
    assert [row[2] for row in table.rows] == [list(KINDS)[i] for i in order]
    for row, i in zip(table.rows, order, strict=True):
        values = [number.value for number in row[3:]]
        expected = [raw[i], ours[i], theirs[i] - ours[i], gaps["none"][i], gaps["tva-ts"][i]]
        assert values == pytest.approx(expected, abs=1e-4)
    ranks = [np.argsort(np.argsort(values)) for values in (raw, theirs - ours)]
    n = len(raw)
    rho = 1 - 6 * ((ranks[0] - ranks[1]) ** 2).sum() / (n * (n**2 - 1))
    assert f"the raw error is {rho:+.2f}" in table.sentences[0]
    for name in gaps:
        rho = spearmanr(theirs - ours, gaps[name]).statistic
        assert f"of {name} {rho:+.2f}" in table.sentences[1]


def test_heterogeneity_of_a_run_without_gaps_is_what_it_was(outcome):
    found = outcome("heterogeneity", methods=("none", "srts-bce"))
    frame = found.frame.where(metric="ece15")
    (before,) = found.tables
    after = heterogeneity(STUDIES["heterogeneity"], frame)
    assert after.header == before.header[:-2]
    assert [row[2:] for row in after.rows] == [row[2:-2] for row in before.rows]
    assert after.sentences[0].partition(": ")[2] == before.sentences[0].partition(": ")[2]


def test_selector_picks_what_select_picks(folder, outcome):
    table = table_named(outcome("selector"), "selector")
    for rule in ("repeat", "fold", "sample"):
        picks, errors = [], []
        for seed in SEEDS:
            z, y = read(folder, f"cal{seed}")
            chosen = sc.select(
                z,
                y,
                candidates={"K=1": "tva-ts", "K=3": "srts-bce"},
                rule=rule,
                n_repeats=2,
                n_folds=3,
                random_state=seed,
            )
            picks.append(chosen.choice)
            test = read(folder, f"test{seed}")
            pair = [fitted(m, seed, z, y).predict_proba(test[0]) for m in ("tva-ts", "srts-bce")]
            errors.append([100 * ece(proba, test[1]) for proba in pair])
        errors = np.array(errors)
        selected = np.mean([errors[i, int(pick == "K=3")] for i, pick in enumerate(picks)])
        best = errors.min(axis=1).mean()
        (row,) = cells(table, rule=rule, candidate="K=3", set="clean")
        assert row["picks"] == " / ".join(picks)
        values = [row[key].value for key in ("always K=1", "always candidate", "selected")]
        assert values == pytest.approx([*errors.mean(axis=0), selected], abs=1e-4)
        assert row["best of 2"].value == pytest.approx(best, abs=1e-4)
        assert row["excess"].value == pytest.approx(selected - best, abs=1e-4)
        assert row["excess"].value >= 0


@pytest.mark.filterwarnings("ignore::smallcal.FitWarning")
def test_nested_and_oracle_choices_of_k(folder, outcome):
    counts = (1, 2, 3, 5, 10)
    picks, chosen, errors = [], [], []
    for seed in SEEDS:
        z, y = read(folder, f"cal{seed}")
        recipes = {f"K={k}": ("srts-bce", {"n_groups": k}) for k in counts}
        found = sc.select(z, y, candidates=recipes, rule="holdout", loss="ece15", random_state=seed)
        picks.append(found.choice)
        test = read(folder, f"test{seed}")
        own = {
            label: 100 * ece(fitted(name, seed, z, y, **o).predict_proba(test[0]), test[1])
            for label, (name, o) in recipes.items()
        }
        chosen.append(own[found.choice])
        errors.append(own)
    (table,) = outcome("nested-k").tables
    (row,) = cells(table, entry="chosen")
    assert row["picks"] == " / ".join(picks)
    assert row["ECE %"].value == pytest.approx(np.mean(chosen), abs=1e-4)
    (row,) = cells(table, entry="K=3")
    fixed = np.mean([own["K=3"] for own in errors])
    assert row["ECE %"].value == pytest.approx(fixed, abs=1e-4)
    assert f"from {np.mean(chosen) - fixed:+.2f} (world plain)" in table.sentences[0]
    (table,) = outcome("oracle-k", methods=tuple(recipes)).tables
    (row,) = cells(table, entry="chosen")
    assert row["ECE %"].value == pytest.approx(
        np.mean([min(own.values()) for own in errors]), abs=1e-4
    )
    assert row["picks"] == " / ".join(min(own, key=own.get) for own in errors)


def test_the_controls_are_what_they_say(folder, outcome):
    """Requantised: thirds of the shifted set itself. Paired: the group of the clean twin."""
    deployed, thirds, twins = ([] for _ in range(3))
    for seed in SEEDS:
        cal = fitted("srts-bce", seed, *read(folder, f"cal{seed}"))
        clean = cal.group(read(folder, f"test{seed}")[0])
        for kind in KINDS:
            for severity in SEVERITIES:
                z, y = read(folder, f"{kind}{severity}-{seed}")
                risk = cal.risk(z)
                cut = np.searchsorted(np.quantile(risk, [1 / 3, 2 / 3]), risk, side="right")
                for where, groups in ((deployed, cal.group(z)), (thirds, cut), (twins, clean)):
                    where.append(100 * ece(scaled(z, cal.temperatures_[groups]), y))
    for study, control in (("requantize", thirds), ("paired-clean", twins)):
        (table,) = outcome(study).tables
        (row,) = cells(table, method="srts-bce", severity="all")
        name = table.title.removeprefix("Deployed, and ")
        assert row["ECE %"].value == pytest.approx(np.mean(deployed), abs=1e-4)
        assert row[f"ECE {name}"].value == pytest.approx(np.mean(control), abs=1e-4)
        gap = row["ECE difference points"]
        assert gap.value == pytest.approx(np.mean(control) - np.mean(deployed), abs=1e-4)
        assert gap.low <= gap.value <= gap.high
        shape = (len(SEEDS), len(KINDS), len(SEVERITIES))
        apart = (np.array(control) - np.array(deployed)).reshape(shape)
        wanted = nested.tiers(apart, n_boot=N_BOOT)
        for tier, column in (("cell", "sets"), ("corruption", "corruptions")):
            number = row[f"ECE difference, {column}"]
            assert [number.low, number.high] == pytest.approx(list(wanted[tier]), abs=1e-4)


def test_given_groups_get_their_own_temperatures(folder):
    collection = load_collection(folder)
    cell = collection.cells[0]
    site = Site(study_named("requantize"), cell, cell.read("calibration"))
    cal = site.fit(Entry("srts-bce"))
    test = cell.read("test")
    again = with_groups(cal.fitted_, test, cal.group(test.logits))
    np.testing.assert_array_equal(again, cal.predict_proba(test.logits))


@pytest.mark.filterwarnings("ignore::smallcal.FitWarning")
def test_audit_counts_fits(folder, outcome):
    found = outcome("audit", budgets=(ALL, 200), draws=2)
    fits = [fitted("srts-bce", seed, *read(folder, f"cal{seed}")) for seed in SEEDS]
    table = table_named(found, "audit")
    (row,) = cells(table, samples="320", method="srts-bce")
    assert row["fits"] == "2"
    for i in range(3):
        values = [cal.temperatures_[i] for cal in fits]
        number = row[f"T of group {i}"]
        quartiles = np.quantile(values, [0.5, 0.25, 0.75])
        assert (number.value, number.low, number.high) == pytest.approx(tuple(quartiles))
        assert not number.text().startswith("+")
    for i in range(2):
        values = [cal.thresholds_[i] for cal in fits]
        assert row[f"group {i + 1} from"].value == pytest.approx(np.mean(values))
        assert row[f"group {i + 1} from"].spread == pytest.approx(np.std(values))
    rising = [all(np.diff(cal.temperatures_) > 0) for cal in fits]
    assert row["temperatures in order %"].value == pytest.approx(100 * np.mean(rising))
    in_order = []
    for cal, seed in zip(fits, SEEDS, strict=True):
        z, y = read(folder, f"cal{seed}")
        groups, wrong = cal.group(z), z.argmax(axis=1) != y
        in_order.append(all(np.diff([wrong[groups == g].mean() for g in range(3)]) >= 0))
    assert row["risk in order %"].value == pytest.approx(100 * np.mean(in_order))
    (row,) = cells(table, samples="200", method="srts-bce")
    assert row["fits"] == "4"


def test_signal_to_noise_is_the_librarys(folder, outcome):
    (table,) = outcome("signal-to-noise").tables
    ratios, floors, gains, gaps = [], [], [], []
    for seed in SEEDS:
        z, y = read(folder, f"cal{seed}")
        test = read(folder, f"test{seed}")
        found = sc.signal_to_noise(z, y, signals=("risk",), n_null=19, random_state=seed)
        ratios.append(1000 * found["risk"].ratio)
        floors.append(1000 * 2 / len(y))
        gains.append(100 * found["risk"].predicted_gain)
        pair = [fitted(m, seed, z, y).predict_proba(test[0]) for m in ("tva-ts", "srts-bce")]
        gaps.append(100 * (ece(pair[0], test[1]) - ece(pair[1], test[1])))
    (row,) = cells(table, method="srts-bce")
    assert row["B/σ² x1000"].value == pytest.approx(np.mean(ratios), rel=1e-4)
    assert row["floor x1000"].value == pytest.approx(np.mean(floors))
    promised = row["predicted gain points"].value
    assert promised == pytest.approx(np.mean(gains), rel=1e-3)
    assert row["ECE gain points"].value == pytest.approx(np.mean(gaps), abs=1e-4)
    word = "wins" if min(gaps) > 0 else "loses" if max(gaps) < 0 else "mixed"
    assert row["ECE outcome"] == word
    assert row["loss"] == "top_label_bce"


def test_signal_to_noise_of_nll_is_compared_with_one_temperature_by_nll(folder, outcome):
    (table,) = outcome("signal-to-noise").tables
    ratios, gains = [], []
    for seed in SEEDS:
        z, y = read(folder, f"cal{seed}")
        test, labels = read(folder, f"test{seed}")
        options = {"objective": "nll", "n_null": 19, "random_state": seed}
        found = sc.signal_to_noise(z, y, signals=("risk",), **options)
        ratios.append(1000 * found["risk"].ratio)
        pair = [fitted(m, seed, z, y).predict_proba(test) for m in ("ts-nll", "srts-nll")]
        losses = [-np.log(p[np.arange(len(labels)), labels]).mean() for p in pair]
        gains.append(100 * (losses[0] - losses[1]))
    (row,) = cells(table, method="srts-nll")
    assert row["loss"] == "nll"
    assert row["B/σ² x1000"].value == pytest.approx(np.mean(ratios), rel=1e-4)
    assert row["gain points"].value == pytest.approx(np.mean(gains), abs=1e-4)


def test_thresholds_and_equal_coverage(folder, outcome):
    methods = ("srts-bce",)
    kept = {"fixed": [], "equal": []}
    for seed in SEEDS:
        z, y = read(folder, f"cal{seed}")
        test, labels = read(folder, f"test{seed}")
        one, ours = (fitted(m, seed, z, y).predict_proba(test) for m in ("tva-ts", "srts-bce"))
        confidence, wrong = ours.max(axis=1), ours.argmax(axis=1) != labels
        rows = confidence >= 0.8
        first = np.argsort(-confidence)[: int((one.max(axis=1) >= 0.8).sum())]
        for name, some in (("fixed", rows), ("equal", first)):
            gap = confidence[some].mean() - (1 - wrong[some].mean())
            kept[name].append((wrong[some].mean(), gap))
    for study, name, at in (
        ("thresholds", "fixed", "_at80 %"),
        ("matched-coverage", "equal", "_at_tva_coverage80 %"),
    ):
        (row,) = cells(table_named(outcome(study, methods=methods), "means"), method="srts-bce")
        risk, gap = 100 * np.mean(kept[name], axis=0)
        assert row[f"risk{at}"].value == pytest.approx(risk, abs=1e-4)
        assert row[f"gap{at}"].value == pytest.approx(gap, abs=1e-4)


# What goes wrong --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n, study in STUDIES.items() if study.needs])
def test_a_collection_without_shift_is_told_at_once(name, folder, tmp_path):
    collection = load_collection(folder)
    bare = replace(collection, cells=tuple(replace(c, shifts=()) for c in collection.cells))
    with pytest.raises(sc.InputError, match="needs shifted test sets") as told:
        run(small(name), bare, tmp_path / "run")
    assert "\n" not in str(told.value)
    assert not (tmp_path / "run").exists()


def test_cells_without_pairs_are_left_out(folder):
    first, second = load_collection(folder).cells
    loose = replace(second, shifts=tuple(replace(s, paired=False) for s in second.shifts))
    collection = replace(load_collection(folder), cells=(first, loose))
    assert {task.cell for task in small("paired-clean").tasks(collection)} == {first.name}
    assert len(small("shift").tasks(collection)) == 2


def test_a_budget_that_cannot_be_drawn_is_a_failure_of_its_own(folder, tmp_path):
    study = small("budget", methods=("none",), budgets=(120, 5000), draws=1)
    found = run(study, load_collection(folder), tmp_path / "run")
    assert len(found.failures) == 2 * 2
    assert "cannot be drawn from 320" in found.failures[0]
    assert cells(table_named(found, "means"), samples="120")


def frame_of(rows):
    names = ("cell", "label", "draw", "set", "severity", "value")
    made = [dict(zip(names, row, strict=True), metric="ece15") for row in rows]
    return Frame.of([{**row, "dataset": "d", "backbone": "b"} for row in made])


def test_draws_are_paired_by_number_not_by_place():
    rows = [("c", "a", draw, "clean", 0, 1.0 * draw) for draw in (0, 1)]
    rows += [("c", "b", draw, "clean", 0, 10.0 * draw) for draw in (1, 2)]
    assert paired(frame_of(rows), "ece15", "a", "b") == {"c": [1.0 - 10.0]}


def test_a_corruption_without_every_severity_is_left_out_by_name():
    rows = []
    for label, plus in (("a", 0.5), ("b", 0.0)):
        for cell in "xy":
            rows += [
                (cell, label, 0, kind, s, plus * s) for kind in ("fog", "snow") for s in (1, 2)
            ]
            rows += [(cell, label, 0, "v2", 1, plus)]
    values, left_out = cube(frame_of(rows), ("ece15", "a"), ("ece15", "b"))
    assert left_out == ("v2",)
    np.testing.assert_array_equal(values, np.broadcast_to([0.5, 1.0], (2, 2, 2)))
    none, every = cube(frame_of(rows[:1]), ("ece15", "a"), ("ece15", "b"))
    assert none is None
    assert every == ("fog",)


def test_one_fit_has_no_interval_and_no_verdict(folder, tmp_path):
    collection = load_collection(folder).only(["__s0"])
    study = small("routing-target", methods=("srts-bce",))
    (means, differences) = run(study, collection, tmp_path / "run").tables
    (row,) = cells(differences, method="srts-bce")
    assert row["verdict"].startswith("no interval: ECE")
    assert row["ECE points"].low is None
    ours, theirs = (cells(means, method=m)[0]["ECE %"].value for m in ("srts-bce", "tva-ts"))
    assert row["ECE points"].value == pytest.approx(ours - theirs)
    shift = run(small("shift", methods=("srts-bce",)), collection, tmp_path / "shift")
    assert "world plain" in table_named(shift, "tiers").sentences[0]


def test_a_gap_is_not_better_for_being_low(outcome):
    table = table_named(outcome("thresholds"), "means")
    for row in cells(table):
        assert not row["gap_at80 %"].best
        assert not row["coverage_at80 %"].best
    assert sum(row["risk_at80 %"].best for row in cells(table)) >= 1


def test_numbers_without_a_value_are_dashes():
    assert Number(math.nan).text() == "–"
