"""Whether the parts of a fitted calibrator fit together: what no schema can say.

Each part says what it gives, what it reads and how many classes it is for; here the answers are
held against each other. What passes can be applied, inspected, exported and monitored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smallcal.calibrators.decision import Threshold, thresholds_of
from smallcal.calibrators.maps import UNIFORM
from smallcal.calibrators.reference import watches
from smallcal.errors import InputError

if TYPE_CHECKING:
    from smallcal.calibrators.fitted import FittedCalibrator


def require_sound(fitted: FittedCalibrator, *, n_parameters: int | None = None) -> None:
    """Raise :class:`InputError` unless the parts of a calibrator fit together.

    ``n_parameters`` is what its file says of them.

    Examples
    --------
    >>> import smallcal as sc
    >>> require_sound(sc.Identity().fit([[2.0, 0.0]] * 10, [0] * 10).fitted_)
    """
    _require_temperatures(fitted)
    _require_classes(fitted)
    _require_scores(fitted)
    _require_groups(fitted)
    _require_reference(fitted)
    _require_decisions(fitted)
    if n_parameters not in (None, fitted.n_parameters):
        parts = f"the parts have {fitted.n_parameters}"
        raise InputError(f"n_parameters says {n_parameters}, {parts}")


def _require_temperatures(fitted: FittedCalibrator) -> None:
    low, high = fitted.discipline.bounds
    for temperature in (*fitted.map.steps, fitted.pooled_temperature):
        inside = low <= temperature <= high or temperature == UNIFORM
        if fitted.n_parameters and not inside:
            raise InputError(f"temperature {temperature} lies outside bounds [{low}, {high}]")


def _require_classes(fitted: FittedCalibrator) -> None:
    """Check that all parts speak of the same classes."""
    n_classes = fitted.n_classes
    named = [(name, getattr(fitted, name)) for name in ("signal", "map")]
    named += [(each.kind, each) for each in (*fitted.later, *fitted.decisions)]
    for name, part in named:
        columns = getattr(part, "n_classes", None)
        if columns not in (None, n_classes):
            raise InputError(
                f"the {name} is for {columns} classes, not {n_classes}", code="columns-differ"
            )
    if (fitted.score is not None) != (fitted.input == "score"):
        raise InputError('input "score" and what scores are taken for go together')
    if fitted.score is not None and n_classes != 2:
        raise InputError(f"a score has two outcomes, not {n_classes}")
    if fitted.class_names is not None and len(fitted.class_names) != n_classes:
        raise InputError(
            f"{len(fitted.class_names)} class_names for {n_classes} classes",
            code="class-names-invalid",
        )


def _require_scores(fitted: FittedCalibrator) -> None:
    """Check that the map can read what the signal gives."""
    given, reads = fitted.signal.gives(fitted.n_classes), fitted.map.reads
    if reads and given not in reads:
        raise InputError(f"the map reads {reads[0]}, the signal has {given}")


def _require_groups(fitted: FittedCalibrator) -> None:
    if fitted.groups is not None and sum(fitted.groups.counts) > fitted.data["n"]:
        raise InputError(f"more samples in groups than the {fitted.data['n']} that were fitted on")
    groups = len(fitted.map.steps)
    if groups and len(fitted.group_counts) != groups:
        raise InputError(f"{len(fitted.group_counts)} group_counts for {groups} groups")


def _require_decisions(fitted: FittedCalibrator) -> None:
    """Check that each threshold has a name of its own in outputs."""
    found = [each for each in fitted.decisions if isinstance(each, Threshold)]
    if len(thresholds_of(found)) != len(found):
        raise InputError("two thresholds for one risk, of which an output can name only one")


def _require_reference(fitted: FittedCalibrator) -> None:
    """Check that what a monitor would count has bins to be counted in."""
    reference, groups = fitted.reference, len(fitted.map.steps)
    if reference is None:
        return
    scored, grouped = watches(fitted)
    if reference.score is not None and not scored:
        raise InputError("a reference of scores, and nothing that a monitor could score a row by")
    if reference.groups is not None and not (grouped and len(reference.groups) == groups):
        raise InputError(f"a reference of {len(reference.groups)} groups, not {groups}")
    if reference.n_classes not in (None, fitted.n_classes):
        raise InputError(f"a reference of {reference.n_classes} classes, not {fitted.n_classes}")
