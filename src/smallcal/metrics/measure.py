"""A metric is written once, as a function of checked predictions; here it becomes what users call.

``metric(y_true, y_proba)`` checks and measures; ``metric.of(scored)`` measures what was checked
before; a mean over samples also has ``metric.values(scored)``, the value of each sample, for
paired comparisons and the bootstrap.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, Protocol, cast

from smallcal.data.predictions import FloatArray
from smallcal.metrics.scored import Scored

P = ParamSpec("P")


class Measure(Protocol[P]):
    """A metric of labels and probabilities."""

    of: Callable[Concatenate[Scored, P], float]

    def __call__(self, y_true: object, y_proba: object, *a: P.args, **k: P.kwargs) -> float:
        """Check labels and probabilities, and measure them."""


class Mean(Measure[[]], Protocol):
    """A metric that is the mean of a value of each sample."""

    values: Callable[[Scored], FloatArray]


def measure(of: Callable[Concatenate[Scored, P], float]) -> Measure[P]:
    """Make a metric of labels and probabilities out of one of checked predictions."""

    def public(y_true: object, y_proba: object, *args: P.args, **kwargs: P.kwargs) -> float:
        return of(Scored.of(y_true, y_proba), *args, **kwargs)

    arrays = list(inspect.signature(public).parameters.values())[:2]
    own = [*arrays, *list(inspect.signature(of).parameters.values())[1:]]
    made: Any = update_wrapper(public, of)
    made.__signature__ = inspect.Signature(own, return_annotation="float")
    made.__annotations__ = {option.name: option.annotation for option in own} | {"return": "float"}
    made.of = of
    of.__qualname__ += ".of"  # where pickle finds it
    return cast("Measure[P]", made)


def mean(values: Callable[[Scored], FloatArray]) -> Mean:
    """Make a metric of labels and probabilities that is the mean of each sample's value."""

    def of(scored: Scored) -> float:
        return float(values(scored).mean())

    made: Any = measure(update_wrapper(of, values))
    made.values = values
    values.__qualname__ += ".values"
    return cast("Mean", made)
