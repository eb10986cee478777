"""The methods by name: the rows of the table, their variants, and what other packages offer.

A calibrator is one choice on each of four axes: what the fit minimises (objective), what a
temperature may depend on (signal), how (map), and what keeps the fit honest (discipline).
``METHODS`` is the only registry: the command line, the tests and the docs loop over it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from smallcal.calibrators import plugins
from smallcal.calibrators.method import Method
from smallcal.calibrators.rows import TEMPERATURES
from smallcal.calibrators.rows_others import OTHERS
from smallcal.errors import InputError, SmallcalError, did_you_mean

RandomState = int | np.random.Generator | np.random.RandomState | None

ROWS = {**TEMPERATURES, **OTHERS}


class _Catalogue(Mapping[str, Method]):
    """Methods by name; those of other packages are loaded when asked for, or listed."""

    def __init__(self, rows: Mapping[str, Method]) -> None:
        self._rows = {name: replace(row, name=name) for name, row in rows.items()}

    def __getitem__(self, name: str) -> Method:
        return self._rows[name] if name in self._rows else self._offered(name)

    def _offered(self, name: str) -> Method:
        """Load a method of another package."""
        if name in plugins.offered(plugins.METHODS):
            plugins.load(name, plugins.METHODS)  # a package that cannot be imported is an error
        offered = plugins.methods()[name]
        if not isinstance(offered, Method):
            raise InputError(
                f"the method {name!r} of another package is a {type(offered).__name__}, not a "
                "smallcal.calibrators.method.Method",
                code="plugin-unusable",
            )
        return replace(offered, name=name, title=offered.title or name)

    def __iter__(self) -> Iterator[str]:
        yield from self._rows
        yield from (name for name in plugins.methods() if name not in self._rows)

    def __len__(self) -> int:
        return len(list(iter(self)))


METHODS: Mapping[str, Method] = _Catalogue(ROWS)

#: Other names for a method; artefacts record the true one.
ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "default": "smallcal",
        "adaptive": "smallcal",
        "adaptive-free": "smallcal",
        "uncalibrated": "none",
        "raw": "none",
        "identity": "none",
        "ts": "ts-nll",
        "temperature": "ts-nll",
        "temperature-scaling": "ts-nll",
        "tva": "tva-ts",
        "srts": "srts-bce",
        # In the paper too, this is the same network under another name.
        "lts-feature": "sats-features-nll",
        "vector": "vector-scaling",
        "matrix": "matrix-scaling",
        "sigmoid": "platt",
        "dirichlet": "dirichlet-odir",
        "sklearn:isotonic": "isotonic",
        "netcal:histogram": "histogram",
        "svs": "probmetrics:svs",
        "sms": "probmetrics:sms",
    }
)


#: Methods of smallcal-lab; a test compares them with it.
LAB = frozenset(
    [
        *("margin-k3", "confidence-k3", "probmargin-k3", "confmargin-k3"),
        *("signed-residual-k3", "abs-residual-k3", "features-k3", "features-logits-k3"),
        *("temphead-k3", "random-k3", "shuffled-k3", "oracle-risk", "oracle-correctness"),
        *("linear-risk", "pwlinear-3", "spline-risk", "hts-nll", "hts-bce", "lts-scalar"),
        *("qats-nll", "qats-bce", "smart-bce", "smart-softece", "sats-logit-nll"),
        *("sats-logit-bce", "sats-features-nll", "sats-features-bce", "utemphead", "meta-cal"),
        *("scaling-binning", "semantic-groups", "probmetrics:svs", "probmetrics:sms"),
        *("probmetrics:ts-mix", "venn-abers:classwise"),
    ]
)

#: What the default is, where that depends on what a row holds.
DEFAULT_OF: Mapping[str, str] = MappingProxyType({"score": "spline"})

#: Maps of one number, from the raw score to the richest: what is tried, compared and reported of
#: scores where nobody names methods.
OF_SCORES = ("none", "ts-nll", "platt", "beta", "venn-abers", "spline")


def true_name(name: str, input: str = "logits") -> str:
    """Return the one name that tables and sentences use for a method; others are as they are.

    ``input`` is what a row holds: a score has a default of its own.

    Examples
    --------
    >>> true_name("default"), true_name("ts-nll"), true_name("default", "score")
    ('smallcal', 'ts-nll', 'spline')
    """
    if name == "default" and input in DEFAULT_OF:
        return DEFAULT_OF[input]
    return ALIASES.get(name, name)


def method(name: str, input: str = "logits") -> Method:
    """Return a method by name or alias; ``input`` is what a row holds.

    Examples
    --------
    >>> row = method("srts-bce")
    >>> row.objective, row.signal, row.map, row.options["n_groups"]
    ('bce', 'risk', 'groups', 3)
    """
    found = METHODS.get(true_name(name, input))
    if found is None:
        raise _no_method(name)
    return found


def _no_method(name: str) -> SmallcalError:
    """Return the error for a name that no method has, or one of the lab without the lab."""
    if ALIASES.get(name, name) in LAB:
        return plugins.needs_lab(f"the method {name!r}")
    meant = did_you_mean(name, [*METHODS, *ALIASES, *LAB])
    return InputError(
        f"unknown method {name!r}; ",
        python=meant or "smallcal.methods() lists them",
        shell=meant or "`smallcal methods` lists them",
        code="method-unknown",
    )


def settable_options(name: str) -> dict[str, Any]:
    """Return the options that can be given to a method beside its seed, with their defaults.

    Examples
    --------
    >>> settable_options("srts-bce")["n_groups"], settable_options("none")
    (3, {})
    """
    row = method(name)
    if row.map == "identity":
        return {}
    return {key: value for key, value in row.known_options().items() if key != "seed"}


def named(made: Method) -> Method:
    """Return a method under the name of its row, or of the row it varies, if there is one.

    Examples
    --------
    >>> named(Method(objective="bce", signal="risk", map="groups", options={"n_groups": 5})).name
    'srts-bce[n_groups=5]'
    """
    keys = _keys(made)
    if keys[0] in _ROW_OF:
        return made.as_variant_of(_ROW_OF[keys[0]])
    others = [METHODS[name] for name in plugins.methods()]
    rows = {key: row for row in reversed(others) for key in _keys(row)} | _ROW_OF
    exact = next((row for row in others if keys[0] == _keys(row)[0]), None)
    found = exact or next((rows[key] for key in keys if key in rows), None)
    return made if found is None else made.as_variant_of(found)


def _keys(row: Method) -> tuple[tuple[object, ...], ...]:
    """Return what a row may be found by: all its choices, or the axes with or without extras."""
    axes = (row.objective, row.signal, row.map)
    extras = (*axes, row.keep_predictions)
    return (*extras, *row.options.items()), extras, axes


#: The first row of the table with these choices.
_ROW_OF = {key: METHODS[name] for name in reversed(ROWS) for key in _keys(METHODS[name])}


def resolve_method(
    name: str,
    *,
    input: str = "logits",
    options: Mapping[str, Any] | None = None,
    keep_predictions: bool = False,
    random_state: RandomState = 0,
) -> Method:
    """Return a method by name, with other options; see :class:`smallcal.Calibrator`.

    Examples
    --------
    >>> resolve_method("default").name, resolve_method("default", keep_predictions=True).name
    ('smallcal', 'smallcal[keep_predictions=True]')
    """
    row = method(name, input)
    if not isinstance(keep_predictions, bool | np.bool_):
        raise InputError(f"keep_predictions must be True or False; got {keep_predictions!r}")
    asked = dict(options or {})
    seed = seed_of(asked.pop("random_state", random_state))
    if seed != row.discipline.seed:
        asked["seed"] = seed
    if keep_predictions and "keep_predictions" in row.known_options():
        asked["keep_predictions"] = True
    return _asked_for(row, asked, name) if asked else row


def _asked_for(row: Method, asked: Mapping[str, Any], name: str) -> Method:
    """Return a row with the options that were asked for; ``name`` is the one that was typed."""
    renaming = {"objective", "signal", "keep_predictions"}
    try:
        return variant(row, asked, renamed=bool(asked.keys() & renaming))
    except InputError as error:
        raise error.about(name) from None


def variant(row: Method, options: Mapping[str, Any], *, renamed: bool = True) -> Method:
    """Return a row with other options, ``renamed`` after the row that has its choices."""
    known = row.known_options()
    # The type counts: 3.0 groups are as many as 3, and yet to be refused.
    changed = {
        key: value
        for key, value in options.items()
        if key not in known or type(value) is not type(known[key]) or value != known[key]
    }
    if not changed:
        return row
    if "bounds" in changed:
        changed["bounds"] = _pair(changed["bounds"])
    made = row.with_options(changed)
    return named(made) if renamed else made


def _pair(bounds: Sequence[float]) -> tuple[float, float]:
    try:
        low, high = (float(bound) for bound in bounds)
    except (TypeError, ValueError):
        raise InputError(
            f"bounds must be two temperatures (low, high); got {bounds!r}", code="option-type"
        ) from None
    return low, high


def seed_of(random_state: RandomState) -> int:
    """Return the seed that a ``random_state`` stands for; None draws one."""
    if isinstance(random_state, int | np.integer) and 0 <= int(random_state) < 2**32:
        return int(random_state)
    return _drawn_seed(random_state)


def _drawn_seed(random_state: RandomState) -> int:
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    raise InputError(
        f"random_state must be an integer in 0 .. 2**32 - 1; got {random_state!r}",
        code="option-range",
    )
