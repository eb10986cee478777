"""Where a method gains under shift, beside how wrong, and how sure, others are there."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from smallcal.data.predictions import FloatArray
from smallcal.metrics.units import Unit
from smallcal_lab.studies.frame import Frame
from smallcal_lab.studies.study import Study
from smallcal_lab.studies.tables.clean import LEVEL, number_of
from smallcal_lab.studies.tables.shift import rank_text, shifted_rows
from smallcal_lab.studies.tables.table import Number, Row, Table, heading_of, unit_of

#: Mean confidence minus accuracy: its sign says over- or under-confident, which an error does not.
SIGNED = "confidence_gap"


def heterogeneity(study: Study, frame: Frame) -> Table:
    """Show the gain of each corruption against the error without calibration, and signed gaps."""
    settings, metric = study.settings, study.metrics[0]
    unit, signed = unit_of(metric), unit_of(SIGNED)
    there = frame.unique("label")
    ours, raw = settings["gain_of"], settings["raw"]
    rivals = [label for label in settings["rivals"] if label in there]
    sided = gap_labels(study, frame)
    found: list[Row] = []
    sentences: list[str] = []
    parts = shifted_rows(frame).models()
    for budget, model, part in parts if {ours, raw} <= set(there) else ():
        one = _Corruptions.of(part, metric, raw, ours, rivals, sided)
        for i, kind in enumerate(one.kinds):
            errors = (one.raw[i], one.ours[i], *(gain[i] for gain in one.gains.values()))
            told = [Number(float(unit.scale * value), digits=unit.digits) for value in errors]
            gaps = (float(signed.scale * gap[i]) for gap in one.gaps.values())
            told += [Number(gap, digits=signed.digits) for gap in gaps]
            found.append((budget, model, kind, *told))
        if one.kinds:
            sentences += one.said(ours, f"{model}, {budget} samples", unit)
    return Table(
        "heterogeneity",
        f"Where {ours} gains",
        (
            *("samples", "models", "corruption", f"{raw} {heading_of(metric)}", ours),
            *(f"gain over {label}" for label in rivals),
            *map(gap_heading, sided),
        ),
        tuple(found),
        f"{heading_of(metric)}, means over severities and seeds, in order of the uncalibrated "
        "model's error; gains in points. Rank correlations (Spearman) with "
        f"{100 * LEVEL:g} % intervals."
        + (" A gap is mean confidence minus accuracy, in points." if sided else ""),
        tuple(sentences),
    )


def gap_labels(study: Study, frame: Frame) -> list[str]:
    """Return whose signed gaps are shown: without calibration and of the baseline, if measured."""
    measured = frame.where(metric=SIGNED).unique("label")
    return [label for label in (study.settings["raw"], study.baseline) if label in measured]


def gap_heading(label: str) -> str:
    """Return the heading of a column of signed gaps.

    Examples
    --------
    >>> gap_heading("none")
    'gap of none'
    """
    return f"gap of {label}"


def by_corruption(frame: Frame, metric: str, label: str) -> dict[str, float]:
    """Return a label's mean over severities, draws and seeds of each corruption."""
    found = {}
    for (kind,), rows in frame.groups("set"):
        number = number_of(rows.values(metric, label), "")
        if not math.isnan(number.value):
            found[kind] = number.value
    return found


@dataclass(frozen=True, eq=False)
class _Corruptions:
    """One model under every corruption, in order of the raw error.

    ``gains`` are of the method over each rival, ``gaps`` signed ones of others, by label.
    """

    kinds: list[str]
    raw: FloatArray
    ours: FloatArray
    gains: Mapping[str, FloatArray]
    gaps: Mapping[str, FloatArray]

    @classmethod
    def of(
        cls, part: Frame, metric: str, raw: str, ours: str, rivals: list[str], sided: list[str]
    ) -> _Corruptions:
        """Read what was measured everywhere."""
        errors = {label: by_corruption(part, metric, label) for label in (raw, ours, *rivals)}
        signed = {label: by_corruption(part, SIGNED, label) for label in sided}
        columns = [*errors.values(), *signed.values()]
        kinds = [k for k in errors[raw] if all(k in column for column in columns)]
        kinds.sort(key=errors[raw].__getitem__)

        def values(column: Mapping[str, float]) -> FloatArray:
            return np.array([column[k] for k in kinds])

        own = values(errors[ours])
        gains = {label: values(errors[label]) - own for label in rivals}
        gaps = {label: values(column) for label, column in signed.items()}
        return cls(kinds, values(errors[raw]), own, gains, gaps)

    def said(self, ours: str, where: str, unit: Unit) -> Iterator[str]:
        """Yield what the corruptions show together."""
        for label, gain in self.gains.items():
            low, high = int(gain.argmin()), int(gain.argmax())
            yield (
                f"{where}: the gain of {ours} over {label} runs from "
                f"{unit.number(gain[low], signed=True)} ({self.kinds[low]}) to "
                f"{unit.number(gain[high], signed=True)} ({self.kinds[high]}); its rank "
                f"correlation with the raw error is {rank_text(gain, self.raw)}."
            )
            if self.gaps:
                ranks = (f"of {of} {rank_text(gain, gap)}" for of, gap in self.gaps.items())
                yield (
                    f"{where}: the rank correlation of the gain over {label} with the signed gap "
                    f"is, {', '.join(ranks)}."
                )
        if len(self.gains) > 1:
            first, second = list(self.gains)[:2]
            least = np.min(list(self.gains.values()), axis=0)
            yield (
                f"{where}: the rank correlation of the gains over {first} and over {second} is "
                f"{rank_text(self.gains[first], self.gains[second])}; {ours} is below all of "
                f"{', '.join(self.gains)} for {int((least > 0).sum())} of {len(self.kinds)} "
                "corruptions."
            )
