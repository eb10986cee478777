"""How each map is fitted: ``RECIPES`` is the map axis by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

from smallcal.calibrators.maps import MapFit, ScalarMap, Split, fit_groups, fit_scalar
from smallcal.calibrators.maps.affine import (
    DIRICHLET_PENALTIES,
    VECTOR_PENALTIES,
    fit_dirichlet,
    fit_matrix,
    fit_vector,
)
from smallcal.calibrators.maps.binning import fit_binning
from smallcal.calibrators.maps.curves import fit_anchors, fit_linear, fit_spline
from smallcal.calibrators.maps.heads import fit_head
from smallcal.calibrators.maps.mixture import fit_mixture
from smallcal.calibrators.maps.network import fit_smart
from smallcal.calibrators.maps.peers import fit_peer
from smallcal.calibrators.maps.regressed import fit_class_regressed, fit_regressed
from smallcal.calibrators.maps.rejecting import fit_rejecting
from smallcal.calibrators.maps.semantic import fit_semantic


@dataclass(frozen=True)
class Recipe:
    """How a map is fitted.

    Attributes
    ----------
    fit : callable
        Takes a :class:`~smallcal.calibrators.maps.Split` and the options; gives a ``MapFit``.
    options : dict
        Name and default of each option.
    tailed : bool
        Whether the classes not predicted may be given a temperature of their own.
    """

    fit: Callable[..., MapFit]
    options: Mapping[str, Any] = field(default_factory=dict)
    tailed: bool = False


def _identity(split: Split) -> MapFit:
    return MapFit(ScalarMap(1.0, fitted=False), (split.gaps.n,))


RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        "identity": Recipe(_identity),
        "scalar": Recipe(fit_scalar, tailed=True),
        "groups": Recipe(fit_groups, {"n_groups": 3, "prior_scale": None}, tailed=True),
        "linear": Recipe(fit_linear, tailed=True),
        "positive_linear": Recipe(partial(fit_linear, link="identity"), tailed=True),
        "anchors": Recipe(fit_anchors, tailed=True),
        "spline": Recipe(fit_spline, tailed=True),
        "smart": Recipe(fit_smart, {"hidden": 16, "epochs": 2000, "learning_rate": 5e-3}),
        "head": Recipe(fit_head, {"protocol": "in-sample", "epochs": 500, "patience": 20}),
        "regressed": Recipe(fit_regressed, {"prior_scale": 0.05, "prior": "spread"}, tailed=True),
        "class_regressed": Recipe(
            fit_class_regressed,
            {"prior_scale": 0.05, "prior": "spread", "class_scale": 0.1},
            tailed=True,
        ),
        "vector": Recipe(fit_vector, {"penalties": VECTOR_PENALTIES}),
        "matrix": Recipe(fit_matrix),
        "dirichlet": Recipe(
            fit_dirichlet, {"lambdas": DIRICHLET_PENALTIES, "mus": DIRICHLET_PENALTIES}
        ),
        "mixture": Recipe(fit_mixture),
        "rejecting": Recipe(fit_rejecting, {"constraint": "miscoverage", "level": None}),
        "binned": Recipe(fit_binning, {"n_bins": 10}),
        "semantic": Recipe(fit_semantic, {"n_partitions": 20, "n_groups": 2, "penalty": 0.1}),
        "peer": Recipe(fit_peer, {"peer": "sklearn:isotonic"}),
    }
)
