"""What decisions cost on labelled samples, beside those that other rules would have made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from smallcal.advice.cost_table import REVIEW, CostTable
from smallcal.advice.costs import Costs
from smallcal.data.names import frame_names
from smallcal.data.plain import plain
from smallcal.data.predictions import FloatArray
from smallcal.errors import InputError
from smallcal.io.progress import Advance
from smallcal.metrics import Scored
from smallcal.statistics.bootstrap import DEFAULT_BOOT, counts_of_draws
from smallcal.statistics.interval import Interval, interval_of, require_options

#: Other rules, and what they are called.
RULES: Mapping[str, str] = {
    "raw": "best decisions of {raw}",
    "most_probable": "always the most probable answer, ignoring costs",
    "always_answer": "always the best answer, nothing passed on for review",
    "always_review": "everything passed on for review",
}


@dataclass(frozen=True, eq=False, kw_only=True)
class ExpectedCost:
    """The mean cost of the best decisions, and what others would have cost.

    Attributes
    ----------
    cost : Interval
        What the decisions did cost, per row.
    promised : float
        What the probabilities said they would, per row; close to ``cost`` where they are right.
    reviewed : float
        The share of rows that were passed on for review.
    others : dict of str to Interval
        The same rows under other rules: ``raw`` (the best decisions from the uncalibrated model's
        probabilities), ``most_probable`` (the most probable answer, whatever it costs),
        ``always_answer`` (the best answer for every row) and ``always_review``; those that there
        are.
    gains : dict of str to Interval
        What is saved against each of them, per row, paired by sample.
    threshold : float or None
        Where the decisions amount to one: see ``CostTable.axis``.
    axis : str
        What that is a threshold on.
    text : str
        The costs in words.
    n : int
    """

    cost: Interval
    promised: float
    reviewed: float
    others: dict[str, Interval]
    gains: dict[str, Interval]
    threshold: float | None
    axis: str
    text: str
    n: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        return {name: plain(value) for name, value in vars(self).items()}


def expected_cost(
    y_true: object,
    y_proba: object,
    costs: Costs,
    *,
    raw: object = None,
    class_names: Sequence[str] | None = None,
    n_boot: int = DEFAULT_BOOT,
    level: float = 0.95,
    random_state: int = 0,
    advance: Advance = lambda rows: None,
) -> ExpectedCost:
    """Return what the best decisions from calibrated probabilities cost on labelled samples.

    Parameters
    ----------
    y_true : array-like of shape (n,)
    y_proba : array-like of shape (n, C), or (n,) for the probability of outcome 1
        Calibrated; decisions are made from these and the costs alone.
    costs : Costs
    raw : array-like, optional
        The uncalibrated model's probabilities of the same rows.
    class_names : sequence of str, optional
        Of the columns, where the cost matrix has names.
    n_boot : int
        Resamples of the rows for intervals, which are paired; 0 leaves them out.
    level : float
    random_state : int
    advance : callable, optional
        Told how many resamples were done.

    Returns
    -------
    ExpectedCost

    Examples
    --------
    >>> import smallcal as sc
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=2000)
    >>> y = rng.random(2000) < 1 / (1 + np.exp(-z))
    >>> honest, boasting = 1 / (1 + np.exp(-z)), 1 / (1 + np.exp(-4 * z))
    >>> costs = sc.Costs(miss=10, false_alarm=10, review=2)
    >>> found = sc.expected_cost(y, honest, costs, raw=boasting, n_boot=200)
    >>> found.threshold, found.cost.point < found.others["raw"].point
    (0.8, True)
    >>> found.gains["raw"].excludes_zero
    True
    """
    if not isinstance(costs, Costs):
        raise InputError(
            f"costs must be sc.Costs(...); got {type(costs).__name__}", code="costs-invalid"
        )
    require_options(n_boot, level)
    scored = Scored.of(y_true, y_proba)
    before = None if raw is None else Scored.of(y_true, raw)
    if before is not None and before.n_classes != scored.n_classes:
        raise InputError(
            f"raw has {before.n_classes} classes and y_proba {scored.n_classes}; give both of the "
            "same model",
            code="columns-differ",
        )
    names = frame_names(y_proba) if class_names is None else class_names
    table = costs.table(scored.n_classes, names, score=scored.outcome)
    bootstrap = (n_boot, level, random_state)
    return expected_cost_of(scored, before, table, bootstrap=bootstrap, advance=advance)


def expected_cost_of(
    scored: Scored,
    raw: Scored | None,
    table: CostTable,
    *,
    bootstrap: tuple[int, float, int],
    advance: Advance = lambda rows: None,
) -> ExpectedCost:
    """Return :func:`expected_cost` of checked samples; ``bootstrap`` is (n_boot, level, seed)."""
    decisions, promised = table.choose(scored.proba)
    paid = {"own": table.paid(decisions, scored.labels), **_others(scored, raw, table)}
    n_boot, level, seed = bootstrap
    columns = np.column_stack(list(paid.values()))
    drawn = [np.empty((0, columns.shape[1]))]
    rng = np.random.default_rng(seed)
    for counts in (
        counts_of_draws(scored.n, n_boot, rng, clusters=scored.clusters) if n_boot else ()
    ):
        drawn.append(counts @ columns / scored.n)
        advance(len(counts))
    means, values = columns.mean(axis=0), np.concatenate(drawn)

    def interval(point: float, resampled: FloatArray) -> Interval:
        return interval_of(point, resampled, unit=scored.unit, level=level)

    places = {name: i for i, name in enumerate(paid) if name != "own"}
    return ExpectedCost(
        cost=interval(means[0], values[:, 0]),
        promised=float(promised.mean()),
        reviewed=float((decisions == REVIEW).mean()),
        others={name: interval(means[i], values[:, i]) for name, i in places.items()},
        gains={
            name: interval(means[i] - means[0], values[:, i] - values[:, 0])
            for name, i in places.items()
        },
        threshold=table.threshold,
        axis=table.axis,
        text=table.text,
        n=scored.n,
    )


def _others(scored: Scored, raw: Scored | None, table: CostTable) -> dict[str, FloatArray]:
    """Return what each row costs under other rules."""
    labels, found = scored.labels, {}
    if raw is not None:
        found["raw"] = table.paid(table.choose(raw.proba)[0], labels)
    if table.wrong is None:
        # Of a score as well: the likelier outcome, and at one half the first.
        top = np.asarray(scored.proba.argmax(axis=1), dtype=np.int64)
        found["most_probable"] = table.paid(top, labels)
    if table.review is not None:
        found["always_answer"] = table.paid(table.answer(scored.proba)[0], labels)
        found["always_review"] = table.review[labels]
    return found
