"""``smallcal certify``: a threshold of confidence with a guarantee, kept in the calibrator."""

from __future__ import annotations

from typing import Annotated, Any

from smallcal import io
from smallcal import load as load_calibrator
from smallcal.advice.certify import Asked
from smallcal.advice.certify import certify as find
from smallcal.advice.certify_words import Certificate, Certification, level_of, rounded
from smallcal.cli import choices, inputs, options, terminal
from smallcal.cli.options import flag, option
from smallcal.data.claims import CLAIMS
from smallcal.errors import InputError
from smallcal.metrics.units import PERCENT, SHARE

#: What ``--by`` calls the predicted class.
_CLASS = "class"


def certify(
    calibrator: options.Calibrator,
    data: options.Data,
    output: Annotated[
        str | None,
        option(
            "FILE",
            "Write the calibrator with its threshold; FILE may be CAL itself.",
            "-o",
            "--output",
        ),
    ] = None,
    risk: Annotated[
        list[str] | None,
        option("SHARE", "Errors to stay below, such as 2% or 0.02. May be repeated. Default 2%."),
    ] = None,
    confidence: Annotated[str, option("SHARE", "How sure the guarantee is.")] = "95%",
    rule: Annotated[
        str,
        option(
            "accepted|all",
            "What the risk is a share of: errors among accepted rows, or rows that are accepted "
            "and wrong among all.",
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
        str, option("holm|bonferroni", "How classes or groups share the chance to be wrong.")
    ] = "holm",
    cross: Annotated[
        bool,
        flag("--cross", "DATA is what CAL was fitted on: refits judge it; only approximate."),
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
    seed: options.Seed = 0,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Find the confidence above which errors stay below a risk, with a guarantee."""
    risks = choices.shares(risk or ["2%"], "--risk")
    wanted: dict[str, Any] = {
        "confidence": _confidence(confidence),
        "rule": rule,
        "by": "all" if by is None else by if by == _CLASS else "group",
        "correction": correction,
    }
    Asked.of(risks, **wanted)  # before anything is read
    if output is not None:
        io.require_folder(output)
    known = load_calibrator(calibrator)
    named = None if by in (None, _CLASS) else by
    if named is not None and group not in (None, named) and known.fitted_.groups is not None:
        raise InputError(
            f"{calibrator} has effects of groups, and a row belongs to one: --by {by} and --group "
            f"{group} must name the same"
        )
    asked = inputs.Asked.of({**locals(), "group": named or group})
    loaded = inputs.named(inputs.load(data, asked, known.fitted_), known.fitted_)
    inputs.require_same_input(known.fitted_, loaded.input, data)
    checked = inputs.predictions(loaded, known.fitted_.score)
    inputs.require_agreement(checked, data, force=force)
    grouped = named is not None or known.fitted_.groups is not None
    rows = {"features": loaded.features, "groups": loaded.groups if grouped else None}
    with inputs.naming(data), terminal.noted_warnings(data):
        more = {"cross": cross, "random_state": seed, **rows, **wanted}
        found = find(known, loaded.logits, checked.labels, risk=risks, **more)
    written = _write(found, output)
    if as_json:
        told = {"calibrator": calibrator, "data": data, "by": by, "output": written}
        terminal.show_json({**told, **found.to_dict()})
    else:
        _show(found, data)
        if written is not None:
            terminal.say(f"Wrote {written}.")
        elif output is None and any(each.found for each in found.certificates):
            terminal.say("Nothing was written; -o FILE keeps the calibrator with its threshold.")
    none = [each for each in found.certificates if not each.found]
    kept = "" if output is None or written else f"; {output} was not written"
    terminal.leave(f"{each.sentences[0].partition(':')[0]}{kept}" for each in none)


def _confidence(text: str) -> float:
    found = choices.shares([text], "--confidence")
    if len(found) > 1:
        raise InputError(f"--confidence takes one share, such as 95%; got {text!r}")
    return found[0]


def _write(found: Certification, output: str | None) -> str | None:
    """Write the calibrator where a threshold was found; return the file that was written."""
    if output is None or not any(each.found for each in found.certificates):
        return None
    found.calibrator.save(output)
    return output


def _show(found: Certification, data: str) -> None:
    """Print what was found, and a table where classes or groups differ."""
    first = found.certificates[0]
    n = sum(row.n for row in first.rows)
    terminal.say(f"{data}: {terminal.count(n, 'labelled sample')}")
    for each in found.certificates:
        terminal.say("", *each.sentences)
        if each.by != "all":
            _show_rows(each)
    if len(found.certificates) > 1:
        terminal.say("", found.sentences[-1])


def _show_rows(each: Certificate) -> None:
    claim = CLAIMS[each.input]
    rows = []
    for row in each.rows:
        if row.threshold is None:
            best = "" if row.best is None else f"best {rounded(row.best)}"
            rows.append([row.name, f"{row.n:,}", "none", "", "", "", best])
            continue
        share = f"{SHARE.number(row.coverage)} ({SHARE.interval(row.low, row.high)})"
        bound = PERCENT.value(row.bound or 0.0)
        counts = [f"{row.accepted:,}", share, f"{row.errors:,}", bound]
        rows.append([row.name, f"{row.n:,}", level_of(row.threshold), *counts])
    headers = [
        *(each.by, "samples", "threshold", "accepted", "share % (95 %)", claim.errors, "at most"),
    ]
    terminal.say("")
    terminal.show_table(headers, rows)
