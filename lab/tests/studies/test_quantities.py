"""What a reproduction computes, kind by kind, against plain loops over fits made here."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.model_selection import train_test_split

import smallcal as sc
from smallcal.advice.signal_to_noise import signal_to_noise
from smallcal.metrics.selective import selective_risk
from smallcal_lab.statistics import nested
from smallcal_lab.studies import STUDIES, load_collection
from smallcal_lab.studies.reproduce.quantities import QUANTITIES
from smallcal_lab.studies.reproduce.reference import reference_of
from smallcal_lab.studies.reproduce.run import agenda_of, reproduce
from smallcal_lab.studies.reproduce.summaries import INTERVALS, SPREADS, SUMMARIES, Sample
from support.simulated import simulate

pytest.importorskip("pyarrow", reason="studies keep their rows as Parquet")
pytestmark = pytest.mark.filterwarnings("ignore::smallcal.FitWarning")

N, N_CLASSES, BUDGET, DRAWS = 300, 5, 150, 3
SEEDS = {"one": 3, "two": 2}
PARTS = list(product(("dim", "fog", "noise"), (1, 2)))
CELLS = [(backbone, seed) for backbone, n in SEEDS.items() for seed in range(n)]


def logits_of(backbone, seed, split):
    """A split of a simulated model; a shifted one is named by its kind and severity."""
    place = 100 * list(SEEDS).index(backbone) + 10 * seed
    z, y = simulate(N, N_CLASSES, seed=place + (split != "cal"), signal=5.0)
    if split in PARTS:
        kind, severity = split
        rng = np.random.default_rng([place, severity])
        noise = rng.normal(size=z.shape)
        z = {"dim": z / (1 + severity), "fog": z + severity, "noise": z + severity * noise}[kind]
        z = z + 0.01 * noise
    return z, y


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    """Two models, three and two seeds, six shifted sets each."""
    folder = tmp_path_factory.mktemp("quantities")
    text = ""
    for backbone, seed in CELLS:
        stem = f"{backbone}{seed}"
        arrays = {}
        for split in ("cal", "test"):
            arrays[f"{split}_logits"], arrays[f"{split}_labels"] = logits_of(backbone, seed, split)
        np.savez(folder / f"{stem}.npz", **arrays)
        text += (
            f'[[cell]]\ndataset = "toy"\nbackbone = "{backbone}"\nseed = {seed}\n'
            f'calibration = "{stem}.npz:cal"\ntest = "{stem}.npz:test"\n'
        )
        for kind, severity in PARTS:
            z, y = logits_of(backbone, seed, (kind, severity))
            np.savez(folder / f"{stem}-{kind}{severity}.npz", logits=z, labels=y)
            text += (
                f'[[cell.shift]]\nkind = "{kind}"\nseverity = {severity}\npaired = true\n'
                f'file = "{stem}-{kind}{severity}.npz"\n'
            )
    (folder / "collection.toml").write_text(text)
    return load_collection(folder)


@pytest.fixture(scope="module")
def plain():
    return Plain()


class Plain:
    """Fits of this file's own, kept: nothing of the studies is used."""

    def __init__(self):
        self.kept = {}

    def fit(self, cell, name, draw=None, **options):
        key = (cell, name, draw, tuple(options.items()))
        if key not in self.kept:
            seed, (z, y) = cell[1], logits_of(*cell, "cal")
            if draw is not None:
                state = seed * 10**6 + BUDGET * 10**3 + draw
                rows, _ = train_test_split(
                    np.arange(N), train_size=BUDGET, stratify=y, random_state=state
                )
                z, y = z[np.sort(rows)], y[np.sort(rows)]
            made = sc.make(name, **options)
            if "random_state" in made.get_params():
                made.set_params(random_state=seed)
            self.kept[key] = made.fit(z, y)
        return self.kept[key]

    def proba(self, cell, name, split="test", draw=None, **options):
        z, y = logits_of(*cell, split)
        return self.fit(cell, name, draw, **options).predict_proba(z), y

    def ece(self, cell, name, split="test", draw=None, **options):
        p, y = self.proba(cell, name, split, draw, **options)
        return sc.evaluate(y, p, metrics=["ece15"])["ece15"]

    def table(self, name, cells, splits=("test",), draws=(None,), **options):
        """ECE by cell, draw and set."""
        rows = [
            [[self.ece(c, name, s, d, **options) for s in splits] for d in draws] for c in cells
        ]
        return np.array(rows)


BASE = {
    **{"table": "t", "dataset": "toy", "backbone": "one", "seeds": 3, "budget": N, "set": "clean"},
    **{"method": "srts-bce", "metric": "ece15", "value": 0.0, "unit": "fraction", "decimals": 6},
}
DRAWN = {"budget": BUDGET, "draws": DRAWS}
AGAINST = {"kind": "difference", "against": "tva-ts"}
TOGETHER = {"backbone": "one+two", "seeds": SEEDS}
ONES = [cell for cell in CELLS if cell[0] == "one"]


def reference(*entries):
    return reference_of(
        {
            "version": 1,
            "tolerances": {"deterministic": 0.011, "smart-bce": 0.15, "cifar100c": 0.05},
            "shifts": {"toy": {"kinds": ["dim", "fog", "noise"], "severities": [1, 2]}},
            "values": [{**BASE, **entry} for entry in entries],
        },
        source="values.json",
    )


def found(collection, *entries):
    """The rows of entries, all of which must be checkable."""
    result = reproduce(collection, reference(*entries))
    assert dict(result.unchecked) == {}
    assert [row.error for row in result.rows] == [""] * len(result.rows)
    return result.rows


def numbers(collection, *entries):
    return [row.reproduced for row in found(collection, *entries)]


def of(metric, **more):
    return {"metric": None, "paper_metric": metric, **more}


# --- summaries of one metric


def test_means_spreads_and_single_seeds(collection, plain):
    entry = {"value": 1.0, "spread": 0.5, "ddof": 1, "per_seed": [1.0, 1.0, 1.0]}
    ece = plain.table("srts-bce", ONES)[:, 0, 0]
    got = numbers(collection, entry)
    assert got == pytest.approx([ece.mean(), ece.std(ddof=1), *ece], abs=1e-12)


def test_a_set_of_seeds_is_of_those_seeds(collection, plain):
    ece = plain.table("srts-bce", ONES)[:, 0, 0]
    got = numbers(collection, {"seeds": [2]}, {"seeds": [0, 2]})
    assert got == pytest.approx([ece[2], ece[[0, 2]].mean()], abs=1e-12)


def test_a_spread_is_divided_by_what_fits_where_nothing_is_said(collection, plain):
    ece = plain.table("srts-bce", ONES)[:, 0, 0]
    both = [float(ece.std(ddof=ddof)) for ddof in (0, 1)]
    rows = found(collection, *({"spread": sd} for sd in both))
    assert [rows[1].reproduced, rows[3].reproduced] == pytest.approx(both, abs=1e-12)
    assert {row.verdict for row in rows if row.part == "spread"} == {"PASS"}


def test_what_a_spread_is_over(collection, plain):
    over = {"value": None, "spread": 0.0, "ddof": 0}
    drawn = plain.table("srts-bce", ONES, draws=range(DRAWS))[:, :, 0]
    shifted = plain.table("srts-bce", ONES[:1], PARTS).ravel()
    got = numbers(
        collection,
        {**over, **DRAWN, "spread_over": "seeds x draws"},
        {**over, **DRAWN, "spread_over": "draws", "seeds": 1},
        {**over, "spread_over": "cells", "seeds": 1, "set": "corrupted"},
    )
    assert got == pytest.approx([drawn.std(), drawn[0].std(), shifted.std()], abs=1e-12)
    assert set(SPREADS) == {"seeds", "seeds x draws", "draws", "cells"}


def test_win_shares_count_draws(collection, plain):
    gaps = plain.table("srts-bce", ONES, draws=range(DRAWS)) - plain.table(
        "tva-ts", ONES, draws=range(DRAWS)
    )
    (row,) = found(collection, {**DRAWN, "kind": "win-share", "against": "tva-ts"})
    assert row.reproduced == pytest.approx((gaps < 0).mean())
    close = (np.abs(gaps) <= 0.00011).mean()
    assert row.tolerance == pytest.approx(0.5e-6 + close)


def test_a_higher_accuracy_wins(collection):
    entry = {"kind": "win-share", "method": "vector-scaling", "against": "none"}
    (share,) = numbers(collection, {**entry, "metric": "accuracy"})
    wins = []
    for cell in ONES:
        p, y = Plain().proba(cell, "vector-scaling")
        wins.append(
            (p.argmax(axis=1) == y).mean() > (logits_of(*cell, "test")[0].argmax(1) == y).mean()
        )
    assert share == pytest.approx(np.mean(wins))


# --- intervals


def expected_interval(plain, name):
    """The interval of a way of resampling, and the differences it is of."""
    drawn = {"draws": range(DRAWS)}
    one, two = (
        (plain.table("srts-bce", c, **drawn) - plain.table("tva-ts", c, **drawn))[:, :, 0]
        for c in (ONES, CELLS[3:])
    )
    if name == "seeds>draws":
        return nested.nested(one.tolist())
    if name == "backbones>seeds>draws":
        return nested.nested([one.tolist(), two.tolist()])
    if name == "draws":
        return nested.cells(one.ravel())
    shifted = plain.table("srts-bce", ONES, PARTS) - plain.table("tva-ts", ONES, PARTS)
    three = nested.tiers(shifted.reshape(3, 3, 2))
    names = {"cells": 0, "corruption types": 1, "seeds>corruptions>severities": 2}
    return list(three.values())[names[name]]


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("draws", DRAWN),
        ("seeds>draws", DRAWN),
        ("backbones>seeds>draws", {**DRAWN, **TOGETHER}),
        ("cells", {"set": "corrupted"}),
        ("corruption types", {"set": "corrupted"}),
        ("seeds>corruptions>severities", {"set": "corrupted"}),
    ],
)
def test_intervals_are_those_of_the_statistics(collection, plain, name, more):
    assert name in INTERVALS
    wanted = expected_interval(plain, name)
    ends = {"value": None, "interval": [wanted.low, wanted.high], "resampled": name}
    rows = found(collection, {**AGAINST, **more, **ends})
    assert [row.reproduced for row in rows] == pytest.approx([wanted.low, wanted.high], abs=1e-12)
    assert [(row.part, row.verdict) for row in rows] == [("low", "PASS"), ("high", "PASS")]
    assert all(row.tolerance >= 0.00011 for row in rows)


def test_another_run_of_the_bootstrap_passes_and_another_interval_does_not(collection, plain):
    """Whose resamples they are does not matter; what they are of does."""
    drawn = plain.table("srts-bce", ONES, draws=range(DRAWS)) - plain.table(
        "tva-ts", ONES, draws=range(DRAWS)
    )
    flat = drawn.ravel()
    rng = np.random.default_rng(5)
    means = flat[rng.integers(len(flat), size=(20_000, len(flat)))].mean(axis=1)
    ends = np.quantile(means, [0.025, 0.975])
    narrow = flat.mean() + 0.5 * (ends - flat.mean())
    entry = {**AGAINST, **DRAWN, "value": None, "resampled": "draws"}
    rows = found(
        collection, *({**entry, "interval": [float(e) for e in some]} for some in (ends, narrow))
    )
    assert [row.verdict for row in rows] == ["PASS", "PASS", "FAIL", "FAIL"]


def test_the_share_of_resamples_below_zero(collection, plain):
    entry = {"kind": "share-below-zero", "against": "tva-ts", "set": "corrupted"}
    (row,) = found(collection, {**entry, "resampled": "seeds>corruptions>severities"})
    wanted = expected_interval(plain, "seeds>corruptions>severities").p_below
    assert row.reproduced == pytest.approx(wanted)
    error = (wanted * (1 - wanted) * 2 / 20_000) ** 0.5
    assert row.tolerance == pytest.approx(0.5e-6 + 3 * error, abs=1e-9)


def plain_ece(confidence, right):
    """ECE in 15 bins, by a loop."""
    bins = np.minimum((15 * confidence).astype(int), 14)
    sums = np.bincount(bins, confidence - right, minlength=15)
    return np.abs(sums).sum() / len(right)


def plain_resamples(plain, split, *, seeds, pooled, n_boot=1000):
    """ECE differences in resamples of test samples, by a loop."""
    rng = np.random.default_rng(7)
    views = []
    for cell in ONES:
        pair = [plain.proba(cell, name, split) for name in ("srts-bce", "tva-ts")]
        views.append([(p.max(axis=1), p.argmax(axis=1) == y) for p, y in pair])
    found = []
    for _ in range(n_boot):
        gaps = []
        for seed in rng.integers(3, size=3) if seeds else range(3):
            rows = rng.integers(N, size=N)
            ours, theirs = (plain_ece(c[rows], right[rows]) for c, right in views[seed])
            gaps.append(ours - theirs)
        found += gaps if pooled else [np.mean(gaps)]
    return np.array(found)


@pytest.mark.parametrize(
    ("name", "how", "more"),
    [
        ("images", {"seeds": False, "pooled": True}, {}),
        ("seeds>images", {"seeds": True, "pooled": False}, {}),
        ("three seeds", {"seeds": True, "pooled": False}, {}),
        ("images", {"seeds": False, "pooled": False}, {"set": "elsewhere"}),
    ],
)
def test_intervals_of_test_samples_are_those_of_a_loop(collection, plain, name, how, more):
    split = ("fog", 1) if more else "test"
    if more:  # a set of one part only
        cells = tuple(
            replace(
                cell,
                shifts=(
                    replace(next(s for s in cell.shifts if s.kind == "fog"), kind="elsewhere"),
                ),
            )
            for cell in collection.cells
        )
        collection = replace(collection, cells=cells)
    drawn = plain_resamples(plain, split, **how)
    ends = [float(end) for end in np.quantile(drawn, [0.025, 0.975])]
    entry = {**AGAINST, **more, "interval": ends, "resampled": name}
    entry |= {"value": float(drawn.mean()), "note": "mean of resamples"}
    mean, low, high = found(collection, entry)
    room = 4 * drawn.std() / np.sqrt(len(drawn))
    assert mean.reproduced == pytest.approx(drawn.mean(), abs=room)
    for row, share in ((low, 0.025), (high, 0.975)):
        near = np.quantile(drawn, [max(share - 0.02, 0), min(share + 0.02, 1)])
        assert near[0] <= row.reproduced <= near[1]
        assert row.tolerance < np.ptp(drawn) / 4


def test_every_kind_of_the_file_has_its_summary():
    kinds = {"value", "difference", "median", "range", "win-share", "share-below-zero"}
    assert set(SUMMARIES) == kinds


# --- numbers of a fit


def test_medians_and_quartiles_of_all_fits(collection, plain):
    fits = [
        plain.fit(cell, "srts-bce", draw).temperatures_ for cell in CELLS for draw in range(DRAWS)
    ]
    lowest = np.array(fits)[:, 0]
    more = {"kind": "median", "interval": [0.0, 1.0], "resampled": "quartiles of fits"}
    entry = of("temperature0", unit="temperature", **more, **TOGETHER, **DRAWN)
    wanted = [np.median(lowest), *np.quantile(lowest, [0.25, 0.75])]
    assert numbers(collection, entry) == pytest.approx(wanted, abs=1e-12)


def test_shares_of_fits_thresholds_and_ranges(collection, plain):
    rising = [
        bool((np.diff(plain.fit(cell, "srts-bce", draw).temperatures_) > 0).all())
        for cell in CELLS
        for draw in range(DRAWS)
    ]
    cuts = np.array([plain.fit(cell, "srts-bce").thresholds_ for cell in ONES])
    five = plain.fit(ONES[0], "srts-nll", n_groups=4).temperatures_
    grouped = {"method": "srts-nll", "options": {"n_groups": 4}, "seeds": 1}
    single = {"method": "tva-ts", "unit": "temperature", "seeds": 1}
    got = numbers(
        collection,
        of("share_of_fits_temperatures_in_order", **TOGETHER, **DRAWN),
        of("threshold2", spread=0.0, ddof=0),
        of("temperature", kind="range", value=None, interval=[0.0, 1.0], **grouped),
        of("temperature_ratio", unit="ratio", **grouped),
        of("temperature", **single),
    )
    wanted = [np.mean(rising), cuts[:, 1].mean(), cuts[:, 1].std(), min(five), max(five)]
    wanted += [max(five) / min(five), plain.fit(ONES[0], "tva-ts").temperatures_[0]]
    assert got == pytest.approx(wanted, abs=1e-12)


def test_one_fit_of_many_may_fall_on_the_other_side(collection):
    share = of("share_of_fits_at_bounds", decimals=0, unit="percent")
    few, many = (
        agenda_of(collection, reference({**share, **more})).claims[0].tolerance
        for more in (DRAWN, {**TOGETHER, "budget": BUDGET, "draws": 20})
    )
    assert few == 0.5  # nine fits
    assert many == pytest.approx(0.5 + 1.0)  # a hundred


def test_groups_and_parameters(collection, plain):
    shares = []
    for cell, part in product(ONES, PARTS):
        groups = plain.fit(cell, "srts-bce").group(logits_of(*cell, part)[0])
        shares.append((groups == 2).mean())
    got = numbers(
        collection,
        of("share_of_group2", set="corrupted"),
        of("parameters", unit="count"),
        of("parameters", unit="count", method="none"),
    )
    assert got == pytest.approx([np.mean(shares), 10, 0])


def test_signal_to_noise(collection, plain):
    wanted = []
    for cell in ONES:
        z, y = logits_of(*cell, "cal")
        found_ = signal_to_noise(z, y, signals=("risk",), n_null=19, random_state=cell[1])
        row = found_.rows[0]
        wanted.append(row.ratio)
    got = numbers(collection, of("signal_to_noise"), of("signal_to_noise_floor", unit="x0.001"))
    assert got == pytest.approx([np.mean(wanted), 1000 * 2 / N])


# --- numbers at thresholds


@pytest.mark.parametrize("where", ["clean", "corrupted"])
def test_thresholds_and_equal_coverage(collection, plain, where):
    splits = ["test"] if where == "clean" else PARTS
    wanted = []
    for cell, split in product(ONES, splits):
        p, y = plain.proba(cell, "srts-bce", split)
        one, right = p.max(axis=1), p.argmax(axis=1) == y
        kept = one >= 0.8
        n = int((plain.proba(cell, "tva-ts", split)[0].max(axis=1) >= 0.8).sum())
        first = np.argsort(-one, kind="stable")[:n]
        at = [kept.mean(), 1 - right[kept].mean(), one[kept].mean() - right[kept].mean()]
        wanted.append([*at, 1 - right[first].mean(), one[first].mean() - right[first].mean()])
        wanted[-1].append(selective_risk(y, p, coverage=0.9))
    names = "coverage_at80 risk_at80 gap_at80 risk_at_tva_coverage80 gap_at_tva_coverage80"
    entries = [of(name, set=where) for name in [*names.split(), "selective_risk90"]]
    assert numbers(collection, *entries) == pytest.approx(np.mean(wanted, axis=0), abs=1e-12)


# --- choices


RULE = "K of 1 or 3 by the one-standard-error rule"
BETTER = "the better of K=1 and K=3 for each seed"


def chosen(name, **more):
    return {"method": None, "paper_method": name, **more}


def test_the_rule_and_the_better_of_two(collection, plain):
    one, three = (plain.table(name, CELLS)[:, 0, 0] for name in ("tva-ts", "srts-bce"))
    entry = {**TOGETHER}
    rows = found(
        collection,
        chosen(RULE, picks=[1, 1, 1]),
        chosen(RULE, backbone="two", seeds=2, picks=[1, 1]),
        chosen(BETTER, **entry),
        chosen(RULE, **entry),
    )
    picks = np.array([row.reproduced for row in rows if row.unit == "count"])
    assert set(picks) <= {1.0, 3.0}
    for cell, pick in zip(CELLS, picks, strict=True):
        candidates = {"1": "tva-ts", "3": "srts-bce"}
        taken = sc.select(
            *logits_of(*cell, "cal"), candidates=candidates, rule="repeat", random_state=cell[1]
        )
        assert pick == int(taken.choice)
    better, rule = rows[-2].reproduced, rows[-1].reproduced
    assert better == pytest.approx(np.minimum(one, three).mean())
    assert rule == pytest.approx(np.where(picks == 1, one, three).mean())


def test_a_choice_made_on_clean_samples_is_used_on_others(collection, plain):
    (pick,) = numbers(collection, chosen(RULE, value=None, picks=[1], seeds=1))
    (shifted,) = numbers(collection, chosen(RULE, seeds=1, set="fog"))
    name = "tva-ts" if pick == 1 else "srts-bce"
    wanted = plain.table(name, ONES[:1], [("fog", 1), ("fog", 2)]).mean()
    assert shifted == pytest.approx(wanted, abs=1e-12)


def test_what_a_rule_costs_over_all_models(collection, plain):
    """Of models the mean of their means; of cells, and the worst, cell by cell."""
    excess = of("ece_above_the_better_of_two", dataset="all", backbone="all")
    excess |= {"seeds": None, "budget": None, "cells_of": "t"}
    regimes = [{"backbone": name, "seeds": n, "value": 0.0} for name, n in SEEDS.items()]
    worst = {**excess, "paper_metric": "largest_ece_above_the_better_of_two"}
    rows = found(
        collection,
        *regimes,
        {**excess, "set": "all regimes"},
        {**excess, "set": "regimes the rule was formed on"},
        {**worst, "set": "regimes the rule was formed on"},
        {**excess, "method": "tva-ts", "set": "all regimes"},
    )
    one, three = (plain.table(name, CELLS)[:, 0, 0] for name in ("tva-ts", "srts-bce"))
    loss = three - np.minimum(one, three)
    other = one - np.minimum(one, three)
    wanted = [(loss[:3].mean() + loss[3:].mean()) / 2, loss.mean(), loss.max()]
    wanted += [(other[:3].mean() + other[3:].mean()) / 2]
    assert [row.reproduced for row in rows[2:]] == pytest.approx(wanted, abs=1e-12)


def test_how_many_models_a_rule_tells_apart(collection, plain):
    """Picks are taken from single values, means and counts are made here."""
    three_of = of("regimes_helped", dataset="all", backbone="all", unit="count", **chosen(RULE))
    three_of |= {"metric": None, "seeds": None, "budget": None, "set": "all regimes"}
    names = ("regimes_helped", "regimes_helped_and_kept", "regimes_hurt")
    names += ("regimes_hurt_and_avoided", "share_of_three_where_one_is_better")
    picked = [chosen(RULE, backbone=name, seeds=n, picks=[1] * n) for name, n in SEEDS.items()]
    rows = found(collection, *picked, *({**three_of, "paper_metric": name} for name in names))
    one, three = (plain.table(name, CELLS)[:, 0, 0] for name in ("tva-ts", "srts-bce"))
    picks = np.array([row.reproduced for row in rows if row.metric == "groups_chosen"])
    taken = np.where(picks == 3, three, one)
    counts = np.zeros(4)
    for some in (slice(0, 3), slice(3, 5)):
        a, b, c = (each[some].mean() for each in (one, three, taken))
        nearer = abs(c - b) < abs(c - a)  # the picks' mean is nearer to three groups'
        counts += [a - b > 0.002, a - b > 0.002 and nearer, b - a > 0.002, False]
        counts[3] += b - a > 0.002 and not nearer
    wrong = (picks[three > one] == 3).mean()
    assert [row.reproduced for row in rows[-5:]] == pytest.approx([*counts, wrong])


def test_models_are_counted_by_what_three_groups_do_to_them():
    """Columns: one group, three, what the rule took; ECE of two fits of each model."""
    models = [
        [[0.05, 0.02, 0.02], [0.05, 0.02, 0.05]],  # helped, half of it kept: not more than half
        [[0.05, 0.02, 0.02], [0.05, 0.03, 0.03]],  # helped, kept
        [[0.02, 0.05, 0.02], [0.02, 0.05, 0.02]],  # hurt, avoided
        [[0.02, 0.05, 0.05], [0.02, 0.05, 0.05]],  # hurt, not avoided
        [[0.02, 0.021, 0.02], [0.02, 0.021, 0.02]],  # neither
    ]
    tables = tuple(np.array(fits)[:, None, None, :] for fits in models)
    value = reference({"value": 0.0}).values[0]
    names = ("helped", "helped_and_kept", "hurt", "hurt_and_avoided")
    counts = [
        QUANTITIES[f".*/regimes_{name}"].summary(Sample(value, tables, (("clean", 0),)))
        for name in names
    ]
    assert counts == [2, 1, 2, 1]
    share = QUANTITIES[".*/share_of_three_where_one_is_better"].summary
    assert share(Sample(value, tables, (("clean", 0),))) == pytest.approx(2 / 6)


def test_models_won_and_lost(collection, plain):
    every = of("models_won", dataset="all", backbone="all", unit="count", **AGAINST)
    every |= {"seeds": None, "budget": None}
    models = [{"backbone": name, "seeds": n} for name, n in SEEDS.items()]
    names = ("models_won", "models_tied", "models_lost")
    rows = found(collection, *models, *({**every, "paper_metric": name} for name in names))
    gap = (plain.table("srts-bce", CELLS) - plain.table("tva-ts", CELLS))[:, 0, 0]
    means = np.round(100 * np.array([gap[:3].mean(), gap[3:].mean()]), 2)
    wanted = [(means < 0).sum(), (means == 0).sum(), (means > 0).sum()]
    assert [row.reproduced for row in rows[-3:]] == wanted


def test_the_number_of_groups_by_the_test_split_and_by_a_held_out_fifth(collection, plain):
    oracle, held = (STUDIES[name].entries for name in ("oracle-k", "nested-k"))
    table = {
        e.options["n_groups"]: plain.table("srts-bce", ONES, n_groups=e.options["n_groups"])
        for e in oracle
    }
    stacked = np.stack([each[:, 0, 0] for each in table.values()])
    rows = found(
        collection,
        chosen("SRTS-BCE with the best K on the test set"),
        chosen("SRTS-BCE with K chosen on a held-out fifth", picks=[1, 1, 1]),
    )
    assert rows[0].reproduced == pytest.approx(stacked.min(axis=0).mean(), abs=1e-12)
    picks = [int(row.reproduced) for row in rows[2:]]
    assert set(picks) <= {e.options["n_groups"] for e in held}
    taken = [table[k][i, 0, 0] for i, k in enumerate(picks)]
    assert rows[1].reproduced == pytest.approx(np.mean(taken), abs=1e-12)


def test_picks_of_draws_are_of_those_draws(collection):
    rows = found(collection, chosen(RULE, **DRAWN, seeds=1, value=None, picks=[1, 1, 1]))
    assert len(rows) == DRAWS
    assert {row.reproduced for row in rows} <= {1.0, 3.0}


# --- under shift


def scaled(z, temperature):
    p = np.exp((z - z.max(axis=1, keepdims=True)) / temperature[:, None])
    return p / p.sum(axis=1, keepdims=True)


def test_controls_that_nobody_could_deploy(collection, plain):
    eces = []
    for cell, part in product(ONES, PARTS):
        z, y = logits_of(*cell, part)
        fitted = plain.fit(cell, "srts-bce")
        risk = fitted.risk(z)
        thirds = np.searchsorted(np.quantile(risk, [1 / 3, 2 / 3]), risk, side="right")
        twins = fitted.group(logits_of(*cell, "test")[0])
        own = [
            sc.evaluate(y, scaled(z, fitted.temperatures_[groups]), metrics=["ece15"])["ece15"]
            for groups in (thirds, twins, fitted.group(z))
        ]
        eces.append([own[0], own[1], own[2] - own[1]])
    again = "SRTS-BCE with thresholds made anew on each corrupted cell"
    clean = "SRTS-BCE with the groups of the clean images"
    got = numbers(
        collection,
        chosen(again, set="corrupted"),
        chosen(clean, set="corrupted"),
        {"kind": "difference", "against": clean, "set": "corrupted"},
    )
    assert got == pytest.approx(np.mean(eces, axis=0), abs=1e-12)


def test_rank_correlations_over_corruptions(collection, plain):
    means = {
        name: plain.table(name, ONES[:1], PARTS).reshape(3, 2).mean(axis=1)
        for name in ("none", "tva-ts", "smart-bce", "srts-bce")
    }
    gains = [means[name] - means["srts-bce"] for name in ("tva-ts", "smart-bce")]
    shifted = {"set": "corrupted", "unit": "correlation", "seeds": 1}
    got = numbers(
        collection,
        of("spearman_gain_and_raw_ece", **shifted),
        of("spearman_gain_over_tva_and_over_smart", **shifted),
        of("corruptions_best_of_19", **{**shifted, "unit": "count"}),
    )
    wanted = [spearmanr(gains[0], means["none"]).statistic, spearmanr(*gains).statistic]
    wanted.append((np.minimum(*gains) > 0).sum())
    assert got == pytest.approx(wanted)


def test_rows_checked_and_changed(collection):
    entries = [{"method": "tva-ts"}, {"method": "srts-bce", "options": {"n_groups": 2}}]
    every = chosen("every method", metric=None, unit="count")
    more = {**every, "entries": [*entries, {"method": "vector-scaling"}]}
    got = numbers(
        collection,
        {**every, "entries": entries, "paper_metric": "rows_checked"},
        {**every, "entries": entries, "paper_metric": "rows_changed"},
        {**more, "paper_metric": "rows_changed"},
    )
    assert got[:2] == [6, 0]
    assert (
        numbers(collection, {"method": "ts-nll"}, {**every, "paper_metric": "rows_checked"})[1] == 3
    )  # those of its table
    assert 0 < got[2] <= 3  # vector scaling changes predictions
