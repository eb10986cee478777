"""A fitted calibrator written down as arithmetic, for all exporters together.

What a part computes is defined by its own code, which the runtime calls; its ``program`` writes it
down once more, and the tests hold the two against each other.
"""

from __future__ import annotations

from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.maps import TemperatureMap
from smallcal.calibrators.program import Program, Row, Value, choose, given, softmax
from smallcal.deploy.export.decided import confidence_of, flags_of, grouped
from smallcal.errors import InputError


def program_of(fitted: FittedCalibrator) -> Program:
    """Write a calibrator down as arithmetic.

    Examples
    --------
    >>> import smallcal as sc
    >>> val = sc.load_demo("cal")
    >>> program = program_of(sc.SRTS().fit(val.logits, val.labels).fitted_)
    >>> program.probabilities.width, len(list(program.values())) < 100
    (345, True)
    """
    _require_exportable(fitted)
    n_features = fitted.signal.n_features or 0
    score, takes, n_classes = fitted.score, fitted.input, fitted.n_classes
    row = Row(n_classes, n_features=n_features, takes=takes, score=score)
    found = fitted.map.program(row, fitted.signal.program(row))
    temperature = found if isinstance(fitted.map, TemperatureMap) else None
    if temperature is None:
        probabilities = row.without_masked(found)
    else:
        probabilities = softmax(row.gaps / temperature)
    if fitted.map.preserves_argmax and score is None:  # of a score, outcome 1 is claimed throughout
        probabilities = Value("held", n_classes, (row.top, probabilities))
    effects = grouped(fitted)
    if effects is not None:
        probabilities = effects.program(probabilities, given("effect", 1), claim=fitted.claim)
    for part in fitted.later:
        probabilities = part.program(probabilities, claim=fitted.claim)
    kept = row.top if fitted.keep_predictions and score is None else None
    adjusted = kept is not None and not _keeps_argmax(fitted)
    return Program(
        _put_first(row.top, probabilities) if adjusted else probabilities,
        temperature,
        n_classes,
        n_features,
        takes,
        score,
        grouped=effects is not None,
        confidence=confidence_of(fitted, probabilities, kept) if adjusted else None,
        decisions=tuple(flags_of(fitted, probabilities, kept)),
    )


def _keeps_argmax(fitted: FittedCalibrator) -> bool:
    """Return whether the most probable class is the model's, before anything is adjusted."""
    later = all(part.preserves_argmax(fitted.claim) for part in fitted.later)
    return fitted.map.preserves_argmax and later


def _put_first(top: Value, probabilities: Value) -> Value:
    """Return what :func:`smallcal.calibrators.softmax.put_first` does."""
    own, first = top.inner(probabilities), probabilities.at_top()
    exchanged = choose(top, probabilities.largest(), choose(first, own, probabilities))
    return Value("held", probabilities.width, (top, exchanged))


def _require_exportable(fitted: FittedCalibrator) -> None:
    if not fitted.deployable:
        raise InputError(
            f"{fitted.method} is for comparison only and cannot be exported",
            code="method-unsuitable",
        )
    if not fitted.signal.rowwise:
        raise InputError(
            f"{fitted.method} is a control whose groups depend on the whole batch; it cannot be "
            "exported",
            code="method-unsuitable",
        )
