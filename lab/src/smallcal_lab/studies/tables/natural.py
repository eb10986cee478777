"""Tables of single shifted sets: data from elsewhere, each with a meaning of its own."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from smallcal_lab.studies.frame import Frame
from smallcal_lab.studies.study import Study
from smallcal_lab.studies.tables.clean import better_of, paired, with_best
from smallcal_lab.studies.tables.shift import shifted_rows
from smallcal_lab.studies.tables.table import Number, Row, Table, heading_of, title_of, unit_of

#: What mean and spread of a single set are taken over.
FITS = "mean ± standard deviation (ddof = 0) over fits: seeds, and the draws of each"

#: So many of a study's metrics, the first ones, say whether calibrating did harm.
_JUDGED = 2


def by_set(frame: Frame) -> Iterator[tuple[tuple[str, str, str], Frame]]:
    """Yield (samples, model, set) with its rows; a set of some severity is named with it."""
    for samples, model, part in shifted_rows(frame).models():
        for (kind,), own in part.groups("set"):
            severities = own.unique("severity")
            for severity in severities:
                name = kind if len(severities) == 1 else f"{kind}-{severity}"
                yield (samples, model, name), own.where(severity=severity)


def sets(study: Study, frame: Frame) -> Table:
    """Show every metric on each shifted set by itself, and over a model's sets."""
    rows = shifted_rows(frame)
    metrics = [m for m in rows.measured(study.metrics) if not m.startswith("share")]
    found: list[Row] = []
    for where, own in by_set(frame):
        found += _block(where, own, metrics, over="fits")
    for samples, model, part in rows.models():
        if len(list(part.groups("set", "severity"))) > 1:
            found += _block((samples, model, "all"), part, metrics, over="sets")
    return Table(
        "sets",
        "Set by set",
        ("samples", "models", "set", "method", *map(heading_of, metrics)),
        tuple(found),
        f"Fitted on clean samples. Each set: {FITS}. All: mean ± standard deviation over sets, of "
        "their means over fits. Bold: best of its block, as printed.",
    )


def _block(
    where: tuple[str, str, str], own: Frame, metrics: list[str], *, over: str
) -> Iterator[Row]:
    labels = own.unique("label")
    columns = [
        with_best([_number(own, metric, label, over) for label in labels], metric)
        for metric in metrics
    ]
    yield from ((*where, *row) for row in zip(labels, *columns, strict=True))


def _number(own: Frame, metric: str, label: str, over: str) -> Number:
    """Return the mean and its spread over fits, or over sets."""
    if over == "sets":
        parts = [part.values(metric, label) for _, part in own.groups("set", "severity")]
        values = [float(np.mean([v for d in part.values() for v in d])) for part in parts if part]
    else:
        values = [value for draws in own.values(metric, label).values() for value in draws]
    return _over([value for value in values if math.isfinite(value)], metric)


def _over(values: list[float], metric: str) -> Number:
    """Return mean and spread of values, in the units of their metric."""
    if not values:
        return Number(math.nan)
    unit = unit_of(metric)
    spread = float(unit.scale * np.std(values)) if len(values) > 1 else None
    return Number(float(unit.scale * np.mean(values)), spread, digits=unit.digits)


def harm(study: Study, frame: Frame) -> Table:
    """Show on each shifted set whether calibrating on clean samples was worth it at all."""
    raw = study.settings["raw"]
    there = shifted_rows(frame).measured(study.metrics)
    metrics = [metric for metric in there if better_of(metric) != "zero"][:_JUDGED]
    found: list[Row] = []
    sentences: list[str] = []
    for where, own in by_set(frame):
        if raw not in own.unique("label"):
            continue
        labels = [label for label in own.unique("label") if label != raw]
        gaps = {
            (label, m): [gap for draws in paired(own, m, label, raw).values() for gap in draws]
            for label in labels
            for m in metrics
        }
        for label in labels:
            cells = (cell for m in metrics for cell in _change(gaps[label, m], m))
            found.append((*where, label, *cells))
        sentences += _said(where, labels, metrics, gaps, raw)
    return Table(
        "harm",
        f"Against {raw}",
        (
            *("samples", "models", "set", "method"),
            *(
                name
                for m in metrics
                for name in (heading_of(m, difference=True), f"{title_of(m)} better in")
            ),
        ),
        tuple(found),
        f"The method minus {raw}, on the same set; {FITS}. Better in: the fits that are.",
        tuple(sentences),
    )


def _better(gaps: list[float], metric: str) -> list[bool]:
    sign = -1 if better_of(metric) == "higher" else 1
    return [sign * gap < 0 for gap in gaps]


def _change(gaps: list[float], metric: str) -> Iterator[Number]:
    yield _over(gaps, metric)
    yield Number(sum(_better(gaps, metric)), of=len(gaps)) if gaps else Number(math.nan)


def _said(
    where: tuple[str, str, str],
    labels: list[str],
    metrics: list[str],
    gaps: dict[tuple[str, str], list[float]],
    raw: str,
) -> Iterator[str]:
    """Yield how many methods are better than leaving the model alone, on average."""
    samples, model, name = where
    for metric in metrics:
        means = {
            label: float(np.mean(gaps[label, metric])) for label in labels if gaps[label, metric]
        }
        if means:
            ahead = [label for label, mean in means.items() if all(_better([mean], metric))]
            said = f": {', '.join(ahead)}" if 0 < len(ahead) < len(means) else ""
            yield (
                f"{model}, {samples} samples, {name}: {len(ahead)} of {len(means)} methods are "
                f"better than {raw} in {title_of(metric)}{said}."
            )
