"""Every named method as one row of parts.

A calibrator is one choice on each of four axes: what the fit minimises (objective), what a
temperature may depend on (signal), how (map), and what keeps the fit honest (discipline).
``METHODS`` is the only registry: the command line, the tests and the docs loop over it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from smallcal.calibrators.method import Method
from smallcal.errors import InputError

_PAPER = "the SRTS paper"
_GUO = "Guo et al. 2017"


def _scalar(objective: str, summary: str, source: str = _PAPER) -> Method:
    return Method(objective=objective, summary=summary, source=source, parameters="1")


def _routed(
    summary: str,
    *,
    signal: str = "risk",
    objective: str = "bce",
    parameters: str = "3",
    **options: object,
) -> Method:
    return Method(
        objective=objective,
        signal=signal,
        map="groups",
        options=options,
        summary=summary,
        source=_PAPER,
        parameters=parameters,
    )


def _shaped(
    shape: str,
    summary: str,
    *,
    signal: str = "risk",
    objective: str = "bce",
    parameters: str = "2",
    source: str = _PAPER,
) -> Method:
    return Method(
        objective=objective,
        signal=signal,
        map=shape,
        summary=summary,
        source=source,
        parameters=parameters,
    )


def _head(signal: str, objective: str, protocol: str, what: str, parameters: str = "") -> Method:
    how = {
        "in-sample": "48 settings, chosen in-sample",
        "held-out": "36 settings, chosen on a held-out fifth",
        "fixed": "128 units",
    }
    return Method(
        objective=objective,
        signal=signal,
        map="head",
        options={"protocol": protocol},
        summary=f"temperature by {what}, {how[protocol]} (needs torch to fit)",
        source=_PAPER,
        parameters=parameters,
    )


def _classwise(kind: str, summary: str, source: str, parameters: str) -> Method:
    return Method(objective="nll", map=kind, summary=summary, source=source, parameters=parameters)


def _peer(name: str, what: str, parameters: str = "") -> Method:
    package = name.partition(":")[0]
    package = {"sklearn": "scikit-learn"}.get(package, package)
    return Method(
        objective="nll",
        map="peer",
        options={"peer": name},
        summary=f"{what}, by the package {package}",
        source=f"the package {package}",
        parameters=parameters,
    )


_HTS = "Balanya, Maroñas and Ramos 2022"
_KULL = "Kull et al. 2019"
_ZHANG = "Zhang, Kailkhura and Han 2020"
_SMART = "Guo et al. 2026"
_QATS = "Chakraborty et al. 2026"

_ROWS: dict[str, Method] = {
    "none": Method(
        objective="none", map="identity", summary="leave the model alone", parameters="0"
    ),
    # One temperature for all.
    "ts-nll": _scalar("nll", "temperature scaling, by log-likelihood", _GUO),
    "tva-ts": _scalar(
        "bce", "temperature scaling, by top-label BCE (TvA)", "Le Coz, Herbin and Adjed 2024"
    ),
    "ts-brier": _scalar("brier", "temperature scaling, by top-label Brier"),
    "ts-softece": _scalar("softece", "temperature scaling, by soft ECE"),
    # Groups of similar risk.
    "srts-bce": _routed(
        "three temperatures by risk of being wrong: the paper's SRTS-BCE", parameters="10"
    ),
    "srts-nll": _routed("SRTS fitted by log-likelihood", objective="nll", parameters="10"),
    "srts-brier": _routed("SRTS by top-label Brier", objective="brier", parameters="10"),
    "srts-softece": _routed("SRTS fitted by soft ECE", objective="softece", parameters="10"),
    "srts-mixed": _routed("SRTS by NLL + BCE", objective="mixed(1)", parameters="10"),
    "srts-shrunk": _routed(
        "SRTS whose temperatures are drawn towards one another: safe with few samples",
        prior_scale=0.1,
        parameters="10",
    ),
    "signal-linear": Method(
        objective="bce",
        signal="statistics",
        map="regressed",
        summary="log-temperature linear in the six statistics, under a normal prior",
        source="this project",
        parameters="7",
    ),
    "class-linear": Method(
        objective="bce",
        signal="statistics_class",
        map="class_regressed",
        summary="signal-linear, with an effect of the predicted class under a prior of its own",
        source="this project",
        parameters="C + 7",
    ),
    # Groups by something else.
    "margin-k3": _routed("three temperatures by logit margin, no router", signal="logit_margin"),
    "confidence-k3": _routed(
        "three temperatures by raw confidence, no router", signal="confidence"
    ),
    "probmargin-k3": _routed(
        "three temperatures by probability margin, no router", signal="prob_margin"
    ),
    "confmargin-k3": _routed(
        "SRTS whose risk sees confidence and margin only",
        statistics=("confidence", "logit_margin"),
        parameters="6",
    ),
    "signed-residual-k3": _routed(
        "three temperatures by expected residual, right or not minus confidence",
        signal="signed_residual",
        parameters="10",
    ),
    "abs-residual-k3": _routed(
        "three temperatures by the expected size of the residual",
        signal="absolute_residual",
        parameters="10",
    ),
    "features-k3": _routed(
        "SRTS whose risk sees features instead of logit statistics",
        signal="feature_risk",
        parameters="d + 4",
    ),
    "features-logits-k3": _routed(
        "SRTS whose risk sees features and logits",
        signal="feature_logit_risk",
        parameters="d + C + 4",
    ),
    "random-k3": _routed("control: three temperatures for random groups", signal="random"),
    "shuffled-k3": _routed(
        "control: SRTS with the risk scores shuffled between samples",
        signal="shuffled",
        parameters="10",
    ),
    "oracle-risk": _routed(
        "diagnostic that reads the labels: three groups by 1 - probability of the true class",
        signal="oracle_risk",
    ),
    "oracle-correctness": _routed(
        "diagnostic that reads the labels: right and wrong predictions apart",
        signal="oracle_correctness",
        parameters="2",
    ),
    # A curve of the risk, or of one statistic.
    "linear-risk": _shaped(
        "linear", "temperature rises or falls with risk along a line", parameters="9"
    ),
    "pwlinear-3": _shaped(
        "anchors", "temperature by risk, straight between three anchors", parameters="10"
    ),
    "spline-risk": _shaped(
        "spline", "temperature by risk along a natural cubic spline", parameters="10"
    ),
    "hts-nll": _shaped(
        "linear",
        "temperature by log-entropy, by log-likelihood",
        signal="log_entropy",
        objective="nll",
        source=_HTS,
    ),
    "hts-bce": _shaped(
        "linear",
        "temperature by log-entropy, by top-label BCE",
        signal="log_entropy",
        source=_HTS,
    ),
    "qats-nll": _shaped(
        "positive_linear",
        "temperature by confidence quantile, by log-likelihood",
        signal="confidence_rank",
        objective="nll",
        source=_QATS,
    ),
    "qats-bce": _shaped(
        "positive_linear",
        "temperature by confidence quantile, by top-label BCE",
        signal="confidence_rank",
        source=_QATS,
    ),
    "smart-bce": _shaped(
        "smart",
        "temperature by a 16-unit network of the logit margin, by top-label BCE",
        signal="standardised_margin",
        parameters="49",
        source=_SMART,
    ),
    "smart-softece": _shaped(
        "smart",
        "temperature by a 16-unit network of the logit margin, by soft ECE",
        signal="standardised_margin",
        objective="softece",
        parameters="49",
        source=_SMART,
    ),
    # Networks without restraint.
    "sats-logit-nll": _head("logits", "nll", "in-sample", "a network of all logits"),
    "sats-logit-bce": _head("logits", "bce", "held-out", "a network of all logits"),
    "sats-features-nll": _head("features", "nll", "in-sample", "a network of features"),
    "sats-features-bce": _head("features", "bce", "held-out", "a network of features"),
    "utemphead": _head(
        "features", "nll", "fixed", "a network of features", parameters="128·d + 257"
    ),
    # Not temperatures.
    "vector-scaling": _classwise(
        "vector", "a scale for each class, drawn towards one temperature", _GUO, "C"
    ),
    "dirichlet-odir": _classwise(
        "dirichlet", "a matrix on log-probabilities, off-diagonal penalised", _KULL, "C² + C"
    ),
    "matrix-scaling": _classwise("matrix", "a matrix on logits, unpenalised", _GUO, "C² + C"),
    "ets": _classwise("mixture", "a mixture of scaled, raw and uniform probabilities", _ZHANG, "3"),
    # Cited relatives.
    "meta-cal": Method(
        objective="nll",
        signal="entropy",
        map="rejecting",
        summary="one temperature; the most uncertain get uniform probabilities",
        source="Ma and Blaschko 2021",
        parameters="2",
    ),
    "scaling-binning": Method(
        objective="bce",
        map="binned",
        summary="one temperature, its confidences rounded to the means of ten bins",
        source="Kumar, Liang and Ma 2019",
        parameters="11",
    ),
    "semantic-groups": Method(
        objective="nll",
        signal="features",
        map="semantic",
        summary="temperatures for groups of samples with similar features, averaged",
        source="Yang, Zhan and Gan 2023",
        parameters="40·d + 40",
    ),
    # Other packages.
    "probmetrics:svs": _peer("probmetrics:svs", "structured vector scaling", "2·C + 1"),
    "probmetrics:sms": _peer("probmetrics:sms", "structured matrix scaling", "C² + C + 1"),
    "probmetrics:ts-mix": _peer(
        "probmetrics:ts-mix", "temperature scaling mixed with a little uniform", "1"
    ),
    "sklearn:isotonic": _peer("sklearn:isotonic", "isotonic regression, class by class"),
    "venn-abers": _peer("venn-abers", "Venn-Abers predictors, class by class"),
    "netcal:histogram": _peer("netcal:histogram", "histogram binning, class by class"),
}


def _tailed(name: str) -> Method:
    """Return a row with a temperature of their own for the classes not predicted."""
    row = _ROWS[name]
    return replace(
        row,
        tail="nll",
        summary=f"{name}, the other classes with a temperature of their own",
        source="this project",
        parameters="C + 8" if row.parameters == "C + 7" else str(int(row.parameters) + 1),
    )


def _gated(name: str) -> Method:
    """Return a tailed row that leaves the model alone where the split does not speak against it."""
    return replace(
        _tailed(name),
        gate="evidence",
        summary=f"{name}+tail, or the raw model where there is too little evidence against it",
    )


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        **_ROWS,
        **{
            f"{name}+tail": _tailed(name)
            for name in ("tva-ts", "srts-bce", "srts-shrunk", "signal-linear", "class-linear")
        },
        **{f"{name}+tail+gate": _gated(name) for name in ("signal-linear", "class-linear")},
    }
)

#: Other names for a method; artefacts record the true one.
ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "default": "class-linear+tail+gate",
        # In the paper too, this is the same network under another name.
        "lts-feature": "sats-features-nll",
    }
)


def method(name: str) -> Method:
    """Return a method by name or alias.

    Examples
    --------
    >>> row = method("srts-bce")
    >>> row.objective, row.signal, row.map, row.options["n_groups"]
    ('bce', 'risk', 'groups', 3)
    """
    true_name = ALIASES.get(name, name)
    if true_name not in METHODS:
        choices = ", ".join([*METHODS, *ALIASES])
        raise InputError(f"unknown method {name!r}; choose from {choices}")
    return METHODS[true_name]


def name_of(wanted: Method) -> str:
    """Return the name of the row with these parts, options that differ in brackets.

    Examples
    --------
    >>> name_of(method("srts-bce").with_options({"n_groups": 5}))
    'srts-bce[n_groups=5]'
    """
    parts = (wanted.objective, wanted.signal, wanted.map)
    found = []
    for name, row in METHODS.items():
        if (row.objective, row.signal, row.map) == parts:
            changed = [
                f"{key}={_shown(value)}"
                for key, value in wanted.options.items()
                if value != row.options[key]
            ]
            changed += [f"tail={wanted.tail}"] if wanted.tail != row.tail else []
            changed += [f"gate={wanted.gate}"] if wanted.gate != row.gate else []
            found.append((len(changed), name, changed))
    if not found:
        return "custom"
    _, name, changed = min(found, key=lambda entry: entry[0])
    return f"{name}[{','.join(changed)}]" if changed else name


def _shown(value: object) -> str:
    return "+".join(map(str, value)) if isinstance(value, tuple) else str(value)
