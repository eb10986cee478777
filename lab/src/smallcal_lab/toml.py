"""TOML: files that are read, and values as they are written."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from smallcal.errors import FileError, missing_file

if sys.version_info >= (3, 11):
    from tomllib import loads
else:
    from tomli import loads

__all__ = ["loads", "read_toml", "toml_value", "value_of"]


def read_toml(file: Path, what: str) -> dict[str, Any]:
    """Return the content of a TOML file; ``what`` it should be is said where it cannot be read."""
    try:
        return loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileError(f"{file} is not there{missing_file(file)}") from None
    except (OSError, ValueError) as error:  # of the system, of UTF-8 or of TOML
        why = getattr(error, "strerror", None) or error
        raise FileError(f"{file} cannot be read as {what}: {why}") from None


def value_of(text: str) -> Any:
    """Return what a text is as a value of TOML; one that is none stands for itself."""
    try:
        found = loads(f"value = {text}")
    except ValueError:
        return text
    return found["value"] if len(found) == 1 else text


def toml_value(value: Any) -> str:
    r"""Return a text, a number, a list or a table as TOML writes it.

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
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r} is no text, number, list or table")
    return repr(value)


def _name(name: str) -> str:
    bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if bare else toml_value(name)
