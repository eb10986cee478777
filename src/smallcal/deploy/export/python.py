"""A calibrator as one Python file that needs nothing but Python 3.8 or later."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator

import numpy as np

from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.program import Program, Value
from smallcal.data.checks import MAX_MAGNITUDE
from smallcal.data.predictions import FloatArray
from smallcal.deploy.export.origin import Origin, origin_of, plain_words
from smallcal.deploy.export.statements import (
    ELEMENTWISE,
    INFIX,
    Leaf,
    Statements,
    Wording,
    bare,
    statements_of,
)
from smallcal.deploy.export.translate import program_of

_WIDTH = 99
_PYTHON = Wording(
    forms={
        **INFIX,
        "minimum": "min({0}, {1})",
        "maximum": "max({0}, {1})",
        "reached": "(1.0 if {0} >= {1} else 0.0)",
        "choose": "({1} if {0} else {2})",
        "exp": "math.exp({0})",
        "log": "math.log({0})",
        "sqrt": "math.sqrt({0})",
        "erf": "math.erf({0})",
    },
    at_least="{0} >= {1}",
    not_zero="{0}",
    number=repr,
)


def to_python(fitted: FittedCalibrator, *, origin: Origin | None = None) -> str:
    """Return a calibrator as the text of a Python file without dependencies.

    The file has ``calibrate(logits)`` for one row, ``calibrate_rows(rows)``, and where there is
    one ``temperature(logits)``; run as a program it reads CSV rows from its standard input.

    Parameters
    ----------
    fitted : FittedCalibrator
    origin : Origin, optional
        What to say about where it comes from.

    Examples
    --------
    >>> import smallcal as sc
    >>> cal = sc.TemperatureScaling().fit([[2.0, 0.0], [1.0, 0.0]] * 20, [0, 1] * 20)
    >>> text = to_python(cal.fitted_)
    >>> "def calibrate(logits):" in text, "import smallcal" in text
    (True, False)
    """
    program = program_of(fitted)
    body = _Body(statements_of(program))
    lines = list(body.lines())
    header = _header(fitted, program, origin or origin_of(fitted))
    modules = ("bisect", "csv", "math", "sys") if body.uses("bisect.bisect_right") else _MODULES
    pieces = [
        _HEAD.format(**header),
        "".join(f"import {module}\n" for module in modules),
        _ABOUT.format(**header),
        *body.constants,
        *(helper for name, helper in _HELPERS.items() if body.uses(name)),
        _checks(program),
        _functions(program, lines),
    ]
    return "\n".join(piece.rstrip("\n") + "\n" for piece in pieces)


class _Body:
    """The statements of one row, and the constants that they name."""

    def __init__(self, statements: Statements) -> None:
        self._statements = statements
        self._names = {
            key: name.upper() if name.startswith("constant_") else name
            for key, name in statements.names.items()
        }
        self.constants = [
            _assigned(self._names[id(value)], value.numbers) for value in statements.constants
        ]
        self._written: list[str] = []

    def lines(self) -> Iterator[str]:
        """Yield one statement after the other."""
        for value in self._statements.values:
            if value.operation == "logits" or (value.operation == "features" and value.width > 1):
                continue
            line = f"{self._names[id(value)]} = {self._made(value)}"
            self._written.append(line)
            yield line

    def uses(self, name: str) -> bool:
        """Return whether a statement calls a helper."""
        return any(f"{name}(" in line for line in self._written)

    def _made(self, value: Value) -> str:
        if value.operation in ELEMENTWISE:
            return self._row(value) if value.width > 1 else self._bare(value, self._named)
        make: dict[str, Callable[[Value], str]] = {
            "constant": self._constant,
            "features": lambda value: "features[0]",
            "sum": lambda value: self._reduced("sum", value.of[0]),
            "largest": lambda value: self._reduced("max", value.of[0]),
            "at_top": self._at_top,
            "dot": self._dot,
            "rank": self._rank,
            "join": self._join,
        }
        return make[value.operation](value)

    def _constant(self, value: Value) -> str:
        return repr(float(value.numbers[0]))

    def _named(self, value: Value) -> str:
        return self._names[id(value)]

    def _argument(self, value: Value) -> str:
        return bare(_PYTHON.part(value, self._named, self._names))

    def _bare(self, value: Value, leaf: Leaf) -> str:
        return bare(_PYTHON.expression(value, leaf, self._names))

    def _each(self, value: Value) -> str:
        """Return ``expression for a, b in zip(x, y)``."""
        leaves = self._statements.leaves(value)
        letters = {id(leaf): letter for leaf, letter in zip(leaves, _letters(), strict=False)}
        text = self._bare(value, lambda leaf: letters.get(id(leaf)) or self._named(leaf))
        rows = ", ".join(map(self._named, leaves))
        return (
            f"{text} for {', '.join(letters.values())} in "
            f"{rows if len(leaves) == 1 else f'zip({rows})'}"
        )

    def _row(self, value: Value) -> str:
        return f"[{self._each(value)}]"

    def _reduced(self, function: str, value: Value) -> str:
        if value.width == 1:
            return self._argument(value)
        inside = self._named(value) if id(value) in self._names else self._each(value)
        return f"{function}({inside})"

    def _at_top(self, value: Value) -> str:
        (row,) = value.of
        return "1.0" if row.width == 1 else f"_at_top({self._named(row)})"

    def _dot(self, value: Value) -> str:
        (row,) = value.of
        numbers = value.numbers
        if row.width == 1:
            x = _PYTHON.part(row, self._named, self._names)
            if len(numbers) == 1:
                return f"{float(numbers[0, 0])!r} * {x}"
            return f"[a * {x} for a in {self._kept(numbers[:, 0])}]"
        if len(numbers) == 1:
            return f"_dot({self._kept(numbers[0])}, {self._named(row)})"
        return f"[_dot(a, {self._named(row)}) for a in {self._kept(numbers)}]"

    def _rank(self, value: Value) -> str:
        ascending = self._kept(value.numbers)
        return f"float(bisect.bisect_right({ascending}, {self._argument(value.of[0])}))"

    def _join(self, value: Value) -> str:
        return f"[{', '.join(self._joined(value))}]"

    def _joined(self, value: Value) -> Iterator[str]:
        for part in value.of:
            if part.operation == "join" and id(part) not in self._names:
                yield from self._joined(part)
            else:
                yield f"*{self._named(part)}" if part.width > 1 else self._argument(part)

    def _kept(self, numbers: FloatArray) -> str:
        name = f"CONSTANT_{len(self.constants) + 1}"
        self.constants.append(_assigned(name, numbers))
        return name


def _letters() -> Iterator[str]:
    yield from "abcdefgh"
    number = 1
    while True:
        yield f"a{number}"
        number += 1


def _assigned(name: str, numbers: FloatArray) -> str:
    """Return the statement that gives numbers a name, in lines of readable length."""
    if numbers.ndim == 1:
        return f"{name} = (\n{_wrapped(numbers, 4)}\n)\n"
    rows = "".join(f"    (\n{_wrapped(row, 8)}\n    ),\n" for row in numbers)
    return f"{name} = (\n{rows})\n"


def _wrapped(numbers: FloatArray, indent: int) -> str:
    text = " ".join(f"{number!r}," for number in np.asarray(numbers).tolist())
    return textwrap.fill(
        text,
        _WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * indent,
        break_on_hyphens=False,  # a minus is no hyphen
        break_long_words=False,
    )


def _header(fitted: FittedCalibrator, program: Program, origin: Origin) -> dict[str, object]:
    names = fitted.class_names
    more = ", features" if program.n_features else ""
    return {
        "method": plain_words(origin.method),
        "library": plain_words(origin.library),
        "sha256": plain_words(origin.sha256),
        "takes": program.takes,
        "more": more,
        "columns": f"{program.n_classes} {program.takes}"
        + (f" and {program.n_features} features" if program.n_features else ""),
        "n_classes": program.n_classes,
        "n_features": program.n_features,
        "names": "None" if names is None else _tuple_of_text(names),
        "exact_method": ascii(origin.method),
    }


def _tuple_of_text(names: tuple[str, ...]) -> str:
    return "(\n" + "".join(f"    {name!a},\n" for name in names) + ")"


def _checks(program: Program) -> str:
    limit = f"abs(x) <= {MAX_MAGNITUDE!r}" if program.takes == "logits" else "0 <= x <= 1.001"
    must = (
        f"finite and at most {MAX_MAGNITUDE:g} in size"
        if program.takes == "logits"
        else "probabilities in [0, 1]"
    )
    text = _CHECKED.format(limit=limit, must=must, takes=program.takes)
    if program.takes == "probabilities":
        text += _SUM_CHECK
    return text + "    return row\n" + (_FEATURES_CHECKED if program.n_features else "")


def _functions(program: Program, lines: list[str]) -> str:
    more = ", features" if program.n_features else ""
    body = ["logits = _checked(logits)"]
    if program.n_features:
        body.append("features = _checked_features(features)")
    has = program.temperature is not None
    result = "probabilities, temperature" if has else "probabilities, None"
    body += [*lines, f"return {result}"]
    text = f"\ndef _calibrated(logits{more}):\n" + textwrap.indent("\n".join(body), "    ") + "\n"
    text += _PUBLIC.format(more=more, columns=program.n_classes + program.n_features)
    text += _ROWS_WITH_FEATURES if program.n_features else _ROWS
    if has:
        text += _TEMPERATURE.format(more=more)
    return text + (_MAIN_WITH_FEATURES if program.n_features else _MAIN)


_HEAD = '''"""Calibrated probabilities of a classifier: {method}, exported by {library}.

Needs Python 3.8 or later and nothing else. Do not edit: export again instead.

    import this_file
    this_file.calibrate({takes}{more})  # one row: {columns} -> {n_classes} probabilities
    this_file.calibrate_rows(rows{more})

    python this_file.py < rows.csv > probabilities.csv

Artefact SHA-256: {sha256}
"""
'''
_MODULES = ("csv", "math", "sys")
_ABOUT = """METHOD = {exact_method}
N_CLASSES = {n_classes}
N_FEATURES = {n_features}
CLASS_NAMES = {names}
"""

_HELPERS = {
    "_at_top": '''
def _at_top(row):
    """Return 1 at the first of the largest numbers, 0 elsewhere."""
    result = [0.0] * len(row)
    result[row.index(max(row))] = 1.0
    return result
''',
    "_dot": """
def _dot(weights, row):
    return sum(a * b for a, b in zip(weights, row))
""",
}

_CHECKED = """
def _checked(row):
    row = [float(x) for x in row]
    if len(row) != N_CLASSES:
        raise ValueError("a row must have %d {takes}; got %d" % (N_CLASSES, len(row)))
    if not all({limit} for x in row):
        raise ValueError("{takes} must be {must}")
"""
_SUM_CHECK = """    if abs(sum(row) - 1) > 1e-3:
        raise ValueError("the probabilities of a row must sum to 1; got %g" % sum(row))
"""
_FEATURES_CHECKED = """

def _checked_features(row):
    row = [float(x) for x in row]
    if len(row) != N_FEATURES:
        raise ValueError("a row must have %d features; got %d" % (N_FEATURES, len(row)))
    if not all(math.isfinite(x) for x in row):
        raise ValueError("features must be finite")
    return row
"""

_PUBLIC = '''

def calibrate(logits{more}):
    """Return the calibrated probabilities of one row."""
    return _calibrated(logits{more})[0]
'''
_ROWS = '''

def calibrate_rows(rows):
    """Return the calibrated probabilities of each row."""
    return [calibrate(row) for row in rows]
'''
_ROWS_WITH_FEATURES = '''

def calibrate_rows(rows, features):
    """Return the calibrated probabilities of each row."""
    rows, features = list(rows), list(features)
    if len(rows) != len(features):
        raise ValueError("%d rows, but %d rows of features" % (len(rows), len(features)))
    return [calibrate(row, more) for row, more in zip(rows, features)]
'''
_TEMPERATURE = '''

def temperature(logits{more}):
    """Return what the logits of a row are divided by."""
    return _calibrated(logits{more})[1]
'''

_MAIN_TEMPLATE = '''

def main():
    """Read rows of numbers as CSV, after a header or none; write their probabilities as CSV."""
    writer = csv.writer(sys.stdout, lineterminator="\\n")
    for number, cells in enumerate(csv.reader(sys.stdin), start=1):
        if not cells:
            continue
        try:
            row = [float(cell) for cell in cells]
        except ValueError:
            if number == 1:
                continue
            sys.exit("line %d: not a row of numbers" % number)
        try:
            writer.writerow([repr(p) for p in {call}])
        except ValueError as error:
            sys.exit("line %d: %s" % (number, error))


if __name__ == "__main__":
    main()
'''
_MAIN = _MAIN_TEMPLATE.format(call="calibrate(row)")
_MAIN_WITH_FEATURES = _MAIN_TEMPLATE.format(call="calibrate(row[:N_CLASSES], row[N_CLASSES:])")
