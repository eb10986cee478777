"""A calibrator as SQL macros over a column of lists, in the dialect of DuckDB 1.3 or later.

Each statement is one step of a chain of sub-selects, which a database computes once per row. A
single expression would not do: what is shared would be written, and computed, again and again.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator
from itertools import groupby
from typing import ClassVar

from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.program import INPUTS, Program, Value
from smallcal.calibrators.program_plain import plain
from smallcal.data.masks import FEWEST, MAX_MAGNITUDE
from smallcal.data.predictions import FloatArray
from smallcal.data.score import ScoreScale
from smallcal.data.shown import visible
from smallcal.deploy.export.decided import NamedGroups, named_groups, rules_of
from smallcal.deploy.export.erf import without_erf
from smallcal.deploy.export.origin import Origin, origin_of
from smallcal.deploy.export.statements import INFIX, Writer, bare, statements_of
from smallcal.deploy.export.translate import program_of
from smallcal.errors import InputError


def _number(number: float) -> str:
    """Write a double; a number without an exponent would be a decimal, and -- a comment."""
    text = repr(float(number))
    text = text if "e" in text else f"{text}e0"
    return f"({text})" if text.startswith("-") else text


def to_sql(fitted: FittedCalibrator, *, origin: Origin | None = None) -> str:
    """Return a calibrator as SQL text that creates macros.

    ``smallcal_probabilities(logits)`` returns a list and, if there is one temperature per row,
    ``smallcal_temperature(logits)`` returns it. NULL gives NULL; a row of the wrong length, or with
    NaN or plus infinity, is an error; minus infinity masks a class. Methods that need features take
    them as a second list. With effects of groups, the name of the group is the last argument; an
    unknown group, or NULL, has no effect. A calibrator of scores takes a number, and
    ``smallcal_probability(score)`` returns the probability of outcome 1. A certified threshold adds
    ``smallcal_accepted(logits)``, a boolean; ``keep_predictions`` adds
    ``smallcal_confidence(logits)``, the calibrated probability of the model's own prediction.

    Parameters
    ----------
    fitted : FittedCalibrator
    origin : Origin, optional
        Where the calibrator comes from, for the comment at the top.

    Examples
    --------
    >>> import smallcal as sc
    >>> cal = sc.TemperatureScaling().fit([[2.0, 0.0], [1.0, 0.0]] * 20, [0, 1] * 20)
    >>> print(to_sql(cal.fitted_))
    -- Calibrated probabilities of a classifier: ts-nll, exported by smallcal ...
    CREATE OR REPLACE MACRO smallcal_probabilities(logits) AS (...
    """
    program = without_erf(plain(program_of(fitted)))
    given = "logits" if program.score is None else "score"
    given += ", features" if program.n_features else ""
    groups = named_groups(fitted)
    shifted = f"{given}, group_name" if program.grouped else given
    whose, asked = "a classifier", "smallcal_probabilities"
    if program.score is not None:
        whose, asked = "an outcome", "smallcal_probability"
    words = (origin or origin_of(fitted)).words()
    text = _HEAD.format(whose=whose, asked=asked, given=shifted, **words)
    text += _macro("smallcal_probabilities", shifted, program.alone(program.probabilities), groups)
    if program.score is not None:
        text += _SECOND.format(given=shifted)
    if program.temperature is not None:
        text += _macro("smallcal_temperature", given, program.alone(program.temperature))
    if program.confidence is not None:
        text += _macro("smallcal_confidence", shifted, program.alone(program.confidence), groups)
    for rule, (column, flag) in zip(rules_of(fitted), program.decisions, strict=True):
        taken = f"{given}, group_name" if rule.by_group else shifted
        text += f"\n{rule.lines('-- ')}"
        text += _macro(f"smallcal_{column}", taken, program.alone(flag), groups, "{} <> 0e0")
    if fitted.class_names is not None:
        names = ", ".join(map(_text, fitted.class_names))
        text += f"\nCREATE OR REPLACE MACRO smallcal_class_names() AS [{names}];\n"
    return text


def _macro(
    name: str, given: str, program: Program, groups: NamedGroups | None = None, result: str = "{}"
) -> str:
    looked_up = "group_name" in given.split(", ")
    steps = [*_checked(program), *_of_group(program, groups), *_Chain(program).steps()]
    inputs = [each for each in given.split(", ") if each != "group_name"]
    kinds = {name: "DOUBLE" if name == "score" else "DOUBLE[]" for name in inputs}
    taken = ", ".join(f"CAST({name} AS {kind}) AS given_{name}" for name, kind in kinds.items())
    if looked_up:
        taken += ", CAST(group_name AS VARCHAR) AS given_group_name"
    chain = [f"smallcal_0 AS (SELECT {taken})"]
    chain += [
        f"smallcal_{number} AS (SELECT *, {step} FROM smallcal_{number - 1})"
        for number, step in enumerate(steps, start=1)
    ]
    unknown = " OR ".join(f"given_{name} IS NULL" for name in inputs)
    found = f"CASE WHEN {unknown} THEN NULL ELSE {result.format('probabilities')} END"
    lines = ",\n    ".join(chain)
    return (
        f"\nCREATE OR REPLACE MACRO {name}({given}) AS (\n"
        f"    WITH {lines}\n    SELECT {found} FROM smallcal_{len(steps)}\n);\n"
    )


def _of_group(program: Program, groups: NamedGroups | None) -> Iterator[str]:
    """Yield steps that look up what is known of a row's group, where the program reads it."""
    if groups is None:
        return
    read = {value.operation for value in program.values()}
    place = f"list_position([{', '.join(map(_text, groups.names))}], given_group_name)"
    if "effect" in read:
        numbers = ", ".join(bare(_number(effect)) for effect in groups.effects)
        yield f"coalesce(list_extract([{numbers}], {place}), 0e0) AS smallcal_effect"
    if "limits" in read:
        limits = ", ".join(map(_limits, groups.limits))
        never = _limits(groups.unknown)
        yield f"coalesce(list_extract([{limits}], {place}), {never}) AS smallcal_limits"


def _limits(limits: tuple[float, ...]) -> str:
    """Write the thresholds of a group: a number where there is one."""
    written = ", ".join(map(_number, limits))
    return written if len(limits) == 1 else f"[{written}]"


def _checked(program: Program) -> Iterator[str]:
    """Yield steps that let only good rows pass; a comparison with NaN or NULL is never true."""
    least, most = map(_number, program.allowed)
    if program.score is not None:
        yield _guarded_score(program.score)
    elif program.takes == "probabilities":
        fine = f"a BETWEEN {least} AND {most}"
        yield _guarded("logits", program.n_classes, fine, "finite probabilities")
    else:
        there = f"len(list_filter(given_logits, lambda a: a >= {_number(-MAX_MAGNITUDE)}))"
        enough = f" AND {there} >= {FEWEST}"
        what = f"finite logits; minus infinity masks a class, and {FEWEST} must be left"
        yield _guarded("logits", program.n_classes, f"a <= {most}", what, enough)
    if program.n_features:
        yield _guarded("features", program.n_features, "isfinite(a)", "finite features")


def _guarded(name: str, width: int, good: str, what: str, more: str = "") -> str:
    fine = f"len(list_filter(given_{name}, lambda a: {good})) = {width}{more}"
    same = f"len(given_{name}) = {width}"
    message = _text(f"smallcal: a row must be a list of {width} {what}")
    # Arithmetic over NULL is an error here and there: zeros stand in, and the end gives NULL.
    zeros = f"list_transform(range({width}), lambda a: 0e0)"
    return (
        f"CASE WHEN given_{name} IS NULL THEN {zeros} WHEN {same} AND {fine} "
        f"THEN given_{name} ELSE error({message}) END AS smallcal_{name}"
    )


def _guarded_score(score: ScoreScale) -> str:
    # NaN is above every number here. Infinities are put at the ends by what follows.
    fine, must = "NOT isnan(given_score)", "a number, not NaN"
    if score.kind == "probability":
        least, most = map(_number, score.allowed)
        fine, must = f"given_score BETWEEN {least} AND {most}", "in [0, 1]"
    message = _text(f"smallcal: a score must be {must}")
    return (
        f"CASE WHEN given_score IS NULL THEN 0e0 WHEN {fine} "
        f"THEN given_score ELSE error({message}) END AS smallcal_score"
    )


def _text(text: str) -> str:
    """Write text; what no SQL text can hold is refused."""
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise InputError(
            f"the class name {text!a} cannot be written in SQL; rename the class",
            code="class-names-invalid",
        )
    plain = "'" + text.replace("'", "''") + "'"
    if visible(text) == text:
        return plain
    # What a terminal would act on is written by number.
    runs = groupby(text, key=lambda letter: visible(letter) != letter)
    parts = (list(map(_by_number, run)) if odd else [_text("".join(run))] for odd, run in runs)
    return f"({' || '.join(part for each in parts for part in each)})"


def _by_number(letter: str) -> str:
    return f"chr({ord(letter)})"


class _Chain(Writer):
    """The statements of one row as steps, each adding a column."""

    forms: ClassVar = {
        **INFIX,
        "minimum": "least({0}, {1})",
        "maximum": "greatest({0}, {1})",
        "reached": "(CASE WHEN {0} >= {1} THEN 1e0 ELSE 0e0 END)",
        "choose": "(CASE WHEN {0} THEN {1} ELSE {2} END)",
        "exp": "exp({0})",
        "log": "ln({0})",
        "sqrt": "sqrt({0})",
        "row": "{0}",
        "sum": "list_sum({0})",
        "largest": "list_max({0})",
        "scaled": "list_transform({0}, lambda a: a * {1})",
        "dot": "list_inner_product({0}, {1})",
        "dots": "list_transform({0}, lambda a: list_inner_product(a, {1}))",
        "rank": "CAST(len(list_filter({0}, lambda a: a <= {1})) AS DOUBLE)",
        "join": "list_concat({0})",
        "several": "{0}",
        "single": "[{0}]",
    }
    not_zero = "{0} <> 0e0"
    number = staticmethod(_number)

    def __init__(self, program: Program) -> None:
        inputs = {name: f"smallcal_{name}" for name in INPUTS}
        if program.score is not None:
            inputs["logits"] = "smallcal_score"
        super().__init__(statements_of(program), lambda name: inputs.get(name, name))

    def steps(self) -> Iterator[str]:
        """Yield ``expression AS name``."""
        for value in self.statements.constants:
            yield f"{self.numbers(value.numbers)} AS {self.names[id(value)]}"
        for value in self.statements.values:
            if value.operation == "features" and value.width == 1:
                self.names[id(value)] = "smallcal_feature"
                yield "smallcal_features[1] AS smallcal_feature"
            elif value.operation == "at_top" and value.width > 1:
                yield from self._at_top(value)
            elif value.of or value.operation == "constant":
                yield f"{self.made(value)} AS {self.names[id(value)]}"

    def numbers(self, numbers: FloatArray) -> str:
        """Write a list of doubles, or a list of such lists."""
        write = self.numbers if numbers.ndim > 1 else lambda number: bare(_number(number))
        return f"[{', '.join(map(write, numbers))}]"

    def each(self, value: Value) -> str:
        """Return an expression over a row's numbers; other rows are read at the same place."""
        first, *others = self.statements.leaves(value)
        places = {id(first): "a"} | {id(row): f"{self.names[id(row)]}[i]" for row in others}
        text = self.expression(value, ChainMap(places, self.names))
        arguments = "a, i" if others else "a"
        return f"list_transform({self.names[id(first)]}, lambda {arguments}: {text})"

    def _at_top(self, value: Value) -> Iterator[str]:
        # The place has a step of its own, or it would be looked for once per number.
        row, name = self.names[id(value.of[0])], self.names[id(value)]
        yield f"list_position({row}, list_max({row})) AS place_{name}"
        mark = f"CASE WHEN i = place_{name} THEN 1e0 ELSE 0e0 END"
        yield f"list_transform({row}, lambda a, i: {mark}) AS {name}"


_HEAD = """\
-- Calibrated probabilities of {whose}: {method}, exported by {library}.
-- For DuckDB 1.3 or later. Do not edit: export again instead.
--
--     SELECT {asked}({given}) FROM my_table;
--
-- Artefact SHA-256: {sha256}
"""

_SECOND = """
CREATE OR REPLACE MACRO smallcal_probability({given}) AS smallcal_probabilities({given})[2];
"""
