"""What a calibrator is applied to, checked."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import NamedTuple

from smallcal.calibrators.group_effects import GroupEffects
from smallcal.data.checks import FloatArray, IntArray
from smallcal.data.groups import as_groups
from smallcal.errors import GroupWarning, InputError

#: Logits that are copied at once: in memory beside the caller's own.
_COPIED_BYTES = 2**23


class Given(NamedTuple):
    """Rows: their logits, and what else some calibrators ask for; groups as places among names."""

    logits: FloatArray
    features: FloatArray | None
    labels: IntArray | None
    groups: IntArray | None = None

    def take(self, rows: slice) -> Given:
        """Return some of the rows."""
        return Given(*(None if array is None else array[rows] for array in self))  # type: ignore[arg-type]


def slices(n: int, n_classes: int) -> Iterator[slice]:
    """Yield rows after rows, few enough to be copied.

    Examples
    --------
    >>> list(slices(3, 2**20))
    [slice(0, 1, None), slice(1, 2, None), slice(2, 3, None)]
    """
    size = max(1, _COPIED_BYTES // (8 * n_classes))
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def coded(known: GroupEffects | None, groups: object, n: int) -> IntArray | None:
    """Return the group of each row as a place among those of a fit; unknown ones are warned of."""
    if groups is None:
        if known is not None and known.sigma:
            raise InputError(
                "this calibrator was fitted with groups; ",
                python="pass the group of each row as groups=",
                shell="name the column or array of each row's group with --group",
            )
        return None
    if known is None:
        raise InputError(
            "groups were given, but this calibrator was fitted without; fit it with groups="
        )
    codes = known.codes(as_groups(groups, n=n))
    if note := known.unseen_note(codes):
        warnings.warn(note, GroupWarning, stacklevel=4)
    return codes
