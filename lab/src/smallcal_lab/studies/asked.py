"""What a user may ask of a study in place of its own: metrics, options of methods, settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from smallcal import calibrators
from smallcal.calibrators.catalogue import settable_options
from smallcal.data.checks import whole_number
from smallcal.errors import InputError, choose
from smallcal.metrics import METRICS
from smallcal.metrics.table import chosen_metrics

if TYPE_CHECKING:
    from smallcal_lab.studies.study import Entry, Study

#: Settings that say how a probe and a table belong together, or that have an option of their own.
_FIXED = ("control", "metrics")
#: Metrics that a table cannot do without: they are measured whatever is asked for.
_NEEDED = {"signal-to-noise": ("ece15", "top_label_bce")}
#: Tables that rank by the first metric, the lowest value being the best.
_RANKED = ("selector", "nested-k", "oracle-k", "heterogeneity")


def other_metrics(study: Study, names: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a study that measures these metrics instead.

    Raises
    ------
    InputError
        If a metric is unknown, or the study measures what no metric is.
    """
    own = study.metrics or study.settings.get("metrics", ())
    if not own or not set(own) <= set(METRICS):
        raise InputError(
            f"study {study.name!r} measures its own quantities: its metrics cannot be replaced"
        )
    chosen_metrics(names)
    if METRICS[names[0]].better != "lower" and set(_RANKED) & set(study.tables):
        raise InputError(
            f"study {study.name!r} ranks by the lowest value of its first metric, and "
            f"{names[0]} is better when higher: put another first"
        )
    needed = [name for table in study.tables for name in _NEEDED.get(table, ())]
    metrics = tuple(dict.fromkeys([*names, *needed]))
    if study.metrics:
        return {"metrics": metrics}
    return {"settings": {**study.settings, "metrics": metrics}}


def offered(study: Study) -> dict[str, Any]:
    """Return every name that can be set, with a value that shows its type.

    Examples
    --------
    >>> from smallcal_lab.studies.catalogue import study_named
    >>> offered(study_named("selector"))["folds"], offered(study_named("clean"))["n_groups"]
    (5, 3)
    """
    found = _own(study)
    for entry in study.entries:
        for name, value in _options_of(entry.name).items():
            if found.get(name) is None:
                found[name] = value
    return found


def _own(study: Study) -> dict[str, Any]:
    return {name: value for name, value in study.settings.items() if name not in _FIXED}


def other_settings(study: Study, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a study with some settings of its own, or of its methods, changed.

    An option goes to every method that takes it, except where the study gives an entry one of its
    own: what a study varies stays varied.

    Raises
    ------
    InputError
        If nobody takes a name, or a value cannot be one of it.
    """
    entries, settings, given = study.entries, dict(study.settings), dict(study.given)
    for name, value in values.items():
        if name in _own(study):
            settings[name] = _checked(study, name, value)
            given[name] = {"value": value, "of": []}
            continue
        takers = [entry.label for entry in entries if _takes(entry, name)]
        if not takers:
            raise _refused(study, name)
        entries = tuple(
            _with_option(entry, name, value) if entry.label in takers else entry
            for entry in entries
        )
        given[name] = {"value": value, "of": takers}
    return {"entries": entries, "settings": settings, "given": given}


def _options_of(method: str) -> dict[str, Any]:
    """Return the options that an entry of this method can have, with their defaults."""
    params = calibrators.make(method).get_params()
    known = settable_options(method).items()
    return {name: value for name, value in known if name in params or "options" in params}


def _takes(entry: Entry, name: str) -> bool:
    return name not in entry.options and name in _options_of(entry.name)


def _refused(study: Study, name: str) -> InputError:
    """Say why nobody takes a setting, and what there is."""
    if own := [entry.label for entry in study.entries if name in entry.options]:
        return InputError.with_options(
            f"study {study.name!r} varies {name} itself ({', '.join(own)}); choose among "
            "them with --methods"
        )
    known = offered(study)
    advice = choose(name, sorted(known)) if known else "it has no settings"
    return InputError(
        f"{name} is not a setting of study {study.name!r} or of its methods; {advice}"
    )


def _with_option(entry: Entry, name: str, value: Any) -> Entry:
    options = {**entry.options, name: value}
    try:
        calibrators.make(entry.name, **options)._compose()
    except InputError as error:
        raise error.about(f"{name}={value} of {entry.label}") from None
    return replace(entry, options=options)


def _checked(study: Study, name: str, value: Any) -> Any:
    """Return the value of a study's own setting, if it can be one."""
    if isinstance(study.settings[name], tuple):
        value = tuple(value) if isinstance(value, list | tuple) else (value,)
    rule = _RULES.get(name)
    if rule is not None:
        rule(study, name, value)
    return value


def _shares(study: Study, name: str, value: Sequence[Any]) -> None:
    for one in value:
        number = isinstance(one, int | float) and not isinstance(one, bool)
        if not number or not math.isfinite(one) or not 0 < one <= 1:
            raise InputError(f"{name} must be shares above 0 and up to 1; got {one!r}")


def _whole(study: Study, name: str, value: Any, *, least: int) -> None:
    whole_number(value, name, least=least)


def _labels(study: Study, name: str, value: Any) -> None:
    known, own = [entry.label for entry in study.entries], study.settings[name]
    stays = own if isinstance(own, tuple) else (own,)  # also one whose method was not asked for
    for one in value if isinstance(value, tuple) else (value,):
        if one not in known and one not in stays:
            raise InputError(f"{name} must name methods of the study; {choose(str(one), known)}")


def _metric(study: Study, name: str, value: Any) -> None:
    chosen_metrics([value], lack=f"{name} must be a metric; unknown")


def _words(study: Study, name: str, value: Sequence[Any], *, known: Sequence[str]) -> None:
    for one in value:
        if one not in known:
            raise InputError(f"{name} must be among {', '.join(known)}; got {one!r}")


#: What values of a study's own settings must be.
_RULES: Mapping[str, Callable[[Any, str, Any], None]] = {
    "thresholds": _shares,
    "coverages": _shares,
    "repeats": partial(_whole, least=1),
    "folds": partial(_whole, least=2),
    "n_null": partial(_whole, least=1),
    "bins": partial(_whole, least=2),
    "loss": _metric,
    "rules": partial(_words, known=("repeat", "fold", "sample")),
    **dict.fromkeys(("ours", "rivals", "gain_of", "raw", "fixed"), _labels),
}


def given_text(given: Mapping[str, Mapping[str, Any]]) -> str:
    """Say what was set, and for which methods; nothing where nothing was.

    Examples
    --------
    >>> given_text({"n_groups": {"value": 5, "of": ["srts-bce", "margin-k3"]}})
    'Set: n_groups=5 (srts-bce, margin-k3).'
    """
    if not given:
        return ""
    parts = []
    for name, what in given.items():
        value = what["value"]
        text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        parts.append(f"{name}={text}" + (f" ({', '.join(what['of'])})" if what["of"] else ""))
    return f"Set: {'; '.join(parts)}."
