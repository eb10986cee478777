"""What the risk score adds to the confidence: how tightly the two go together, who ranks errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from smallcal.data.predictions import FloatArray
from smallcal.metrics.units import written
from smallcal.plots import style
from smallcal.plots.twins import draws
from smallcal_lab.plots.curves import mean_at, subject
from smallcal_lab.plots.panels import beside, head
from smallcal_lab.plots.run import RunLike, clean, label_with, one_budget, open_rows
from smallcal_lab.studies.probes import N_PARTS

#: What samples are put into tenths by.
_SIGNALS = ("risk", "confidence")


@dataclass(frozen=True, eq=False)
class RiskConfidence:
    """The risk of samples in tenths by confidence, and errors in tenths by either, in percent.

    Attributes
    ----------
    label : str
        The method whose risk it is.
    confidence : ndarray of shape (10,)
        Mean raw confidence of each tenth, the most confident first.
    low, middle, high : ndarray of shape (10,)
        Quartiles of the out-of-fold risk there.
    errors : dict of str to ndarray of shape (10,)
        Error rate in tenths by ``risk`` and by ``confidence``, the safest first.
    auroc : dict of str to float
        Of ranking errors by either.
    about : str
    """

    label: str
    confidence: FloatArray
    low: FloatArray
    middle: FloatArray
    high: FloatArray
    errors: dict[str, FloatArray]
    auroc: dict[str, float]
    about: str = ""


def risk_confidence_data(
    run: RunLike, *, method: str | None = None, where: Mapping[str, Any] | None = None
) -> RiskConfidence:
    """Return the risk by confidence, and the errors by risk and by confidence.

    Means over cells. Rows alone are taken to be of the study ``risk-score``, which measures them on
    the calibration split.

    Parameters
    ----------
    method : str, optional
        Whose risk; the study's first unless it is given.

    Raises
    ------
    InputError
        If the run has no tenths, or there are several budgets.
    """
    opened = one_budget(clean(open_rows(run, "risk-score", where=where)))
    frame = opened.frame
    label = label_with(opened, "error_by_risk0", method, of="the risk of")

    def tenths(name: str, scale: float = 1.0) -> FloatArray:
        return np.array([scale * mean_at(frame, f"{name}{i}", label) for i in range(N_PARTS)])

    return RiskConfidence(
        label,
        tenths("confidence_by_confidence", 100.0),
        tenths("risk_low_by_confidence"),
        tenths("risk_middle_by_confidence"),
        tenths("risk_high_by_confidence"),
        errors={name: tenths(f"error_by_{name}") for name in _SIGNALS},
        auroc={name: mean_at(frame, f"auroc_{name}", label) for name in _SIGNALS},
        about=subject(opened, f"risk of {label} out of fold"),
    )


@draws(risk_confidence_data, size=(8.6, 4.2))
def risk_confidence(ax: style.Axes, found: RiskConfidence) -> None:
    """Draw the risk against the confidence, and beside it the errors in tenths by either.

    Left, the median risk in tenths of equally many samples by raw confidence, with quartiles; on
    the dashed line the risk is one minus the confidence. Right, the share of errors in tenths by
    risk and by confidence: whose rises more steeply ranks errors better. Rows alone are taken to
    be of the study ``risk-score``.
    """
    right = beside(ax)
    look, known = style.look(0), np.isfinite(found.middle)
    x, low, middle, high = (
        values[known] for values in (found.confidence, found.low, found.middle, found.high)
    )
    ax.plot([0, 100], [100, 0], **style.REFERENCE)
    ax.vlines(x, low, high, color=look.color, linewidth=1.4)
    tips = [
        f"confidence {written(c)} %: median risk {written(m)} %, quartiles {written(a)} to "
        f"{written(b)} %"
        for c, m, a, b in zip(x, middle, low, high, strict=True)
    ]
    style.marks(ax, x, middle, look, tips=tips, name="risk-confidence")
    ax.set_xlim(max(0.0, float(x.min(initial=100.0)) - 5), 101)
    ax.set_ylim(0, 1.1 * float(high.max(initial=1.0)))
    style.dress(ax, xlabel="raw confidence (%)", ylabel="risk (%)")
    style.caption(ax, found.about)
    _draw_errors(right, found)


def _draw_errors(ax: style.Axes, found: RiskConfidence) -> None:
    tenth = np.arange(1, N_PARTS + 1)
    for i, (name, errors) in enumerate(found.errors.items()):
        look, some = style.look(i), np.isfinite(errors)
        ax.plot(tenth[some], errors[some], **look.stroke, linewidth=1.4)
        tips = [
            f"tenth {t} by {name}: {written(e)} % errors"
            for t, e in zip(tenth[some], errors[some], strict=True)
        ]
        label = style.literal(f"by {name}: AUROC {found.auroc[name]:.1f} %")
        plot = f"risk-confidence errors {name}"
        style.marks(ax, tenth[some], errors[some], look, label=label, tips=tips, name=plot)
    ax.set_xticks(tenth)
    style.dress(ax, xlabel="tenth of the samples, the safest first", ylabel="errors (%)")
    head(ax, "errors by risk and by raw confidence")
    style.legend(ax)
