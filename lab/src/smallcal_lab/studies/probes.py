"""What is measured of each fit: a probe fits an entry at a site, and yields numbers set by set."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from smallcal import calibrators
from smallcal.advice import cross_validate, select_walk
from smallcal.advice import signal_to_noise as promised
from smallcal.advice.calibrated_split import CalibratedSplit, ordered
from smallcal.calibrators import signals
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.maps.groups import group_members, group_thresholds
from smallcal.calibrators.objectives import Seen, sigmoid
from smallcal.calibrators.softmax import scaled_softmax
from smallcal.data.predictions import BoolArray, FloatArray, IntArray, Predictions
from smallcal.errors import InputError
from smallcal.metrics import METRICS, Scored
from smallcal.metrics.binned import equal_width
from smallcal.metrics.kept import Kept
from smallcal.metrics.selective import selective_risk
from smallcal.metrics.table import chosen_metrics
from smallcal.statistics.compare import evaluate
from smallcal_lab.studies.collection import Cell
from smallcal_lab.studies.frame import CLEAN, Rows
from smallcal_lab.studies.predictions import SHIFTED, Prediction
from smallcal_lab.studies.study import Entry, Study

if TYPE_CHECKING:
    from smallcal.calibrators.base import BaseCalibrator

#: A test set: its kind and severity.
Place = tuple[str, int]
#: Numbers with the set they were measured on.
Found = tuple[Place, Mapping[str, float]]

#: The set that is not shifted.
TEST: Place = (CLEAN, 0)
#: Thirds of the calibration split by the logit margin, from the smallest margins on.
TERTILES = ("low", "mid", "high")
#: Parts of equally many samples in which errors are counted.
N_PARTS = 10
#: Bins of confidence in which groups are compared.
CONFIDENCE_BINS = 10


@dataclass(frozen=True, eq=False)
class Site:
    """Where entries are fitted and measured; ``kept`` are the sets whose predictions are found."""

    study: Study
    cell: Cell
    cal: Predictions
    kept: frozenset[str] = frozenset()
    found: list[Prediction] = field(default_factory=list)

    def rows(self, probe: Probe, entry: Entry) -> Rows:
        """Return what a probe finds of an entry."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [
                {"set": name, "severity": severity, "metric": metric, "value": float(value)}
                for (name, severity), values in probe(self, entry)
                for metric, value in values.items()
            ]

    def estimator(self, entry: Entry) -> BaseCalibrator:
        """Return an entry's estimator, unfitted; folds are seeded by the cell's seed."""
        estimator = calibrators.make(entry.name, **entry.options)
        if "random_state" in estimator.get_params():
            estimator.set_params(random_state=self.cell.seed)
        return estimator

    def fit(self, entry: Entry) -> BaseCalibrator:
        """Fit an entry on the draw."""
        cal = self.cal
        return self.estimator(entry).fit(cal.logits, cal.labels, features=cal.features)

    def scores(
        self, entry: Entry, fitted: BaseCalibrator, place: Place, preds: Predictions
    ) -> dict[str, float]:
        """Return the study's metrics on a set; its predictions are kept if a table needs them."""
        proba = applied(fitted, preds)
        if (CLEAN if place[0] == CLEAN else SHIFTED) in self.kept:
            kept = Kept.from_scored(Scored.of(preds.labels, proba))
            self.found.append(Prediction(entry.label, *place, kept))
        return self.measured(preds, proba)

    def measured(self, preds: Predictions, proba: FloatArray) -> dict[str, float]:
        """Return the metrics that the study names, among its own or in its settings."""
        metrics = self.study.metrics or self.study.settings.get("metrics", ())
        return evaluate(preds.labels, proba, metrics=metrics)

    def controlled(
        self, preds: Predictions, proba: FloatArray, control: FloatArray | None
    ) -> dict[str, float]:
        """Return metrics, and under names of their own those of what nobody could deploy."""
        found = self.measured(preds, proba)
        if control is None:
            return found
        name = self.study.settings["control"]
        others = self.measured(preds, control).items()
        return found | {f"{metric}_{name}": value for metric, value in others}

    @property
    def baseline(self) -> Entry:
        """The entry that the others are compared with."""
        return next(e for e in self.study.entries if e.label == self.study.baseline)


Probe = Callable[[Site, Entry], Iterator[Found]]


def sets_of(
    cell: Cell, fitted: BaseCalibrator | None = None
) -> Iterator[tuple[Place, Predictions]]:
    """Yield the test split and every shifted one.

    A calibrator that reads features is measured on shifted sets if all of them have features: a
    mean over some of them would be another's.
    """
    yield TEST, cell.read("test")
    reads = fitted is not None and "features" in fitted.fitted_.signal.needs
    if not reads or all(cell.read(shift).features is not None for shift in cell.shifts):
        for shift in cell.shifts:
            yield (shift.kind, shift.severity), cell.read(shift)


def paired_sets(cell: Cell) -> Iterator[tuple[Place, Predictions]]:
    """Yield every shifted set whose rows are the test rows."""
    for shift in cell.shifts:
        if shift.paired:
            preds = cell.read(shift)
            if not np.array_equal(preds.labels, cell.read("test").labels):
                raise InputError(f"{shift.file} is not paired: its labels are not the test split's")
            yield (shift.kind, shift.severity), preds


def applied(fitted: BaseCalibrator, preds: Predictions) -> FloatArray:
    """Return a calibrator's probabilities, of scores those of outcome 1, as metrics take them."""
    return preds.measured(fitted.predict_proba(preds.logits, **_extra(fitted, preds)))


def groups_of(fitted: BaseCalibrator, preds: Predictions) -> IntArray:
    """Return the group of each sample."""
    return fitted.group(preds.logits, **_extra(fitted, preds))


def _extra(fitted: BaseCalibrator, preds: Predictions) -> dict[str, Any]:
    """Return what a calibrator reads beside logits; diagnostics that read labels get them."""
    needs = fitted.fitted_.signal.needs
    features = {"features": preds.features} if "features" in needs else {}
    return features | ({"y": preds.labels} if "labels" in needs else {})


def is_grouped(fitted: BaseCalibrator) -> bool:
    """Whether a calibrator has more than one group."""
    return len(fitted.fitted_.map.steps) > 1


def occupancy(fitted: BaseCalibrator, preds: Predictions) -> dict[str, float]:
    """Return the share of samples in each group, if there are groups."""
    if not is_grouped(fitted):
        return {}
    count = np.bincount(groups_of(fitted, preds), minlength=len(fitted.temperatures_))
    return _numbered("share_of_group", count / preds.n)


def _numbered(name: str, values: Any, first: int = 0) -> dict[str, float]:
    return {f"{name}{i}": float(value) for i, value in enumerate(values, first)}


def _percent(share: float) -> str:
    return f"{100 * share:g}"


# Metrics, clean and shifted ---------------------------------------------------------------------


def clean(site: Site, entry: Entry) -> Iterator[Found]:
    """Metrics on the test split."""
    yield TEST, site.scores(entry, site.fit(entry), TEST, site.cell.read("test"))


def shifted(site: Site, entry: Entry) -> Iterator[Found]:
    """Metrics and groups on the test split and on every shifted one, all maps frozen."""
    fitted = site.fit(entry)
    for place, preds in sets_of(site.cell, fitted):
        yield place, site.scores(entry, fitted, place, preds) | occupancy(fitted, preds)


def requantized(site: Site, entry: Entry) -> Iterator[Found]:
    """Under shift: thresholds cut anew at the shifted samples' own quantiles, a control."""
    fitted = site.fit(entry)
    for place, preds in sets_of(site.cell):
        control = None
        if is_grouped(fitted):
            scores = fitted.fitted_.scores(
                preds.logits, labels=preds.labels, features=preds.features
            )
            cuts = group_thresholds(scores, len(fitted.fitted_.map.steps))
            control = with_groups(fitted.fitted_, preds, group_members(scores, cuts))
        yield place, site.controlled(preds, applied(fitted, preds), control)


def paired_clean(site: Site, entry: Entry) -> Iterator[Found]:
    """Under shift: each sample keeps the group of its clean twin, which nobody has in use."""
    fitted = site.fit(entry)
    twins = groups_of(fitted, site.cell.read("test")) if is_grouped(fitted) else None
    for place, preds in paired_sets(site.cell):
        control = None if twins is None else with_groups(fitted.fitted_, preds, twins)
        yield place, site.controlled(preds, applied(fitted, preds), control)


def with_groups(fitted: FittedCalibrator, preds: Predictions, groups: IntArray) -> FloatArray:
    """Return probabilities with samples in given groups, whatever their scores say."""
    temperature = np.array(fitted.map.steps)[groups]
    out = np.empty_like(preds.logits)
    for block in signals.row_blocks(preds.logits):
        scaled_softmax(block, temperature[block.rows], out=out[block.rows])
    return preds.measured(out)


def within_margin(site: Site, entry: Entry) -> Iterator[Found]:
    """Metrics of all samples and of those with a small, a middling and a large logit margin.

    The margins are cut at the thirds of the calibration split, on every set alike.
    """
    fitted = site.fit(entry)
    cuts = group_thresholds(_margin(site.cal), len(TERTILES))
    for place, preds in sets_of(site.cell, fitted):
        proba = applied(fitted, preds)
        yield place, site.measured(preds, proba)
        third = group_members(_margin(preds), cuts)
        for number, tertile in enumerate(TERTILES):
            rows = third == number
            yield place, {f"share_margin_{tertile}": rows.mean()}
            if rows.any():
                found = evaluate(preds.labels[rows], proba[rows], metrics=site.study.metrics)
                yield place, {f"{m}_margin_{tertile}": v for m, v in found.items()}


def _margin(preds: Predictions) -> FloatArray:
    return np.asarray(signals.statistics(preds.logits)[:, signals.STATISTICS.index("logit_margin")])


# What is kept at a threshold or a coverage ------------------------------------------------------


def deployed(site: Site, entry: Entry) -> Iterator[Found]:
    """Metrics and the risk at given coverages, on the test split and on every shifted one."""
    fitted = site.fit(entry)
    for place, preds in sets_of(site.cell):
        proba = applied(fitted, preds)
        scored = Scored.of(preds.labels, proba)
        risks = {
            f"selective_risk{_percent(coverage)}": selective_risk.of(scored, coverage=coverage)
            for coverage in site.study.settings["coverages"]
        }
        yield place, site.measured(preds, proba) | risks


def thresholds(site: Site, entry: Entry) -> Iterator[Found]:
    """Coverage, risk, and confidence minus accuracy of what is kept at fixed thresholds."""
    fitted = site.fit(entry)
    for place, preds in sets_of(site.cell):
        scored = Scored.of(preds.labels, applied(fitted, preds))
        for threshold in site.study.settings["thresholds"]:
            at, kept = f"_at{_percent(threshold)}", scored.confidence >= threshold
            yield place, {f"coverage{at}": kept.mean()}
            if kept.any():
                risk, gap = 1 - scored.correct[kept].mean(), scored.residual[kept].mean()
                yield place, {f"risk{at}": risk, f"gap{at}": gap}


def matched_coverage(site: Site, entry: Entry) -> Iterator[Found]:
    """Risk and gap when every method keeps as many as the baseline does at each threshold."""
    fitted, reference = site.fit(entry), site.fit(site.baseline)
    for place, preds in sets_of(site.cell):
        scored = Scored.of(preds.labels, applied(fitted, preds))
        theirs = Scored.of(preds.labels, applied(reference, preds))
        yield place, {"aurc": METRICS["aurc"].of(scored)}
        for threshold in site.study.settings["thresholds"]:
            at = f"_at_tva_coverage{_percent(threshold)}"
            if kept := int((theirs.confidence >= threshold).sum()):
                risk = selective_risk.of(scored, coverage=kept / scored.n)
                gap = np.sort(scored.confidence)[-kept:].mean() - (1 - risk)
                yield place, {f"risk{at}": risk, f"gap{at}": gap}


# Choices between entries ------------------------------------------------------------------------


def gated(site: Site, entry: Entry) -> Iterator[Found]:
    """Metrics on all test sets, and whether each rule takes the entry in the baseline's place.

    All rules look at the same folds, of the calibration split alone.
    """
    fitted = site.fit(entry)
    for place, preds in sets_of(site.cell):
        yield place, site.measured(preds, applied(fitted, preds))
    if is_grouped(fitted):
        steps = fitted.fitted_.map.steps
        yield TEST, {"temperature_ratio": max(steps) / min(steps)}
    if entry.label == site.study.baseline:
        return
    settings, cal = site.study.settings, _double(site.cal)
    folds = cross_validate.repeated_folds(
        cal, n_repeats=settings["repeats"], n_folds=settings["folds"], seed=site.cell.seed
    )
    found = _losses(site, cal, (site.baseline, entry), folds)
    enough = cross_validate.rarer(cal) >= select_walk.MIN_EACH
    for rule in settings["rules"]:
        row = select_walk.walk(found, loss=settings["loss"], rule=rule, enough=enough)[-1]
        yield TEST, {f"accepted_{rule}": row.verdict == "accepted", f"gain_{rule}": row.gain}
        yield TEST, {f"standard_error_{rule}": row.standard_error}


def held_out(site: Site, entry: Entry) -> Iterator[Found]:
    """Metrics on the test split, and the loss on a fifth of the draw that was held out."""
    yield from clean(site, entry)
    loss, cal = site.study.settings["loss"], _double(site.cal)
    folds = cross_validate.single_split(cal, seed=site.cell.seed)
    found = _losses(site, cal, (entry,), folds)[entry.label]
    if not found.failures:
        yield TEST, {f"held_out_{loss}": found.folds[loss].mean()}


def _double(preds: Predictions) -> Predictions:
    return replace(preds, logits=preds.logits.astype(np.float64))


def _losses(
    site: Site, cal: Predictions, entries: tuple[Entry, ...], folds: cross_validate.Folds
) -> dict[str, cross_validate.HeldOut]:
    methods = {entry.label: site.estimator(entry)._compose() for entry in entries}
    metrics = chosen_metrics(dict.fromkeys([site.study.settings["loss"], "nll"]))
    return cross_validate.held_out_losses(cal, methods, folds, metrics)


# The fit itself ---------------------------------------------------------------------------------


def top1(site: Site, entry: Entry) -> Iterator[Found]:
    """Accuracy before and after, the predictions that changed, and metrics."""
    test, fitted = site.cell.read("test"), site.fit(entry)
    after = fitted.predict_proba(test.logits).argmax(axis=1)
    changed = (after != test.predicted).mean()
    yield TEST, {"accuracy": (after == test.labels).mean(), "accuracy_before": test.correct.mean()}
    yield TEST, {"changed": changed} | site.measured(test, applied(fitted, test))


def efficiency(site: Site, entry: Entry) -> Iterator[Found]:
    """Seconds to fit and microseconds a sample to apply: medians of repeats, threads fixed."""
    from joblib import cpu_count
    from threadpoolctl import threadpool_limits

    test, settings = site.cell.read("test"), site.study.settings
    threads = min(settings["threads"], cpu_count())
    fits: list[float] = []
    applies: list[float] = []
    with threadpool_limits(threads):
        while len(fits) < settings["repeats"] and sum(fits) <= settings["seconds"]:
            begin = time.perf_counter()
            fitted = site.fit(entry)
            middle = time.perf_counter()
            applied(fitted, test)
            applies.append(time.perf_counter() - middle)
            fits.append(middle - begin)
    yield TEST, {"fit_seconds": float(np.median(fits))}
    yield TEST, {"apply_microseconds": 1e6 * float(np.median(applies)) / test.n}
    yield TEST, {"parameters": fitted.n_parameters_, "threads": threads, "repeats": len(fits)}


def temperatures(site: Site, entry: Entry) -> Iterator[Found]:
    """Metrics on the test split, and the temperatures of the fit: each, their range and ratio."""
    fitted, test = site.fit(entry), site.cell.read("test")
    proba = applied(fitted, test)
    yield TEST, site.measured(test, proba)
    if "hcfp90" in site.study.metrics:  # the paper's tables of NLL count them among all samples
        scored = Scored.of(test.labels, proba)
        yield TEST, {"hcfp90_of_all": ((scored.confidence >= 0.9) & ~scored.correct).mean()}
    if steps := fitted.fitted_.map.steps:
        low, high = min(steps), max(steps)
        found = {"temperature_low": low, "temperature_high": high, "temperature_ratio": high / low}
        yield TEST, found | _numbered("temperature", steps)
        yield TEST, {"pooled_temperature": fitted.pooled_temperature_}


def audited(site: Site, entry: Entry) -> Iterator[Found]:
    """Numbers of a fit: temperatures, thresholds, whether they hold up, and its groups."""
    fitted = site.fit(entry)
    split = CalibratedSplit.of(fitted.fitted_, site.cal)
    steps, flags = np.array(split.fitted.map.steps), set(split.fitted.flags)
    found = _numbered("temperature", steps)
    if not split.regressed:  # a group begins at the threshold of its number
        found |= _numbered("threshold", split.edges, 1)
    found["pooled_temperature"] = split.fitted.pooled_temperature
    found["share_of_fits_at_bounds"] = split.saturated()
    found["share_of_fits_pooled_groups"] = bool({"fallback", "no_router"} & flags)
    if split.n_bands > 1:
        direction = split.risk_direction()
        found["share_of_fits_risk_in_order"] = ordered(split.error_rates(), direction)
        if len(steps):
            rising = ordered(steps, direction, strict=True)
            found["share_of_fits_temperatures_in_order"] = rising
    yield TEST, found
    for place, preds in sets_of(site.cell):
        yield place, occupancy(fitted, preds)


def signal_to_noise(site: Site, entry: Entry) -> Iterator[Found]:
    """Metrics on the test split, and what grouping by the entry's signal promises."""
    yield from clean(site, entry)
    composed = site.estimator(entry)._compose()
    if composed.map != "groups" or composed.objective not in promised.OBJECTIVES:
        return
    found = promised.signal_to_noise(
        site.cal.logits,
        site.cal.labels,
        signals=(composed.signal,),
        input="logits",
        objective=composed.objective,
        n_groups=composed.options["n_groups"],
        n_null=site.study.settings["n_null"],
        features=site.cal.features,
        random_state=site.cell.seed,
    )
    row = found.rows[0]
    ratios = {"": row.ratio, "_floor": row.floor, "_random": found.random_ratio}
    yield TEST, {f"signal_to_noise{name}": ratio for name, ratio in ratios.items()}
    yield TEST, {"predicted_gain": row.predicted_gain, "p_value": row.p_value}


# The risk score ---------------------------------------------------------------------------------


def risk_scored(site: Site, entry: Entry) -> Iterator[Found]:
    """Measure what the risk score tells apart, how it is spread, and what its groups show.

    On the calibration split each sample's risk is that of a model that did not see it.
    """
    # The signal alone, fitted as the entry's fit does: scores out of fold, and deployed ones.
    method, seen = site.estimator(entry)._compose(), Seen.of(site.cal)
    options = {name: method.options[name] for name in signals.ROUTES[method.signal].options}
    observed = signals.Observed.of(*seen, method.discipline)
    fit = signals.fit_signal(method.signal, observed, **options)
    if not isinstance(fit.signal, signals.Risk | signals.FeatureRisk):
        why = "too few wrong or right predictions to learn a risk score from"
        if "no_router" not in fit.flags:
            why = f"{entry.label} has no risk score; its signal is {fit.signal.kind!r}"
        raise InputError(why)
    logit = getattr(fit.signal, "logit", False)
    test = site.cell.read("test")
    own = fit.signal.scores(signals.Rows(test.logits, features=test.features))
    risk, refit, tested = (
        sigmoid(score) if logit else score for score in (fit.scores, fit.deployed, own)
    )
    wrong = ~site.cal.correct
    yield TEST, _ranking(risk, site.cal, seen)
    ranking = _ranking(tested, test, Seen.of(test))
    yield TEST, {f"{name}_test": value for name, value in ranking.items()}
    for name, scores in (("out_of_fold", risk), ("refit", refit)):  # temperatures see the first
        yield TEST, {f"score_mean_{name}": scores.mean(), f"score_spread_{name}": scores.std()}
    ratio = refit.std() / risk.std() if risk.std() else np.nan
    yield TEST, {"score_shift": refit.mean() - risk.mean(), "score_spread_ratio": ratio}
    bins = site.study.settings["bins"]
    for name, rows in (("right", ~wrong), ("wrong", wrong)):
        count = np.bincount(equal_width(risk[rows], bins), minlength=bins)
        shares = count / max(int(rows.sum()), 1)
        yield TEST, {f"share_of_{name}_bin{i:02d}": share for i, share in enumerate(shares)}
    yield TEST, _in_parts(risk, wrong, seen.raw.confidence, -seen.raw.log_odds)
    yield from _in_groups(site, site.fit(entry), test)


def _ranking(risk: FloatArray, preds: Predictions, seen: Seen) -> dict[str, float]:
    """Return how well errors are ranked by the risk, by the raw confidence, and by the margin."""
    wrong = ~preds.correct
    scores = {"risk": risk, "confidence": -seen.raw.log_odds, "margin": -_margin(preds)}
    found = {f"auroc_{name}": auroc(score, wrong) for name, score in scores.items()}
    for name, some in (("right", risk[~wrong]), ("wrong", risk[wrong])):
        found[f"median_risk_{name}"] = float(np.median(some)) if len(some) else np.nan
    rho = scipy.stats.spearmanr(risk, scores["confidence"]).statistic
    return found | {"average_risk": risk.mean(), "rank_correlation": rho}


def auroc(score: FloatArray, wrong: BoolArray) -> float:
    """Return the chance that an error has a higher score than a right prediction; ties are half."""
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(wrong, score)) if 0 < wrong.sum() < len(wrong) else np.nan


def _in_parts(
    risk: FloatArray, wrong: BoolArray, confidence: FloatArray, doubt: FloatArray
) -> dict[str, float]:
    """Return errors in tenths by risk and by confidence, and the risk in tenths by confidence.

    Tenths are counted from 0, the safest.
    """
    found = {}
    for name, score in (("risk", risk), ("confidence", doubt)):
        tenth = group_members(score, group_thresholds(score, N_PARTS))
        for i in np.unique(tenth).tolist():
            rows = tenth == i
            found[f"error_by_{name}{i}"] = wrong[rows].mean()
            if name == "confidence":
                found[f"confidence_by_confidence{i}"] = confidence[rows].mean()
                quartiles = np.quantile(risk[rows], [0.25, 0.5, 0.75])
                for part, value in zip(("low", "middle", "high"), quartiles, strict=True):
                    found[f"risk_{part}_by_confidence{i}"] = value
    return found


def _in_groups(site: Site, fitted: BaseCalibrator, test: Predictions) -> Iterator[Found]:
    """Measure what one temperature leaves in each group of the test split, and by confidence."""
    if not is_grouped(fitted):
        return
    group = groups_of(fitted, test)
    one = Scored.of(test.labels, applied(site.fit(Entry("tva-ts")), test))
    own = Scored.of(test.labels, applied(fitted, test))
    place = equal_width(one.confidence, CONFIDENCE_BINS)
    yield TEST, occupancy(fitted, test)
    for number, temperature in enumerate(fitted.temperatures_.tolist()):
        found = {f"temperature{number}": temperature}
        rows = group == number
        if rows.any():
            found[f"accuracy_group{number}"] = one.correct[rows].mean()
            found[f"gap_one_group{number}"] = one.residual[rows].mean()
            found[f"gap_group{number}"] = own.residual[rows].mean()
        for i in np.unique(place[rows]).tolist():
            some = rows & (place == i)
            found[f"share_of_group{number}_bin{i}"] = some.mean()
            found[f"accuracy_group{number}_bin{i}"] = one.correct[some].mean()
            found[f"confidence_group{number}_bin{i}"] = one.confidence[some].mean()
        yield TEST, found


def risk_flow(site: Site, entry: Entry) -> Iterator[Found]:
    """Mean risk and groups on every set; of paired ones, from which group each sample came."""
    fitted = site.fit(entry)
    if not is_grouped(fitted):
        raise InputError(f"{entry.label} has one group, so nothing moves between groups")
    signal = fitted.fitted_.signal
    for place, preds in sets_of(site.cell, fitted):
        yield place, occupancy(fitted, preds)
        if isinstance(signal, signals.Risk | signals.FeatureRisk):
            features = preds.features if "features" in signal.needs else None
            yield place, {"mean_risk": fitted.risk(preds.logits, features=features).mean()}
    n_groups = len(fitted.temperatures_)
    before = groups_of(fitted, site.cell.read("test"))
    for place, preds in paired_sets(site.cell):
        pairs = n_groups * before + groups_of(fitted, preds)
        shares = np.bincount(pairs, minlength=n_groups**2) / preds.n
        yield place, {f"flow_{i // n_groups}_to_{i % n_groups}": v for i, v in enumerate(shares)}


_PROBES = (
    *(clean, shifted, requantized, paired_clean, within_margin, thresholds, matched_coverage),
    *(deployed, gated, held_out, top1, efficiency, temperatures, audited, signal_to_noise),
    *(risk_scored, risk_flow),
)
PROBES: Mapping[str, Probe] = MappingProxyType({probe.__name__: probe for probe in _PROBES})
