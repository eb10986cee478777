"""Test whether miscalibration depends on a signal, before any parameter is spent on it.

At the pooled temperature T the slopes dl/dT of the samples' losses average zero. Cut the
samples into K equal groups by a signal: where the groups' mean slopes differ, one temperature is
wrong for each of them. The variance of slopes splits exactly into B between groups and σ² within
them, and to second order temperatures of their own change the expected loss by
``(B - (K - 1) / n σ²) / (2 L'')``: a gain only where B / σ² exceeds its floor, (K - 1) / n.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from smallcal.advice.class_bias import ClassBias, class_bias
from smallcal.advice.signal_null import NULLS, exceedances
from smallcal.advice.slopes import PREDICTED_CLASS, Groups, Slopes, variances
from smallcal.calibrators.signals import ROUTES, STATISTICS
from smallcal.data.checks import whole_number
from smallcal.data.plain import plain_fields
from smallcal.data.predictions import Predictions
from smallcal.errors import InputError
from smallcal.io.progress import Advance
from smallcal.io.threads import one_core_each
from smallcal.metrics import METRICS
from smallcal.metrics.units import X100
from smallcal.statistics.groups import holm
from smallcal.statistics.interval import require_options

#: Looked at by default. Log-entropy and confidence rank cut as entropy and confidence do.
DEFAULT_SIGNALS = ("risk", *STATISTICS)

#: The test of :mod:`smallcal.advice.class_bias`, as a row beside the signals.
CLASS_BIAS = "class_bias"

#: What an audit looks at: all that the default makes use of.
AUDITED = (*DEFAULT_SIGNALS, PREDICTED_CLASS, CLASS_BIAS)

#: Signals that make no groups, or read the answer.
_UNFIT = ("none", "statistics", "logits", "features", "oracle_risk", "oracle_correctness")

#: Objectives whose slopes can be looked at, and what their gain is of.
OBJECTIVES = {"bce": "top_label_bce", "nll": "nll"}


@dataclass(frozen=True)
class SignalRow:
    """What grouping by one signal could give.

    Attributes
    ----------
    signal : str
    between, within : float
        B and σ²: variance of dl/dT between and within groups; their sum is its whole variance.
    floor : float
        (K - 1) / n: what B / σ² is on average when miscalibration has nothing to do with groups.
    predicted_gain : float
        By how much a temperature for each group lowers the expected loss, in nats; negative
        where it costs more than it gives.
    p_value : float
        Of "miscalibration does not depend on this signal".
    beyond_chance : bool
        Whether that falls, with Holm's correction for the number of signals.
    n_groups : int
        Groups that hold samples.
    note : str
        Why there is nothing to see, where that is so.
    metric : str
        What the predicted gain is of: ``top_label_bce``, or ``nll`` for that objective and for
        biases of classes.
    """

    signal: str
    between: float
    within: float
    floor: float
    predicted_gain: float
    p_value: float
    beyond_chance: bool
    n_groups: int
    note: str = ""
    metric: str = "top_label_bce"

    @property
    def ratio(self) -> float:
        """B / σ², 0 where nothing varies."""
        return self.between / self.within if self.within > 0 else 0.0

    @property
    def times_floor(self) -> float:
        """The ratio in units of its floor."""
        return self.ratio / self.floor if self.floor > 0 else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        derived = {"ratio": self.ratio, "times_floor": self.times_floor, "text": self.text()}
        return plain_fields(self) | derived

    def text(self) -> str:
        """Return the row as a sentence.

        Examples
        --------
        >>> SignalRow("entropy", 2.6e-3, 1.0, 1e-3, 0.0012, 0.004, True, 3).text()
        'entropy: 2.6 times the floor, p = 0.004, predicted gain 0.12 points of top-label log-loss'
        """
        name = self.signal.replace("_", " ")
        if self.note:
            return f"{name}: {self.note}"
        kind = "gain" if self.predicted_gain > 0 else "loss"
        return (
            f"{name}: {self.times_floor:.1f} times the floor, p = {self.p_value:.3f}, predicted "
            f"{kind} {X100.size(self.predicted_gain)} of {METRICS[self.metric].title}"
        )


@dataclass(frozen=True)
class SignalToNoise:
    """A row for each signal, and what they are measured against.

    Attributes
    ----------
    rows : tuple of SignalRow
    n, n_groups : int
    pooled_temperature : float
        Where the slopes are taken.
    random_ratio : float
        Mean B / σ² of random groups of equal size: the floor, as these data have it.
    null : str
        What the p-values are computed under.
    n_null : int
    level : float
    objective : str
        Whose slopes they are.
    """

    rows: tuple[SignalRow, ...]
    n: int
    n_groups: int
    pooled_temperature: float
    random_ratio: float
    null: str
    n_null: int
    level: float
    objective: str = "bce"

    def __getitem__(self, signal: str) -> SignalRow:
        """Return a signal's row."""
        return {row.signal: row for row in self.rows}[signal]

    @property
    def random_times_floor(self) -> float:
        """The random groups' ratio in units of the floor, (n_groups - 1) / n."""
        return self.random_ratio * self.n / (self.n_groups - 1)

    def verdict(self) -> str:
        """Return in a sentence whether a temperature should depend on anything."""
        found = [row for row in self.rows if row.beyond_chance and row.predicted_gain > 0]
        if not found and all(row.note for row in self.rows if row.signal != CLASS_BIAS):
            return f"No signal can be judged: {self.rows[0].note}."
        if not found:
            least = min(row.p_value for row in self.rows)
            return (
                "After one temperature, no signal by itself shows miscalibration beyond chance "
                f"(the smallest p of {len(self.rows)} is {least:.3f})."
            )
        told = []
        routed = [row for row in found if row.signal != CLASS_BIAS]
        if routed:
            best = max(routed, key=lambda row: row.predicted_gain)
            names = ", ".join(row.signal.replace("_", " ") for row in routed)
            told.append(
                f"After one temperature, miscalibration still depends on {names}: {best.n_groups} "
                f"temperatures by {best.signal.replace('_', ' ')} should lower "
                f"{METRICS[best.metric].title} by about {X100.size(best.predicted_gain)}."
            )
        told += [
            "The model favours some classes for every input: class biases should lower "
            f"log-loss by about {X100.size(row.predicted_gain)}."
            for row in found
            if row.signal == CLASS_BIAS
        ]
        return " ".join(told)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        return {**plain_fields(self), "verdict": self.verdict()}


@one_core_each()
def signal_to_noise(
    logits: object,
    y: object,
    *,
    signals: Sequence[str] = DEFAULT_SIGNALS,
    objective: str = "bce",
    n_groups: int = 3,
    null: str = "resample",
    n_null: int = 499,
    n_partitions: int = 200,
    level: float = 0.95,
    input: str | None = None,
    features: object = None,
    random_state: int = 0,
    advance: Advance = lambda draws: None,
) -> SignalToNoise:
    """Measure, signal by signal, whether a temperature should depend on it.

    Parameters
    ----------
    logits : array-like of shape (n, C)
    y : array-like of shape (n,)
    signals : sequence of str
        "risk" (out of fold), any of the six statistics, another name in
        ``smallcal.calibrators.signals.ROUTES`` that gives each sample one score
        without its label, "predicted_class", or "class_bias": whether classes occur as often as
        the model expects.
    objective : {"bce", "nll"}
        The loss that temperatures would be fitted by: its slopes are looked at.
    n_groups : int
        K; groups are cut as grouped calibrators cut theirs.
    null : {"resample", "permutation"}
        How p-values are made, see Notes.
    n_null : int
        Draws behind the p-values; the smallest possible one is 1 / (n_null + 1).
    n_partitions : int
        Random partitions behind ``random_ratio``.
    level : float
        Signals are called beyond chance at 1 - level, with Holm's correction.
    input : {"logits", "probabilities"}
    features : array-like of shape (n, d), optional
        For the signals that need them.
    random_state : int
    advance : callable, optional
        Told how many draws were done.

    Returns
    -------
    SignalToNoise

    Notes
    -----
    The ratio says what grouping would do to the *fitted* loss; it does not predict ECE. The
    predicted gain is to second order and takes all groups for equally curved.

    ``null="resample"`` draws "right or wrong" anew for every sample, as the confidence at the
    pooled temperature says (with ``objective="nll"`` its class, as all probabilities say), lets
    that temperature follow, learns the router anew, and compares the groups' summed slopes in
    units of their standard deviations. It keeps its size where groups differ in the variance of
    their slopes, which they always do: safe predictions hardly vary. ``null="permutation"`` deals
    the slopes out to the samples at random and compares B. It takes slopes for interchangeable,
    so that with accurate models it rejects far too seldom. Both are measured in
    ``docs/guides/audit.md``.

    Examples
    --------
    >>> import smallcal as sc
    >>> val = sc.load_demo("cal")
    >>> table = sc.signal_to_noise(val.logits, val.labels, n_null=99)
    >>> len(table.rows), table["risk"].floor == 2 / 1250
    (7, True)
    >>> bool(abs(table.random_ratio / table["risk"].floor - 1) < 0.2)
    True
    """
    _require(signals, n_groups, null, n_partitions)
    if objective not in OBJECTIVES:
        raise InputError(
            f"objective must be one of {', '.join(OBJECTIVES)}; got {objective!r}",
            code="unknown-choice",
        )
    require_options(n_null, level, name="n_null")
    preds = Predictions.of(logits, y, input=input, features=features)
    preds.require_fittable()
    slopes = Slopes.of(preds, seed=random_state, loss=objective)
    grouped = {name: Groups.of(slopes, name, n_groups) for name in signals if name != CLASS_BIAS}
    rng = np.random.default_rng(random_state)
    control = _random_ratio(slopes, n_groups, n_partitions, rng)
    exceeded = exceedances(slopes, grouped, n_groups, null, n_null, rng, advance)
    p_values = {name: (1 + exceeded[name]) / (1 + n_null) for name in grouped}
    p_values |= {name: 1.0 for name, group in grouped.items() if group.note}
    metric = OBJECTIVES[objective]
    rows = [_row(slopes, group, p_values[name], metric) for name, group in grouped.items()]
    if CLASS_BIAS in signals:
        rows.append(_bias_row(class_bias(preds, slopes.temperature, n_null=n_null, rng=rng), preds))
        p_values[CLASS_BIAS] = rows[-1].p_value
    fallen = holm(p_values, 1 - level)
    by_name = {row.signal: replace(row, beyond_chance=row.signal in fallen) for row in rows}
    ordered = tuple(by_name[name] for name in signals)
    about = (preds.n, n_groups, slopes.temperature, control, null, n_null, level, objective)
    return SignalToNoise(ordered, *about)


def _require(signals: Sequence[str], n_groups: int, null: str, n_partitions: int) -> None:
    others = [name for name in ROUTES if name not in _UNFIT]
    possible = dict.fromkeys([*DEFAULT_SIGNALS, *others, PREDICTED_CLASS, CLASS_BIAS])
    unknown = [name for name in signals if name not in possible]
    if isinstance(signals, str) or unknown or not signals or len(set(signals)) != len(signals):
        raise InputError(
            f"signals must be different names among {', '.join(possible)}; got {signals!r}",
            code="unknown-choice",
        )
    whole_number(n_groups, "n_groups", least=2)
    if null not in NULLS:
        raise InputError(
            f"null must be one of {', '.join(NULLS)}; got {null!r}", code="unknown-choice"
        )
    whole_number(n_partitions, "n_partitions", least=1)


def _bias_row(found: ClassBias, preds: Predictions) -> SignalRow:
    """Return the test of biases as a row: half the statistic beyond chance is gained in NLL."""
    gain = (found.statistic - found.expected) / (2 * preds.n)
    return SignalRow(
        CLASS_BIAS,
        found.statistic / preds.n,
        1.0,
        found.expected / preds.n,
        gain,
        found.p_value,
        beyond_chance=False,
        n_groups=found.n_counts,
        metric="nll",
    )


def _row(slopes: Slopes, groups: Groups, p_value: float, metric: str) -> SignalRow:
    between, within = variances(slopes.slope, groups.member)
    count = groups.count
    floor = (count - 1) / slopes.n
    gain = 0.0
    if not groups.note and slopes.curvature > 0:
        gain = (between - floor * within) / (2 * slopes.curvature)
    values = (between, within, floor, gain, p_value)
    signal, note = groups.signal, groups.note
    return SignalRow(signal, *values, beyond_chance=False, n_groups=count, note=note, metric=metric)


def _random_ratio(
    slopes: Slopes, n_groups: int, n_partitions: int, rng: np.random.Generator
) -> float:
    """Return the mean B / σ² over random partitions into equal groups."""
    dealt = np.arange(slopes.n) % min(n_groups, slopes.n)
    found = (variances(slopes.slope, rng.permutation(dealt)) for _ in range(n_partitions))
    return float(np.mean([between / within if within > 0 else 0.0 for between, within in found]))
