"""Tables of single draws, of cells, of models together, and of parts of the shifted sets."""

import math
from dataclasses import replace

import numpy as np
import pytest

from smallcal_lab.statistics import nested
from smallcal_lab.studies import study_named
from smallcal_lab.studies.frame import Frame
from smallcal_lab.studies.reproduce.reference import EXTRA, STANDARD
from smallcal_lab.studies.tables.clean import clusters, draws, seeds, wins
from smallcal_lab.studies.tables.shift import tiers

N_BOOT = 2_000
BACKBONES, SEEDS, DRAWS = ("a", "b"), (0, 1, 2), 5
LABELS = ("tva-ts", "srts-bce", "smart-bce")


def study(name="budget", **changes):
    about = study_named(name).with_options(n_boot=N_BOOT)
    return replace(about, metrics=("ece15", "nll"), **changes)


@pytest.fixture(scope="module")
def values():
    """Values by (label, metric): backbone, seed, draw."""
    rng = np.random.default_rng(0)
    shape = (len(BACKBONES), len(SEEDS), DRAWS)
    level = {"tva-ts": 0.020, "srts-bce": 0.017, "smart-bce": 0.021}
    return {
        (label, metric): level[label] + rng.normal(0, 0.004, size=shape)
        for label in LABELS
        for metric in ("ece15", "nll")
    }


def frame_of(values, *, set="clean", severity=0):
    rows = []
    for (label, metric), table in values.items():
        for (b, s, d), value in np.ndenumerate(table):
            rows.append(
                {
                    "cell": f"toy__{BACKBONES[b]}__s{s}",
                    "dataset": "toy",
                    "backbone": BACKBONES[b],
                    "seed": s,
                    "budget": 250,
                    "draw": d,
                    "label": label,
                    "method": label,
                    "set": set,
                    "severity": severity,
                    "metric": metric,
                    "value": value,
                }
            )
    return Frame.of(rows)


def cells(table, **wanted):
    rows = (dict(zip(table.header, row, strict=True)) for row in table.rows)
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def same(number, interval):
    got = (number.value, number.low, number.high, number.below)
    wanted = (100 * interval.point, 100 * interval.low, 100 * interval.high, interval.p_below)
    assert got == pytest.approx(wanted, abs=1e-9)


def test_draws_are_resampled_one_by_one_and_described(values):
    table = draws(study(), frame_of(values))
    gaps = values["srts-bce", "ece15"] - values["tva-ts", "ece15"]
    for models, own in (("toy a", 0), ("toy b", 1), ("all", slice(None))):
        (row,) = cells(table, models=models, metric="ECE", method="srts-bce")
        mine, apart = values["srts-bce", "ece15"][own].ravel(), gaps[own].ravel()
        assert row["mean"].value == pytest.approx(100 * mine.mean())
        assert row["mean"].spread == pytest.approx(100 * mine.std())
        rng = np.random.default_rng(1)
        means = 100 * apart[rng.integers(len(apart), size=(N_BOOT, len(apart)))].mean(axis=1)
        number = row["difference"]
        wanted = np.quantile(means, [0.025, 0.975])
        np.testing.assert_allclose([number.low, number.high], wanted, atol=0.36 * means.std())
        assert number.value == pytest.approx(100 * apart.mean())
        assert row["P(difference < 0)"].value == pytest.approx((means < 0).mean(), abs=0.05)
        assert row["wins %"].value == pytest.approx(100 * (apart < 0).mean())
    (base,) = cells(table, models="toy a", metric="log-loss", method="tva-ts")
    assert math.isnan(base["difference"].value)


def test_draws_of_a_whole_split_are_one(values):
    whole = {key: np.repeat(table[:, :, :1], DRAWS, axis=2) for key, table in values.items()}
    table = draws(study(), frame_of(whole))
    (row,) = cells(table, models="toy a", metric="ECE", method="srts-bce")
    gaps = (whole["srts-bce", "ece15"] - whole["tva-ts", "ece15"])[0, :, 0]
    same(row["difference"], nested.cells(gaps, n_boot=N_BOOT))


def test_wins_are_counted_model_by_model(values):
    table = wins(study(), frame_of(values))
    gaps = values["smart-bce", "nll"] - values["tva-ts", "nll"]
    for models, own in (("toy a", gaps[0]), ("toy b", gaps[1]), ("all", gaps)):
        (row,) = cells(table, models=models, method="smart-bce")
        assert row["log-loss %"].value == pytest.approx(100 * (own < 0).mean())


def test_all_models_together_are_models_then_seeds_then_draws(values):
    table = seeds(study(), frame_of(values))
    gaps = values["srts-bce", "nll"] - values["smart-bce", "nll"]
    levels = {"toy a": gaps[0], "toy b": gaps[1], "all": gaps}
    for models, own in levels.items():
        (row,) = cells(table, models=models, method="srts-bce", minus="smart-bce")
        wanted = nested.nested(own.tolist(), n_boot=N_BOOT)
        same(row["log-loss points"], wanted)
        lower = own.mean(axis=-1)
        number = row["log-loss lower in"]
        assert (number.value, number.of) == ((lower < 0).sum(), lower.size)
        assert row["P(ECE < 0)"].value == row["ECE points"].below
        assert math.isnan(row["ECE, seeds alone"].value) == (models == "all")


def test_cells_are_resampled_whole(values):
    about = study("routing-signal")
    found = {(label.replace("smart-bce", "margin-k3"), m): v for (label, m), v in values.items()}
    own = np.random.default_rng(2).normal(0, 0.01, size=(2, 3, 1))  # draws of a cell are alike
    found["srts-bce", "ece15"] = found["srts-bce", "ece15"] + own
    table = clusters(about, frame_of(found))
    (row,) = cells(table, method="srts-bce", minus="margin-k3")
    means = (found["srts-bce", "ece15"] - found["margin-k3", "ece15"]).mean(axis=-1).ravel()
    assert row["cells"].value == len(means) == 6
    rng = np.random.default_rng(1)
    drawn = 100 * means[rng.integers(6, size=(N_BOOT, 6))].mean(axis=1)
    number = row["ECE points"]
    np.testing.assert_allclose(
        [number.low, number.high], np.quantile(drawn, [0.025, 0.975]), atol=0.36 * drawn.std()
    )
    assert number.value == pytest.approx(100 * means.mean())
    assert row["P(ECE < 0)"].value == pytest.approx((drawn < 0).mean(), abs=0.05)
    assert row["verdict"].startswith(("better", "tie", "worse"))


def test_tiers_of_every_metric_and_of_the_papers_parts():
    kinds, severities = (*STANDARD, *EXTRA), (1, 2, 3, 4, 5)
    rng = np.random.default_rng(0)
    table = {
        (label, metric): rng.normal(0.05 if label == "tva-ts" else 0.045, 0.01, size=(3, 19, 5))
        for label in ("tva-ts", "srts-bce")
        for metric in ("ece15", "eaurc")
    }
    rows = [
        {
            **{"cell": f"c{s}", "dataset": "cifar100", "backbone": "vit", "seed": s, "budget": 9},
            **{"label": label, "method": label, "set": kinds[k], "severity": severities[v]},
            **{"metric": metric, "value": value},
        }
        for (label, metric), numbers in table.items()
        for (s, k, v), value in np.ndenumerate(numbers)
    ]
    about = replace(study("shift"), metrics=("ece15", "eaurc"), n_boot=200)
    found = tiers(about, Frame.of(rows))
    parts = {
        "all": (slice(None), slice(None)),
        "severity 4-5": (slice(None), slice(3, 5)),
        "15 corruptions": (slice(0, 15), slice(None)),
    }
    assert len(found.rows) == len(parts) * 2
    for sets, (of_kinds, of_severities) in parts.items():
        for metric in ("ece15", "eaurc"):
            gaps = table["srts-bce", metric] - table["tva-ts", metric]
            wanted = nested.tiers(gaps[:, of_kinds, of_severities], n_boot=200)
            (row,) = cells(found, sets=sets, metric=metric, method="srts-bce", minus="tva-ts")
            for name, interval in wanted.items():
                same(row[name], interval)
            last = list(wanted.values())[-1]
            assert row["P(difference < 0)"].value == last.p_below


def test_parts_that_are_all_or_nothing_are_not_shown_twice():
    rows = [
        {
            **{"cell": "c", "dataset": "d", "backbone": "b", "budget": 9, "metric": "ece15"},
            **{"label": label, "method": label, "set": kind, "severity": severity, "value": 0.1},
        }
        for label in ("tva-ts", "srts-bce")
        for kind in ("fog", "snow")
        for severity in (4, 5)
    ]
    found = tiers(replace(study("shift"), n_boot=20), Frame.of(rows))
    assert {row["sets"] for row in cells(found)} == {"all"}
