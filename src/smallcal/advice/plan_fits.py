"""Fit a method on draws of growing size from one split, and measure it on the rows left out.

These are the points of its learning curve. What is kept of the fits of one size is small: the loss
of each row, averaged over the fits that did not see it, and the gaps between confidence and
accuracy in three parts. A systematic gap, which the method leaves at this size whatever rows it is
fitted on; what the draw of rows adds, which another draw would change; and the noise of the labels
they are measured with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from smallcal.advice.calibrated_split import scored_on
from smallcal.calibrators.catalogue import METHODS, resolve_method
from smallcal.data.predictions import MIN_FIT_SAMPLES, BoolArray, FloatArray, IntArray, Predictions
from smallcal.errors import InputError
from smallcal.io.threads import in_order
from smallcal.metrics import METRICS, Scored
from smallcal.metrics.binned import DEFAULT_BINS, bin_sums, equal_width
from smallcal.metrics.debiased import binned_gaps

#: The largest draw leaves this share of the rows to measure on.
HELD_OUT = 0.2

#: Sizes to measure, where nothing else is asked for.
_N_SIZES = 6

#: The smallest size measured where the split allows it.
_LOWEST = 50

# Two sizes this near to one another on the scale of logarithms show the same.
_NEAR = 0.25

#: Confidences that differ by less are the same.
_SAME = 1e-9


#: Confidence, residual and loss of the uncalibrated model on each row.
Raw = tuple[FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True, eq=False, kw_only=True)
class SizeFits:
    """What the fits of one size show on the rows they did not see.

    Attributes
    ----------
    size : int
        Rows in a draw.
    n : int
        Rows in the split.
    loss : ndarray of shape (n,)
        Top-label log-loss of each row, averaged over the fits that did not see it; NaN for a row
        that every fit saw.
    draw_sd : float
        Standard deviation of the top-label log-loss from draw to draw, for one population.
    gap, noise, share : ndarray of shape (bins,)
        Gaps between confidence and accuracy of the averaged fits, their variances by chance,
        and the shares of rows.
    shift : ndarray of shape (draws, bins)
        What each draw adds to the gaps, on the scale of draws from a population.
    weight : ndarray of shape (draws, bins)
        The share of rows in each bin, by each draw's own confidences.
    base : ndarray of shape (n,), or 0
        Loss of the uncalibrated model on each row: fits are measured by how they differ from it.
    left_alone : bool
        Whether most fits left the model as it is.
    clusters : ndarray of shape (n,), or None
        Which rows depend on one another.
    raw : SizeFits or None
        The uncalibrated model on the very rows that the fits were measured on.
    """

    size: int
    n: int
    loss: FloatArray
    draw_sd: float
    gap: FloatArray
    noise: FloatArray
    share: FloatArray
    shift: FloatArray
    weight: FloatArray
    base: FloatArray | float = 0.0
    left_alone: bool = False
    clusters: IntArray | None = None
    raw: SizeFits | None = None


def sizes_to_fit(n: int, wanted: Sequence[int]) -> list[int]:
    """Return the sizes to measure: those wanted that leave enough rows, and some between.

    Examples
    --------
    >>> sizes_to_fit(250, [100, 200, 1000])
    [50, 66, 100, 152, 200]
    """
    top = int((1 - HELD_OUT) * n)
    low = min(_LOWEST, max(MIN_FIT_SAMPLES, 2 * n // 5))
    sizes = {size for size in wanted if size <= top}
    for step in np.geomspace(low, top, _N_SIZES).round().astype(int):
        if all(abs(np.log(step / size)) > _NEAR for size in sizes):
            sizes.add(int(step))
    return sorted(sizes)


def draw_rows(
    n: int, size: int, draw: int, seed: int, clusters: IntArray | None = None
) -> tuple[IntArray, IntArray]:
    """Return the rows to fit on and the rows left out, the same for every method.

    Clusters are drawn whole; what is left of the last one is in neither part.

    Examples
    --------
    >>> fitted, left = draw_rows(10, 7, 0, seed=0)
    >>> len(fitted), len(left), sorted([*fitted.tolist(), *left.tolist()]) == list(range(10))
    (7, 3, True)
    """
    order = np.random.default_rng([seed, size, draw]).permutation(n)
    left = order[size:]
    if clusters is not None:
        order = np.argsort(order.argsort()[clusters], kind="stable")
        left = order[size:][clusters[order[size:]] != clusters[order[size - 1]]]
    return np.sort(order[:size]), np.sort(left)


def fit_at_size(
    preds: Predictions,
    method: str,
    size: int,
    *,
    draws: int,
    seed: int,
    keep_predictions: bool = False,
    raw: Raw | None = None,
) -> SizeFits:
    """Fit a method on each draw of one size, measure it on the rows left out.

    ``raw`` is the uncalibrated model on all rows, if it is known already.
    """
    plain = raw_model(preds) if raw is None else raw
    made = resolve_method(method, keep_predictions=keep_predictions, random_state=seed)
    held = np.zeros((draws, preds.n), dtype=bool)
    confidence, residual, loss = np.zeros((3, draws, preds.n))

    def fitted_on(draw: int) -> tuple[IntArray, Scored]:
        rows, left = draw_rows(preds.n, size, draw, seed, preds.clusters)
        try:
            fitted = made.fit(preds.take(rows), record=False)
        except InputError as error:
            raise error.about(f"{method} cannot be fitted on {size} samples") from error
        return left, scored_on(fitted, preds.take(left))

    for draw, (left, view) in in_order(fitted_on, range(draws), threads=made.threads):
        held[draw, left] = True
        confidence[draw, left], residual[draw, left] = view.confidence, view.residual
        loss[draw, left] = _losses(view)
    same = np.isclose(confidence, plain[0], rtol=0, atol=_SAME) | ~held
    usual = (np.broadcast_to(part, held.shape) for part in plain)
    alone = _size_fits(size, held, *usual, clusters=preds.clusters)
    return replace(
        _size_fits(size, held, confidence, residual, loss, clusters=preds.clusters),
        base=plain[2],
        left_alone=bool(same.all(axis=1).mean() > 0.5),
        raw=replace(alone, base=plain[2], left_alone=True),
    )


def uncalibrated(preds: Predictions, raw: Raw | None = None) -> SizeFits:
    """Return the model as it is: size 0, all rows left out, no draw to differ by."""
    parts = raw_model(preds) if raw is None else raw
    held = np.ones((1, preds.n), dtype=bool)
    fits = _size_fits(0, held, *(part[None] for part in parts), clusters=preds.clusters)
    return replace(fits, base=parts[2], left_alone=True)


def raw_model(preds: Predictions) -> Raw:
    """Return the uncalibrated model's confidence, residual and loss on each row."""
    view = scored_on(METHODS["none"].fit(preds, record=False), preds)
    return view.confidence, view.residual, _losses(view)


def _losses(view: Scored) -> FloatArray:
    values = METRICS["top_label_bce"].values
    assert values is not None
    return values(view)


def _size_fits(
    size: int,
    held: BoolArray,
    confidence: FloatArray,
    residual: FloatArray,
    loss: FloatArray,
    *,
    clusters: IntArray | None,
) -> SizeFits:
    """Put together what (draws, rows) show; only entries that are held out count."""
    draws, n = held.shape
    times = held.sum(axis=0)
    with np.errstate(invalid="ignore"):
        usual_confidence, usual_residual, usual_loss = (
            (numbers * held).sum(axis=0) / times for numbers in (confidence, residual, loss)
        )
    seen = times > 0
    known = None if clusters is None else clusters[seen]
    gap, noise, share = binned_gaps(usual_confidence[seen], usual_residual[seen], clusters=known)
    # A row's own fit is part of the mean it is held against: k fits differ from their mean by
    # (k - 1) / k of their variance.
    fair = np.sqrt(times / np.maximum(times - 1, 1))
    shift, square, count = np.zeros((3, draws, DEFAULT_BINS))
    loss_shift = np.zeros(draws)
    for draw in range(draws):
        rows = held[draw]
        index = equal_width(confidence[draw, rows], DEFAULT_BINS)
        own = ((residual[draw] - usual_residual) * fair)[rows]
        count[draw], shift[draw], square[draw] = (
            bin_sums(index, values, DEFAULT_BINS) for values in (np.ones(len(own)), own, own**2)
        )
        loss_shift[draw] = ((loss[draw] - usual_loss) * fair)[rows].mean()
    # Draws of `size` out of n rows vary less than draws from a population, by 1 - size / n. Their
    # losses vary more on the rows left out, which lean to the other side, by (1 + size / n)^2.
    return SizeFits(
        size=size,
        n=n,
        loss=usual_loss,
        draw_sd=float(loss_shift.std(ddof=1) / (1 + size / n)) if draws > 1 else 0.0,
        gap=gap,
        noise=noise,
        share=share,
        shift=_common_shift(count, shift, square) / np.sqrt(1 - size / n),
        weight=count / count.sum(axis=1, keepdims=True),
        clusters=clusters,
    )


def _common_shift(count: FloatArray, total: FloatArray, square: FloatArray) -> FloatArray:
    """Return by how much each draw shifts all rows of a bin, from sums over the few left out.

    Rows of one bin are shifted differently, so their mean varies from draw to draw also where the
    draws are alike. That part of the variance, known from how rows differ within a draw, is taken
    off (one-way analysis of variance).

    Examples
    --------
    >>> count, rows = np.full((3, 1), 4.0), np.array([[1, 1, 1, 1], [2, 2, 2, 2], [0, 0, 0, 0]])
    >>> total, square = rows.sum(axis=1)[:, None], (rows**2).sum(axis=1)[:, None]
    >>> _common_shift(count, total, square).ravel().tolist()
    [1.0, 2.0, 0.0]
    >>> _common_shift(count, total, square + 9.0).ravel().tolist()
    [1.0, 1.5, 0.5]
    """
    many, mean = np.maximum(count, 1), total.sum(axis=0) / np.maximum(count.sum(axis=0), 1)
    deviation = np.where(count > 0, total / many - mean, 0.0)
    within = (square - total**2 / many).sum(axis=0) / np.maximum((many - 1).sum(axis=0), 1)
    between = (count * deviation**2).sum(axis=0)
    chance = within * ((count > 0).sum(axis=0) - 1)
    share = np.clip(1 - chance / np.where(between > 0, between, 1.0), 0.0, 1.0)
    return np.where(count > 0, mean + np.sqrt(share) * deviation, 0.0)
