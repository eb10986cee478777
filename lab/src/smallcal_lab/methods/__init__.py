"""Methods that exist to be compared: curves, networks, controls, and those of other packages.

Importing it tells smallcal of every signal and map here. ``METHODS`` is the entry point: what
``rows.toml`` says of each.
"""

import sys
from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType

from smallcal.calibrators.method import Method
from smallcal_lab.methods import curves, heads, partitions, peers, signals

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["METHODS", "curves", "heads", "partitions", "peers", "signals"]

_ROWS = tomllib.loads(files(__name__).joinpath("rows.toml").read_text(encoding="utf-8"))
METHODS: Mapping[str, Method] = MappingProxyType(
    {name: Method(**{**row, "cites": tuple(row["cites"])}) for name, row in _ROWS.items()}
)
