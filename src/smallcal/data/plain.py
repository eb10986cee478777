"""Results as plain data that JSON can hold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any


def plain(value: Any) -> Any:
    """Return what JSON can hold: records as dicts, arrays as lists, what is not finite as None.

    Examples
    --------
    >>> plain({"a": (1.0, float("nan"))})
    {'a': [1.0, None]}
    """
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if is_dataclass(value):
        return plain_fields(value)
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def plain_fields(record: Any, *, without: str | None = None) -> dict[str, Any]:
    """Return the fields of a dataclass, but for one, as plain data by name, in their order."""
    names = [field.name for field in fields(record) if field.name != without]
    return {name: plain(getattr(record, name)) for name in names}
