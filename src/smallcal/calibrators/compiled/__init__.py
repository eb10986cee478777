"""An optional compiled kernel that applies common calibrators in about half the time.

It is off unless it is asked for: loading numba takes a second, and the first use on a machine
compiles for some seconds more. What the kernel does not have, or leaves, is done by NumPy, which
it agrees with to 1e-12 in float64 and to single precision in float32.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from smallcal.calibrators.given import Given, slices
from smallcal.data.checks import FloatArray, IntArray
from smallcal.errors import InputError

if TYPE_CHECKING:
    from smallcal.calibrators.fitted import FittedCalibrator

#: The environment variable that asks for the kernel.
VARIABLE = "SMALLCAL_COMPILED"


class Plan(NamedTuple):
    """What the kernel takes after its rows; see :mod:`smallcal.calibrators.compiled.plan`."""

    numbers: FloatArray
    lines: FloatArray
    steps: FloatArray


_switch: dict[str, bool] = {}
#: The modules that need numba.
_loaded: dict[str, Any] = {}
_plans: WeakKeyDictionary[FittedCalibrator, dict[Any, Plan | None]] = WeakKeyDictionary()


def use_compiled(*, on: bool = True) -> None:
    """Apply calibrators by the compiled kernel from now on, in this process.

    ``predict_proba`` and torch modules on a processor then take about half the time, for one
    temperature, groups of risk or of a statistic, and the default. Numbers may differ from NumPy's
    in the last places, never in the argmax; everything else is done as before. The environment
    variable ``SMALLCAL_COMPILED=1`` does the same. The first use compiles for some seconds, later
    processes load what numba kept on disk.

    Parameters
    ----------
    on : bool
        False goes back to NumPy.

    Raises
    ------
    MissingExtraError
        If numba is not installed: ``pip install 'smallcal[fast]'``.

    Examples
    --------
    >>> import smallcal as sc
    >>> sc.use_compiled(on=False)
    """
    for name in ("kernel", "plan") if on else ():
        _loaded[name] = import_module(f"{__name__}.{name}")
    _switch["on"] = on


def is_on() -> bool:
    """Whether the kernel is to be used."""
    if "on" not in _switch:
        use_compiled(on=os.environ.get(VARIABLE, "") not in ("", "0"))
    return _switch["on"]


def plan_for(fitted: FittedCalibrator, work: np.dtype[Any], out: np.dtype[Any]) -> Plan | None:
    """Return what the kernel is told of a calibrator, or None where it has no such."""
    known = _plans.setdefault(fitted, {})
    if (work, out) not in known:
        known[work, out] = _loaded["plan"].plan_of(fitted, work, out)
    return known[work, out]


def run(plan: Plan, rows: FloatArray, out: FloatArray) -> IntArray:
    """Write the probabilities of rows, and return the places of those that are not done.

    Both must be C-contiguous, writeable, and of the plan's type.
    """
    again = np.empty(len(rows), dtype=np.bool_)
    _loaded["kernel"].calibrate(rows, out, again, *plan)
    return again.nonzero()[0]


def fill(
    fitted: FittedCalibrator,
    given: Given,
    result: FloatArray,
    by_numpy: Callable[[Given, FloatArray], None],
) -> bool:
    """Write the probabilities of all rows, unless the kernel is off or has no such calibrator.

    ``by_numpy`` does the rows that the kernel leaves.
    """
    if not is_on():
        return False
    work = np.dtype(np.float64 if given.logits.dtype.itemsize == 8 else np.float32)
    plan = plan_for(fitted, work, result.dtype)
    if plan is None:
        return False
    for rows in slices(*given.logits.shape):
        part, out = given.take(rows), result[rows]
        again = _part_filled(plan, part.logits, out)
        if not len(again):
            continue
        some = np.empty((len(again), out.shape[1]), out.dtype)
        try:
            by_numpy(part.take(again), some)
        except InputError:
            by_numpy(given, result)  # says which rows of all
            raise
        out[again] = some
    return True


def _part_filled(plan: Plan, array: FloatArray, out: FloatArray) -> IntArray:
    rows = array if _usable(array, plan) else np.array(array, plan.lines.dtype, order="C")
    if _usable(out, plan):
        return run(plan, np.asarray(rows), np.asarray(out))
    room = np.empty(rows.shape, rows.dtype)
    again = run(plan, rows, room)
    out[...] = room
    return again


def _usable(array: FloatArray, plan: Plan) -> bool:
    """Whether the kernel was compiled for such an array."""
    flags = array.flags
    right = array.dtype == plan.lines.dtype and array.dtype.isnative
    return bool(right and flags.c_contiguous and flags.aligned and flags.writeable)
