"""Metrics group by group, and which groups differ from the others beyond chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from smallcal.data.predictions import BoolArray, FloatArray
from smallcal.errors import InputError
from smallcal.metrics import Metric, Scored
from smallcal.metrics.table import chosen_metrics
from smallcal.statistics.bootstrap import DEFAULT_BOOT, intervals_by_method, resample
from smallcal.statistics.draws import Draws
from smallcal.statistics.interval import Interval, require_options


@dataclass(frozen=True)
class GroupRow:
    """A group's metric, its number of samples, and whether it differs from the others.

    ``p_value`` is of "no difference from the others", before any correction.
    """

    interval: Interval
    n: int
    p_value: float
    differs: bool


def by_group(
    y_true: object,
    y_proba: object,
    groups: object,
    *,
    metrics: Sequence[str] = ("accuracy", "ece15", "nll"),
    n_boot: int = DEFAULT_BOOT,
    level: float = 0.95,
    random_state: int = 0,
) -> dict[str, dict[str, GroupRow]]:
    """Return metrics of each group of samples, and whether a group differs from the others.

    Parameters
    ----------
    y_true : array-like of shape (n,)
    y_proba : array-like of shape (n, C), or (n,) for the probability of outcome 1
    groups : array-like of shape (n,)
        The group of each sample: numbers or names.
    metrics, n_boot, level, random_state
        As in :func:`interval`.

    Returns
    -------
    dict of group to dict of metric to GroupRow
        ``differs`` is true when the group's value differs from that of all other samples at
        ``1 - level``, with Holm's correction for the number of groups.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = np.tile([0.9, 0.1], (400, 1))
    >>> y = (rng.random(400) < np.repeat([0.1, 0.6], 200)).astype(int)
    >>> table = by_group(y, p, np.repeat(["good", "bad"], 200), metrics=["accuracy"])
    >>> table["bad"]["accuracy"].differs
    True
    """
    require_options(n_boot, level, least=1)
    view, chosen = Scored.of(y_true, y_proba), chosen_metrics(metrics)
    codes = np.asarray(groups)
    if codes.shape != (view.n,):
        raise InputError(
            f"groups must have shape ({view.n},); got {codes.shape}", code="groups-invalid"
        )
    if len(np.unique(codes)) < 2:
        raise InputError("groups must name at least two groups; got 1", code="groups-invalid")
    return by_group_of(view, codes, chosen, bootstrap=(n_boot, level, random_state))


def by_group_of(
    scored: Scored,
    codes: NDArray[Any],
    metrics: Sequence[Metric],
    *,
    bootstrap: tuple[int, float, int],
) -> dict[str, dict[str, GroupRow]]:
    """Return :func:`by_group` of checked predictions; ``bootstrap`` is (n_boot, level, seed)."""
    n_boot, level, seed = bootstrap
    rows = {
        str(name): _group_rows(scored, codes == name, metrics, (n_boot, level, seed + 2 * i))
        for i, name in enumerate(np.unique(codes))
    }
    for metric in metrics:
        p_values = {name: row[metric.name].p_value for name, row in rows.items()}
        for name in holm(p_values, 1 - level):
            rows[name][metric.name] = replace(rows[name][metric.name], differs=True)
    return rows


def _group_rows(
    view: Scored, member: BoolArray, metrics: Sequence[Metric], bootstrap: tuple[int, float, int]
) -> dict[str, GroupRow]:
    """Return one group's rows; it and the rest are resampled independently."""
    n_boot, level, seed = bootstrap
    inside, outside = (view.take(np.flatnonzero(m)) for m in (member, ~member))
    own = resample({"": inside}, metrics, n_boot=n_boot, random_state=seed)
    rest = resample({"": outside}, metrics, n_boot=n_boot, random_state=seed + 1)
    found = intervals_by_method(own, unit="test samples", level=level)[""]
    rows = {}
    for metric in metrics:
        drawn, others = own["", metric.name], rest["", metric.name]
        if drawn.trials and others.trials:
            p_value = _equal_shares(drawn, others)
        elif (gap := drawn - others).few:
            p_value = 1.0
        else:
            p_value = _two_sided(gap.around_point())
        rows[metric.name] = GroupRow(found[metric.name], inside.n, p_value, differs=False)
    return rows


def _equal_shares(one: Draws, other: Draws) -> float:
    """Return Fisher's exact p-value of "both shares are equal"."""
    n = np.array([one.trials, other.trials])
    k = np.rint(np.array([one.plain, other.plain]) * n)
    own = np.arange(max(0, k.sum() - n[1]), min(n[0], k.sum()) + 1)
    pairs = ((n[0], own), (n[1], k.sum() - own))
    logs = -sum(scipy.special.betaln(size - x + 1, x + 1) for size, x in pairs)
    chance = np.exp(logs - logs.max())
    as_odd = logs <= logs[own == k[0]] + 1e-7
    return float(chance[as_odd].sum() / chance.sum())


def _two_sided(differences: FloatArray) -> float:
    """Return the bootstrap p-value of "no difference"; never 0, as resamples are finite."""
    defined = differences[~np.isnan(differences)]
    if not len(defined):
        return 1.0
    tail = min((defined <= 0).sum(), (defined >= 0).sum())
    return float(min(1.0, 2 * (tail + 1) / (len(defined) + 1)))


def holm(p_values: Mapping[str, float], alpha: float) -> list[str]:
    """Return the names whose hypotheses fall, by Holm's step-down correction.

    Examples
    --------
    >>> holm({"a": 0.001, "b": 0.03, "c": 0.04}, 0.05)
    ['a']
    """
    fallen: list[str] = []
    ordered = sorted(p_values, key=lambda name: p_values[name])
    for i, name in enumerate(ordered):
        if p_values[name] > alpha / (len(ordered) - i):
            break
        fallen.append(name)
    return fallen
