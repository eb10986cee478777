"""The error function in simpler operations, for runtimes that have none in double precision."""

from __future__ import annotations

from smallcal.calibrators.program import Program, Value, choose, constant, exp

#: With x >= 0 and u = 6 / (3 + x) - 1, which lies in (-1, 1], exp(x^2) (1 - erf(x)) is smooth in u.
#: These are the coefficients of its polynomial through the 19 Chebyshev points, lowest first; the
#: error function that follows from them is right to 1e-14.
_TAIL = (
    0.17900115118138984,
    0.3262335600431923,
    0.24560380171206017,
    0.1501159364915097,
    0.07166583721487804,
    0.02439249948077824,
    0.0042691360298001925,
    -0.0007077477228570589,
    -0.000597059478378158,
    -4.524982521097716e-05,
    6.404558784747916e-05,
    1.2846951741763454e-05,
    -7.949231327362022e-06,
    -2.1002530663855925e-06,
    1.2056323995286797e-06,
    2.7792128476951465e-07,
    -1.878908829224346e-07,
    -2.3087379400079186e-08,
    1.924222727355204e-08,
)


def without_erf(program: Program) -> Program:
    """Return a program that computes the same without the operation ``erf``.

    Examples
    --------
    >>> from smallcal.calibrators.program import erf, given
    >>> program = Program(erf(given("logits", 2)), None, 2, 0, "logits")
    >>> sorted({value.operation for value in without_erf(program).values()})
    ['add', 'choose', 'constant', 'divide', 'exp', 'logits', 'maximum', 'multiply', 'reached',
     'subtract']
    """
    return program.rewritten(lambda value: _erf(*value.of) if value.operation == "erf" else value)


def _erf(x: Value) -> Value:
    size = x.at_least(0.0 - x)
    u = 6.0 / (3.0 + size) - 1.0
    tail = constant(_TAIL[-1])
    for coefficient in reversed(_TAIL[:-1]):
        tail = tail * u + coefficient
    result = 1.0 - exp(0.0 - size * size) * tail
    return choose(x.reached(0.0), result, 0.0 - result)
