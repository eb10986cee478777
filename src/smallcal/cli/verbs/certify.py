"""``smallcal certify``: thresholds and sets with a guarantee, kept in the calibrator."""

from __future__ import annotations

import warnings
from typing import Annotated, Any

from smallcal import io, runtime
from smallcal.advice.certify import Asked
from smallcal.advice.certify import certify as find
from smallcal.advice.certify_words import Certificate, Certification, level_of, rounded
from smallcal.advice.prediction_sets import PredictionSets, prediction_sets
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.cli import choices, inputs, options, terminal
from smallcal.cli.options import flag, option
from smallcal.data.claims import CLAIMS
from smallcal.errors import FitWarning, InputError, SmallcalError
from smallcal.io import Loaded
from smallcal.metrics.units import PERCENT, SHARE

#: What ``--by`` calls the predicted class.
_CLASS = "class"
#: Classes or groups that are all shown.
_MANY = 30


def certify(
    calibrator: options.Calibrator,
    data: options.Data,
    output: Annotated[
        str | None,
        option(
            "FILE",
            "Write the calibrator with its threshold; may be CAL itself.",
            "-o",
            "--output",
        ),
    ] = None,
    risk: Annotated[
        list[str] | None,
        option(
            "SHARE",
            "Highest acceptable error rate, such as 2% or 0.02. May be repeated. Default: 2%.",
        ),
    ] = None,
    confidence: Annotated[str, option("SHARE", "Confidence level of the guarantee.")] = "95%",
    rule: Annotated[
        str,
        option(
            "accepted|all",
            "What --risk limits: the error rate among accepted samples, or the share of all "
            "samples that are accepted and wrong.",
        ),
    ] = "accepted",
    by: Annotated[
        str | None,
        option(
            "class|NAME",
            "A threshold for each predicted class, or each group of this column or array.",
        ),
    ] = None,
    correction: Annotated[
        str,
        option("holm|bonferroni", "How the confidence level is divided among classes or groups."),
    ] = "holm",
    sets: Annotated[
        list[str] | None,
        option(
            "SHARE",
            "Prediction sets that miss the true class in at most this share of samples. May be "
            "repeated; without --risk, no threshold is computed.",
        ),
    ] = None,
    cross: Annotated[
        bool,
        flag(
            "--cross",
            "DATA is what CAL was fitted on: use cross-validation; the guarantee is approximate.",
        ),
    ] = False,
    labels: options.Labels = None,
    input: options.Input = None,
    class_names: options.ClassNames = None,
    columns: options.Columns = None,
    logits_key: options.LogitsKey = None,
    labels_key: options.LabelsKey = None,
    score: options.Score = None,
    outcome: options.Outcome = None,
    group: options.Group = None,
    cluster: options.Cluster = None,
    seed: options.Seed = 0,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Find a confidence threshold that keeps the error rate low, with a guarantee."""
    alphas = choices.shares(sets or [], "--sets")
    if cross and alphas:
        raise InputError(
            "--sets needs rows that CAL was not fitted on; leave out --cross",
            code="options-conflict",
        )
    if cluster is not None and alphas:
        raise InputError(
            "--sets takes all samples as independent; leave out --cluster", code="options-conflict"
        )
    risks = choices.shares(risk or ([] if sets else ["2%"]), "--risk")
    wanted: dict[str, Any] = {
        "confidence": choices.share(confidence, "--confidence"),
        "rule": rule,
        "by": "all" if by is None else by if by == _CLASS else "group",
        "correction": correction,
    }
    Asked.of(risks or [0.02], **wanted)  # before anything is read
    if output is not None:
        io.require_folder(output)
    known = runtime.load(calibrator)
    named = None if by in (None, _CLASS) else by
    _require_one_group(known, named, group, calibrator)
    asked = inputs.Asked.of({**locals(), "group": named or group})
    loaded = _loaded(known, data, asked, by=named)
    rows = _rows(known, loaded, grouped=named is not None, force=force)
    with inputs.naming(data), terminal.noted_warnings(data):
        found = Certification(certificates=(), calibrator=known)
        if risks:
            how: dict[str, Any] = {"cross": cross, "random_state": seed}
            how["clusters"] = inputs.clusters(loaded, asked, cluster, known)
            found = find(known, **rows, risk=risks, **wanted, **how)
        made = _sets(found, rows, alphas)
    fitted = made[-1].calibrator if made else found.calibrator
    kept = output if fitted.decisions and (made or found.some) else None
    if kept is not None:
        fitted.save(kept)
    if as_json:
        told = {"calibrator": calibrator, "data": data, "by": by, "output": kept}
        own = {"sets": [each.to_dict() for each in made]} if made else {}
        terminal.show_json({**told, **found.to_dict(), **own})
    else:
        _show(found, made, f"{data}: {terminal.count(len(loaded.logits), 'labelled sample')}")
        if kept is not None:
            terminal.say("", f"Wrote {kept}.")
        elif output is None and (found.some or made):
            terminal.say("", "Nothing was written; -o FILE keeps the calibrator with this.")
    none = [each for each in found.certificates if not each.found]
    lost = "" if output is None or kept else f"; {output} was not written"
    terminal.leave(f"{each.sentences[0].partition(':')[0]}{lost}" for each in none)


def _require_one_group(
    known: FittedCalibrator, by: str | None, group: str | None, calibrator: str
) -> None:
    """Raise where a row would need two groups: one for its probability, one for its threshold."""
    if by is not None and group not in (None, by) and known.groups is not None:
        raise InputError(
            f"{calibrator} has effects of groups, and a row belongs to one: --by {by} and --group "
            f"{group} must name the same",
            code="options-conflict",
        )


def _loaded(known: FittedCalibrator, data: str, asked: inputs.Asked, *, by: str | None) -> Loaded:
    """Read the file; what is wrong with its groups is said of the option that named them."""
    try:
        return inputs.named(inputs.load(data, asked, known), known)
    except SmallcalError as error:
        if by is None:
            raise
        raise error.calling("--group", "--by") from error


def _rows(
    fitted: FittedCalibrator, loaded: Loaded, *, grouped: bool, force: bool
) -> dict[str, Any]:
    """Return the labelled rows of a file, checked."""
    inputs.require_same_input(fitted, loaded.input, loaded.source)
    checked = inputs.predictions(loaded, fitted.score)
    inputs.require_agreement(checked, loaded.source, force=force)
    groups = loaded.groups if grouped or fitted.groups is not None else None
    return {"X": loaded.logits, "y": checked.labels, "features": loaded.features, "groups": groups}


def _sets(found: Certification, rows: dict[str, Any], alphas: list[float]) -> list[PredictionSets]:
    """Return sets for each share; the calibrator of the last has all of them."""
    fitted, made = found.calibrator, list[PredictionSets]()
    known = rows if fitted.groups is not None else {**rows, "groups": None}
    for alpha in alphas:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FitWarning)  # its sentences say the same
            made.append(prediction_sets(fitted, **known, alpha=alpha))
        fitted = made[-1].calibrator
    return made


def _show(found: Certification, made: list[PredictionSets], title: str) -> None:
    """Print what was found, with a table where classes or groups differ."""
    terminal.say(title)
    for each in found.certificates:
        terminal.say("", *each.sentences)
        if each.by != "all":
            _show_rows(each)
    if found.together:
        terminal.say("", found.together)
    for sets in made:
        terminal.say("", *sets.sentences)


def _show_rows(each: Certificate) -> None:
    """Print a line for each class or group; of very many, for those that have a threshold."""
    shown = [row for row in each.rows if row.threshold is not None or len(each.rows) <= _MANY]
    if not shown:
        return
    rows = []
    for row in shown:
        if row.threshold is None:
            best = "" if row.best is None else f"best {rounded(row.best)}"
            rows.append([row.name, f"{row.n:,}", "none", "", "", "", best])
            continue
        share = f"{SHARE.number(row.coverage)} ({SHARE.interval(row.low, row.high)})"
        bound = PERCENT.value(row.bound or 0.0)
        counts = [f"{row.accepted:,}", share, f"{row.errors:,}", bound]
        rows.append([row.name, f"{row.n:,}", level_of(row.threshold), *counts])
    errors = CLAIMS[each.input].errors
    headers = [each.by, "samples", "threshold", "accepted", "share % (95 %)", errors, "at most"]
    terminal.say("")
    terminal.show_table(headers, rows)
