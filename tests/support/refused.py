"""Expect an error by its code, and by what its message must name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from smallcal.errors import SmallcalError


@contextmanager
def refused(code: str, *named: object) -> Iterator[pytest.ExceptionInfo[SmallcalError]]:
    """Expect an error with this code, whose message names these rows, values and options.

    Examples
    --------
    >>> from smallcal.errors import InputError
    >>> with refused("labels-out-of-range", "row 2"):
    ...     raise InputError("row 2 is 7", code="labels-out-of-range")
    """
    with pytest.raises(SmallcalError) as caught:
        yield caught
    assert caught.value.code == code, f"{caught.value.code}: {caught.value}"
    text = str(caught.value)
    assert [part for part in named if str(part) not in text] == [], text
