"""A calibrator as SQL macros over a column of lists, in the dialect of DuckDB 1.3 or later.

Each statement is one step of a chain of sub-selects, which a database computes once per row. A
single expression would not do: what is shared would be written, and computed, again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.program import Program, Value
from smallcal.data.checks import MAX_MAGNITUDE
from smallcal.data.predictions import FloatArray
from smallcal.deploy.export.erf import without_erf
from smallcal.deploy.export.origin import Origin, origin_of, plain_words
from smallcal.deploy.export.statements import ELEMENTWISE, INFIX, Leaf, Wording, bare, statements_of
from smallcal.deploy.export.translate import program_of
from smallcal.errors import InputError


def _number(number: float) -> str:
    """Write a double; a number without an exponent would be a decimal, and -- a comment."""
    text = repr(float(number))
    text = text if "e" in text else f"{text}e0"
    return f"({text})" if text.startswith("-") else text


_SQL = Wording(
    forms={
        **INFIX,
        "minimum": "least({0}, {1})",
        "maximum": "greatest({0}, {1})",
        "reached": "(CASE WHEN {0} >= {1} THEN 1e0 ELSE 0e0 END)",
        "choose": "(CASE WHEN {0} THEN {1} ELSE {2} END)",
        "exp": "exp({0})",
        "log": "ln({0})",
        "sqrt": "sqrt({0})",
    },
    at_least="{0} >= {1}",
    not_zero="{0} <> 0e0",
    number=_number,
)


def to_sql(fitted: FittedCalibrator, *, origin: Origin | None = None) -> str:
    """Return a calibrator as SQL text that creates macros.

    ``smallcal_probabilities(logits)`` gives a list, and where there is one
    ``smallcal_temperature(logits)`` a number; NULL gives NULL, a row that is not of the right
    length or not finite is an error. Calibrators that need features take them as a second list.

    Parameters
    ----------
    fitted : FittedCalibrator
    origin : Origin, optional
        What to say about where it comes from.

    Examples
    --------
    >>> import smallcal as sc
    >>> cal = sc.TemperatureScaling().fit([[2.0, 0.0], [1.0, 0.0]] * 20, [0, 1] * 20)
    >>> print(to_sql(cal.fitted_))
    -- Calibrated probabilities of a classifier: ts-nll, exported by smallcal ...
    CREATE OR REPLACE MACRO smallcal_probabilities(logits) AS (...
    """
    program = without_erf(program_of(fitted))
    made_by = origin or origin_of(fitted)
    method, library, sha256 = map(plain_words, (made_by.method, made_by.library, made_by.sha256))
    given = "logits, features" if program.n_features else "logits"
    text = _HEAD.format(method=method, library=library, sha256=sha256, given=given)
    text += _macro("smallcal_probabilities", given, program)
    if program.temperature is not None:
        alone = replace(program, probabilities=program.temperature, temperature=None)
        text += _macro("smallcal_temperature", given, alone)
    if fitted.class_names is not None:
        names = ", ".join(map(_text, fitted.class_names))
        text += f"\nCREATE OR REPLACE MACRO smallcal_class_names() AS [{names}];\n"
    return text


def _macro(name: str, given: str, program: Program) -> str:
    steps = [*_checked(program), *_Chain(program).steps()]
    chain = [f"smallcal_0 AS (SELECT {_taken(given)})"]
    chain += [
        f"smallcal_{number} AS (SELECT *, {step} FROM smallcal_{number - 1})"
        for number, step in enumerate(steps, start=1)
    ]
    unknown = " OR ".join(f"given_{name} IS NULL" for name in given.split(", "))
    result = f"CASE WHEN {unknown} THEN NULL ELSE probabilities END"
    lines = ",\n    ".join(chain)
    return (
        f"\nCREATE OR REPLACE MACRO {name}({given}) AS (\n"
        f"    WITH {lines}\n    SELECT {result} FROM smallcal_{len(steps)}\n);\n"
    )


def _taken(given: str) -> str:
    return ", ".join(f"CAST({name} AS DOUBLE[]) AS given_{name}" for name in given.split(", "))


def _checked(program: Program) -> Iterator[str]:
    """Yield steps that let only good rows pass; a comparison with NaN or NULL is never true."""
    good = {
        "logits": f"abs(a) <= {_number(MAX_MAGNITUDE)}",
        "probabilities": "a BETWEEN 0e0 AND 1.001e0",
    }
    yield _guarded("logits", program.n_classes, good[program.takes], program.takes)
    if program.n_features:
        yield _guarded("features", program.n_features, "isfinite(a)", "features")


def _guarded(name: str, width: int, good: str, what: str) -> str:
    fine = f"len(list_filter(given_{name}, lambda a: {good})) = {width}"
    same = f"len(given_{name}) = {width}"
    message = _text(f"smallcal: a row must be a list of {width} finite {what}")
    # Arithmetic over NULL is an error here and there: zeros stand in, and the end gives NULL.
    zeros = f"list_transform(range({width}), lambda a: 0e0)"
    return (
        f"CASE WHEN given_{name} IS NULL THEN {zeros} WHEN {same} AND {fine} "
        f"THEN given_{name} ELSE error({message}) END AS smallcal_{name}"
    )


def _text(text: str) -> str:
    """Write text; what no SQL text can hold is refused."""
    if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise InputError(f"the class name {text!a} cannot be written in SQL; rename the class")
    return "'" + text.replace("'", "''") + "'"


class _Chain:
    """The statements of one row as steps, each adding a column."""

    def __init__(self, program: Program) -> None:
        self._statements = statements_of(program)
        self._names = {
            key: f"smallcal_{name}" if name in ("logits", "features") else name
            for key, name in self._statements.names.items()
        }

    def steps(self) -> Iterator[str]:
        """Yield ``expression AS name``."""
        for value in self._statements.constants:
            yield f"{_list(value.numbers)} AS {self._named(value)}"
        for value in self._statements.values:
            if value.operation == "features" and value.width == 1:
                self._names[id(value)] = "smallcal_feature"
                yield "smallcal_features[1] AS smallcal_feature"
            elif value.operation == "at_top" and value.width > 1:
                yield from self._at_top(value)
            elif value.of or value.operation == "constant":
                yield f"{self._made(value)} AS {self._named(value)}"

    def _made(self, value: Value) -> str:
        if value.operation in ELEMENTWISE:
            if value.width > 1:
                return self._row(value)
            return bare(_SQL.expression(value, self._named, self._names))
        make: dict[str, Callable[[Value], str]] = {
            "constant": lambda value: _number(float(value.numbers[0])),
            "sum": lambda value: self._reduced("list_sum", value.of[0]),
            "largest": lambda value: self._reduced("list_max", value.of[0]),
            "at_top": lambda value: "1e0",  # of one number; see steps
            "dot": self._dot,
            "rank": self._rank,
            "join": lambda value: f"list_concat({', '.join(self._joined(value))})",
        }
        return make[value.operation](value)

    def _named(self, value: Value) -> str:
        return self._names[id(value)]

    def _argument(self, value: Value) -> str:
        return _SQL.part(value, self._named, self._names)

    def _row(self, value: Value) -> str:
        """Return an expression over a row's numbers; other rows are read at the same place."""
        first, *others = self._statements.leaves(value)
        places = {id(first): "a"} | {id(row): f"{self._named(row)}[i]" for row in others}
        leaf: Leaf = lambda row: places.get(id(row)) or self._named(row)  # noqa: E731
        text = bare(_SQL.expression(value, leaf, self._names))
        return f"list_transform({self._named(first)}, lambda a{', i' if others else ''}: {text})"

    def _reduced(self, function: str, value: Value) -> str:
        if value.width == 1:
            return self._argument(value)
        inside = self._named(value) if id(value) in self._names else self._row(value)
        return f"{function}({inside})"

    def _at_top(self, value: Value) -> Iterator[str]:
        # The place has a step of its own, or it would be looked for once per number.
        row, name = self._named(value.of[0]), self._named(value)
        yield f"list_position({row}, list_max({row})) AS place_{name}"
        mark = f"CASE WHEN i = place_{name} THEN 1e0 ELSE 0e0 END"
        yield f"list_transform({row}, lambda a, i: {mark}) AS {name}"

    def _dot(self, value: Value) -> str:
        (row,) = value.of
        x = self._argument(row)
        if row.width == 1:
            if value.width == 1:
                return f"{_number(value.numbers[0, 0])} * {x}"
            return f"list_transform({_list(value.numbers[:, 0])}, lambda a: a * {x})"
        if value.width == 1:
            return f"list_inner_product({_list(value.numbers[0])}, {x})"
        matrix = ", ".join(map(_list, value.numbers))
        return f"list_transform([{matrix}], lambda a: list_inner_product(a, {x}))"

    def _rank(self, value: Value) -> str:
        x = self._argument(value.of[0])
        return f"CAST(len(list_filter({_list(value.numbers)}, lambda a: a <= {x})) AS DOUBLE)"

    def _joined(self, value: Value) -> Iterator[str]:
        for part in value.of:
            if part.operation == "join" and id(part) not in self._names:
                yield from self._joined(part)
            else:
                yield self._named(part) if part.width > 1 else f"[{bare(self._argument(part))}]"


def _list(numbers: FloatArray) -> str:
    return f"[{', '.join(bare(_number(number)) for number in np.asarray(numbers).tolist())}]"


_HEAD = """\
-- Calibrated probabilities of a classifier: {method}, exported by {library}.
-- For DuckDB 1.3 or later. Do not edit: export again instead.
--
--     SELECT smallcal_probabilities({given}) FROM my_table;
--
-- Artefact SHA-256: {sha256}
"""
