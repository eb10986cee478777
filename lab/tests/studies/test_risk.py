"""Studies of the routing score: each number against a plain loop, simulated and real."""

from __future__ import annotations

import itertools
import statistics as st

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict

import smallcal as sc
from smallcal.data.predictions import Predictions
from smallcal_lab.studies import import_folder, load_collection, run, study_named
from smallcal_lab.studies.frame import Frame
from smallcal_lab.studies.probes import Site, auroc, risk_scored
from smallcal_lab.studies.simulate import World
from smallcal_lab.studies.study import Entry
from smallcal_lab.studies.tables.groups import flow, within_margin
from support.cases import features_of
from support.real import data_folder

pytest.importorskip("pyarrow", reason="studies keep their rows as Parquet")

SEEDS, KINDS, SEVERITIES = (0, 1), {"fog": 0.0, "blur": 1.5}, (1, 3)
N_BOOT = 100


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two seeds of one model with two corruptions at two severities; the second is not paired."""
    root = tmp_path_factory.mktemp("collection")
    lines = ['name = "simulated"']
    for seed in SEEDS:
        world = World(n_classes=8, accuracy=0.75, structure=0.4, seed=seed)
        parts = {"cal": world.draw(400), "test": world.draw(500, split="test")}
        lines += ["[[cell]]", 'dataset = "world"', 'backbone = "plain"', f"seed = {seed}"]
        lines += [f'calibration = "cal{seed}.npz"', f'test = "test{seed}.npz"']
        for kind, severity in itertools.product(KINDS, SEVERITIES):
            name = f"{kind}{severity}-"
            parts[name] = world.draw(500, split="test", severity=severity + KINDS[kind])
            paired = "true" if kind == "fog" else "false"
            lines += ["[[cell.shift]]", f'kind = "{kind}"', f"severity = {severity}"]
            lines += [f'file = "{name}{seed}.npz"', f"paired = {paired}"]
        for name, part in parts.items():
            more = {"features": features_of(part.logits)}
            np.savez(root / f"{name}{seed}.npz", logits=part.logits, labels=part.labels, **more)
    (root / "collection.toml").write_text("\n".join(lines), encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def outcome(folder, tmp_path_factory):
    """Run a study once, however many tests look at it."""
    done = {}

    def call(name, methods=None, **options):
        if name not in done:
            study = study_named(name).with_options(n_boot=N_BOOT, methods=methods, **options)
            found = run(study, load_collection(folder), tmp_path_factory.mktemp(name) / "run")
            assert found.failures == ()
            done[name] = found
        return done[name]

    return call


def read(folder, name):
    with np.load(folder / f"{name}.npz") as arrays:
        return arrays["logits"].astype(np.float64), arrays["labels"]


def softmax(z, temperature=1.0):
    weight = np.exp((z - z.max(axis=1, keepdims=True)) / temperature)
    return weight / weight.sum(axis=1, keepdims=True)


def ece(proba, labels):
    confidence, right = proba.max(axis=1), proba.argmax(axis=1) == labels
    total = 0.0
    for i in range(15):
        rows = (confidence >= i / 15) & ((confidence < (i + 1) / 15) | (i == 14))
        if rows.any():
            total += rows.sum() * abs(confidence[rows].mean() - right[rows].mean())
    return total / len(labels)


def aurc(proba, labels):
    order = np.argsort(-proba.max(axis=1), kind="stable")
    wrong = (proba.argmax(axis=1) != labels)[order]
    return np.mean(np.cumsum(wrong) / np.arange(1, len(wrong) + 1))


def margin_of(z):
    two = np.sort(z, axis=1)[:, -2:]
    return two[:, 1] - two[:, 0]


def six_statistics(z):
    p = softmax(z)
    top = np.sort(p, axis=1)[:, -2:]
    entropy = -(p * np.log(np.maximum(p, 1e-300))).sum(axis=1)
    norm, best = np.linalg.norm(z, axis=1), z.max(axis=1)
    return np.column_stack([top[:, 1], margin_of(z), top[:, 1] - top[:, 0], entropy, norm, best])


def plain_router(z, y, seed):
    """Return the risk out of fold, refitted on all, and the fitted model: scikit-learn's."""
    raw = six_statistics(z)
    mean, scale = raw.mean(axis=0), raw.std(axis=0)
    columns, wrong = (raw - mean) / scale, z.argmax(axis=1) != y
    model = LogisticRegression(C=1.0, tol=1e-8, max_iter=5000)
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    risk = cross_val_predict(model, columns, wrong, cv=folds, method="predict_proba")[:, 1]
    model.fit(columns, wrong)

    def scored(other):
        return model.predict_proba((six_statistics(other) - mean) / scale)[:, 1]

    return risk, scored


def fitted(name, seed, z, y, **options):
    estimator = sc.make(name, **options)
    if "random_state" in estimator.get_params():
        estimator.set_params(random_state=seed)
    return estimator.fit(z, y)


def values(found, metric, label="srts-bce", **where):
    rows = found.frame.where(metric=metric, label=label, **where)
    return rows["value"].tolist()


def cells(table, **wanted):
    rows = [dict(zip(table.header, row, strict=True)) for row in table.rows]
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def table_named(found, name):
    return next(table for table in found.tables if table.name == name)


# The risk score.


def test_the_risk_ranks_errors_as_scikit_learn_says(folder, outcome):
    found = outcome("risk-score")
    by_risk, by_confidence, shifts, ratios = [], [], [], []
    for seed in SEEDS:
        z, y = read(folder, f"cal{seed}")
        risk, scored = plain_router(z, y, seed)
        wrong = z.argmax(axis=1) != y
        by_risk.append(100 * roc_auc_score(wrong, risk))
        by_confidence.append(100 * roc_auc_score(wrong, -softmax(z).max(axis=1)))
        refit = scored(z)
        shifts.append(refit.mean() - risk.mean())
        ratios.append(refit.std() / risk.std())
        where = {"cell": f"world__plain__s{seed}"}
        assert values(found, "auroc_margin", **where) == pytest.approx(
            [roc_auc_score(wrong, -margin_of(z))]
        )
        rho = spearmanr(risk, -softmax(z).max(axis=1)).statistic
        assert values(found, "rank_correlation", **where) == pytest.approx([rho], abs=1e-4)
        test, labels = read(folder, f"test{seed}")
        wrong = test.argmax(axis=1) != labels
        own = roc_auc_score(wrong, scored(test))
        assert values(found, "auroc_risk_test", **where) == pytest.approx([own], abs=1e-4)
        assert values(found, "average_risk_test", **where) == pytest.approx(
            [scored(test).mean()], abs=1e-4
        )
    (row,) = cells(table_named(found, "ranking"), method="srts-bce", split="calibration")
    assert row["by risk %"].value == pytest.approx(np.mean(by_risk), abs=1e-2)
    assert row["by risk %"].spread == pytest.approx(np.std(by_risk), abs=1e-2)
    assert row["by confidence %"].value == pytest.approx(np.mean(by_confidence), abs=1e-9)
    gap = np.subtract(by_risk, by_confidence)
    assert row["difference points"].value == pytest.approx(gap.mean(), abs=1e-2)
    assert row["difference points"].low <= row["difference points"].high
    (row,) = cells(table_named(found, "score-scale"), method="srts-bce")
    assert row["shift"].value == pytest.approx(np.mean(shifts), abs=1e-5)
    assert row["largest shift"].value == pytest.approx(np.abs(shifts).max(), abs=1e-5)
    assert row["ratio"].value == pytest.approx(np.mean(ratios), abs=1e-4)


def test_an_auroc_counts_pairs():
    rng = np.random.default_rng(0)
    score, wrong = rng.integers(6, size=60).astype(float), rng.random(60) < 0.3
    pairs = [(a > b) + (a == b) / 2 for a in score[wrong] for b in score[~wrong]]
    assert auroc(score, wrong) == pytest.approx(st.fmean(pairs))
    assert np.isnan(auroc(score, np.zeros(60, dtype=bool)))


def test_the_density_is_shares_of_right_and_of_wrong_predictions(folder, outcome):
    found = outcome("risk-score")
    z, y = read(folder, "cal0")
    risk, _ = plain_router(z, y, 0)
    wrong = z.argmax(axis=1) != y
    for name, rows in (("right", ~wrong), ("wrong", wrong)):
        shares = [
            values(found, f"share_of_{name}_bin{i:02d}", cell="world__plain__s0")[0]
            for i in range(40)
        ]
        plain = np.histogram(risk[rows], bins=40, range=(0, 1))[0] / rows.sum()
        assert shares == pytest.approx(plain, abs=1 / rows.sum() + 1e-12)  # one may sit on an edge
        assert sum(shares) == pytest.approx(1)


def test_tenths_hold_equally_many_samples_and_their_errors(folder, outcome):
    found = outcome("risk-score")
    z, y = read(folder, "cal1")
    confidence, wrong = softmax(z).max(axis=1), z.argmax(axis=1) != y
    order = np.argsort(-confidence)
    for i, rows in enumerate(np.split(order, 10)):
        where = {"cell": "world__plain__s1"}
        assert values(found, f"error_by_confidence{i}", **where) == pytest.approx(
            [wrong[rows].mean()]
        )
        assert values(found, f"confidence_by_confidence{i}", **where) == pytest.approx(
            [confidence[rows].mean()]
        )
    for name in ("risk", "confidence"):
        errors = [values(found, f"error_by_{name}{i}", cell="world__plain__s1") for i in range(10)]
        assert np.mean(errors) == pytest.approx(wrong.mean())


def test_groups_are_compared_at_the_confidence_of_one_temperature(folder, outcome):
    found = outcome("risk-score")
    gaps, own_gaps = np.zeros((2, 3)), np.zeros((2, 3))
    for i, seed in enumerate(SEEDS):
        z, y = read(folder, f"cal{seed}")
        test, labels = read(folder, f"test{seed}")
        cal = fitted("srts-bce", seed, z, y)
        one = softmax(test, fitted("tva-ts", seed, z, y).pooled_temperature_)
        own, group = cal.predict_proba(test), cal.group(test)
        right = test.argmax(axis=1) == labels
        where = {"cell": f"world__plain__s{seed}"}
        for g in range(3):
            rows = group == g
            gaps[i, g] = one.max(axis=1)[rows].mean() - right[rows].mean()
            own_gaps[i, g] = own.max(axis=1)[rows].mean() - right[rows].mean()
            for b in range(10):
                here = rows & (np.minimum((one.max(axis=1) * 10).astype(int), 9) == b)
                measured = values(found, f"accuracy_group{g}_bin{b}", **where)
                expected = [right[here].mean()] if here.any() else []
                assert measured == pytest.approx(expected)
                if expected:
                    share = values(found, f"share_of_group{g}_bin{b}", **where)
                    assert share == pytest.approx([here.mean()])
    for g in range(3):
        (row,) = cells(table_named(found, "group-gaps"), method="srts-bce", group=str(g))
        assert row["gap at one T %"].value == pytest.approx(100 * gaps[:, g].mean())
        assert row["gap %"].value == pytest.approx(100 * own_gaps[:, g].mean())


@pytest.mark.filterwarnings("ignore::smallcal.FitWarning")
def test_what_has_no_risk_says_so(folder, tmp_path):
    study = study_named("risk-score").with_options(methods=("margin-k3",), n_boot=N_BOOT)
    found = run(study, load_collection(folder), tmp_path / "run")
    assert len(found.failures) == 2
    assert "margin-k3 has no risk score; its signal is 'statistic'" in found.failures[0]
    flow_study = study_named("risk-flow").with_options(methods=("tva-ts",))
    found = run(flow_study, load_collection(folder), tmp_path / "flow")
    assert "tva-ts has one group" in found.failures[0]


def test_a_split_without_errors_has_no_risk_to_learn(folder):
    cell = load_collection(folder).cells[0]
    z = 5 * np.eye(4)[np.arange(60) % 4] + np.random.default_rng(0).normal(0, 0.1, (60, 4))
    site = Site(study_named("risk-score"), cell, Predictions.of(z, np.arange(60) % 4))
    with pytest.raises(sc.InputError, match="too few wrong or right predictions"):
        list(risk_scored(site, Entry("srts-bce")))


# Under shift.


def test_samples_flow_from_the_group_of_their_clean_twin(folder, outcome):
    found = outcome("risk-flow")
    shares = np.zeros((len(SEEDS), len(SEVERITIES), 3, 3))
    risks = np.zeros((len(SEEDS), 1 + len(SEVERITIES)))
    for i, seed in enumerate(SEEDS):
        cal = fitted("srts-bce", seed, *read(folder, f"cal{seed}"))
        clean = read(folder, f"test{seed}")[0]
        before, risks[i, 0] = cal.group(clean), cal.risk(clean).mean()
        for j, severity in enumerate(SEVERITIES):
            z, _ = read(folder, f"fog{severity}-{seed}")
            for a, b in zip(before, cal.group(z), strict=True):
                shares[i, j, a, b] += 1 / len(z)
            each = [cal.risk(read(folder, f"{k}{severity}-{seed}")[0]).mean() for k in KINDS]
            risks[i, 1 + j] = np.mean(each)
    table = table_named(found, "flow")
    for j, severity in enumerate(SEVERITIES):
        for a in range(3):
            (row,) = cells(
                table, method="srts-bce", severity=str(severity), **{"clean group": str(a)}
            )
            assert row["all %"].value == pytest.approx(100 * shares[:, j, a].sum(axis=1).mean())
            for b in range(3):
                assert row[f"to group {b} %"].value == pytest.approx(
                    100 * shares[:, j, a, b].mean()
                )
                assert row[f"to group {b} %"].spread == pytest.approx(
                    100 * shares[:, j, a, b].std()
                )
    # Only fog is paired; the mean risk is of every set.
    assert found.frame.where(metric="flow_0_to_0").unique("set") == ["fog"]
    (row,) = cells(table_named(found, "severity"), method="srts-bce")
    named = ("clean", *(f"severity {s}" for s in SEVERITIES))
    assert [row[name].value for name in named] == pytest.approx(risks.mean(axis=0))


def test_a_run_without_pairs_has_no_flow():
    rows = [
        {"cell": "a", "dataset": "a", "backbone": "b", "label": "srts-bce", "set": "fog"}
        | {"severity": 1, "metric": "mean_risk", "value": 0.1}
    ]
    assert flow(study_named("risk-flow"), Frame.of(rows)).rows == ()


# Within a margin.


def test_metrics_within_a_margin_are_those_of_its_rows(folder, outcome):
    methods = ("margin-k3", "srts-bce")
    found = outcome("within-margin", methods=methods)
    table = table_named(found, "within-margin")
    for name, where in itertools.product(("tva-ts", *methods), ("clean", "shifted")):
        errors = np.full((len(SEEDS), 4, 3), np.nan)
        areas, shares = errors.copy(), errors.copy()
        for i, seed in enumerate(SEEDS):
            z, y = read(folder, f"cal{seed}")
            cuts = np.quantile(margin_of(z), [1 / 3, 2 / 3])
            cal = fitted(name, seed, z, y)
            sets = [f"{k}{s}-" for k in KINDS for s in SEVERITIES]
            for j, part in enumerate(["test"] if where == "clean" else sets):
                z, y = read(folder, f"{part}{seed}")
                proba, third = cal.predict_proba(z), np.searchsorted(cuts, margin_of(z), "right")
                for g in range(3):
                    rows = third == g
                    shares[i, j, g] = rows.mean()
                    if rows.any():
                        errors[i, j, g] = ece(proba[rows], y[rows])
                        areas[i, j, g] = aurc(proba[rows], y[rows])
        for g, tertile in enumerate(("low", "mid", "high")):
            (row,) = cells(table, method=name, set=where, margin=tertile)
            for heading, found_here in (("ECE %", errors), ("AURC %", areas)):
                per_seed = np.nanmean(found_here[:, :, g], axis=1)
                assert row[heading].value == pytest.approx(100 * per_seed.mean(), abs=1e-4)
                assert row[heading].spread == pytest.approx(100 * per_seed.std(), abs=1e-4)
            assert row["share %"].value == pytest.approx(
                100 * np.nanmean(shares[:, :, g], axis=1).mean()
            )


def test_the_best_within_a_margin_is_marked_as_the_metric_wants_it():
    rows = []
    for label, value in (("tva-ts", 0.9), ("srts-bce", 0.8)):
        for metric in ("accuracy", "accuracy_margin_low", "nll", "nll_margin_low"):
            about = {"cell": "a", "dataset": "a", "backbone": "b", "set": "clean"}
            rows.append({**about, "label": label, "metric": metric, "value": value})
    study = study_named("within-margin").with_options(metrics=("accuracy", "nll"))
    table = within_margin(study, Frame.of(rows))
    low = cells(table, margin="low")
    assert [row["accuracy %"].best for row in low] == [True, False]
    assert [row["log-loss x100"].best for row in low] == [False, True]


# Numbers of groups by NLL, and the studies that gained rows.


@pytest.mark.filterwarnings("ignore::smallcal.FitWarning")
def test_temperatures_of_groups_by_nll(folder, outcome):
    found = outcome("k-ablation-nll")
    table = table_named(found, "temperatures")
    for k in (1, 2, 3, 5, 10):
        low, high, ratio, sure, of_errors = [], [], [], [], []
        for seed in SEEDS:
            z, y = read(folder, f"cal{seed}")
            test, labels = read(folder, f"test{seed}")
            cal = fitted("srts-nll", seed, z, y, n_groups=k)
            t = cal.temperatures_
            low.append(t.min())
            high.append(t.max())
            ratio.append(t.max() / t.min())
            proba = cal.predict_proba(test)
            wrong = proba.argmax(axis=1) != labels
            sure.append(100 * (wrong & (proba.max(axis=1) >= 0.9)).mean())
            of_errors.append(100 * (proba.max(axis=1)[wrong] >= 0.9).mean())
            for i, one in enumerate(t):
                where = {"label": f"K={k}", "cell": f"world__plain__s{seed}"}
                assert values(found, f"temperature{i}", **where) == pytest.approx([one])
        (row,) = cells(table, method=f"K={k}")
        for heading, expected in (("lowest T", low), ("highest T", high), ("ratio", ratio)):
            assert row[heading].value == pytest.approx(np.mean(expected))
            assert row[heading].spread == pytest.approx(np.std(expected))
        assert row["high-confidence errors (≥0.9), of all %"].value == pytest.approx(np.mean(sure))
        (row,) = cells(table_named(found, "means"), method=f"K={k}")
        assert row["high-confidence errors (≥0.9) %"].value == pytest.approx(np.mean(of_errors))
    one = [fitted("ts-nll", seed, *read(folder, f"cal{seed}")) for seed in SEEDS]
    assert values(found, "temperature_ratio", label="K=1") == [1.0, 1.0]
    assert values(found, "temperature0", label="K=1") == pytest.approx(
        [cal.pooled_temperature_ for cal in one]
    )


@pytest.mark.filterwarnings("ignore::smallcal.FitWarning")
def test_routing_signals_are_measured_under_shift_too(folder, outcome):
    methods = ("srts-bce", "margin-k3", "shuffled-k3", "oracle-correctness", "features-k3")
    found = outcome("routing-signal", methods=methods)
    table = table_named(found, "shift-means")
    errors = []
    for seed in SEEDS:
        z, y = read(folder, f"cal{seed}")
        cal = fitted("oracle-correctness", seed, z, y)
        for kind, severity in itertools.product(KINDS, SEVERITIES):
            z, y = read(folder, f"{kind}{severity}-{seed}")
            errors.append(100 * ece(cal.predict_proba(z, y=y), y))
    (row,) = cells(table, method="oracle-correctness")
    assert row["ECE %"].value == pytest.approx(np.mean(errors), abs=1e-4)
    assert {row["method"] for row in cells(table)} == {"tva-ts", *methods}


def test_a_method_of_features_is_not_measured_on_sets_of_which_some_have_none(folder, tmp_path):
    for file in folder.glob("*.npz"):
        with np.load(file) as arrays:
            kept = {k: v for k, v in arrays.items() if k != "features" or file.stem != "fog1-0"}
        np.savez(tmp_path / file.name, **kept)
    text = (folder / "collection.toml").read_text()
    (tmp_path / "collection.toml").write_text(text)
    study = study_named("routing-signal").with_options(methods=("features-k3",), n_boot=N_BOOT)
    found = run(study, load_collection(tmp_path).only(["s0"]), tmp_path / "run")
    assert found.failures == ()
    assert found.frame.where(label="features-k3").unique("set") == ["clean"]
    assert len(found.frame.where(label="tva-ts").unique("set")) == 3


def test_curves_of_the_log_odds_are_in_both_studies_of_maps(folder, outcome):
    names = ("linear-risk(logit)", "pwlinear-3(logit)", "spline-risk(logit)")
    for study in ("matched-maps", "shift"):
        assert set(names) <= {entry.label for entry in study_named(study).entries}
    found = outcome("shift", methods=names)
    errors = []
    for seed in SEEDS:
        cal = fitted("linear-risk", seed, *read(folder, f"cal{seed}"), scale="logit")
        for kind, severity in itertools.product(KINDS, SEVERITIES):
            z, y = read(folder, f"{kind}{severity}-{seed}")
            errors.append(100 * ece(cal.predict_proba(z), y))
    (row,) = cells(table_named(found, "shift-means"), method="linear-risk(logit)")
    assert row["ECE %"].value == pytest.approx(np.mean(errors), abs=1e-4)


# Real logits.


def test_a_real_model_under_real_shift(tmp_path):
    root = data_folder()
    if root is None:
        pytest.skip("the folder of real logits is not there")
    name = "cifar10__akamaster-resnet20"
    (tmp_path / "shift").mkdir()
    for file in [root / f"{name}.npz", *(root / "shift").glob(f"{name}__fog-s*.npz")]:
        place = tmp_path / ("shift" if "fog" in file.name else "") / file.name
        place.symlink_to(file)
    collection = import_folder(tmp_path, tmp_path).collection
    found = run(study_named("risk-flow"), collection, tmp_path / "run")
    assert found.failures == ()
    (row,) = cells(table_named(found, "severity"), method="srts-bce")
    risks = [row[name].value for name in ("clean", "severity 1", "severity 3", "severity 5")]
    assert risks == sorted(risks)
    with np.load(root / f"{name}.npz") as arrays:
        z, y = arrays["val_logits"].astype(float), arrays["val_labels"]
        _, scored = plain_router(z, y, 0)
        assert risks[0] == pytest.approx(
            scored(arrays["test_logits"].astype(float)).mean(), abs=1e-4
        )
    shares = [
        sum(values(found, f"flow_{a}_to_{b}", set="fog", severity=5)[0] for a in range(3))
        for b in range(3)
    ]
    assert shares[2] > 0.5 > shares[1] > shares[0]
