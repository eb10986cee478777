"""``smallcal select``: the default, or another method that is better beyond chance."""

from __future__ import annotations

import re
from typing import Annotated, Any

from smallcal import io
from smallcal.advice.select import Selection, require_rule, usual_candidates
from smallcal.advice.select import select as choose
from smallcal.advice.select_walk import Row
from smallcal.cli import choices, inputs, options, terminal
from smallcal.cli.describe import notes_of
from smallcal.cli.options import option
from smallcal.data import shown
from smallcal.errors import InputError
from smallcal.io import Loaded
from smallcal.metrics import METRICS

#: A name, then perhaps options in brackets: srts-bce[n_groups=5].
_CANDIDATE = re.compile(r"([^\[\],]+)(?:\[([^\]]*)\])?")
#: A comma that begins another option, not another number of the same one.
_NEXT_OPTION = re.compile(r",(?=\s*\w+=)")


def select(
    data: options.Data,
    output: Annotated[
        str | None,
        option(
            "FILE",
            "Fit the chosen method on all samples and write it here (JSON).",
            "-o",
            "--output",
        ),
    ] = None,
    candidates: Annotated[
        str | None,
        option(
            "A,B,...",
            "Which methods, from simple to rich, such as none,ts-nll or srts-bce\\[n_groups=5].",
        ),
    ] = None,
    rule: Annotated[
        str,
        option(
            "RULE",
            "How the standard error is computed: over samples, repeats or folds; or holdout, one "
            "split.",
        ),
    ] = "sample",
    loss: Annotated[str, option("METRIC", "Metric to minimise.")] = "top_label_bce",
    repeats: Annotated[int, option("N", "Repetitions of cross-validation.", min=1)] = 5,
    folds: Annotated[int, option("N", "Number of folds.", min=2)] = 5,
    labels: options.Labels = None,
    input: options.Input = None,
    class_names: options.ClassNames = None,
    columns: options.Columns = None,
    logits_key: options.LogitsKey = None,
    labels_key: options.LabelsKey = None,
    score: options.Score = None,
    outcome: options.Outcome = None,
    group: options.Group = None,
    keep_predictions: options.KeepPredictions = False,
    level: options.Level = 0.95,
    seed: options.Seed = 0,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Choose a method by cross-validation, the uncalibrated model among the candidates."""
    require_rule(rule, loss=loss, n_repeats=repeats, n_folds=folds, level=level)
    wanted = None if candidates is None else parsed(candidates)
    if output is not None:
        io.require_folder(output)
    asked = inputs.Asked.of(locals())
    loaded = inputs.load(data, asked)
    if group is not None:
        terminal.note("select fits no effects of groups; fit --group does")
    checked = inputs.require_agreement(inputs.predictions(loaded), data, force=force)
    tried = usual_candidates(loaded.input) if wanted is None else wanted
    fits = len(tried) * (1 if rule == "holdout" else repeats * folds)
    with inputs.naming(data), terminal.progress("Fitting", fits) as advance:
        found = choose(
            loaded.logits,
            checked.labels,
            candidates=wanted,
            loss=loss,
            rule=rule,
            n_repeats=repeats,
            n_folds=folds,
            level=level,
            input=loaded.input,
            features=loaded.features,
            keep_predictions=keep_predictions,
            random_state=seed,
            advance=advance,
        )
    if output is not None:
        _fit(found, loaded, checked.labels, output)
    if as_json:
        terminal.show_json({"data": data, "output": output, **found.to_dict()})
        return
    _show(found, data)
    if output is not None:
        terminal.say(f"Wrote {output}: {found.choice}, fitted on all {found.n:,} samples.")
        return
    _next_step(found, [data, *asked.words()])


def parsed(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the candidates that were typed, each with its options.

    Examples
    --------
    >>> parsed("none, srts-bce[n_groups=5]")
    [('none', {}), ('srts-bce', {'n_groups': 5})]
    """
    found = []
    for match in _CANDIDATE.finditer(text):
        name, settings = match[1].strip(), match[2]
        if name:
            given = _NEXT_OPTION.split(settings) if settings else []
            found.append((name, choices.method_options(name, given)))
    if not found:
        raise InputError(f"--candidates names none; got {text!r}", code="empty")
    return found


def _fit(found: Selection, loaded: Loaded, labels: object, output: str) -> None:
    """Fit the choice on all samples and keep it."""
    estimator = found.estimator().set_params(class_names=loaded.class_names)
    with terminal.noted_warnings():
        estimator.fit(loaded.logits, labels, features=loaded.features)
    terminal.note(*notes_of(estimator.fitted_))
    estimator.save(output)


def _show(found: Selection, data: str) -> None:
    """Print what each candidate reached, what it gains over a simpler one, and the reason."""
    cut = (
        "a fifth held out once"
        if found.rule == "holdout"
        else f"cut into {found.n_folds} folds {terminal.count(found.n_repeats, 'time')}"
    )
    size = terminal.size(found.n, found.n_classes, found.input)
    terminal.say(f"{data}: {size}, {cut}. Losses on held-out samples:")
    losses = list(dict.fromkeys([found.loss, "nll"]))
    headings = [METRICS[metric].heading() for metric in losses]
    rows = [_losses(row, losses) for row in found.table]
    headers = ["candidate", "parameters", *headings, "verdict"]
    terminal.show_table(headers, rows, text=(0, len(headers) - 1))
    compared = [row for row in found.table if row.against]
    if compared:
        terminal.say(
            f"Gains in {METRICS[found.loss].title}, with {100 * found.level:g} % intervals:"
        )
        gain = METRICS[found.loss].unit.heading("gain", difference=True)
        rows = [_gains(row, found.loss) for row in compared]
        terminal.show_table(["candidate", "over", gain, "1 s.e.", "interval"], rows, text=(0, 1))
    notes = [f"{row.candidate}: {row.note}." for row in found.table if row.note]
    terminal.say(*notes, f"Choice: {found.choice}. Reason: {found.reason}")
    if found.note:
        terminal.say(found.note)


def _losses(row: Row, losses: list[str]) -> list[str]:
    values = [""] * len(losses)
    if row.verdict not in ("failed", "left out"):
        found = (row.loss, row.nll)
        values = [METRICS[m].unit.number(value) for m, value in zip(losses, found, strict=False)]
    return [row.candidate, f"{row.n_parameters}", *values, row.verdict]


def _gains(row: Row, loss: str) -> list[str]:
    found, unit = row.interval, METRICS[loss].unit
    return [
        row.candidate,
        row.against,
        unit.number(row.gain, signed=True),
        unit.number(row.standard_error) if row.standard_error else "",
        "" if found is None else unit.interval(*found, signed=True),
    ]


def _next_step(found: Selection, given: list[str]) -> None:
    """Print the command that fits the choice on the same data, to be pasted as it is."""
    if found.choice_method == "none":
        own = "the score as it is" if found.input == "score" else "the model's own probabilities"
        terminal.say(f"Nothing to fit: use {own}, or label more samples.")
        return
    words = ["smallcal", "fit", *given, "--method", found.choice_method]
    for name, value in found.choice_options.items():
        if name == "keep_predictions":
            words.append("--keep-predictions")
        else:
            words += ["--set", f"{name}={_typed(value)}"]
    words += ["--seed", str(found.random_state)] if found.random_state else []
    # A line of its own that begins with spaces is not wrapped: pasted, it is one command.
    terminal.say("Next:", f"  {shown.command([*words, '-o', 'cal.json'])}")


def _typed(value: object) -> str:
    """Return an option's value as --set takes it."""
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
