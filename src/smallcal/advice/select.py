"""Select a calibrator by cross-validation: the default, unless another is better beyond chance.

The uncalibrated model stays where the default does not gain a standard error over it.

All candidates are fitted and measured on the same held-out samples. Where candidates are named,
they go from simple to rich, and a richer one replaces a simpler one only when it gains more than
one standard error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from smallcal import calibrators
from smallcal.advice.cross_validate import held_out_losses, rarer, repeated_folds, single_split
from smallcal.advice.recommend import DEFAULT, UNSOUND, default_of, errors_needed, recommend
from smallcal.advice.select_walk import (
    MIN_EACH,
    RULES,
    Row,
    chosen_row,
    reason_for,
    reason_for_default,
    walk,
    with_intervals,
)
from smallcal.calibrators.catalogue import OF_SCORES, resolve_method, true_name
from smallcal.calibrators.catalogue import method as method_named
from smallcal.calibrators.method import Method
from smallcal.data.checks import MAX_SEED, whole_number
from smallcal.data.claims import CLAIMS
from smallcal.data.in_notebook import InNotebook
from smallcal.data.plain import plain_fields
from smallcal.data.predictions import Predictions
from smallcal.errors import InputError
from smallcal.io.progress import Advance
from smallcal.io.threads import one_core_each
from smallcal.metrics import METRICS
from smallcal.metrics.table import chosen_metrics
from smallcal.statistics.bootstrap import DEFAULT_BOOT
from smallcal.statistics.interval import require_options

if TYPE_CHECKING:
    from smallcal.calibrators.base import BaseCalibrator

#: The default, and what may take its place: the uncalibrated model, one temperature by either
#: objective, log-temperatures linear in statistics of the logits, and the paper's method. None of
#: the others changes a prediction.
DEFAULT_CANDIDATES = (
    DEFAULT,
    "none",
    "ts-nll",
    "tva-ts",
    "signal-linear",
    "class-linear",
    "srts-bce",
)

#: The same of scores: their default, and the other maps of one number.
SCORE_CANDIDATES = tuple(dict.fromkeys([default_of("score"), *OF_SCORES]))

#: A name, or a name and options.
Recipe = str | tuple[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Candidate:
    """A method that may be chosen: its name, what was changed of it, and its parts."""

    name: str
    options: Mapping[str, Any]
    method: Method


@dataclass(frozen=True)
class Selection(InNotebook):
    """Which candidate to use, and why.

    Attributes
    ----------
    choice : str
        What the table calls it: the method's name, with the options that were changed.
    choice_method : str
        The name in :func:`smallcal.methods`.
    choice_options : dict
    reason : str
        One sentence.
    note : str
        How many predictions the default changes, or would change if they were not kept, and what
        that does to accuracy; empty where it changes none.
    table : tuple of Row
        Every candidate, in the order they were compared.
    n, n_classes : int
    loss, rule : str
    n_repeats, n_folds : int
        As they were: with few wrong predictions there are fewer folds than were asked for.
    level : float
    input : str
    random_state : int
    """

    choice: str
    choice_method: str
    choice_options: Mapping[str, Any]
    reason: str
    table: tuple[Row, ...]
    n: int
    n_classes: int
    loss: str
    rule: str
    n_repeats: int
    n_folds: int
    level: float = 0.95
    input: str = "logits"
    random_state: int = 0
    note: str = ""

    def estimator(self) -> BaseCalibrator:
        """Return the chosen calibrator, unfitted: fit it on all samples."""
        own = {"input": self.input, "random_state": self.random_state}
        known = calibrators.make(self.choice_method).get_params()
        shared = {key: value for key, value in own.items() if key in known}
        return calibrators.make(self.choice_method, **{**shared, **self.choice_options})

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        return {name.removeprefix("choice_"): entry for name, entry in plain_fields(self).items()}


@one_core_each()
def select(
    logits: object,
    labels: object,
    *,
    candidates: Iterable[Recipe] | Mapping[str, Recipe] | None = None,
    loss: str = "top_label_bce",
    rule: str = "sample",
    n_repeats: int = 5,
    n_folds: int = 5,
    level: float = 0.95,
    input: str | None = None,
    features: object = None,
    keep_predictions: bool = False,
    random_state: int = 0,
    advance: Advance = lambda fits: None,
) -> Selection:
    """Choose a calibrator on held-out samples: the default, unless another is better beyond chance.

    The first candidate is where it starts. Another takes its place only when, on samples neither
    was fitted on, its mean gain is larger than chance explains: by one standard error where you
    name candidates, from simple to rich; where you name none, by as many as it takes to be 99 %
    sure that no candidate is taken for better than the default by mistake, and without a higher
    NLL. Then the uncalibrated model stays too, unless the choice gains one standard error over it
    in the loss or NLL.

    Parameters
    ----------
    logits : array-like of shape (n, C)
    labels : array-like of shape (n,)
    candidates : sequence of names or (name, options), or mapping of label to these, optional
        From simple to rich; in doubt the earlier one stays. By default ``DEFAULT_CANDIDATES``, of
        scores ``SCORE_CANDIDATES``, the default first, without those whose fit on all samples is
        flagged as unsound.
    loss : str
        What must get lower: a name in :data:`smallcal.metrics.METRICS`. Of scores, where what is
        claimed is one outcome of two, "top_label_bce" is "nll", and called so.
    rule : {"sample", "repeat", "fold", "holdout"}
        What the standard error is of. "sample": the gains of the samples, averaged over repeats.
        "repeat": the means of the repeats, the paper's selector. "fold": all folds, its variant.
        "holdout": a fifth of the samples is held out once and the lowest loss there wins,
        whatever its error; with ``loss="ece15"`` the paper's nested selector.
    n_repeats, n_folds : int
        How often the samples are cut into folds, and into how many. Repeat r is seeded with
        ``random_state + r``.
    level : float
        Of the intervals.
    input : {"logits", "probabilities", "score"}
    features : array-like of shape (n, d), optional
        For candidates that need them.
    keep_predictions : bool
        If True, candidates that may change predictions keep the model's; see
        :class:`smallcal.Calibrator`.
    random_state : int
        Seeds the folds, those inside the candidates, and the intervals.
    advance : callable, optional
        Told after each fit.

    Returns
    -------
    Selection

    Notes
    -----
    Repeats cut the same samples again: their means differ by the cut alone, so "repeat" and
    "fold" take their standard error for far smaller than it is and accept useless capacity more
    often (``docs/guides/choosing.md`` has the numbers). No rule sees what another calibration split
    would have given, or data that differ from these.

    Examples
    --------
    >>> import smallcal as sc
    >>> val = sc.load_demo("cal")
    >>> found = sc.select(val.logits, val.labels, candidates=["none", "tva-ts"], n_repeats=2)
    >>> found.choice
    'tva-ts'
    >>> cal = found.estimator().fit(val.logits, val.labels)
    >>> bool(cal.temperature_ < 1)
    True
    """
    require_rule(rule, loss=loss, n_repeats=n_repeats, n_folds=n_folds, level=level)
    seed = whole_number(random_state, "random_state", most=MAX_SEED)
    given = Predictions.of(logits, labels, input=input, features=features)
    given.require_fittable()
    preds = replace(given, logits=given.logits.astype(np.float64))
    loss = CLAIMS[preds.kind].loss if loss == CLAIMS["logits"].loss else loss
    measured = chosen_metrics(dict.fromkeys([loss, "nll"]))
    tried, left_out = candidates_for(
        preds, candidates, keep_predictions=keep_predictions, random_state=seed
    )
    folds = (
        single_split(preds, seed=seed)
        if rule == "holdout"
        else repeated_folds(preds, n_repeats=n_repeats, n_folds=n_folds, seed=seed)
    )
    advance(len(left_out) * folds.n_repeats * folds.n_folds)
    methods = {label: candidate.method for label, candidate in tried.items()}
    found = held_out_losses(preds, methods, folds, measured, advance=advance)
    errors = 1.0 if candidates is not None else errors_needed(len(tried) - 1, folds.n_folds)
    enough = rarer(preds) >= MIN_EACH
    guard = "nll" if candidates is None else None
    rows = walk(found, loss=loss, rule=rule, enough=enough, errors=errors, guard=guard)
    rows = with_intervals(rows, found, loss=loss, level=level, random_state=seed)
    advised = recommend(preds, keep_predictions=keep_predictions)
    if candidates is None and not enough:
        reason = advised.sentence[:1].lower() + advised.sentence[1:]
    elif candidates is None and rule != "holdout":
        reason = reason_for_default(rows, loss=loss, errors=errors, kind=preds.kind)
    else:
        reason = reason_for(rows, loss=loss, rule=rule, came=preds.came, kind=preds.kind)
    winner = tried[chosen_row(rows).candidate]
    return Selection(
        choice=chosen_row(rows).candidate,
        choice_method=winner.name,
        choice_options=dict(winner.options),
        reason=reason,
        table=(*rows, *left_out),
        n=preds.n,
        n_classes=preds.n_classes,
        loss=loss,
        rule=rule,
        n_repeats=folds.n_repeats,
        n_folds=folds.n_folds,
        level=level,
        input=input or "logits",
        random_state=seed,
        note=advised.predictions and f"{advised.method}, the default, {advised.predictions}.",
    )


def require_rule(rule: str, *, loss: str, n_repeats: int, n_folds: int, level: float) -> None:
    """Raise unless these options of :func:`select` go together."""
    require_options(DEFAULT_BOOT, level)
    if rule not in RULES:
        raise InputError(
            f"rule must be one of {', '.join(RULES)}; got {rule!r}", code="unknown-choice"
        )
    (metric,) = chosen_metrics([loss])
    if metric.better != "lower":
        lower = ", ".join(name for name, row in METRICS.items() if row.better == "lower")
        raise InputError(
            f"loss must be a metric that is better lower: {lower}; got {loss!r}",
            code="option-range",
        )
    if rule == "sample" and metric.values is None:
        means = [name for name, row in METRICS.items() if row.values and row.better == "lower"]
        raise InputError(
            f"rule 'sample' needs a loss that is a mean over samples ({', '.join(means)}); got "
            f"{loss!r}. To select by it ",
            python="say rule='repeat', 'fold' or 'holdout'",
            shell="say --rule repeat, fold or holdout",
            code="options-conflict",
        )
    whole_number(n_repeats, "n_repeats", least=1)
    whole_number(n_folds, "n_folds", least=2)
    if rule == "repeat" and n_repeats < 2:
        needs = "of at least 2 for its standard error"
        raise InputError(
            "rule 'repeat' needs ",
            python=f"n_repeats {needs}",
            shell=f"--repeats {needs}",
            code="option-missing",
        )


def candidates_for(
    preds: Predictions,
    given: Iterable[Recipe] | Mapping[str, Recipe] | None = None,
    *,
    keep_predictions: bool = False,
    random_state: int = 0,
) -> tuple[dict[str, Candidate], list[Row]]:
    """Return the candidates by label, and rows of those that are left out.

    Left out are only candidates that nobody asked for: those whose fit on all samples is flagged
    as unsound. The default is never left out.

    Examples
    --------
    >>> import smallcal as sc
    >>> val = sc.load_demo("cal")
    >>> tried, left_out = candidates_for(Predictions.of(val.logits[:60], val.labels[:60]))
    >>> list(tried)
    ['smallcal', 'none', 'ts-nll', 'tva-ts']
    >>> left_out[-1].note
    'left out: 60 samples for 10 fitted parameters; ten for each would be 100'
    """
    shared = {"keep_predictions": keep_predictions, "random_state": random_state}
    if given is not None:
        tried = _composed(given, shared, preds.kind)
        if not tried:
            raise InputError("candidates names none; name at least one method", code="empty")
        return tried, []
    every = _composed(usual_candidates(preds.kind), shared, preds.kind)
    left_out = []
    for label in list(every)[1:]:
        fitted = every[label].method.fit(preds, record=False)
        flag = next((name for name in UNSOUND if name in fitted.flags), None)
        if flag is not None:
            del every[label]
            note = f"left out: {fitted.flag_text(flag)}"
            left_out.append(Row(label, fitted.n_parameters, verdict="left out", note=note))
    return every, left_out


def usual_candidates(kind: str) -> tuple[str, ...]:
    """Return the candidates where none are named, for what rows hold.

    Examples
    --------
    >>> usual_candidates("score")[:3]
    ('spline', 'none', 'ts-nll')
    """
    return SCORE_CANDIDATES if kind == "score" else DEFAULT_CANDIDATES


def _composed(
    given: Iterable[Recipe] | Mapping[str, Recipe], shared: Mapping[str, Any], kind: str
) -> dict[str, Candidate]:
    """Return candidates by label; one that is named twice is the same one."""
    if isinstance(given, str):
        raise InputError(
            f"candidates must be a list of names; got the string {given!r}", code="option-type"
        )
    labelled = given.items() if isinstance(given, Mapping) else (("", entry) for entry in given)
    found: dict[str, Candidate] = {}
    for label, recipe in labelled:
        name, options = _parted(recipe)
        name = true_name(name, kind)
        row = method_named(name)
        label = str(label) or _label(row, options)
        if shared["keep_predictions"] and not row.keeps_argmax:
            options = {"keep_predictions": True, **options}
        method = _with_options(name, options, shared["random_state"])
        if "labels" in method.needs:
            raise InputError(
                f"{name} reads the labels of what it predicts; it cannot be chosen",
                code="method-unsuitable",
            )
        found[label] = Candidate(name, options, method)
    return found


def _with_options(name: str, options: Mapping[str, Any], random_state: int) -> Method:
    """Return a method with options of its estimator, which is loaded only where there are any."""
    if not options:  # scikit-learn, which estimators need, takes longer to load than ten fits
        return resolve_method(name, random_state=random_state)
    estimator = calibrators.make(name, **options)
    if "random_state" in estimator.get_params() and "random_state" not in options:
        estimator.set_params(random_state=random_state)
    return estimator._compose()


def _label(row: Method, options: Mapping[str, Any]) -> str:
    """Return the name with whatever differs from the method of that name in brackets."""
    known = row.known_options()
    changed = []
    for key, value in options.items():
        plain = tuple(value) if isinstance(value, list) else value
        if key not in known or known[key] != plain:
            shown = "+".join(map(str, plain)) if isinstance(plain, tuple) else str(plain)
            changed.append(f"{key}={shown}")
    return f"{row.name}[{','.join(changed)}]" if changed else row.name


def _parted(recipe: Recipe) -> tuple[str, dict[str, Any]]:
    parts = (recipe, {}) if isinstance(recipe, str) else recipe
    try:
        name, options = parts
        return str(name), dict(options)
    except (TypeError, ValueError):
        raise InputError(
            f"a candidate must be a method's name or (name, options); got {recipe!r}",
            code="option-type",
        ) from None
