"""Export a fitted calibrator to where smallcal is not installed: torch, ONNX, Python, SQL."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from smallcal.deploy.export.onnx import to_onnx
from smallcal.deploy.export.onnx_append import append_to_onnx
from smallcal.deploy.export.origin import Origin, origin_of
from smallcal.deploy.export.python import to_python
from smallcal.deploy.export.sql import to_sql
from smallcal.errors import FileError

if TYPE_CHECKING:
    from smallcal.deploy.export.torch import to_torch as to_torch

__all__ = [
    "EXPORTERS",
    "Exporter",
    "Origin",
    "append_to_onnx",
    "exporter_for",
    "origin_of",
    "to_onnx",
    "to_python",
    "to_sql",
    "to_torch",
]


def __getattr__(name: str) -> Any:
    # The class of a torch module needs torch when it is made, so it is loaded when asked for.
    if name != "to_torch":
        raise AttributeError(f"module 'smallcal.deploy.export' has no attribute {name!r}")
    from smallcal.deploy.export.torch import to_torch

    globals()[name] = to_torch
    return to_torch


@dataclass(frozen=True)
class Exporter:
    """A kind of file that a calibrator can become.

    Attributes
    ----------
    suffix : str
        Of its files.
    make : callable
        Turns a fitted calibrator into the file's text or bytes.
    is_text : bool
        Whether people can read it.
    """

    suffix: str
    make: Callable[..., str | bytes]
    is_text: bool


#: By name.
EXPORTERS: Mapping[str, Exporter] = MappingProxyType(
    {
        "onnx": Exporter(".onnx", to_onnx, is_text=False),
        "python": Exporter(".py", to_python, is_text=True),
        "sql": Exporter(".sql", to_sql, is_text=True),
    }
)


def exporter_for(path: str | os.PathLike[str]) -> str:
    """Return the name of the exporter that writes files of this suffix.

    Examples
    --------
    >>> exporter_for("cal.onnx"), exporter_for("cal.py")
    ('onnx', 'python')
    """
    names = {exporter.suffix: name for name, exporter in EXPORTERS.items()}
    suffix = Path(path).suffix.lower()
    if suffix not in names:
        known = ", ".join(names)
        raise FileError(
            f"cannot tell what to write to {path}: the suffix must be one of {known}",
            code="file-type",
        )
    return names[suffix]
