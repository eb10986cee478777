"""Values that need no conversion: defaults, and text where text is wanted.

typer converts by pydantic, which takes as long to load as NumPy and is needed for numbers alone.
Whatever else a value is goes typer's way, as does everything where a release of typer has other
insides: then a command begins later, and does the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any


def as_typed(parameters: list[Any]) -> list[Any]:
    """Return what typer made of a verb's parameters, converting no more than is needed."""
    for one in parameters:
        if not isinstance(one.process_value, partial):
            one.process_value = partial(_processed, one, one.process_value)
    return parameters


def _processed(
    parameter: Any, converted: Callable[[Any, Any], Any], context: Any, value: Any
) -> Any:
    """Return a value as the verb wants it: as it is, or converted."""
    missing = value is None and parameter.required
    if missing or not (_is_default(parameter, context) or _is_text(parameter, value)):
        return converted(context, value)
    return value if parameter.callback is None else parameter.callback(context, parameter, value)


def _is_default(parameter: Any, context: Any) -> bool:
    source = context.get_parameter_source(parameter.name)
    return getattr(source, "name", "") == "DEFAULT"


def _is_text(parameter: Any, value: object) -> bool:
    wanted = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    return wanted is str and isinstance(value, str)
