"""How each map is fitted: ``RECIPES`` is the map axis by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

from smallcal.maps import MapFit, ScalarMap, Split, fit_groups, fit_scalar
from smallcal.maps.curves import fit_anchors, fit_linear, fit_spline


@dataclass(frozen=True)
class Recipe:
    """How a map is fitted.

    Attributes
    ----------
    fit : callable
        Takes a :class:`~smallcal.maps.Split` and the options; gives a ``MapFit``.
    options : dict
        Name and default of each option.
    robust : bool
        Whether it can be fitted on any split; the others fall back to one temperature where
        fewer than two predictions are wrong, or right.
    """

    fit: Callable[..., MapFit]
    options: Mapping[str, Any] = field(default_factory=dict)
    robust: bool = False


def _identity(split: Split) -> MapFit:
    return MapFit(ScalarMap(1.0, fitted=False), (split.gaps.n,))


RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        "identity": Recipe(_identity, robust=True),
        "scalar": Recipe(fit_scalar, robust=True),
        "groups": Recipe(fit_groups, {"n_groups": 3}, robust=True),
        "linear": Recipe(fit_linear),
        "positive_linear": Recipe(partial(fit_linear, link="identity")),
        "anchors": Recipe(fit_anchors),
        "spline": Recipe(fit_spline),
    }
)
