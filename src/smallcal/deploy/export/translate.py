"""A fitted calibrator written down as arithmetic, for all exporters together.

What a part computes is defined by its own code, which the runtime calls; its ``program`` writes it
down once more, and the tests hold the two against each other.
"""

from __future__ import annotations

from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.maps import TemperatureMap
from smallcal.calibrators.program import BELOW, Program, Row, Value, choose, exp, given, softmax
from smallcal.calibrators.softmax import SHARING_ROUNDS
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
        probabilities = _shared(own, probabilities)
    if fitted.preserves_argmax and score is None:  # of a score, outcome 1 is claimed throughout
        probabilities = _keep_top(own, probabilities)
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
    )


def _require_exportable(fitted: FittedCalibrator) -> None:
    if not fitted.deployable:
        raise InputError(f"{fitted.method} is for comparison only and cannot be exported")
    if not fitted.signal.rowwise:
        raise InputError(
            f"{fitted.method} is a control whose groups depend on the whole batch; it cannot be "
            "exported"
        )


def _tailed(row: Row, temperature: Value, tail: float) -> Value:
    """Return what :func:`smallcal.calibrators.softmax.tailed_softmax` does."""
    gaps = row.gaps - row.second_gap
    routed = choose(row.top, 0.0, exp(choose(row.top, 0.0, gaps) / temperature))
    own = choose(row.top, 0.0, exp(choose(row.top, 0.0, gaps) / tail))
    routed_sum, own_sum = routed.sum(), own.sum()
    rest = routed_sum * exp(row.second_gap / temperature)
    flatter = own_sum.reached(routed_sum)
    room = choose(flatter, 1.0, 1 / own_sum - 1 / routed_sum)
    share = (1 / rest.at_least(1e-300) - 1 / routed_sum) / room
    share = choose(flatter, 1.0, share.at_least(0.0).at_most(1.0))
    doubt = rest / (1 + rest)
    others = own * (doubt * share / own_sum) + routed * (doubt * (1 - share) / routed_sum)
    return choose(row.top, 1 / (1 + rest), others)


def _shared(row: Row, probabilities: Value) -> Value:
    """Return what :func:`smallcal.calibrators.softmax.keep_predictions` does."""
    level = (row.top * probabilities).sum()
    for _ in range(SHARING_ROUNDS):
        sharing = probabilities.reached(level).at_least(row.top)
        level = (probabilities * sharing).sum() / sharing.sum()
    kept = choose(row.top, level, probabilities.at_most(level))
    return kept / kept.sum()


def _keep_top(row: Row, probabilities: Value) -> Value:
    """Hold every rival a little below the predicted class, where rounding made a tie."""
    confidence = (row.top * probabilities).sum()
    return choose(row.top, probabilities, probabilities.at_most(confidence * BELOW))
