"""``smallcal compare``: fit several methods on one split, measure them on another."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from smallcal.advice.calibrated_split import as_predicted
from smallcal.advice.recommend import ON_TEST, Recommendation, default_of
from smallcal.calibrators.catalogue import METHODS, OF_SCORES, resolve_method, true_name
from smallcal.calibrators.discipline import FLAGS
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.method import fit_arrays, warn_of_flags
from smallcal.cli import choices, inputs, options, terminal
from smallcal.cli.describe import notes_of
from smallcal.cli.options import option
from smallcal.cli.resampled import resamples, resampling
from smallcal.data.predictions import FloatArray
from smallcal.errors import InputError, MissingExtraError
from smallcal.io import Loaded
from smallcal.metrics import METRICS, Scored
from smallcal.metrics.table import chosen_metrics
from smallcal.statistics.compare import Comparison, compare_of
from smallcal.statistics.interval import require_options

DEFAULT_METRICS: tuple[str, ...] = (
    "accuracy",
    "ece15",
    "adaece15",
    "nll",
    "brier",
    "top_label_bce",
)
DEFAULT_METHODS = "none,ts-nll,tva-ts,srts-bce,smallcal"
SCORE_METRICS = ("ece15", "adaece15", "nll", "brier", "auroc")

#: A fitted method, and its probabilities of the test samples before predictions are kept.
Fit = tuple[FittedCalibrator, FloatArray]

#: Metrics beside one another in 80 columns: values, and differences with intervals.
_ABREAST = 6
_DIFFERENCES_ABREAST = 2


def compare(
    cal_data: options.CalData,
    test_data: options.TestData = None,
    methods: Annotated[
        str | None,
        option(
            "A,B,...",
            "Methods, separated by commas, or all. Default: five common ones; for scores, those "
            "for scores.",
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        option("NAME", "Method that the others are compared with. Default: tva-ts, or the first."),
    ] = None,
    metrics: options.Metrics = None,
    input: options.Input = None,
    columns: options.Columns = None,
    logits_key: options.LogitsKey = None,
    labels_key: options.LabelsKey = None,
    score: options.Score = None,
    outcome: options.Outcome = None,
    group: options.Group = None,
    cluster: options.Cluster = None,
    keep_predictions: options.KeepPredictions = False,
    n_boot: options.EnoughBoot = None,
    level: options.Level = 0.95,
    seed: options.Seed = 0,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Fit several methods and compare their metrics on a test split."""
    require_options(n_boot, level)
    given = None if methods is None else choices.method_names(methods)
    choices.metric_names(metrics, DEFAULT_METRICS)  # before anything is read
    asked = inputs.Asked.of(locals())
    cal, test = inputs.load_pair(cal_data, test_data, asked, verb="compare")
    clusters = inputs.clusters(test, asked, cluster)
    usual, shown = DEFAULT_METHODS.split(","), DEFAULT_METRICS
    if cal.input == "score":
        usual, shown = list(OF_SCORES), SCORE_METRICS
    wanted = choices.metric_names(metrics, shown)
    names = list(dict.fromkeys(true_name(name, cal.input) for name in given or usual))
    baseline = _baseline(baseline, names)
    cal = inputs.grouped_if(cal, asked)
    if methods == "all":
        names = _possible(names, cal, test)
    fitted_on = inputs.require_agreement(inputs.predictions(cal), cal.source, force=force)
    tested_on = inputs.predictions(test, fitted_on.score)
    if fitted_on.score is not None:  # once, and not of every method
        taken = f"score_as_{fitted_on.score.kind}"
        terminal.note(f"{taken}: {FLAGS[taken]}")
    labels = inputs.require_agreement(tested_on, test.source, force=force).labels
    how = {"keep_predictions": keep_predictions, "random_state": seed}
    fits, errors = _fit_all(names, cal, replace(test, labels=labels), how)
    if methods == "all":
        errors = _forgive_missing(errors)
    failures = {
        name: " ".join(f"{type(error).__name__}: {getattr(error, 'shell', error)}".split())
        for name, error in errors.items()
    }
    result, usually = None, default_of(cal.input)
    scored = {
        name: as_predicted(
            fitted, Scored.of(labels, tested_on.measured(proba), clusters=clusters), tested_on
        )
        for name, (fitted, proba) in fits.items()
    }
    if scored:
        if clusters is None and n_boot != 0:
            inputs.note_copies(test.source, labels, scored[next(iter(scored))].proba)
        reference = baseline if baseline in scored else next(iter(scored))
        bootstrap = (n_boot, level, seed)
        with resampling(*bootstrap) as drawn:
            result = compare_of(
                scored,
                chosen_metrics(wanted),
                baseline=reference,
                bootstrap=bootstrap,
                advance=drawn["advance"],
            )
    if as_json:
        found = {} if result is None else result.to_dict()
        advised = {"recommended": usually if usually in fits else None}
        about = {"cal": cal.source, "test": test.source, **advised}
        terminal.show_json({**about, **found, "failures": failures})
    else:
        terminal.say(
            f"Fitted on {cal.source} ({terminal.count(len(cal.logits), 'sample')}), measured on "
            f"{test.source} ({terminal.count(len(test.logits), 'sample')})."
        )
        _show(result, wanted, list(failures))
        if usually in fits:
            terminal.say(Recommendation.of(fits[usually][0]).sentence, ON_TEST)
    terminal.leave(f"{name} failed: {reason}" for name, reason in failures.items())


def _baseline(name: str | None, names: list[str]) -> str:
    if name is None:
        return "tva-ts" if "tva-ts" in names else names[0]
    if true_name(name) not in names:
        raise InputError(
            f"--baseline {name} is not among the methods {', '.join(names)}", code="unknown-choice"
        )
    return true_name(name)


def _possible(names: list[str], cal: Loaded, test: Loaded) -> list[str]:
    """Leave out, saying so, methods that need features where there are none, or two classes."""
    bare = cal.features is None or test.features is None
    many = cal.logits.ndim == 2 and cal.logits.shape[1] > 2
    needy = [name for name in names if bare and "features" in METHODS[name].needs]
    binary = [name for name in names if many and METHODS[name].binary]
    for left_out, why in (
        (needy, "for want of features in the files"),
        (binary, "for two classes"),
    ):
        if left_out:
            terminal.note(f"left out, {why}: {', '.join(left_out)}")
    return [name for name in names if name not in (*needy, *binary)]


def _forgive_missing(failures: dict[str, Exception]) -> dict[str, Exception]:
    """Among all methods, one whose package is not installed is left out, not failed."""
    for name, error in failures.items():
        if isinstance(error, MissingExtraError):
            terminal.note(f"left out: {name}: {error}")
    return {
        name: error for name, error in failures.items() if not isinstance(error, MissingExtraError)
    }


def _fit_all(
    names: list[str], cal: Loaded, test: Loaded, how: dict[str, Any]
) -> tuple[dict[str, Fit], dict[str, Exception]]:
    """Fit each method; one that fails is a reason, not the end of the others."""
    checked = inputs.predictions(cal)
    with inputs.naming(cal.source):
        checked.require_fittable()
    if cal.logits.shape[1:] != test.logits.shape[1:]:
        raise InputError(
            f"{cal.source} has {checked.n_classes} columns and {test.source} has "
            f"{test.logits.shape[1]}; both must come from one model",
            code="columns-differ",
        )
    cal = replace(cal, labels=checked.labels)
    fits: dict[str, Fit] = {}
    failures: dict[str, Exception] = {}
    with terminal.progress("Fitting", len(names)) as advance:
        for name in names:
            try:
                with terminal.noted_warnings(name):
                    fits[name] = _fit_one(name, cal, test, how)
            except Exception as error:  # noqa: BLE001 - the other methods' results must not be lost
                failures[name] = error
            advance(1)
    return fits, failures


def _fit_one(name: str, cal: Loaded, test: Loaded, how: dict[str, Any]) -> Fit:
    method = resolve_method(name, input=cal.input, **how)
    # Others are compared with the uncalibrated model; group effects would make it another.
    groups = None if true_name(name) == "none" else cal.groups
    given: dict[str, Any] = {"input": cal.input, "features": cal.features, "groups": groups}
    fitted = fit_arrays(method, cal.logits, cal.labels, **given)
    warn_of_flags(fitted)
    known = None if fitted.groups is None else test.groups
    own = (text for text in notes_of(fitted) if not text.startswith("score_as_"))
    terminal.note(*(f"{name}: {text}" for text in own))
    labels = test.labels if "labels" in fitted.signal.needs else None
    free = replace(fitted, keep_predictions=False)
    given = {"features": test.features, "labels": labels, "groups": known}
    return fitted, free.predict_proba(test.logits, **given)


def _show(result: Comparison | None, wanted: list[str], failed: list[str]) -> None:
    values = {} if result is None else result.values
    for start in range(0, len(wanted), _ABREAST):
        part = wanted[start : start + _ABREAST]
        gaps = [[name, "failed", *[""] * (len(part) - 1)] for name in failed]
        terminal.show_table(["method", *map(_heading, part)], _rows(values, part) + gaps)
    if result is not None and result.differences:
        _show_differences(result, wanted)


def _show_differences(result: Comparison, wanted: list[str]) -> None:
    """Print differences with their intervals, and what they amount to in words."""
    if not result.intervals:
        terminal.say(f"Difference to {result.baseline}:")
        for start in range(0, len(wanted), _ABREAST // 2):
            part = wanted[start : start + _ABREAST // 2]
            headers = [_heading(metric, difference=True) for metric in part]
            terminal.show_table(["method", *headers], _rows(result.differences, part, signed=True))
        return
    terminal.say(f"Difference to {result.baseline}, {100 * result.level:g} % interval:")
    for start in range(0, len(wanted), _DIFFERENCES_ABREAST):
        part = wanted[start : start + _DIFFERENCES_ABREAST]
        rows = []
        for name, row in result.intervals.items():
            cells = [name]
            for metric in part:
                found, unit = row[metric], METRICS[metric].unit
                ends = found.ends(unit, signed=True)
                cells += [unit.number(found.point, signed=True), ends]
            rows.append(cells)
        headers = [h for metric in part for h in (_heading(metric, difference=True), "interval")]
        terminal.show_table(["method", *headers], rows)
    drawn = resamples(own for row in result.intervals.values() for own in row.values())
    terminal.say(f"Intervals: {drawn} of the {result.unit}.")
    terminal.say(*map(result.verdict, result.intervals))


def _rows(
    table: dict[str, dict[str, float]], metrics: list[str], *, signed: bool = False
) -> list[list[Any]]:
    return [
        [name, *(METRICS[metric].unit.number(row[metric], signed=signed) for metric in metrics)]
        for name, row in table.items()
    ]


def _heading(metric: str, *, difference: bool = False) -> str:
    return METRICS[metric].heading(difference=difference)
