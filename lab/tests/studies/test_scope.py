"""Choices, gates, scope and data from elsewhere: every table against a plain loop."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import rankdata, t

import smallcal as sc
from smallcal.metrics import METRICS
from smallcal_lab.studies import load_collection, run, study_named
from smallcal_lab.studies.frame import Frame
from smallcal_lab.studies.tables.catalogue import tables_of
from support import real
from support.cases import missing_package

MODELS = tuple((d, b) for d in ("cifar", "tiny") for b in ("vit", "deit", "swin"))
SEEDS = (0, 1, 2)


def row(model, seed, label, metric, value, *, kind="clean", severity=0, draw=0, budget=500):
    dataset, backbone = model
    cell = f"{dataset}__{backbone}__s{seed}"
    about = {"cell": cell, "dataset": dataset, "backbone": backbone, "seed": seed}
    about |= {"budget": budget, "draw": draw, "label": label, "set": kind, "severity": severity}
    return {**about, "metric": metric, "value": float(value)}


def tables(name, rows, **settings):
    study = study_named(name)
    study = replace(study, n_boot=200, settings={**study.settings, **settings})
    return {table.name: table for table in tables_of(study, Frame.of(rows))}


def cells(table, **wanted):
    rows = [dict(zip(table.header, one, strict=True)) for one in table.rows]
    return [one for one in rows if all(one[key] == value for key, value in wanted.items())]


# Choosing between one group and three.


@pytest.fixture(scope="module")
def chosen():
    """Errors of K=1 and K=3 in every fit, clean and in two shifted sets, and what a rule took."""
    rng = np.random.default_rng(4)
    rows, errors, taken = [], {}, {}
    for i, model in enumerate(MODELS):
        for seed in SEEDS:
            for kind, severity in (("clean", 0), ("fog", 1), ("snow", 1)):
                pair = 0.02 + 0.004 * rng.normal(size=2) + [0.0, 0.006 * (i - 3)]
                errors[model, seed, kind] = pair
                for label, value in zip(("K=1", "K=3"), pair, strict=True):
                    rows.append(
                        row(model, seed, label, "ece15", value, kind=kind, severity=severity)
                    )
            taken[model, seed] = bool(rng.random() < 0.6)
            for rule in ("repeat", "fold", "sample"):
                rows.append(row(model, seed, "K=3", f"accepted_{rule}", taken[model, seed]))
    return tables("selector", rows), errors, taken


def of_set(errors, model, seed, name):
    if name == "clean":
        return 100 * errors[model, seed, "clean"]
    return 50 * (errors[model, seed, "fog"] + errors[model, seed, "snow"])


@pytest.mark.parametrize("name", ["clean", "shifted"])
def test_a_selector_is_measured_where_the_samples_come_from(name, chosen):
    made, errors, taken = chosen
    for model in MODELS:
        pairs = np.array([of_set(errors, model, seed, name) for seed in SEEDS])
        picks = [int(taken[model, seed]) for seed in SEEDS]
        (found,) = cells(made["selector"], models=" ".join(model), rule="repeat", set=name)
        assert found["picks"] == " / ".join(f"K={1 + 2 * pick}" for pick in picks)
        selected = np.mean([pairs[i, pick] for i, pick in enumerate(picks)])
        assert found["selected"].value == pytest.approx(selected)
        assert found["best of 2"].value == pytest.approx(pairs.min(axis=1).mean())
        assert found["excess"].value == pytest.approx(selected - pairs.min(axis=1).mean())


@pytest.mark.parametrize("name", ["clean", "shifted", "all"])
@pytest.mark.parametrize("rule", ["repeat", "always K=1", "always K=3"])
def test_what_choosing_costs_is_counted_fit_by_fit(rule, name, chosen):
    made, errors, taken = chosen
    sets = ("clean", "shifted") if name == "all" else (name,)
    regrets, excesses, kept, avoided, wrong = ([] for _ in range(5))
    for model in MODELS:
        for some in sets:
            pairs = [of_set(errors, model, seed, some) for seed in SEEDS]
            if rule == "repeat":
                picks = [int(taken[model, seed]) for seed in SEEDS]
            else:
                picks = [int(rule == "always K=3")] * 3
            own = [pair[pick] - min(pair) for pair, pick in zip(pairs, picks, strict=True)]
            regrets += own
            excesses.append(np.mean(own))
            one, three = np.mean(pairs, axis=0)
            selected = np.mean([pair[pick] for pair, pick in zip(pairs, picks, strict=True)])
            if one - three > 0.2:
                kept.append(selected < (one + three) / 2)
            if three - one > 0.2:
                avoided.append(selected < (one + three) / 2)
            wrong += [
                pick == 1 for pair, pick in zip(pairs, picks, strict=True) if pair[0] <= pair[1]
            ]
    (found,) = cells(made["regret"], rule=rule, set=name)
    assert found["models"] == str(len(excesses))
    assert found["fits"] == str(len(regrets))
    assert found["excess"].value == pytest.approx(np.mean(excesses))
    assert found["regret"].value == pytest.approx(np.mean(regrets))
    assert found["worst regret"].value == pytest.approx(max(regrets))
    assert found["gains kept"].text() == f"{sum(kept)} of {len(kept)}"
    assert found["harms avoided"].text() == f"{sum(avoided)} of {len(avoided)}"
    assert len(kept) > 0 < len(avoided)
    assert found["candidate where K=1 is better %"].value == pytest.approx(100 * np.mean(wrong))


#: The paper's table: K=1, K=3, selected, best of 2.
PAPER = {
    "c100-vit": (1.54, 0.83, 1.08, 0.83),
    "c100-deit": (3.37, 0.94, 0.94, 0.94),
    "c100-swin": (2.87, 1.04, 1.04, 1.04),
    "c100-resnet": (2.83, 1.16, 1.16, 1.16),
    "c100-regnet": (1.54, 1.01, 1.01, 1.01),
    "c10-vit": (0.52, 0.47, 0.52, 0.47),
    "tiny-vit": (1.26, 1.12, 1.12, 1.08),
    "tiny-deit": (3.08, 1.09, 1.09, 1.09),
    "tiny-swin": (2.71, 1.24, 1.24, 1.24),
    "ten percent": (1.37, 1.71, 1.71, 1.37),
    "in-1k": (0.96, 0.62, 0.96, 0.62),
    "in-r": (8.55, 9.21, 8.24, 8.24),
    "in-a": (26.32, 27.71, 26.32, 25.81),
}


def test_the_papers_summary_follows_from_its_table():
    """Two fits for each regime that have its four means: 7 of 8 are kept and 2 of 3 avoided."""
    rows = []
    for name, (one, three, selected, best) in PAPER.items():
        # Both fits together have the means of K=1 and K=3, and the picks' mean is `selected`.
        ones = [one, one]
        picks = [math.isclose(selected, three)] * 2
        if name in ("c100-vit", "in-r"):  # not the same pick in every fit
            ones = [2 * one - 2 * selected + three, 2 * selected - three]
            picks = [True, False]
        for seed in range(2):
            model = ("paper", name)
            rows += [row(model, seed, "K=1", "ece15", ones[seed] / 100)]
            rows += [row(model, seed, "K=3", "ece15", three / 100)]
            rows += [row(model, seed, "K=3", "accepted_repeat", picks[seed])]
        assert best <= selected + 1e-9
    (found,) = cells(tables("selector", rows, rules=("repeat",))["regret"], rule="repeat")
    assert found["gains kept"].text() == "7 of 8"
    assert found["harms avoided"].text() == "2 of 3"


# The gate.


@pytest.fixture(scope="module")
def gated():
    rng = np.random.default_rng(1)
    rows, units = [], []
    for model in MODELS:
        for budget in (250, 500):
            promise, ratio, gain = [], [], []
            for seed in SEEDS:
                for draw in range(2 if budget == 250 else 1):
                    a, b = 0.02 + 0.01 * rng.random(2)
                    at = {"budget": budget, "draw": draw}
                    rows += [row(model, seed, "K=1", "ece15", a, **at)]
                    rows += [row(model, seed, "K=3", "ece15", b, **at)]
                    rows += [row(model, seed, "K=1", "top_label_bce", 2 * a, **at)]
                    rows += [row(model, seed, "K=3", "top_label_bce", 2 * b, **at)]
                    promised = 0.3 * (a - b) + 0.002 * rng.normal()
                    rows += [row(model, seed, "K=3", "gain_repeat", promised, **at)]
                    spread = 1 + rng.random()
                    rows += [row(model, seed, "K=3", "temperature_ratio", spread, **at)]
                    promise.append(promised)
                    ratio.append(spread)
                    gain.append(a - b)
            units.append([np.mean(promise), np.mean(ratio), np.mean(gain)])
    return tables("on-off", rows), np.array(units)


def test_cells_are_models_at_budgets(gated):
    made, units = gated
    table = made["on-off"]
    assert len(table.rows) == len(units) == 12
    order = np.argsort(-units[:, 2], kind="stable")
    for found, i in zip(cells(table), order, strict=True):
        assert found["predicted gain points"].value == pytest.approx(100 * units[i, 0])
        assert found["T ratio"].value == pytest.approx(units[i, 1])
        assert found["ECE gain points"].value == pytest.approx(100 * units[i, 2])
        assert found["top-label log-loss gain points"].value == pytest.approx(200 * units[i, 2])
        assert found["outcome"] == ("wins" if units[i, 2] > 0 else "loses")


@pytest.mark.parametrize(("name", "column"), [("predicted gain", 0), ("T ratio", 1)])
def test_the_gate_is_ranked_by_hand(name, column, gated):
    made, units = gated
    x, gain = units[:, column], units[:, 2]
    n = len(x)
    rho = 1 - 6 * ((rankdata(x) - rankdata(gain)) ** 2).sum() / (n * (n**2 - 1))
    p = 2 * t.sf(abs(rho) * math.sqrt((n - 2) / (1 - rho**2)), n - 2)
    (found,) = cells(made["gate"], **{"criterion": name, "gain in": "ece15"})
    assert found["cells"] == "12"
    assert found["rank correlation"].value == pytest.approx(rho)
    assert found["p"].value == pytest.approx(p, abs=1e-9)
    win, lose = x[gain > 0], x[gain < 0]
    assert found["separates"] == ("yes" if min(win) > max(lose) else "no")
    above = sum(value > max(lose) for value in win)
    assert found["winners above all losers"].text() == f"{above} of {len(win)}"
    best = 0
    for cut in [*sorted(x), math.inf]:
        best = max(best, sum((x >= cut) == (gain > 0)) / n)
    assert found["right at the best threshold %"].value == pytest.approx(100 * best)
    named = [text for text in made["gate"].sentences if name in text]
    assert bool(named) == (found["separates"] == "no")


@pytest.mark.parametrize(
    ("promises", "separates", "above", "right"),
    [((3, 1, 2), "no", "1 of 2", 200 / 3), ((3, 2.5, 2), "yes", "2 of 2", 100)],
)
def test_a_threshold_separates_or_it_does_not(promises, separates, above, right):
    """Two cells win and the third loses."""
    rows = []
    for model, promised, gain in zip(MODELS, promises, (0.02, 0.01, -0.01), strict=False):
        rows += [row(model, 0, "K=1", "ece15", 0.05), row(model, 0, "K=3", "ece15", 0.05 - gain)]
        rows += [row(model, 0, "K=3", "gain_repeat", promised)]
    made = tables("on-off", rows)["gate"]
    (found,) = cells(made, **{"criterion": "predicted gain", "gain in": "ece15"})
    assert found["separates"] == separates
    assert found["winners above all losers"].text() == above
    assert found["right at the best threshold %"].value == pytest.approx(right)
    assert len(made.sentences) == (separates == "no")


# The map.


@pytest.fixture(scope="module")
def mapped():
    rng = np.random.default_rng(3)
    labels = [entry.label for entry in study_named("scope-map").entries]
    rows, errors = [], {}
    for i, model in enumerate(MODELS):
        for seed in SEEDS:
            for kind, severity in (("clean", 0), ("fog", 1), ("fog", 2)):
                for j, label in enumerate(labels):
                    for metric in ("ece15", "adaece15"):
                        ours = label == "srts-bce"
                        value = 0.03 + 0.002 * j + 0.001 * rng.normal() - 0.004 * i * ours
                        errors[model, seed, kind, severity, label, metric] = value
                        rows.append(
                            row(model, seed, label, metric, value, kind=kind, severity=severity)
                        )
    return tables("scope-map", rows), errors, labels


def by_seed(errors, model, name, label, metric):
    sets = [("clean", 0)] if name == "clean" else [("fog", 1), ("fog", 2)]
    return np.array(
        [
            100 * np.mean([errors[(model, seed, *where, label, metric)] for where in sets])
            for seed in SEEDS
        ]
    )


@pytest.mark.parametrize("metric", ["ece15", "adaece15"])
@pytest.mark.parametrize("name", ["clean", "shifted"])
def test_the_map_says_who_is_best_and_by_how_much(name, metric, mapped):
    made, errors, labels = mapped
    best_of = {"cifar": [], "tiny": []}
    ahead = {"cifar": 0, "tiny": 0}
    for model in MODELS:
        means = {label: by_seed(errors, model, name, label, metric).mean() for label in labels}
        ordered = sorted(means, key=means.get)
        at = {"models": " ".join(model), "set": name, "metric": METRICS[metric].title}
        for rival in ("tva-ts", "smart-bce"):
            (found,) = cells(made["scope-map"], **at, against=rival)
            assert found["best"] == ordered[0]
            assert found["lead"].value == pytest.approx(means[ordered[1]] - means[ordered[0]])
            ours, theirs = (
                by_seed(errors, model, name, label, metric) for label in ("srts-bce", rival)
            )
            gap = ours - theirs
            assert found["difference"].value == pytest.approx(gap.mean())
            word = found["outcome"]
            assert word in ("wins", "tie", "loses")
            if word != "tie":
                assert word == ("wins" if gap.mean() < 0 else "loses")
            if name == "clean" and min(gap) > 0:
                assert word == "loses"
            if name == "clean" and min(gap) < 0 < max(gap):
                assert word == "tie"
        best_of[model[0]].append(ordered[0])
        ahead[model[0]] += bool(means["srts-bce"] < means["smart-bce"])
    at = {"set": name, "metric": METRICS[metric].title, "against": "smart-bce"}
    for dataset, bests in best_of.items():
        (found,) = cells(made["regimes"], **{"data set": dataset}, **at)
        counted = dict(part.split(" ", 1) for part in found["best"].split(", "))
        assert counted == {label: f"{bests.count(label)}" for label in set(bests)}
        assert found["models"] == "3"
        assert found["ahead in"].text() == f"{ahead[dataset]} of 3"
        words = [
            one["outcome"]
            for one in cells(made["scope-map"], **at)
            if one["models"].startswith(dataset)
        ]
        told = " / ".join(str(words.count(word)) for word in ("wins", "tie", "loses"))
        assert found["wins / ties / losses"] == told
    (found,) = cells(made["regimes"], **{"data set": "all"}, **at)
    assert found["ahead in"].text() == f"{sum(ahead.values())} of 6"
    leads = [one["lead"].value for one in cells(made["scope-map"], **at)]
    assert found["widest lead"].value == max(leads)


def test_one_fit_is_no_win():
    labels = ("tva-ts", "srts-bce")
    rows = [row(MODELS[0], 0, k, "ece15", v) for k, v in zip(labels, (0.03, 0.02), strict=True)]
    (found,) = cells(tables("scope-map", rows)["scope-map"])
    assert (found["against"], found["outcome"]) == ("tva-ts", "ahead")
    assert "One seed" in tables("scope-map", rows)["scope-map"].sentences[0]


# Data from elsewhere.

CHOSEN = (1, 3, 5, 8)


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """Digits of four classes: calibrated on 20 of each, the other split plays the shifted set."""
    pytest.importorskip("pyarrow", reason="studies keep their rows as Parquet")
    folder = tmp_path_factory.mktemp("elsewhere")
    arrays = real.cell("digits10__mlp")
    np.savez(folder / "clean.npz", logits=arrays["test_logits"], labels=arrays["test_labels"])
    far = 1.7 * arrays["val_logits"]
    np.savez(folder / "far.npz", logits=far, labels=arrays["val_labels"])
    (folder / "collection.toml").write_text(
        """
        [[cell]]
        dataset = "digits"
        backbone = "mlp"
        seed = 0
        classes = [1, 3, 5, 8]
        split = {file = "clean.npz", per_class = 20, draw = "first-per-class"}
        [[cell.shift]]
        kind = "far"
        severity = 1
        file = "far.npz"
        [[cell]]
        dataset = "digits"
        backbone = "mlp"
        seed = [1, 2]
        classes = [1, 3, 5, 8]
        split = {file = "clean.npz", per_class = 20, draw = "stratified"}
        [[cell.shift]]
        kind = "far"
        severity = 1
        file = "far.npz"
        """,
        encoding="utf-8",
    )
    methods = ("none", "ts-nll", "srts-bce")
    study = study_named("natural-shift").with_options(methods=methods, n_boot=50)
    return folder, run(study, load_collection(folder), folder / "run")


def restricted(folder, name):
    with np.load(folder / name) as arrays:
        kept = np.isin(arrays["labels"], CHOSEN)
        labels = np.array([CHOSEN.index(label) for label in arrays["labels"][kept]])
        return arrays["logits"][kept][:, CHOSEN].astype(float), labels


@pytest.mark.filterwarnings("ignore::smallcal.FitWarning")
def test_natural_shift_is_a_plain_loop_over_draws(elsewhere):
    from sklearn.model_selection import train_test_split

    folder, outcome = elsewhere
    assert outcome.failures == ()
    z, y = restricted(folder, "clean.npz")
    far, far_y = restricted(folder, "far.npz")
    errors = {name: [] for name in ("none", "tva-ts", "ts-nll", "srts-bce")}
    for seed in SEEDS:
        if seed == 0:
            rows = sorted(np.concatenate([np.flatnonzero(y == k)[:20] for k in range(4)]))
        else:
            state = seed * 10**6 + 80 * 10**3
            rows = sorted(
                train_test_split(np.arange(len(y)), train_size=80, stratify=y, random_state=state)[
                    0
                ]
            )
        for name, found in errors.items():
            made = sc.make(name)
            if "random_state" in made.get_params():
                made.set_params(random_state=seed)
            p = made.fit(z[rows], y[rows]).predict_proba(far)
            right = np.clip(p.max(axis=1), 1e-12, 1 - 1e-12)
            hit = p.argmax(axis=1) == far_y
            found.append(-np.log(np.where(hit, right, 1 - right)).mean())
    made = {table.name: table for table in outcome.tables}
    for name, values in errors.items():
        (found,) = cells(made["sets"], method=name)
        assert found["set"] == "far"
        assert found["samples"] == "80"
        assert found["top-label log-loss x100"].value == pytest.approx(
            100 * np.mean(values), rel=1e-4
        )
        assert found["top-label log-loss x100"].spread == pytest.approx(
            100 * np.std(values), abs=1e-3
        )
    for name in ("ts-nll", "srts-bce"):
        gaps = 100 * (np.array(errors[name]) - errors["none"])
        (found,) = cells(made["harm"], method=name)
        assert found["top-label log-loss points"].value == pytest.approx(gaps.mean(), rel=1e-3)
        assert found["top-label log-loss better in"].text() == f"{sum(gaps < 0)} of 3"
    said = [text for text in made["harm"].sentences if "in top-label log-loss" in text]
    better = [k for k in ("tva-ts", "ts-nll", "srts-bce") if np.mean(errors[k]) < errors["none"][0]]
    assert f"{len(better)} of 3 methods are better than none" in said[0]


def test_over_many_sets_the_spread_is_over_sets():
    rng = np.random.default_rng(0)
    values = rng.random((4, 2))
    rows = [
        row(
            MODELS[0],
            seed,
            "none",
            "ece15",
            values[i, seed],
            kind=f"kind{i % 2}",
            severity=1 + i // 2,
        )
        for i in range(4)
        for seed in range(2)
    ]
    made = tables("natural-shift", rows)["sets"]
    (found,) = cells(made, set="all")
    means = 100 * values.mean(axis=1)
    assert found["ECE %"].value == pytest.approx(means.mean())
    assert found["ECE %"].spread == pytest.approx(means.std())
    (found,) = cells(made, set="kind1-2")
    assert found["ECE %"].value == pytest.approx(means[3])


# Cost.


def test_costs_are_measured_with_so_many_threads_and_say_so(elsewhere, monkeypatch):
    import joblib
    from threadpoolctl import ThreadpoolController

    folder, _ = elsewhere
    seen = []
    from smallcal_lab.studies import probes

    def watched(fitted, preds):
        info = ThreadpoolController().info()
        seen.append({lib["num_threads"] for lib in info if lib["user_api"] == "blas"})
        return fitted.predict_proba(preds.logits)

    monkeypatch.setattr(probes, "applied", watched)
    study = study_named("efficiency")
    assert {"sats-logit-nll", "sats-logit-bce", "smart-bce"} <= {
        entry.name for entry in study.entries
    }
    study = study.with_options(methods=("srts-bce",))
    collection = load_collection(folder).only(["s0"])
    (table,) = run(study, collection, folder / "cost").tables
    allowed = min(4, joblib.cpu_count())
    (found,) = cells(table, method="srts-bce")
    assert found["threads"].text() == f"{allowed}"
    assert found["repeats"].text() == "5"
    assert found["parameters"].text() == "10"
    assert found["fit s"].value > 0 < found["apply µs a sample"].value
    assert all(threads <= {allowed} for threads in seen)
    assert len(seen) == 10


def test_long_fits_are_not_repeated_for_ever(elsewhere):
    folder, _ = elsewhere
    study = study_named("efficiency").with_options(methods=("tva-ts",))
    study = replace(study, settings={**study.settings, "seconds": 0})
    collection = load_collection(folder).only(["s1"])
    (table,) = run(study, collection, folder / "once").tables
    assert [found["repeats"].text() for found in cells(table)] == ["1"]


@pytest.mark.skipif(bool(missing_package("sats-logit-nll")), reason="needs torch")
def test_heads_have_their_costs(elsewhere):
    folder, _ = elsewhere
    study = study_named("efficiency").with_options(methods=("sats-logit-nll (one cell)",))
    quick = [
        replace(entry, options={**entry.options, "epochs": 3})
        if entry.name.startswith("sats")
        else entry
        for entry in study.entries
    ]
    study = replace(study, entries=tuple(quick), settings={**study.settings, "seconds": 0})
    (table,) = run(study, load_collection(folder).only(["s2"]), folder / "heads").tables
    (found,) = cells(table, method="sats-logit-nll (one cell)")
    # Four logits and a bias into 128 units, these and a bias into the temperature.
    assert found["parameters"].value == 5 * 128 + 129
