"""The methods that do more than divide logits by a temperature, and those of other packages."""

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


def _peer(name: str, what: str, parameters: str = "", **said: Any) -> Method:
    package = name.partition(":")[0]
    package = {"sklearn": "scikit-learn"}.get(package, package)
    return Method(
        objective="nll",
        map="peer",
        options={"peer": name},
        summary=f"{what}, by the package {package}",
        source=f"the package {package}",
        parameters=parameters,
        **said,
    )


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
        # Cited relatives.
        "meta-cal": Method(
            objective="nll",
            signal="entropy",
            map="rejecting",
            summary="one temperature; the most uncertain samples get uniform probabilities",
            source="Ma and Blaschko 2021",
            cites=("ma2021metacal",),
            parameters="2",
            good_for="models that may reject uncertain samples",
            paper="Related work",
            title="Meta-Cal",
        ),
        "scaling-binning": Method(
            objective="bce",
            map="binned",
            summary="one temperature, then confidences replaced by the means of ten bins",
            source="Kumar, Liang and Ma 2019",
            cites=("kumar2019verified",),
            parameters="11",
            good_for="a calibration error that can be measured without bias",
            paper="Related work",
            title="scaling-binning",
        ),
        "semantic-groups": Method(
            objective="nll",
            signal="features",
            map="semantic",
            summary="temperatures of groups of samples with similar features, averaged",
            source="Yang, Zhan and Gan 2023",
            cites=("yang2023beyond",),
            parameters="40·d + 40",
            good_for="groups that features separate and logits do not",
            paper="Related work",
            title="semantic-aware groups",
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
        # Other packages.
        "probmetrics:svs": _peer(
            "probmetrics:svs",
            "structured vector scaling",
            "2·C + 1",
            cites=("berta2025structured",),
            good_for="CalArena's best small calibrator; few classes, log-loss",
            title="structured vector scaling",
        ),
        "probmetrics:sms": _peer(
            "probmetrics:sms",
            "structured matrix scaling",
            "C² + C + 1",
            cites=("berta2025structured",),
            good_for="CalArena's best; classes confused with one another",
            title="structured matrix scaling",
        ),
        "probmetrics:ts-mix": _peer(
            "probmetrics:ts-mix",
            "temperature scaling mixed with a little uniform",
            "1",
            cites=("berta2025rethinking", "guo2017calibration"),
            good_for="temperature scaling whose log-loss stays finite",
            title="temperature scaling with a uniform mixture",
        ),
        "sklearn:isotonic": _peer(
            "sklearn:isotonic",
            "isotonic regression, class by class",
            cites=("zadrozny2002transforming", "pedregosa2011scikit"),
            good_for="many samples of few classes",
            title="isotonic regression",
        ),
        "venn-abers:classwise": _peer(
            "venn-abers:classwise",
            "Venn-Abers predictors, class by class",
            cites=("vovk2015large", "manokhin2017multiclass", "petej2024vennabers"),
            good_for="many samples of few classes, with validity in theory",
            title="classwise Venn-Abers prediction",
        ),
        "netcal:histogram": _peer(
            "netcal:histogram",
            "histogram binning, class by class",
            cites=("zadrozny2001obtaining", "kuppers2020multivariate"),
            good_for="the classic; many samples of few classes",
            title="histogram binning",
        ),
    }
)
