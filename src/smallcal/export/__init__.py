"""A fitted calibrator where smallcal is not: torch, ONNX, plain Python, SQL.

Names are loaded when first used, since each needs a package of its own.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smallcal.export.torch_module import to_torch as to_torch

_HOME = {
    "to_torch": "torch_module",
}

__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'smallcal.export' has no attribute {name!r}")
    value = getattr(import_module(f"smallcal.export.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
