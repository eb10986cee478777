"""A fitted calibrator written down as arithmetic, for all exporters together.

What a part computes is defined by its own code, which the runtime calls; its ``program`` writes it
down once more, and the tests hold the two against each other.
"""

from __future__ import annotations

from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.maps import TemperatureMap
from smallcal.calibrators.program import Program, Row, Value, constant, given, softmax
from smallcal.deploy.export.decided import flags_of, grouped
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
    score, masks = fitted.score, bool(fitted.data.get("masked"))
    takes, n_classes = fitted.input, fitted.n_classes
    own = Row(n_classes, n_features=n_features, takes=takes, score=score, masks=masks)
    row = own if fitted.correction is None else own.moved(fitted.correction.program(own))
    found = fitted.map.program(row, fitted.signal.program(row))
    temperature = found if isinstance(fitted.map, TemperatureMap) else None
    probabilities = found
    if temperature is not None:
        tail = fitted.tail_temperature
        probabilities = (
            softmax(row.gaps / temperature) if tail is None else _tailed(row, temperature, tail)
        )
    else:
        probabilities = row.without_masked(probabilities)
    if fitted.keep_predictions:
        probabilities = Value("shared", n_classes, (own.top, probabilities))
    if fitted.preserves_argmax and score is None:  # of a score, outcome 1 is claimed throughout
        probabilities = Value("held", n_classes, (own.top, probabilities))
    effects = grouped(fitted)
    if effects is not None:
        probabilities = effects.program(probabilities, given("effect", 1), claim=fitted.claim)
    for part in fitted.later:
        probabilities = part.program(probabilities, claim=fitted.claim)
    return Program(
        probabilities,
        temperature,
        n_classes,
        n_features,
        takes,
        score,
        grouped=effects is not None,
        masks=masks,
        decisions=tuple(flags_of(fitted, probabilities)),
        narrow=takes == "logits" and not masks and effects is None and _single(fitted),
    )


def _tailed(row: Row, temperature: Value, tail: float) -> Value:
    parts = row.top, row.gaps, row.second_gap, temperature, constant(tail)
    return Value("tailed", row.gaps.width, parts)


def _single(fitted: FittedCalibrator) -> bool:
    """Return whether single precision is enough for the numbers of classes."""
    return fitted.map.single and fitted.signal.single and not fitted.later


def _require_exportable(fitted: FittedCalibrator) -> None:
    if not fitted.deployable:
        raise InputError(f"{fitted.method} is for comparison only and cannot be exported")
    if not fitted.signal.rowwise:
        raise InputError(
            f"{fitted.method} is a control whose groups depend on the whole batch; it cannot be "
            "exported"
        )
