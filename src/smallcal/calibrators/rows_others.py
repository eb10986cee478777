"""The methods that do more than divide logits by a temperature."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from smallcal.calibrators.discipline import Discipline
from smallcal.calibrators.method import Method

_GUO = "Guo et al. 2017"
_KULL = "Kull et al. 2019"
_OURS = "this project"
_PLATT = "Platt 1999"
_BETA = "Kull, Silva Filho and Flach 2017"
_ZHANG = "Zhang, Kailkhura and Han 2020"

#: What to cite for a source: keys of ``data/references.bib``.
_CITES = {
    _GUO: ("guo2017calibration",),
    _KULL: ("kull2019dirichlet",),
    _PLATT: ("platt1999probabilistic",),
    _BETA: ("kull2017beta",),
    _ZHANG: ("zhang2020mixnmatch",),
}


def _classwise(kind: str, summary: str, source: str, parameters: str, **said: Any) -> Method:
    said |= {"map": kind, "source": source, "cites": _CITES[source], "parameters": parameters}
    return Method(objective="nll", summary=summary, **said)


def _of_score(basis: str, summary: str, source: str, parameters: str, **said: Any) -> Method:
    return Method(
        objective="nll",
        map="score_curve",
        options={"basis": basis},
        summary=f"{summary}; prior scales fitted by evidence",
        source=source,
        parameters=parameters,
        **({"cites": _CITES.get(source, ())} | said),
    )


OTHERS: Mapping[str, Method] = MappingProxyType(
    {
        "smallcal": Method(
            objective="nll",
            map="multinomial",
            # The base temperature is bounded relative to the spread of the logits.
            discipline=Discipline(bounds=(1e-12, 1e12)),
            summary="multinomial regression on log-probabilities, with priors set by the data",
            source=_OURS,
            cites=("smallcal", "liang2026srts"),
            parameters="C + 40",
            good_for="every kind of model, from 100 samples on (no-harm.md)",
            title="smallcal (default)",
        ),
        # Not temperatures.
        "vector-scaling": _classwise(
            "vector",
            "a scale for each class, with shrinkage towards one temperature",
            _GUO,
            "C",
            good_for="classes that are miscalibrated in different ways, many samples",
            paper="App. Classical baselines",
            title="vector scaling",
        ),
        "dirichlet-odir": _classwise(
            "dirichlet",
            "a matrix on log-probabilities, with a penalty off the diagonal",
            _KULL,
            "C² + C",
            good_for="models that confuse classes systematically, many samples",
            paper="App. Classical baselines",
            title="Dirichlet calibration",
        ),
        "matrix-scaling": _classwise(
            "matrix",
            "a matrix on logits, without a penalty",
            _GUO,
            "C² + C",
            good_for="shows how C² parameters overfit",
            title="matrix scaling",
        ),
        "ets": _classwise(
            "mixture",
            "a mixture of scaled, raw and uniform probabilities",
            _ZHANG,
            "3",
            good_for="one temperature with a lower bound on every class; safe for log-loss",
            paper="Related work",
            title="ensemble temperature scaling",
        ),
        # Of one number, or two classes.
        "spline": _of_score(
            "spline",
            "a monotone curve of one score",
            _OURS,
            "25",
            cites=("smallcal", "platt1999probabilistic", "kull2017beta"),
            good_for="scores and two classes, 30 labels or 100,000; the default for scores "
            "(score-maps.md)",
            title="monotone spline",
        ),
        "platt": _of_score(
            "line",
            "a logistic curve of one score: slope and intercept",
            _PLATT,
            "2",
            good_for="scores with very few labels",
            title="Platt scaling",
        ),
        "beta": _of_score(
            "beta",
            "two slopes and an intercept of one probability",
            _BETA,
            "3",
            good_for="probabilities that are wrong at one end",
            title="beta calibration",
        ),
        "ts-shrunk": _of_score(
            "slope",
            "one temperature for two classes",
            _OURS,
            "1",
            cites=("smallcal", "guo2017calibration"),
            good_for="two classes without a class bias",
            title="shrunken temperature scaling",
        ),
        "venn-abers": Method(
            objective="nll",
            map="venn_abers",
            summary="a pair of isotonic fits of one score, with an interval of the probability",
            source="Vovk, Petej and Fedorova 2015",
            good_for="scores, where each probability needs an interval with a guarantee",
            title="Venn-Abers prediction",
            cites=("vovk2015large",),
        ),
        # Each class against the rest.
        "isotonic": Method(
            objective="nll",
            map="isotonic",
            summary="isotonic regression, class by class, by scikit-learn",
            source="Zadrozny and Elkan 2002",
            cites=("zadrozny2002transforming", "pedregosa2011scikit"),
            good_for="many samples of few classes",
            title="isotonic regression",
        ),
        "histogram": Method(
            objective="nll",
            map="histogram",
            summary="histogram binning, class by class",
            source="Zadrozny and Elkan 2001",
            cites=("zadrozny2001obtaining",),
            good_for="the classic; many samples of few classes",
            title="histogram binning",
        ),
    }
)
