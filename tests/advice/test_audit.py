"""The audit: numbers against plain loops over the same resamples, words against the data."""

import json
import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import spearmanr

import smallcal as sc
from smallcal.advice.audit_findings import Finding, findings_of, verdict_of
from smallcal.advice.calibrated_split import CalibratedSplit
from smallcal.advice.refits import Spread, gather_refits, rank_correlation, resample_counts
from smallcal.advice.signal_to_noise import AUDITED as SIGNALS
from smallcal.calibrators.catalogue import METHODS
from smallcal.data.predictions import Predictions
from smallcal.errors import InputError
from smallcal.io import threads
from smallcal.metrics import METRICS
from smallcal.metrics.scored import Scored
from smallcal.statistics.bootstrap import counts_of_draws
from support.cases import drawn, features_of, make, require_package
from support.refused import refused
from support.simulated import simulate

N_REFITS = 12


def quietly(estimator, *args, **extra):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        return estimator.fit(*args, **extra)


def plain_refits(z, y, name, **options):
    """Fit by the public estimators on the same bootstrap resamples."""
    for block in counts_of_draws(len(y), N_REFITS, np.random.default_rng(0)):
        for counts in block:
            rows = np.flatnonzero(counts)
            if "min_group_size" in make(name).get_params():
                options["min_group_size"] = math.ceil(50 * len(rows) / len(y))
            fit = quietly(make(name, **options), z[rows], y[rows], sample_weight=counts[rows])
            yield counts, fit


def assert_spread(spread, values):
    values = np.array(values)
    assert spread.median == pytest.approx(np.median(values), rel=1e-9)
    assert spread.low == pytest.approx(np.quantile(values, 0.25), rel=1e-9)
    assert spread.high == pytest.approx(np.quantile(values, 0.75), rel=1e-9)
    assert spread.mean == pytest.approx(values.mean(), rel=1e-9)
    assert spread.sd == pytest.approx(values.std(), rel=1e-6, abs=1e-12)


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def test_the_numbers_of_groups_equal_a_plain_loop():
    z, y = simulate(400, 6, seed=1)
    found = sc.audit(z, y, method="srts-bce", n_refits=N_REFITS, n_null=0)
    point = quietly(sc.make("srts-bce"), z, y)
    wrong = z.argmax(axis=1) != y
    fits = list(plain_refits(z, y, "srts-bce"))
    steps = np.array([fit.temperatures_ for _, fit in fits])
    edges = np.array([fit.thresholds_ for _, fit in fits])
    for i, band in enumerate(found.bands):
        inside = point.group(z) == i
        assert band.temperature.point == point.temperatures_[i]
        assert_spread(band.temperature, steps[:, i])
        assert (band.n, band.errors) == (inside.sum(), (wrong & inside).sum())
        assert band.error_rate == pytest.approx(wrong[inside].mean())
        assert band.share == pytest.approx(inside.mean())
        assert band.confidence == pytest.approx(point.predict_proba(z).max(axis=1)[inside].mean())
    for i, spread in enumerate(found.thresholds):
        assert spread.point == point.thresholds_[i]
        assert_spread(spread, edges[:, i])
    assert found.bands[0].low is None
    assert found.bands[0].high == found.bands[1].low == point.thresholds_[0]
    assert_spread(found.pooled_temperature, [fit.pooled_temperature_ for _, fit in fits])

    rising = [fit.temperatures_[0] < fit.temperatures_[1] < fit.temperatures_[2] for _, fit in fits]
    falling = [
        fit.temperatures_[0] > fit.temperatures_[1] > fit.temperatures_[2] for _, fit in fits
    ]
    order = np.argsort(point.temperatures_)
    same = [(np.argsort(fit.temperatures_) == order).all() for _, fit in fits]
    risk = []
    for counts, fit in fits:
        group = fit.group(z)
        rates = [np.average(wrong[group == i], weights=counts[group == i]) for i in range(3)]
        risk.append(rates[0] <= rates[1] <= rates[2])
    assert found.shares["rising"] == pytest.approx(np.mean(rising))
    assert found.shares["falling"] == pytest.approx(np.mean(falling))
    assert found.shares["same_order"] == pytest.approx(np.mean(same))
    assert found.shares["risk_ordered"] == pytest.approx(np.mean(risk))
    assert 0 < found.shares["same_order"] < 1  # else the loop would prove little
    at_bound = ["at_bound" in fit.flags_ for _, fit in fits]
    assert found.shares["saturated"] == pytest.approx(np.mean(at_bound))
    for flag, share in found.flags.items():
        assert share == pytest.approx(np.mean([flag in fit.flags_ for _, fit in fits]))


def test_error_rates_of_a_refit_are_those_of_its_draws():
    """A row drawn twice errs twice: on a small split that decides whether rates are in order."""
    z, y = simulate(160, 5, seed=4)
    found = sc.audit(z, y, method="margin-k3", n_refits=N_REFITS, n_null=0)
    point = quietly(sc.make("margin-k3"), z, y)
    wrong = z.argmax(axis=1) != y
    shares = {}
    for weighted in (True, False):
        falling = []
        for counts, fit in plain_refits(z, y, "margin-k3"):
            weight = counts if weighted else np.ones_like(counts)
            group = fit.group(z)
            rates = [np.average(wrong[group == i], weights=weight[group == i]) for i in range(3)]
            falling.append(rates[0] >= rates[1] >= rates[2])
        shares[weighted] = np.mean(falling)
    rates = [wrong[point.group(z) == i].mean() for i in range(3)]
    assert rates[0] > rates[2]  # wide margins err less
    assert found.shares["risk_ordered"] == pytest.approx(shares[True])
    assert shares[True] != shares[False]


@pytest.mark.parametrize("name", ["srts-bce", "signal-linear", "ets"])
def test_confidences_and_held_out_metrics_equal_a_plain_loop(name):
    z, y = simulate(300, 5, seed=2)
    found = sc.audit(z, y, method=name, n_refits=N_REFITS, n_null=0)
    fits = list(plain_refits(z, y, name))
    confidence = np.array([fit.predict_proba(z).max(axis=1) for _, fit in fits])
    sd = confidence.std(axis=0)
    assert found.confidence_sd["mean"] == pytest.approx(sd.mean(), rel=1e-6)
    assert found.confidence_sd["p95"] == pytest.approx(np.quantile(sd, 0.95), rel=1e-6)
    left = [counts == 0 for counts, _ in fits]
    for metric in ("top_label_bce", "ece15", "nll"):
        own = [
            METRICS[metric].of(Scored.of(y[out], fit.predict_proba(z[out])))
            for out, (_, fit) in zip(left, fits, strict=True)
        ]
        raw = [METRICS[metric].of(Scored.of(y[out], softmax(z[out]))) for out in left]
        assert_spread(found.held_out[metric], own)
        assert_spread(found.held_out[f"raw_{metric}"], raw)
        if metric == "top_label_bce":
            assert found.shares["beats_raw"] == np.mean(np.array(own) < np.array(raw))


def test_a_regressed_temperature_is_told_in_quantiles_and_thirds():
    z, y = simulate(300, 5, seed=2)
    found = sc.audit(z, y, method="signal-linear", n_refits=N_REFITS, n_null=0)
    here = sc.make("signal-linear").fit(z, y)
    t = here.temperature(z)
    fits = [fit for _, fit in plain_refits(z, y, "signal-linear")]
    others = np.array([fit.temperature(z) for fit in fits])
    assert list(found.quantiles) == ["0.05", "0.25", "0.5", "0.75", "0.95"]
    for level, spread in found.quantiles.items():
        assert spread.point == pytest.approx(np.quantile(t, float(level)))
        assert_spread(spread, np.quantile(others, float(level), axis=1))
    assert_spread(found.rank_correlation, [spearmanr(other, t).statistic for other in others])
    third = np.digitize(t, np.quantile(t, [1 / 3, 2 / 3]))
    for i, band in enumerate(found.bands):
        assert_spread(band.temperature, np.median(others[:, third == i], axis=1))
        assert band.errors == (z.argmax(axis=1) != y)[third == i].sum()
    assert (found.banded_by, found.thresholds) == ("temperature", ())


def test_subsamples_are_drawn_without_replacement():
    z, y = simulate(500, 5)
    found = sc.audit(z, y, method="tva-ts", n_refits=5, size=200, n_null=0, random_state=3)
    rng = np.random.default_rng(3)
    plain = []
    for _ in range(5):
        rows = np.sort(rng.choice(500, size=200, replace=False))
        plain.append(sc.make("tva-ts").fit(z[rows], y[rows]).temperature_)
    assert_spread(found.pooled_temperature, plain)
    assert found.resampling == "200 of 500 samples, without replacement"


def test_small_groups_are_small_by_draws_not_by_rows():
    # 200 rows make groups of 66; a resample has some 126 of them, 42 in each group.
    z, y = simulate(200, 5)
    found = sc.audit(z, y, method="srts-bce", n_refits=10, n_null=0)
    assert "fallback" not in found.flags
    tiny = sc.audit(z[:120], y[:120], method="srts-bce", n_refits=10, n_null=0)
    assert tiny.flags["fallback"] == 1
    assert any("Flag fallback" in finding.text for finding in tiny.findings)


def test_occupancy_follows_frozen_groups():
    z, y = simulate(400, 5, seed=1)
    other, _ = simulate(700, 5, seed=2, signal=1.0)
    for name in ("srts-bce", "signal-linear"):
        found = sc.audit(
            z, y, method=name, n_refits=3, n_null=0, apply_to={"same": z, "shift": other}
        )
        assert found.occupancy["same"] == pytest.approx([band.share for band in found.bands])
        assert sum(found.occupancy["shift"]) == pytest.approx(1)
    by_group = np.bincount(quietly(sc.make("srts-bce"), z, y).group(other), minlength=3) / 700
    found = sc.audit(z, y, method="srts-bce", n_refits=3, n_null=0, apply_to={"shift": other})
    assert found.occupancy["shift"] == pytest.approx(by_group)
    assert by_group[2] > 0.5
    text = f"shift: {100 * by_group[2]:.0f} % of samples fall into group 2, against 34 % here."
    assert Finding("care", text) in found.findings


def test_a_given_calibrator_is_shown_as_it_is_and_refitted_with_its_options(tmp_path):
    z, y = simulate(400, 5)
    cal = quietly(sc.make("srts-bce", n_groups=2, random_state=5), z, y)
    cal.save(tmp_path / "cal.json")
    found = sc.audit(z, y, calibrator=sc.load(tmp_path / "cal.json"), n_refits=4, n_null=0)
    assert found.method == "srts-bce[n_groups=2]"
    assert [band.temperature.point for band in found.bands] == cal.temperatures_.tolist()
    own = sc.audit(
        z, y, method="srts-bce", options={"n_groups": 2, "random_state": 5}, n_refits=4, n_null=0
    )
    assert found == own
    elsewhere = sc.audit(*simulate(400, 5, seed=9), calibrator=cal, n_refits=4, n_null=0)
    assert "fitted on other samples" in elsewhere.findings[0].text
    assert [b.temperature.point for b in elsewhere.bands] == cal.temperatures_.tolist()


AUDITED = [
    name
    for name, row in METHODS.items()
    if "labels" not in row.needs and row.map not in ("peer", "head", "dirichlet")
]


@pytest.mark.parametrize("name", AUDITED)
def test_every_method_can_be_audited(name):
    require_package(name)
    z, y = drawn(name, 150, 4)
    quick = {"smart-bce": 30, "smart-softece": 30, "temphead-k3": 5}
    options = {"epochs": quick[name]} if name in quick else {}
    options |= {"n_partitions": 2} if name == "semantic-groups" else {}
    features = features_of(z) if "features" in METHODS[name].needs else None
    found = sc.audit(z, y, method=name, options=options, n_refits=2, n_null=0, features=features)
    json.dumps(found.to_dict(), allow_nan=False)
    assert found.verdict
    assert bool(found.bands) == (found.banded_by != "")


def test_the_signals_are_part_of_it_and_progress_is_told():
    z, y = simulate(200, 5)
    told = []
    found = sc.audit(z, y, method="tva-ts", n_refits=3, n_null=9, advance=told.append)
    assert found.signals == sc.signal_to_noise(z, y, signals=SIGNALS, n_null=9)
    assert found.findings[-1].text == found.signals.verdict()
    assert sum(told) == 12
    assert json.loads(json.dumps(found.to_dict()))["signals"]["n_null"] == 9
    assert found == sc.audit(z, y, method="tva-ts", n_refits=3, n_null=9)


def texts(found):
    return " ".join(finding.text for finding in found.findings)


def test_no_errors_and_nothing_else_are_bad():
    z, _ = simulate(100, 4)
    for y, kind in ((z.argmax(axis=1), "wrong"), (z.argmin(axis=1), "right")):
        for name in ("srts-bce", "signal-linear", "none"):
            found = sc.audit(z, y, method=name, n_refits=3, n_null=9)
            assert found.verdict.startswith(f"Do not rely on it: no prediction is {kind}")
            json.dumps(found.to_dict(), allow_nan=False)


def test_a_group_without_errors_is_named():
    z, y = simulate(400, 5, signal=30)
    found = sc.audit(z, y, method="srts-bce", n_refits=5, n_null=0)
    assert found.bands[0].errors == 0
    assert "Group 0 has no errors: its temperature is not identified by the data." in texts(found)
    assert found.flags["unidentified"] == 1


def test_noise_and_order_are_told_apart():
    same = sc.audit(*simulate(600, 5, temperature=1.6), method="srts-bce", n_refits=20, n_null=0)
    assert "treat differences between groups as noise" in texts(same)
    rng = np.random.default_rng(0)
    z = rng.normal(size=(3000, 5))
    z[np.arange(3000), rng.integers(5, size=3000)] += 4 * rng.random(3000)
    margin = np.diff(np.sort(z, axis=1)[:, -2:], axis=1)
    p = softmax(z * np.where(margin > 1.2, 0.5, 1.0))
    y = (p.cumsum(axis=1) > rng.random((3000, 1))).argmax(axis=1)
    apart = sc.audit(z, y, method="margin-k3", n_refits=20, n_null=0)
    assert apart.shares["same_order"] >= 0.9
    assert "treat differences" not in texts(apart)


def test_a_calibrated_model_is_told_that_it_needs_nothing():
    found = sc.audit(*simulate(250, 8, temperature=1.0), method="srts-bce", n_refits=15, n_null=0)
    assert found.shares["beats_raw"] < 0.5
    as_good, harm = "the uncalibrated model is as good", "calibration does harm"
    assert (as_good in texts(found)) != (harm in texts(found))


@pytest.fixture(scope="module")
def sound():
    """An audit with nothing to say against it, to be changed one number at a time."""
    z, y = simulate(400, 5, seed=1)
    cal = quietly(sc.make("margin-k3"), z, y)
    found = sc.audit(z, y, calibrator=cal, n_refits=3, n_null=0)
    calm = [
        replace(band, temperature=Spread.of(1.0 + i, [1.0 + i]))
        for i, band in enumerate(found.bands)
    ]
    shares = {"risk_ordered": 1.0, "same_order": 1.0, "beats_raw": 1.0, "saturated": 0.0}
    return cal.fitted_, replace(
        found,
        bands=tuple(calm),
        shares=shares,
        flags={},
        n_errors=200,
        confidence_sd={"mean": 0.01, "p95": 0.02},
    )


@pytest.mark.parametrize(
    ("change", "worst"),
    [
        ({}, "fine"),
        ({"n_errors": 20}, "fine"),
        ({"n_errors": 19}, "care"),
        ({"n_errors": 381}, "care"),  # nineteen are right
        ({"n_errors": 0}, "bad"),
        ({"n_refits": 10, "n_failed": 5}, "care"),
        ({"n_refits": 10, "n_failed": 6}, "bad"),
        ({"flags": {"fallback": 0.1}}, "care"),
        ({"shares": {"saturated": 0.1}}, "care"),
        ({"shares": {"risk_ordered": 0.9}}, "fine"),
        ({"shares": {"risk_ordered": 0.89}}, "care"),
        ({"shares": {"same_order": 0.9}}, "fine"),
        ({"shares": {"same_order": 0.89}}, "care"),
        ({"shares": {"beats_raw": 0.9}}, "fine"),
        ({"shares": {"beats_raw": 0.5}}, "care"),
        ({"shares": {"beats_raw": 0.11}}, "care"),
        ({"shares": {"beats_raw": 0.1}}, "bad"),
        ({"confidence_sd": {"mean": 0.03, "p95": 0.5}}, "fine"),
        ({"confidence_sd": {"mean": 0.031, "p95": 0.5}}, "care"),
        ({"rank_correlation": Spread(1.0, 0.9, 0.5, 0.9, 0.9, 0.1)}, "fine"),
        ({"rank_correlation": Spread(1.0, 0.9, 0.49, 0.9, 0.9, 0.1)}, "care"),
        ({"occupancy": {"other": (0.43, 0.28, 0.29)}}, "fine"),  # a third each here
        ({"occupancy": {"other": (0.45, 0.28, 0.27)}}, "care"),
        ({"temperature": Spread(1.0, 1.1, 1.0, 1.3, 1.1, 0.1)}, "fine"),
        ({"temperature": Spread(1.0, 1.1, 1.0, 1.31, 1.1, 0.1)}, "care"),  # quartiles apart
        ({"temperature": Spread(1.0, 1.4, 1.31, 1.5, 1.4, 0.1)}, "care"),  # here below them
        ({"temperature": Spread(2.0, 1.4, 1.4, 1.5, 1.4, 0.1)}, "care"),  # here above them
    ],
    ids=str,
)
def test_a_finding_changes_its_level_at_its_limit(sound, change, worst):
    fitted, audit = sound
    if "shares" in change:
        change = {"shares": {**audit.shares, **change["shares"]}}
    if "temperature" in change:
        first, *others = audit.bands
        change = {"bands": (replace(first, temperature=change["temperature"]), *others)}
    levels = {finding.level for finding in findings_of(replace(audit, **change), fitted)}
    assert max(levels, key=["fine", "care", "bad"].index) == worst


def test_verdicts():
    fine, care, bad = (Finding(level, f"{level} it is.") for level in ("fine", "care", "bad"))
    assert verdict_of([fine]).startswith("Sound")
    assert verdict_of([fine, care, care]) == "Usable with care: 2 findings ask for it."
    assert verdict_of([care, bad]) == "Do not rely on it: bad it is."


def test_resamples_that_cannot_be_fitted_are_counted_or_told():
    z, y = simulate(8, 4)
    found = sc.audit(z, y, method="tva-ts", n_refits=40, n_null=0)
    assert 0 < found.n_failed < 40
    assert f"{found.n_failed} of 40 refits could not be fitted." in texts(found)
    with refused("too-few-samples"):
        sc.audit(z[:5], y[:5], method="tva-ts", n_refits=3, n_null=0)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_half_precision_and_probabilities_and_a_missing_class(dtype):
    z, y = simulate(200, 4)
    wide = np.hstack([z, z[:, :1] - 9]).astype(dtype)
    found = sc.audit(wide, y, method="srts-bce", n_refits=3, n_null=9)
    assert found.n_classes == 5
    proba = softmax(wide.astype(np.float64))
    same = sc.audit(proba, y, input="probabilities", method="tva-ts", n_refits=3, n_null=0)
    shift = {"p": proba}
    again = sc.audit(
        proba, y, input="probabilities", method="srts-bce", n_refits=3, n_null=0, apply_to=shift
    )
    plain = sc.audit(np.log(proba), y, method="tva-ts", n_refits=3, n_null=0)
    assert same.pooled_temperature.median == pytest.approx(plain.pooled_temperature.median)
    assert sum(again.occupancy["p"]) == pytest.approx(1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_refits": 1}, "n_refits must be a whole number of at least 2; got 1"),
        ({"size": 4}, "size must be at least 5 and less than the 60 samples"),
        ({"size": 60}, "size must be at least 5 and less than the 60 samples"),
        ({"method": "luck"}, "unknown method 'luck'"),
        ({"method": "oracle-risk"}, "reads the labels of what it predicts"),
        ({"method": "features-k3"}, "needs features"),
        (
            {"apply_to": {"x": [[1.0, 2.0]]}, "method": "tva-ts"},
            "x: logits must have the 4 columns",
        ),
        ({"apply_to": {"x": [[1.0, 2.0]]}, "method": "ets"}, "neither groups nor temperatures"),
    ],
)
def test_bad_options_are_told(options, message):
    with pytest.raises(InputError, match=message):
        sc.audit(*simulate(60, 4), **{"n_refits": 2, "n_null": 0, **options})


def test_a_calibrator_must_fit_the_samples():
    z, y = simulate(60, 4)
    cal = sc.make("tva-ts").fit(z, y)
    with refused("columns-differ", "4", "3"):
        sc.audit(*simulate(60, 3), calibrator=cal)
    with refused("input-differs"):
        sc.audit(softmax(z), y, calibrator=cal, input="probabilities")


def test_rows_that_are_drawn_twice_are_no_more_evidence_for_the_default():
    """Counted twice, refits of a calibrated model are worse: log-loss +.05, deviation .050."""
    z, y = simulate(300, 40, temperature=1.0, signal=8.0, seed=3)
    found = sc.audit(z, y, n_refits=30, n_null=0)
    own, raw = (found.held_out[key].mean for key in ("nll", "raw_nll"))
    assert own < raw + 0.03
    assert found.confidence_sd["mean"] < 0.04


def test_refits_stop_at_half_where_halves_lead_to_the_same_findings():
    z, y = simulate(200, 5)
    told = []
    found = sc.audit(z, y, method="tva-ts", n_null=0, advance=told.append)
    assert (found.n_refits, sum(told)) == (25, 50)
    assert found == sc.audit(z, y, method="tva-ts", n_refits=25, n_null=0)


def test_refits_go_on_where_halves_are_judged_differently():
    z, y = simulate(120, 4)
    preds = Predictions.of(z, y)
    composed = sc.make("tva-ts")._compose()
    audited = CalibratedSplit.of(composed.fit(preds), preds)
    draws = list(resample_counts(120, 60))
    looks = []

    def judged(some):
        looks.append(some.n)
        return some.n

    differing = gather_refits(audited, composed, preds, draws, lambda _: None, judged=judged)
    assert (differing.n, looks[:3]) == (60, [25, 13, 12])
    alike = gather_refits(audited, composed, preds, draws, lambda _: None, judged=lambda _: 0)
    assert alike.n == 25
    assert alike.numbers["pooled"] == differing.numbers["pooled"][:25]


@pytest.mark.parametrize("count", [1, 3])
def test_the_number_of_cores_changes_nothing(count, monkeypatch):
    z, y = simulate(150, 5)
    wanted = sc.audit(z, y, n_refits=6, n_null=9)
    chosen = sc.select(z, y, candidates=["none", "smallcal"], n_repeats=1)
    planned = sc.plan(z, y, method="smallcal", sizes=[60], draws=5)
    monkeypatch.setattr(threads, "cores", lambda: count)
    assert sc.audit(z, y, n_refits=6, n_null=9) == wanted
    assert sc.select(z, y, candidates=["none", "smallcal"], n_repeats=1) == chosen
    assert sc.plan(z, y, method="smallcal", sizes=[60], draws=5) == planned


def test_rank_correlation_is_scipys():
    rng = np.random.default_rng(0)
    for first in (rng.normal(size=80), rng.integers(5, size=80).astype(float)):
        second = rng.normal(size=80) + first
        wanted = spearmanr(first, second).statistic
        assert rank_correlation(first, second) == pytest.approx(wanted, abs=1e-12)
