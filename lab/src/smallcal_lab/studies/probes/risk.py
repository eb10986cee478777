"""What is measured of the score that routes samples: on clean ones, under shift, in a margin."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy

from smallcal.calibrators.maps.groups import group_members, group_thresholds
from smallcal.calibrators.objectives import Seen, sigmoid
from smallcal.calibrators.signals import (
    ROUTES,
    STATISTICS,
    FeatureRisk,
    FittedSignal,
    Observed,
    Risk,
    Rows,
    SignalFit,
    fit_signal,
    statistics,
)
from smallcal.data.predictions import BoolArray, FloatArray, IntArray, Predictions
from smallcal.errors import InputError
from smallcal.metrics import Scored
from smallcal.metrics.binned import equal_width
from smallcal.statistics.compare import evaluate
from smallcal_lab.studies.frame import CLEAN
from smallcal_lab.studies.probes.base import Found, Site, applied, groups_of, is_grouped, sets_of
from smallcal_lab.studies.probes.shift import occupancy, paired_sets
from smallcal_lab.studies.study import Entry

#: Thirds of the calibration split by the logit margin, from the smallest margins on.
TERTILES = ("low", "mid", "high")
#: Parts of equally many samples in which errors are counted.
N_PARTS = 10
#: Bins of confidence in which groups are compared.
CONFIDENCE_BINS = 10


# Within a margin --------------------------------------------------------------------------------


def within_margin(site: Site, entry: Entry) -> Iterator[Found]:
    """Metrics of all samples and of those with a small, a middling and a large logit margin.

    The margins are cut at the thirds of the calibration split, on every set alike.
    """
    fitted = site.fit(entry)
    cuts = group_thresholds(_margin(site.cal), len(TERTILES))
    for name, severity, preds in sets_of(site.cell, fitted):
        proba = applied(fitted, preds)
        yield name, severity, evaluate(preds.labels, proba, metrics=site.study.metrics)
        third = group_members(_margin(preds), cuts)
        for number, tertile in enumerate(TERTILES):
            rows = third == number
            yield name, severity, {f"share_margin_{tertile}": float(rows.mean())}
            if rows.any():
                found = evaluate(preds.labels[rows], proba[rows], metrics=site.study.metrics)
                yield name, severity, {f"{m}_margin_{tertile}": v for m, v in found.items()}


def _margin(preds: Predictions) -> FloatArray:
    return np.asarray(statistics(preds.logits)[:, STATISTICS.index("logit_margin")])


# The risk score on clean samples ----------------------------------------------------------------


def risk_scored(site: Site, entry: Entry) -> Iterator[Found]:
    """Measure what the risk score tells apart, how it is spread, and what its groups show.

    On the calibration split each sample's risk is that of a model that did not see it.
    """
    fit, seen = _routed(site, entry), Seen.of(site.cal)
    if not isinstance(fit.signal, Risk | FeatureRisk):
        why = "too few wrong or right predictions to learn a risk score from"
        if "no_router" not in fit.flags:
            why = f"{entry.label} has no risk score; its signal is {fit.signal.kind!r}"
        raise InputError(why)
    risk, wrong = _probability(fit.signal, fit.scores), ~site.cal.correct
    test = site.cell.read("test")
    yield CLEAN, 0, _ranking(risk, site.cal, seen)
    # The six statistics of the test rows are made again; the rows need not be read again.
    rows = Rows(test.logits, features=test.features)
    own = _probability(fit.signal, fit.signal.scores(rows))
    found = _ranking(own, test, Seen.of(test))
    yield CLEAN, 0, {f"{name}_test": value for name, value in found.items()}
    yield CLEAN, 0, _scale(risk, _probability(fit.signal, fit.deployed))
    yield CLEAN, 0, _density(risk, wrong, site.study.settings["bins"])
    yield CLEAN, 0, _in_parts(risk, wrong, seen.raw.confidence, -seen.raw.log_odds)
    yield from _in_groups(site, entry, test)


def _routed(site: Site, entry: Entry) -> SignalFit:
    """Fit an entry's signal alone, as its fit does: with scores out of fold and deployed ones."""
    method = site.estimator(entry)._compose()
    options = {name: method.options[name] for name in ROUTES[method.signal].options}
    return fit_signal(method.signal, Observed.of(*Seen.of(site.cal), method.discipline), **options)


def _probability(signal: FittedSignal, scores: FloatArray) -> FloatArray:
    return sigmoid(scores) if getattr(signal, "logit", False) else scores


def _ranking(risk: FloatArray, preds: Predictions, seen: Seen) -> dict[str, float]:
    """Return how well errors are ranked by the risk, by the raw confidence, and by the margin."""
    wrong = ~preds.correct
    scores = {"risk": risk, "confidence": -seen.raw.log_odds, "margin": -_margin(preds)}
    found = {f"auroc_{name}": auroc(score, wrong) for name, score in scores.items()}
    medians = {"right": risk[~wrong], "wrong": risk[wrong]}
    found |= {f"median_risk_{name}": _median(some) for name, some in medians.items()}
    rho = scipy.stats.spearmanr(risk, scores["confidence"]).statistic
    return found | {"average_risk": float(risk.mean()), "rank_correlation": float(rho)}


def _median(values: FloatArray) -> float:
    return float(np.median(values)) if len(values) else float("nan")


def auroc(score: FloatArray, wrong: BoolArray) -> float:
    """Return the chance that an error has a higher score than a right prediction; ties are half.

    Examples
    --------
    >>> auroc(np.array([0.1, 0.4, 0.4, 0.9]), np.array([False, False, True, True]))
    0.875
    """
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(wrong, score)) if 0 < wrong.sum() < len(wrong) else float("nan")


def _scale(out_of_fold: FloatArray, refit: FloatArray) -> dict[str, float]:
    """Return where the two scores of the calibration split lie: temperatures see the first."""
    found = {}
    for name, scores in (("out_of_fold", out_of_fold), ("refit", refit)):
        found[f"score_mean_{name}"] = float(scores.mean())
        found[f"score_spread_{name}"] = float(scores.std())
    shift = found["score_mean_refit"] - found["score_mean_out_of_fold"]
    spread = found["score_spread_out_of_fold"]
    ratio = found["score_spread_refit"] / spread if spread else float("nan")
    return found | {"score_shift": shift, "score_spread_ratio": ratio}


def _density(risk: FloatArray, wrong: BoolArray, bins: int) -> dict[str, float]:
    """Return the share of right and of wrong predictions in each bin of risk."""
    place = equal_width(risk, bins)
    found: dict[str, float] = {}
    for name, rows in (("right", ~wrong), ("wrong", wrong)):
        shares = np.bincount(place[rows], minlength=bins) / max(int(rows.sum()), 1)
        found |= {f"share_of_{name}_bin{i:02d}": share for i, share in enumerate(shares)}
    return found


def _in_parts(
    risk: FloatArray, wrong: BoolArray, confidence: FloatArray, doubt: FloatArray
) -> dict[str, float]:
    """Return errors in tenths by risk and by confidence, and the risk in tenths by confidence.

    Tenths are counted from 0, the safest.
    """
    found = {}
    tenths = {"risk": _tenths(risk), "confidence": _tenths(doubt)}
    for name, tenth in tenths.items():
        for i in range(N_PARTS):
            if (rows := tenth == i).any():
                found[f"error_by_{name}{i}"] = float(wrong[rows].mean())
    for i in range(N_PARTS):
        if (rows := tenths["confidence"] == i).any():
            found[f"confidence_by_confidence{i}"] = float(confidence[rows].mean())
            for name, value in zip(("low", "middle", "high"), _quartiles(risk[rows]), strict=True):
                found[f"risk_{name}_by_confidence{i}"] = value
    return found


def _tenths(score: FloatArray) -> IntArray:
    return group_members(score, group_thresholds(score, N_PARTS))


def _quartiles(values: FloatArray) -> list[float]:
    return [float(value) for value in np.quantile(values, [0.25, 0.5, 0.75])]


def _in_groups(site: Site, entry: Entry, test: Predictions) -> Iterator[Found]:
    """Measure what one temperature leaves in each group of the test split, and by confidence."""
    fitted = site.fit(entry)
    if not is_grouped(fitted):
        return
    group = groups_of(fitted, test)
    one = Scored.of(test.labels, applied(site.fit(Entry("tva-ts")), test))
    own = Scored.of(test.labels, applied(fitted, test))
    place = equal_width(one.confidence, CONFIDENCE_BINS)
    yield CLEAN, 0, occupancy(fitted, test)
    for number, temperature in enumerate(fitted.temperatures_.tolist()):
        yield CLEAN, 0, {f"temperature{number}": temperature}
        rows = group == number
        if not rows.any():
            continue
        found = {f"accuracy_group{number}": float(one.correct[rows].mean())}
        found[f"gap_one_group{number}"] = float(one.residual[rows].mean())
        found[f"gap_group{number}"] = float(own.residual[rows].mean())
        for i in np.unique(place[rows]).tolist():
            some = rows & (place == i)
            found[f"share_of_group{number}_bin{i}"] = float(some.mean())
            found[f"accuracy_group{number}_bin{i}"] = float(one.correct[some].mean())
            found[f"confidence_group{number}_bin{i}"] = float(one.confidence[some].mean())
        yield CLEAN, 0, found


# Under shift ------------------------------------------------------------------------------------


def risk_flow(site: Site, entry: Entry) -> Iterator[Found]:
    """Mean risk and groups on every set; of paired ones, from which group each sample came."""
    fitted = site.fit(entry)
    if not is_grouped(fitted):
        raise InputError(f"{entry.label} has one group, so nothing moves between groups")
    signal = fitted.fitted_.signal
    for name, severity, preds in sets_of(site.cell, fitted):
        yield name, severity, occupancy(fitted, preds)
        if isinstance(signal, Risk | FeatureRisk):
            features = preds.features if "features" in signal.needs else None
            yield name, severity, {"mean_risk": fitted.risk(preds.logits, features=features).mean()}
    n_groups = len(fitted.temperatures_)
    before = groups_of(fitted, site.cell.read("test"))
    for name, severity, preds in paired_sets(site.cell):
        pairs = n_groups * before + groups_of(fitted, preds)
        shares = np.bincount(pairs, minlength=n_groups**2) / preds.n
        yield (
            name,
            severity,
            {
                f"flow_{i}_to_{j}": shares[n_groups * i + j]
                for i in range(n_groups)
                for j in range(n_groups)
            },
        )
