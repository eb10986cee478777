"""Adapt a calibrator to classes that are more or less frequent where the model runs.

No labels are needed: calibrated probabilities and how frequent classes were say how frequent they
are now (Saerens, Latinne and Decaestecker 2002), as long as rows of one class look as they did.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from smallcal.calibrators.class_frequencies import ClassFrequencies
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.given import Given, checked, coded, slices
from smallcal.calibrators.holder import fitted_of
from smallcal.calibrators.later import with_later, without_last
from smallcal.data.checks import FloatArray
from smallcal.data.masks import checked_logits
from smallcal.deploy.adapt.rates import rates_of
from smallcal.deploy.adapt.result import LEAST_ROWS, Adaptation
from smallcal.deploy.adapt.rows import Deployed, Spool, deployed
from smallcal.deploy.adapt.split import split_of, weighed
from smallcal.deploy.monitor.class_shift import ClassShift, diagnose, diagnose_with, strength
from smallcal.errors import InputError
from smallcal.io import Source
from smallcal.io.progress import Advance
from smallcal.statistics.class_frequencies import factors
from smallcal.statistics.moved_classes import Moved, Split, moved

if TYPE_CHECKING:
    from smallcal.calibrators.base import BaseCalibrator


def adapt(
    cal: BaseCalibrator | FittedCalibrator,
    logits: object = None,
    *,
    rates: object = None,
    features: object = None,
    groups: object = None,
    confidence: float = 0.95,
    random_state: int = 0,
    force: bool = False,
    undo: bool = False,
) -> Adaptation:
    """Adapt a calibrator to other frequencies of classes: those of rows without labels, or given.

    Probabilities are multiplied by how much more frequent each class became, and normalised. So
    predictions may change. Adapting again starts from the calibrator as it was fitted.

    Parameters
    ----------
    cal : fitted calibrator
    logits : array-like of shape (n, C), optional
        Rows from where the model runs, no labels; what the calibrator was fitted on: logits,
        probabilities or scores.
    rates : array-like of shape (C,) or mapping, optional
        The frequencies themselves, where they are known: one for each class, or by its name. Then
        rows only say how many predictions change.
    features : array-like of shape (n, d), optional
        For calibrators that were fitted with features.
    groups : array-like of shape (n,), optional
        For calibrators that were fitted with groups.
    confidence : float
        Of the intervals. The calibrator stays as it is unless "nothing has changed" is rejected
        at one minus this.
    random_state : int
        Of the resamples.
    force : bool
        Whether to adapt although the evidence is weak.
    undo : bool
        Whether to take away what was adapted before instead.

    Returns
    -------
    Adaptation
        ``calibrator`` is the new one, or the old one where the rows do not ask for another;
        ``adapted`` and ``sentences`` say which, and why.

    Raises
    ------
    InputError
        If rates do not fit the classes or do not sum to 1, or there is nothing to go by.

    Examples
    --------
    >>> import numpy as np, smallcal as sc
    >>> rng = np.random.default_rng(0)
    >>> def rows(n, frequencies):
    ...     y = rng.choice(3, size=n, p=frequencies)
    ...     return 2 * rng.normal(size=(n, 3)) + 4 * np.eye(3)[y], y
    >>> cal = sc.TemperatureScaling().fit(*rows(1000, [1 / 3, 1 / 3, 1 / 3]))
    >>> found = sc.adapt(cal, rows(2000, [0.1, 0.1, 0.8])[0])
    >>> found.adapted, [round(share, 1) for share in found.now]
    (True, [0.1, 0.1, 0.8])
    >>> p = found.calibrator.predict_proba([[1.0, 1.0, 1.0]])
    >>> p.round(1).tolist()
    [[0.1, 0.1, 0.8]]
    >>> sc.adapt(cal, rows(2000, [1 / 3, 1 / 3, 1 / 3])[0]).adapted
    False
    """
    fitted = fitted_of(cal, "cal must be a fitted calibrator")
    if undo:
        if any(each is not None for each in (logits, rates)):
            raise InputError(
                "undo removes the adaptation; it needs neither rows nor rates",
                code="options-conflict",
            )
        aside = len(fitted.decisions)
        return Adaptation(undone(fitted), "undone", adapted=True, set_aside=aside)
    asked = Asked(confidence, random_state, force)
    blocks = None
    if logits is not None:
        blocks = _blocks(unadapted(fitted), logits, features, groups)
    return adapt_blocks(fitted, blocks, rates=rates, asked=asked)


@dataclass(frozen=True)
class Asked:
    """How sure one has to be: as in :func:`adapt`."""

    confidence: float = 0.95
    random_state: int = 0
    force: bool = False

    def __post_init__(self) -> None:
        level = self.confidence
        number = isinstance(level, int | float) and not isinstance(level, bool)
        if not number or not 0.5 <= level < 1:
            raise InputError(
                f"confidence must be a number from 0.5 up to 1, such as 0.95; got {level!r}",
                code="option-range",
            )


_AS_USUAL = Asked()


def adapt_blocks(
    fitted: FittedCalibrator,
    blocks: Iterable[Given] | None,
    *,
    rates: object = None,
    asked: Asked = _AS_USUAL,
    advance: Advance = lambda rows: None,
) -> Adaptation:
    """Adapt to rows that come block by block, which are checked for ``unadapted(fitted)``."""
    base = unadapted(fitted)
    if blocks is None and rates is None:
        raise InputError(
            "there is nothing to adapt to: ",
            python="pass rows without labels, or rates=...",
            shell="name DATA, rows without labels, or --rates FILE",
            code="option-missing",
        )
    split = split_of(base)
    given = None if rates is None else rates_of(rates, names_of(base))
    with closing(Spool(base.n_classes)) as spool:
        rows = None
        if blocks is not None:
            seed = asked.random_state
            rows = deployed(base, blocks, spool, random_state=seed, advance=advance)
        if given is not None:
            return _to_rates(fitted, base, split, given, rows)
        assert rows is not None
        return _to_rows(fitted, base, split, rows, asked)


def unadapted(fitted: FittedCalibrator) -> FittedCalibrator:
    """Return the calibrator without the frequencies that it was adapted to last, if it was."""
    last = fitted.later[-1] if fitted.later else None
    return without_last(fitted) if isinstance(last, ClassFrequencies) else fitted


def undone(fitted: FittedCalibrator) -> FittedCalibrator:
    """Return the calibrator as it was before it was adapted."""
    base = unadapted(fitted)
    if base is fitted:
        what = "something else was learned after that" if fitted.later else "it is as it was fitted"
        raise InputError(f"there is no adaptation to undo: {what}", code="options-conflict")
    return base


def names_of(fitted: FittedCalibrator) -> tuple[str, ...]:
    """Return what classes are called in tables, and in files of rates."""
    return fitted.class_names or tuple(map(str, range(fitted.n_classes)))


def source_blocks(fitted: FittedCalibrator, source: Source) -> Iterator[Given]:
    """Yield rows of files that need not fit in memory; what is wrong is named by file and row."""
    for part in source.parts():
        for block in source.blocks(part, carry=False):
            try:
                yield _given(checked(fitted, block.scores, None, None), fitted, block.start)
            except InputError as error:
                raise error.about(part.shown) from error
        part.require_unchanged()


def _blocks(
    fitted: FittedCalibrator, logits: object, features: object, groups: object
) -> Iterator[Given]:
    """Yield rows after rows of an array, which may be one in a file."""
    if not fitted.signal.rowwise:
        raise InputError(
            f"{fitted.method} looks at all rows at once and cannot be adapted",
            code="method-unsuitable",
        )
    given = checked(fitted, logits, features, None)
    given = given._replace(groups=coded(fitted.groups, groups, len(given.logits)))
    for rows in slices(len(given.logits), fitted.n_classes):
        yield _given(given.take(rows), fitted, rows.start)


def _given(rows: Given, fitted: FittedCalibrator, first: int) -> Given:
    logits, _ = checked_logits(rows.logits, name=fitted.input, first_row=first)
    return rows._replace(logits=logits)


def _to_rows(
    fitted: FittedCalibrator, base: FittedCalibrator, split: Split, rows: Deployed, asked: Asked
) -> Adaptation:
    """Adapt to what rows say, if they say enough."""
    n, names = rows.rows.n, _shown(base)
    known: dict[str, Any] = {"rows": n, "classes": names, "level": asked.confidence}
    few = n < max(LEAST_ROWS, base.n_classes)
    if few and not asked.force:
        return Adaptation(fitted, "few", adapted=False, **known)
    found = moved(rows.rows, split, level=asked.confidence, random_state=asked.random_state)
    now = _believed(rows, split, found)
    shift = _diagnosed(base, rows, split, found)
    verdict = "few" if few else _verdict(found, shift, asked.confidence)
    intervals: dict[str, Any] = {"low": _plain(found.low), "high": _plain(found.high)}
    before, after = _plain(split.mean), _plain(now)
    adapted = verdict == "moved" or asked.force
    known |= {"before": before, "now": after, **intervals}
    known |= {"p_value": found.p_value, "class_shift": shift}
    if not adapted:
        return Adaptation(fitted, verdict, adapted=False, **known)
    part = ClassFrequencies(
        before,
        after,
        level=asked.confidence,
        p_value=found.p_value,
        rows=n,
        source="rows",
        **intervals,
    )
    changes = part.factors
    reference = rows.reference(changes, len(base.group_counts))
    new = with_later(base, part, reference=reference)
    aside = len(fitted.decisions)
    changed = 0 if base.keep_predictions else rows.changed(changes)
    return Adaptation(new, verdict, adapted=True, changed=changed, set_aside=aside, **known)


def _diagnosed(base: FittedCalibrator, rows: Deployed, split: Split, found: Moved) -> ClassShift:
    """Say whether frequencies explain what a monitor would count of the rows."""
    assert rows.seen is not None  # there is a table: the split was made of it
    if base.score is None:
        return diagnose(rows.seen)
    return diagnose_with(rows.seen, found.now / split.mean, found.others / split.mean)


def _verdict(found: Moved, shift: ClassShift, level: float) -> str:
    if found.p_value >= 1 - level:
        return "unchanged"
    return "more" if shift.kind == "more" else "moved"


def _believed(rows: Deployed, split: Split, found: Moved) -> FloatArray:
    """Return frequencies that are held back by the old ones as far as chance could explain them.

    No further than their intervals reach, though: a class that surely moved is not held back
    because the others did not (Efron and Morris call that limited translation).
    """
    n = rows.rows.n
    worth = n * split.n / (n + split.n)
    held = strength(found.by_chance, worth) * n / worth
    return _within(split.mean * factors(rows.rows, split.mean, strength=held), found)


def _within(now: FloatArray, found: Moved) -> FloatArray:
    """Return the multiple of frequencies that sums to 1 once it is cut to their intervals.

    There is one: the likeliest frequencies lie in the intervals and sum to 1. Between the multiples
    at which a class reaches an end of its interval the sum is linear.
    """
    multiples = np.sort(np.concatenate((found.low, found.high)) / np.tile(now, 2))
    sums = np.clip(np.outer(multiples, now), found.low, found.high).sum(axis=1)
    return np.clip(np.interp(1.0, sums, multiples) * now, found.low, found.high)


def _to_rates(
    fitted: FittedCalibrator,
    base: FittedCalibrator,
    split: Split,
    now: FloatArray,
    rows: Deployed | None,
) -> Adaptation:
    """Adapt to rates that were given."""
    part = ClassFrequencies(_plain(split.mean), _plain(now))
    new = with_later(base, part, reference=weighed(base.reference, part.factors))
    changed = None
    if rows is not None:
        changed = 0 if base.keep_predictions else rows.changed(part.factors)
    return Adaptation(
        new,
        "rates",
        adapted=True,
        rows=0 if rows is None else rows.rows.n,
        classes=_shown(base),
        before=part.before,
        now=part.now,
        changed=changed,
        set_aside=len(fitted.decisions),
    )


def _shown(fitted: FittedCalibrator) -> tuple[str, ...]:
    if fitted.score is not None and fitted.class_names is None:
        return ("outcome 0", "outcome 1")
    return names_of(fitted)


def _plain(values: FloatArray) -> tuple[float, ...]:
    return tuple(values.tolist())
