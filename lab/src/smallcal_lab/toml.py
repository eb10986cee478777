"""Values as TOML writes them, and TOML that is read."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

if sys.version_info >= (3, 11):
    from tomllib import loads
else:
    from tomli import loads

__all__ = ["loads", "toml_value"]


def toml_value(value: Any) -> str:
    r"""Return a value as TOML writes it.

    Examples
    --------
    >>> print(toml_value({"img_size": 32, "name": 'a "b"', "scale": (0.5, 1.0), "deep": True}))
    { img_size = 32, name = "a \"b\"", scale = [0.5, 1.0], deep = true }
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_name(name)} = {toml_value(one)}" for name, one in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    return repr(value)


def _name(name: str) -> str:
    bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if bare else toml_value(name)
