"""A method with the options that someone asks for: what estimators and verbs fit.

No scikit-learn here: the command line fits without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from smallcal.calibrators.catalogue import method, named
from smallcal.calibrators.method import Method
from smallcal.errors import InputError

RandomState = int | np.random.Generator | np.random.RandomState | None


def chosen(
    name: str,
    *,
    input: str = "logits",
    options: Mapping[str, Any] | None = None,
    keep_predictions: bool = False,
    random_state: RandomState = 0,
) -> Method:
    """Return a method by name, with other options; see :class:`smallcal.Calibrator`.

    Examples
    --------
    >>> chosen("default").name, chosen("default", keep_predictions=True).name
    ('smallcal', 'smallcal[keep_predictions=True]')
    """
    asked = dict(options or {})
    asked["seed"] = seed_of(asked.pop("random_state", random_state))
    row = method(name, input)
    if not isinstance(keep_predictions, bool | np.bool_):
        raise InputError(f"keep_predictions must be True or False; got {keep_predictions!r}")
    if keep_predictions and "keep_predictions" in row.known_options():
        asked["keep_predictions"] = True
    renaming = {"objective", "signal", "keep_predictions"}
    try:
        return variant(row, asked, renamed=bool(asked.keys() & renaming))
    except InputError as error:
        raise error.about(name) from None


def variant(row: Method, options: Mapping[str, Any], *, renamed: bool = True) -> Method:
    """Return a row with other options, ``renamed`` after the row that has its choices."""
    known = row.known_options()
    # The type counts: 3.0 groups are as many as 3, and yet to be refused.
    changed = {
        key: value
        for key, value in options.items()
        if key not in known or type(value) is not type(known[key]) or value != known[key]
    }
    if not changed:
        return row
    if "bounds" in changed:
        changed["bounds"] = _pair(changed["bounds"])
    made = row.with_options(changed)
    return named(made) if renamed else made


def _pair(bounds: Sequence[float]) -> tuple[float, float]:
    try:
        low, high = (float(bound) for bound in bounds)
    except (TypeError, ValueError):
        raise InputError(f"bounds must be two temperatures (low, high); got {bounds!r}") from None
    return low, high


def seed_of(random_state: RandomState) -> int:
    """Return the seed that a ``random_state`` stands for; None draws one."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, int | np.integer) and 0 <= int(random_state) < 2**32:
        return int(random_state)
    raise InputError(f"random_state must be an integer in 0 .. 2**32 - 1; got {random_state!r}")
