"""Where an entry is fitted and measured: what every probe needs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from smallcal import calibrators
from smallcal.data.predictions import FloatArray, IntArray, Predictions
from smallcal.statistics.compare import evaluate
from smallcal_lab.studies.collection import Cell
from smallcal_lab.studies.frame import CLEAN, Rows
from smallcal_lab.studies.predictions import Keeper
from smallcal_lab.studies.study import Entry, Study

if TYPE_CHECKING:
    from smallcal.calibrators.base import BaseCalibrator

#: Numbers with the set they were measured on: set, severity, values by metric.
Found = tuple[str, int, Mapping[str, float]]


@dataclass(frozen=True, eq=False)
class Site:
    """Where an entry is fitted and measured."""

    study: Study
    cell: Cell
    cal: Predictions
    keeper: Keeper = field(default_factory=Keeper)

    def rows(self, probe: Probe, entry: Entry) -> Rows:
        """Return what a probe finds of an entry."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [
                {"set": name, "severity": severity, "metric": metric, "value": float(value)}
                for name, severity, values in probe(self, entry)
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
        self, entry: Entry, fitted: BaseCalibrator, name: str, severity: int, preds: Predictions
    ) -> dict[str, float]:
        """Return the study's metrics on a set; its predictions are kept if a table needs them."""
        proba = applied(fitted, preds)
        self.keeper.see(entry.label, name, severity, preds, proba)
        return evaluate(preds.labels, proba, metrics=self.study.metrics)

    @property
    def baseline(self) -> Entry:
        """The entry that the others are compared with."""
        return next(e for e in self.study.entries if e.label == self.study.baseline)


Probe = Callable[[Site, Entry], Iterator[Found]]


def sets_of(
    cell: Cell, fitted: BaseCalibrator | None = None
) -> Iterator[tuple[str, int, Predictions]]:
    """Yield the test split and every shifted one, with its kind and severity.

    A calibrator that reads features is measured on shifted sets if all of them have features: a
    mean over some of them would be another's.
    """
    yield CLEAN, 0, cell.read("test")
    read = fitted is not None and "features" in fitted.fitted_.signal.needs
    if read and any(cell.read(shift).features is None for shift in cell.shifts):
        return
    for shift in cell.shifts:
        yield shift.kind, shift.severity, cell.read(shift)


def applied(fitted: BaseCalibrator, preds: Predictions) -> FloatArray:
    """Return a calibrator's probabilities, of scores those of outcome 1, as metrics take them.

    Diagnostics that read labels get them.
    """
    return preds.measured(fitted.predict_proba(preds.logits, **_extra(fitted, preds)))


def groups_of(fitted: BaseCalibrator, preds: Predictions) -> IntArray:
    """Return the group of each sample."""
    return fitted.group(preds.logits, **_extra(fitted, preds))


def _extra(fitted: BaseCalibrator, preds: Predictions) -> dict[str, Any]:
    """Return what a calibrator reads beside logits."""
    given = {"features": ("features", preds.features), "labels": ("y", preds.labels)}
    return {
        key: value for need, (key, value) in given.items() if need in fitted.fitted_.signal.needs
    }


def is_grouped(fitted: BaseCalibrator) -> bool:
    """Whether a calibrator has more than one group."""
    return len(fitted.fitted_.map.steps) > 1


def scores_of(
    fitted: BaseCalibrator, preds: Predictions, metrics: Sequence[str]
) -> dict[str, float]:
    """Return metrics of a calibrator's probabilities."""
    return evaluate(preds.labels, applied(fitted, preds), metrics=metrics)


def clean(site: Site, entry: Entry) -> Iterator[Found]:
    """Metrics on the test split."""
    test = site.cell.read("test")
    yield CLEAN, 0, site.scores(entry, site.fit(entry), CLEAN, 0, test)
