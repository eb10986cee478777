"""Everything a report says, as one plain dictionary: the page, Markdown and JSON only show it.

Fractions are fractions (0.03 is 3 %), a value that does not exist is None, and nothing depends on
the time or the machine but the versions. The keys, in order:

``format``, ``version``
    ``"smallcal-report"`` and 1.
``title`` : str
``data`` : ``calibration`` and ``test``, each with ``source``, ``n``, ``n_classes``, ``n_errors``,
    ``accuracy``, ``sha256`` (of the arrays), ``file_sha256`` (or None); ``input`` and
    ``class_names`` (a list or None).
``settings`` : ``methods`` (as asked), ``n_boot``, ``level``, ``seed``.
``versions`` : of smallcal, python, numpy, scipy, scikit-learn.
``verdict`` : ``recommended`` and ``asked`` (its true name, and the one it was asked for by),
    ``reason`` (why that one), ``outcome`` ("raw", "better", "tie", "mixed" or "worse", against the
    raw model), ``headline`` (one sentence), ``findings`` (a list of ``level`` "fine", "care" or
    "bad", and ``text``).
``methods`` : list of ``name``, ``asked``, ``summary``, ``n_parameters``, ``preserves_argmax``,
    ``deployable``, ``pooled_temperature``, ``tail_temperature``, ``flags`` (a list of ``name``,
    ``groups``, ``meaning``).
``failures`` : method to reason.
``metrics`` : ``columns`` (a list of ``name``, ``summary``, ``better`` "lower", "higher" or "zero",
    ``percent``, ``floored``), and ``rows``: a list of ``method``, ``debiased_ece15``, ``points``
    (every metric there is, by name) and ``cells``: column name to ``value``, ``low``, ``high``,
    ``text``, ``interval_text``, and where it is floored ``floor`` and ``floor_high``, else None;
    ``note``: how to read the table.
``differences`` : list of tables, from the raw model and from ts-nll where it was fitted; each with
    ``baseline``, ``metrics`` (names) and ``rows``: a list of ``method`` and ``metrics``: name to
    ``value``, ``low``, ``high``, ``basic`` (the basic interval), ``win_rate`` and ``verdict``
    ("better", "worse" or "tie").
``figures`` : list of ``id``, ``title``, ``caption``, ``alt``, ``plot`` (a name in
    ``smallcal.plots``) and ``data`` (what its ``_data`` twin gave, as mappings and lists).
``routing`` : list, for methods with more than one temperature: ``method``, ``signal``, ``map``,
    ``banded_by`` ("score", or "temperature" for thirds), ``bands`` (a list of ``group``, ``from``,
    ``to``, ``temperature``, ``calibration_share``, ``test_share``), ``pooled_temperature``,
    ``tail_temperature``, ``test_temperature`` (quantile to temperature), ``weights_of``,
    ``weights`` (a list of ``statistic``, ``weight``, ``share``), ``intercept``, ``class_effects``
    (None, or ``n``, ``sd``, ``low``, ``high``, ``strongest``: a list of ``class``, ``column``,
    ``factor``).
``classes`` : ``method`` and ``rows``, smallest p-values first: ``group`` (the class's name),
    ``column``, ``n`` (predicted so), ``n_true``, ``n_correct``, ``accuracy``, ``confidence``,
    ``gap``, ``low``, ``high``, ``p_value``, ``raw_gap``, ``off`` (beyond chance, by Holm).
``groups`` : ``method``; ``tables``, each ``by`` and ``rows`` as those of classes but with
    ``ece15``, ``ece15_low``, ``ece15_high``, ``ece15_differs`` in place of the columns;
    ``worst``: rows of both kinds that are off beyond chance, with ``by``.
``gates`` : list, for methods with a gate: ``method``, ``kept_raw``, ``n``, ``needed`` and
    ``gained`` (log-likelihood).
``shift`` : None, or a list: ``kind``, ``severity``, ``source``, ``n``, ..., ``accuracy``,
    ``values`` (method to metric to ``value``, ``low``, ``high``), ``differences`` (metric to
    ``value``, ``low``, ``high``, ``verdict``: chosen minus raw), ``occupancy`` and
    ``calibration_occupancy`` (shares in each group), ``moved`` (total variation between them).
``reproduce`` : ``command`` (or None) and ``python``.
``artefacts`` : list of ``method``, ``file_name`` and ``document`` (what ``smallcal fit`` writes).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from smallcal._version import versions
from smallcal.calibrators.base import flag_text
from smallcal.calibrators.catalogue import METHODS
from smallcal.data.plain import plain
from smallcal.metrics import METRICS
from smallcal.reports.content.figures import figure_specs, shift_specs
from smallcal.reports.content.groups import class_rows, group_tables, worst
from smallcal.reports.content.measure import (
    CLASSIC,
    RAW,
    SHOWN,
    Advance,
    Fit,
    Measured,
    artefact_of,
    measure,
    true_names,
)
from smallcal.reports.content.routing import gate, routing
from smallcal.reports.content.shift import shift_rows
from smallcal.reports.content.verdict import differences, verdict
from smallcal.reports.samples import Samples, require_pair
from smallcal.statistics.noise import FLOORED

FORMAT = "smallcal-report"
VERSION = 1

#: The raw model, two classics, the paper's method, ours without the effects of classes, ours.
DEFAULT_METHODS = ("none", "ts-nll", "tva-ts", "srts-bce", "signal-linear+tail", "default")
DEFAULT_BOOT = 1_000
_NOTE = (
    "Floor: what a perfectly calibrated model with these confidences would show on average; an "
    "error near its floor is noise. Resampling adds noise, and noise adds to calibration errors: "
    "their intervals lie high and may even leave out a small value."
)
#: Resamples for groups and shifted sets, of which there are many.
_MANY = 500


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a report was asked for, beside the samples."""

    methods: tuple[str, ...] = DEFAULT_METHODS
    n_boot: int = DEFAULT_BOOT
    level: float = 0.95
    seed: int = 0
    title: str | None = None
    command: str | None = None

    @property
    def bootstrap(self) -> tuple[int, float, int]:
        """What functions that resample take."""
        return self.n_boot, self.level, self.seed

    @property
    def many(self) -> tuple[int, float, int]:
        """The same, for what is resampled many times over."""
        return min(self.n_boot, _MANY), self.level, self.seed


def gather(
    calibration: Samples,
    test: Samples,
    settings: Settings,
    *,
    shift: Mapping[tuple[str, str], Samples] | None = None,
    advance: Advance = lambda steps: None,
) -> dict[str, Any]:
    """Fit, measure, and return everything the report says, ready for JSON."""
    require_pair(calibration, test)
    names = true_names(settings.methods)
    measured = measure(names, calibration, test, bootstrap=settings.bootstrap, advance=advance)
    judged = verdict(measured, calibration, test)
    chosen = judged["recommended"]
    classes = class_rows(measured, chosen, test)
    tables = group_tables(measured, chosen, calibration, test, bootstrap=settings.many)
    anatomy = [routing(fit, calibration, test) for fit in measured.fits.values()]
    gates = [gate(fit, calibration) for fit in measured.fits.values()]
    shifted = _shift(shift, measured, chosen, calibration, settings, advance)
    document = {
        "format": FORMAT,
        "version": VERSION,
        "title": settings.title or f"Calibration of {test.source}",
        "data": _data(calibration, test),
        "settings": {
            "methods": list(settings.methods),
            "n_boot": settings.n_boot,
            "level": settings.level,
            "seed": settings.seed,
        },
        "versions": versions(),
        "verdict": judged,
        "methods": [_method(fit) for fit in measured.fits.values()],
        "failures": measured.failures,
        "metrics": _metrics(measured),
        "differences": [
            differences(measured, name) for name in (RAW, CLASSIC) if name in measured.fits
        ],
        "figures": [
            *figure_specs(measured, chosen, test, bootstrap=settings.many),
            *shift_specs(shifted, level=settings.level),
        ],
        "routing": [entry for entry in anatomy if entry is not None],
        "classes": {"method": chosen, "rows": classes},
        "groups": {"method": chosen, "tables": tables, "worst": worst(tables, classes)},
        "gates": [entry for entry in gates if entry is not None],
        "shift": shifted,
        "reproduce": {"command": settings.command, "python": _python(settings)},
        "artefacts": [_artefact(f, calibration) for f in measured.fits.values() if f.deployable],
    }
    found: dict[str, Any] = plain(document)
    return found


def steps(settings: Settings, n_shifted: int) -> int:
    """Return how many steps ``advance`` is told of, for a bar."""
    return len(true_names(settings.methods)) + settings.n_boot + n_shifted * settings.many[0]


def _data(calibration: Samples, test: Samples) -> dict[str, Any]:
    names = test.class_names or calibration.class_names
    return {
        "calibration": calibration.to_dict(),
        "test": test.to_dict(),
        "input": test.input,
        "class_names": names,
    }


def _method(fit: Fit) -> dict[str, Any]:
    fitted = fit.fitted
    return {
        "name": fit.name,
        "asked": fit.asked,
        "summary": METHODS[fit.name].summary,
        "n_parameters": fitted.n_parameters,
        "preserves_argmax": fitted.preserves_argmax,
        "deployable": fit.deployable,
        "pooled_temperature": fitted.pooled_temperature,
        "tail_temperature": fitted.tail_temperature,
        "flags": [
            {"name": name, "groups": list(groups), "meaning": flag_text(fitted, name)}
            for name, groups in fitted.flags.items()
        ],
    }


def _metrics(measured: Measured) -> dict[str, Any]:
    columns = [
        {
            "name": name,
            "summary": METRICS[name].summary,
            "better": METRICS[name].better,
            "percent": METRICS[name].percent,
            "unit": METRICS[name].unit.sign,
            "floored": name in FLOORED,
        }
        for name in SHOWN
    ]
    rows = [
        {
            "method": name,
            "debiased_ece15": measured.debiased[name],
            "points": measured.points[name],
            "cells": {metric: _cell(measured, name, metric) for metric in SHOWN},
        }
        for name in measured.fits
    ]
    return {"columns": columns, "rows": rows, "note": _NOTE}


def _cell(measured: Measured, method: str, metric: str) -> dict[str, Any]:
    row, unit = measured.value(method, metric), METRICS[metric].unit
    floor = measured.floors[method].get(metric)
    return {
        "value": row.point,
        "low": row.low,
        "high": row.high,
        "text": unit.value(row.point),
        "interval_text": unit.interval(row.low, row.high, n_undefined=row.n_undefined),
        "floor": None if floor is None else floor.mean,
        "floor_high": None if floor is None else floor.high,
    }


def _shift(
    shift: Mapping[tuple[str, str], Samples] | None,
    measured: Measured,
    chosen: str,
    calibration: Samples,
    settings: Settings,
    advance: Advance,
) -> list[dict[str, Any]] | None:
    if not shift:
        return None
    return shift_rows(
        shift, measured.fits, chosen, calibration, bootstrap=settings.many, advance=advance
    )


def _python(settings: Settings) -> str:
    names = ", ".join(repr(name) for name in settings.methods)
    return (
        "import smallcal as sc\n"
        "report = sc.report((cal_logits, cal_labels), (test_logits, test_labels),\n"
        f"                   methods=[{names}],\n"
        f"                   n_boot={settings.n_boot}, level={settings.level:g}, "
        f"random_state={settings.seed})\n"
        'report.save("report.html")'
    )


def _artefact(fit: Fit, calibration: Samples) -> dict[str, Any]:
    return {
        "method": fit.name,
        "file_name": re.sub(r"[^a-z0-9]+", "-", fit.name.lower()).strip("-") + ".json",
        "document": artefact_of(fit, calibration).to_dict(),
    }
