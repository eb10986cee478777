"""A calibrator as one Python file that needs nothing but Python 3.8 or later."""

from __future__ import annotations

import textwrap
from collections import ChainMap
from collections.abc import Iterator
from itertools import chain, count
from typing import ClassVar

import numpy as np

from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.program import Program, Value
from smallcal.data.masks import MAX_MAGNITUDE
from smallcal.data.predictions import FloatArray
from smallcal.data.score import SLACK
from smallcal.deploy.export.origin import Origin, origin_of
from smallcal.deploy.export.statements import INFIX, Statements, Writer, statements_of
from smallcal.deploy.export.translate import grouped, program_of

_WIDTH = 99


def to_python(fitted: FittedCalibrator, *, origin: Origin | None = None) -> str:
    """Return a calibrator as the text of a Python file without dependencies.

    The file has ``calibrate(logits)`` for one row, ``calibrate_rows(rows)``, and where there is
    one ``temperature(logits)``; run as a program it reads CSV rows from its standard input. Of a
    calibrator of scores a row is one number, and ``probability(score)`` is that of outcome 1.

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
    written = "\n".join(lines)
    needs = "import bisect\n" if "bisect." in written else ""
    pieces = [
        _HEAD.format(needs=needs, **_header(fitted, program, origin or origin_of(fitted))),
        *body.constants,
        *_known_groups(fitted),
        *(helper for name, helper in _HELPERS.items() if f"{name}(" in written),
        *_checks(program),
        *_functions(program, lines),
    ]
    return "\n".join(piece.rstrip("\n") + "\n" for piece in pieces)


class _Body(Writer):
    """The statements of one row, and the constants that they name."""

    forms: ClassVar = {
        **INFIX,
        "minimum": "min({0}, {1})",
        "maximum": "max({0}, {1})",
        "reached": "(1.0 if {0} >= {1} else 0.0)",
        "choose": "({1} if {0} else {2})",
        "exp": "math.exp({0})",
        "log": "math.log({0})",
        "sqrt": "math.sqrt({0})",
        "erf": "math.erf({0})",
        "row": "[{0}]",
        "sum": "sum({0})",
        "largest": "max({0})",
        "at_top": "_at_top({0})",
        "scaled": "[a * {1} for a in {0}]",
        "dot": "_dot({0}, {1})",
        "dots": "[_dot(a, {1}) for a in {0}]",
        "rank": "float(bisect.bisect_right({0}, {1}))",
        "join": "[{0}]",
        "several": "*{0}",
        "single": "{0}",
    }
    not_zero = "{0}"
    number = staticmethod(repr)

    def __init__(self, statements: Statements) -> None:
        self._given = _given(statements.program)
        super().__init__(statements, self._named)
        self.constants = [
            _assigned(self.names[id(value)], value.numbers) for value in statements.constants
        ]

    def _named(self, name: str) -> str:
        if name == "logits":
            return self._given
        return name.upper() if name.startswith("constant_") else name

    def lines(self) -> Iterator[str]:
        """Yield one statement after the other."""
        for value in self.statements.values:
            if value.operation == "effect":
                yield f"{self.names[id(value)]} = GROUP_EFFECTS.get(_group_name(group), 0.0)"
            elif value.operation == "features" and value.width == 1:
                yield f"{self.names[id(value)]} = features[0]"
            elif value.of or value.operation == "constant":
                yield f"{self.names[id(value)]} = {self.made(value)}"

    def numbers(self, numbers: FloatArray) -> str:
        """Keep numbers, and write what they are called."""
        name = f"CONSTANT_{len(self.constants) + 1}"
        self.constants.append(_assigned(name, numbers))
        return name

    def each(self, value: Value) -> str:
        """Return ``expression for a, b in zip(x, y)``."""
        leaves = self.statements.leaves(value)
        letters = chain("abcdefgh", (f"a{number}" for number in count(1)))
        places = {id(leaf): letter for leaf, letter in zip(leaves, letters, strict=False)}
        text = self.expression(value, ChainMap(places, self.names))
        rows = ", ".join(self.names[id(leaf)] for leaf in leaves)
        together = rows if len(leaves) == 1 else f"zip({rows})"
        return f"{text} for {', '.join(places.values())} in {together}"


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


def _given(program: Program) -> str:
    """Return what the first argument is called."""
    return "logits" if program.score is None else "score"


def _header(fitted: FittedCalibrator, program: Program, origin: Origin) -> dict[str, object]:
    names, features = fitted.class_names, program.n_features
    more, result = _more(program), f"{program.n_classes} probabilities"
    return {
        **origin.words(),
        "whose": "a classifier" if program.score is None else "an outcome",
        "takes": program.takes,
        "more": more,
        "columns": f"{program.n_columns} {program.takes}"
        + (f" and {features} features" if features else "")
        + (" and the name of the group" if program.grouped else ""),
        "result": result if program.score is None else f"{result}: of outcome 0 and of outcome 1",
        "first": "" if program.score is None else _FIRST.format(more=more),
        "lists": more.replace("group", "groups"),
        "n_classes": program.n_classes,
        "n_features": features,
        "names": names and "(\n" + "".join(f"    {name!a},\n" for name in names) + ")",
        "exact_method": ascii(origin.method),
    }


def _more(program: Program) -> str:
    """Return what else a function takes."""
    more = (("features", program.n_features), ("group", program.grouped))
    return "".join(f", {name}" for name, there in more if there)


def _known_groups(fitted: FittedCalibrator) -> Iterator[str]:
    effects = grouped(fitted)
    if effects is not None:
        pairs = zip(effects.names, effects.effects, strict=True)
        yield "GROUP_EFFECTS = {\n" + "".join(f"    {n!a}: {b!r},\n" for n, b in pairs) + "}\n"
        yield _GROUP_NAME


def _checks(program: Program) -> Iterator[str]:
    checks = []
    if program.score is None:
        checks.append(("_checked", "N_CLASSES", program.takes))
    else:
        good, must = _GOOD_SCORE[program.score.kind]
        yield _CHECKED_SCORE.format(good=good, must=must)
    if program.n_features:
        checks.append(("_checked_features", "N_FEATURES", "features"))
    for name, length, what in checks:
        good, must = _GOOD["masked" if program.masks and what == "logits" else what]
        more = _SUM_CHECK if what == "probabilities" else ""
        yield _CHECKED.format(name=name, length=length, what=what, good=good, must=must, more=more)


def _functions(program: Program, lines: list[str]) -> Iterator[str]:
    given, more = _given(program), _more(program)
    body = [f"{given} = _checked({given})"]
    if program.n_features:
        body.append("features = _checked_features(features)")
    has = program.temperature is not None
    body += [*lines, f"return probabilities, {'temperature' if has else None}"]
    yield f"\ndef _calibrated({given}{more}):\n" + textwrap.indent("\n".join(body), "    ")
    yield _PUBLIC.format(given=given, more=more)
    if program.score is not None:
        yield _PROBABILITY.format(more=more)
    yield _rows(program)
    if has:
        yield _TEMPERATURE.format(given=given, more=more)
    yield _main(program)


def _main(program: Program) -> str:
    """Return what the file does as a program."""
    width = "N_CLASSES" if program.score is None else "1"
    row = f"row[:{width}], row[{width}:]" if program.n_features else "row"
    row += ", group" if program.grouped else ""
    last = "        cells, group = cells[:-1], cells[-1]\n" if program.grouped else ""
    result = f"calibrate({row})" if program.score is None else f"[probability({row})]"
    return _MAIN.format(result=result, last=last)


def _rows(program: Program) -> str:
    """Return the function of several rows."""
    if not _more(program):
        return _ROWS
    lists = [name for name in ("features", "groups") if name[:5] in _more(program)]
    checks = "".join(_SAME_LENGTH.format(name=name) for name in lists)
    every = {"lists": ", ".join(lists), "checks": checks}
    each = ", ".join(f"{name}[i]" for name in lists)
    return _ROWS_WITH_MORE.format(**every, each=each)


_HEAD = '''"""Calibrated probabilities of {whose}: {method}, exported by {library}.

Needs Python 3.8 or later and nothing else. Do not edit: export again instead.

    import this_file
    this_file.calibrate({takes}{more})  # one row: {columns} -> {result}
{first}    this_file.calibrate_rows(rows{lists})

    python this_file.py < rows.csv > probabilities.csv

Artefact SHA-256: {sha256}
"""

{needs}import csv
import math
import sys

METHOD = {exact_method}
N_CLASSES = {n_classes}
N_FEATURES = {n_features}
CLASS_NAMES = {names}
'''

#: What the head of a calibrator of scores says beside.
_FIRST = """\
    this_file.probability(score{more})  # of outcome 1; what the line below writes for each row
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
def {name}(row):
    row = [float(x) for x in row]
    if len(row) != {length}:
        raise ValueError("a row must have %d {what}; got %d" % ({length}, len(row)))
    if not all({good} for x in row):
        raise ValueError("{what} must be {must}")
{more}    return row
"""
_SUM_CHECK = """    if abs(sum(row) - 1) > 1e-3:
        raise ValueError("the probabilities of a row must sum to 1; got %g" % sum(row))
"""
#: What each number must be: in Python, and in words.
_GOOD = {
    "logits": (f"abs(x) <= {MAX_MAGNITUDE!r}", f"finite and at most {MAX_MAGNITUDE:g} in size"),
    # Of minus infinity the comparison holds, of NaN it does not.
    "masked": (f"x <= {MAX_MAGNITUDE!r}", f"at most {MAX_MAGNITUDE:g}, minus infinity a mask"),
    "probabilities": ("0 <= x <= 1.001", "probabilities in [0, 1]"),
    "features": ("math.isfinite(x)", "finite"),
}

_CHECKED_SCORE = """
def _checked(score):
    if hasattr(score, "__len__"):  # a row of one number
        if len(score) != 1:
            raise ValueError("a row must have 1 score; got %d" % len(score))
        score = score[0]
    score = float(score)
    if not {good}:
        raise ValueError("a score must be {must}; got %g" % score)
    return score
"""
#: By what scores are taken for; infinities are put at the end of the numbers.
_GOOD_SCORE = {
    "number": ("score == score", "a number"),
    "probability": (f"{-SLACK!r} <= score <= {1 + SLACK!r}", "in [0, 1]"),
}

_PUBLIC = '''
def calibrate({given}{more}):
    """Return the calibrated probabilities of one row."""
    return _calibrated({given}{more})[0]
'''
_PROBABILITY = '''
def probability(score{more}):
    """Return the calibrated probability of outcome 1."""
    return calibrate(score{more})[1]
'''
_ROWS = '''
def calibrate_rows(rows):
    """Return the calibrated probabilities of each row."""
    return [calibrate(row) for row in rows]
'''
_ROWS_WITH_MORE = '''
def calibrate_rows(rows, {lists}):
    """Return the calibrated probabilities of each row."""
    rows = list(rows)
{checks}    return [calibrate(rows[i], {each}) for i in range(len(rows))]
'''
_SAME_LENGTH = """    {name} = list({name})
    if len(rows) != len({name}):
        raise ValueError("%d rows, but %d rows of {name}" % (len(rows), len({name})))
"""
_GROUP_NAME = '''
def _group_name(group):
    """Return the name of a group; numbers are named by their digits."""
    if isinstance(group, float) and group.is_integer():
        group = int(group)
    return str(group)
'''
_TEMPERATURE = '''
def temperature({given}{more}):
    """Return what the logits of a row are divided by."""
    return _calibrated({given}{more})[1]
'''

_MAIN = '''
def main():
    """Read rows of numbers as CSV, after a header or none; write their probabilities as CSV."""
    writer = csv.writer(sys.stdout, lineterminator="\\n")
    for number, cells in enumerate(csv.reader(sys.stdin), start=1):
        if not cells:
            continue
{last}        try:
            row = [float(cell) for cell in cells]
        except ValueError:
            if number == 1:
                continue
            sys.exit("line %d: not a row of numbers" % number)
        try:
            writer.writerow([repr(p) for p in {result}])
        except ValueError as error:
            sys.exit("line %d: %s" % (number, error))


if __name__ == "__main__":
    main()
'''
