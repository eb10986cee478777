"""A calibrator as one Python file that needs nothing but Python 3.8 or later."""

from __future__ import annotations

import textwrap
from collections import ChainMap
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count
from typing import ClassVar

import numpy as np

from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.program import Program, Value
from smallcal.calibrators.program_plain import plain
from smallcal.data.predictions import FloatArray
from smallcal.deploy.export import python_text as texts
from smallcal.deploy.export.decided import NamedGroups, Rule, named_groups, rules_of
from smallcal.deploy.export.origin import Origin, origin_of
from smallcal.deploy.export.statements import INFIX, Statements, Writer, statements_of
from smallcal.deploy.export.translate import program_of

_WIDTH = 99


def to_python(fitted: FittedCalibrator, *, origin: Origin | None = None) -> str:
    """Return a calibrator as the text of a Python file without dependencies.

    The file has ``calibrate(logits)`` for one row, ``calibrate_rows(rows)`` for many and, if there
    is one temperature per row, ``temperature(logits)``. Run as a program, it reads CSV rows from
    standard input. For a calibrator of scores a row is one number, and ``probability(score)`` is
    the probability of outcome 1. A certified threshold adds ``accepted(logits)``;
    ``keep_predictions`` adds ``confidence(logits)``, the calibrated probability of the model's own
    prediction.

    Parameters
    ----------
    fitted : FittedCalibrator
    origin : Origin, optional
        Where the calibrator comes from, for the comment at the top.

    Examples
    --------
    >>> import smallcal as sc
    >>> cal = sc.TemperatureScaling().fit([[2.0, 0.0], [1.0, 0.0]] * 20, [0, 1] * 20)
    >>> text = to_python(cal.fitted_)
    >>> "def calibrate(logits):" in text, "import smallcal" in text
    (True, False)
    """
    program, groups = plain(program_of(fitted)), named_groups(fitted)
    body = _Body(statements_of(program), groups)
    lines = list(body.lines())
    written = "\n".join(lines)
    needs = "import bisect\n" if "bisect." in written else ""
    pieces = [
        texts.HEAD.format(needs=needs, **_header(fitted, program, origin or origin_of(fitted))),
        *body.constants,
        *_known_groups(groups),
        *(helper for name, helper in texts.HELPERS.items() if f"{name}(" in written),
        *_checks(program),
        *_functions(program, lines, rules_of(fitted)),
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

    def __init__(self, statements: Statements, groups: NamedGroups | None = None) -> None:
        self._given, self._groups = _given(statements.program), groups
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
            elif value.operation == "limits" and self._groups is not None:
                never = _limits(self._groups.unknown)
                yield f"{self.names[id(value)]} = GROUP_LIMITS.get(_group_name(group), {never})"
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
    also = "" if program.score is None else texts.FIRST.format(more=more)
    if program.confidence is not None:
        also += texts.OF_PREDICTION.format(takes=program.takes, more=more)
    for rule in rules_of(fitted):
        own = _more(program, group=rule.by_group)
        also += texts.DECIDES.format(column=rule.column, takes=program.takes, more=own)
    return {
        **origin.words(),
        "whose": "a classifier" if program.score is None else "an outcome",
        "takes": program.takes,
        "more": more,
        "columns": f"{program.n_columns} {program.takes}"
        + (f" and {features} features" if features else "")
        + (" and the name of the group" if program.grouped else ""),
        "result": result if program.score is None else f"{result}: of outcome 0 and of outcome 1",
        "first": also,
        "lists": more.replace("group", "groups"),
        "n_classes": program.n_classes,
        "n_features": features,
        "names": names and "(\n" + "".join(f"    {name!a},\n" for name in names) + ")",
        "exact_method": ascii(origin.method),
    }


def _more(program: Program, *, group: bool = False) -> str:
    """Return what else a function takes; the group where it, or the calibrator, asks for it."""
    more = (("features", program.n_features), ("group", program.grouped or group))
    return "".join(f", {name}" for name, there in more if there)


def _known_groups(groups: NamedGroups | None) -> Iterator[str]:
    if groups is None:
        return
    if groups.effects:
        yield _by_name("GROUP_EFFECTS", groups.names, map(repr, groups.effects))
    if groups.limits:
        yield _by_name("GROUP_LIMITS", groups.names, map(_limits, groups.limits))
    yield texts.GROUP_NAME


def _by_name(called: str, names: Iterable[str], values: Iterable[str]) -> str:
    pairs = zip(names, values, strict=True)
    return (
        f"{called} = {{\n" + "".join(f"    {name!a}: {value},\n" for name, value in pairs) + "}\n"
    )


def _limits(limits: tuple[float, ...]) -> str:
    """Write the thresholds of a group: a number where there is one."""
    return repr(limits[0] if len(limits) == 1 else limits)


def _checks(program: Program) -> Iterator[str]:
    checks = []
    if program.score is None:
        checks.append(("_checked", "N_CLASSES", program.takes))
    else:
        good, must = texts.GOOD_SCORE[program.score.kind]
        yield texts.CHECKED_SCORE.format(good=good, must=must)
    if program.n_features:
        checks.append(("_checked_features", "N_FEATURES", "features"))
    for name, length, what in checks:
        good, must = texts.GOOD[what]
        more = {"probabilities": texts.SUM_CHECK, "logits": texts.OPTIONS_CHECK}.get(what, "")
        yield texts.CHECKED.format(
            name=name, length=length, what=what, good=good, must=must, more=more
        )


def _functions(program: Program, lines: list[str], rules: Sequence[Rule]) -> Iterator[str]:
    given, more = _given(program), _more(program)
    grouped = any(rule.by_group for rule in rules)
    # Only decisions by group ask for the group then: to all others it is nothing.
    inner = f"{more}, None" if grouped and not program.grouped else more
    body = [f"{given} = _checked({given})"]
    if program.n_features:
        body.append("features = _checked_features(features)")
    has = program.temperature is not None
    kept = program.confidence is not None
    found = ["probabilities", "temperature" if has else "None", "confidence" if kept else "None"]
    found += [rule.column for rule in rules]
    body += [*lines, f"return {', '.join(found)}"]
    takes = _more(program, group=grouped)
    yield f"\ndef _calibrated({given}{takes}):\n" + textwrap.indent("\n".join(body), "    ")
    yield texts.PUBLIC.format(given=given, more=more, inner=inner)
    if program.score is not None:
        yield texts.PROBABILITY.format(more=more)
    yield _rows(program)
    if has:
        yield texts.TEMPERATURE.format(given=given, more=more, inner=inner)
    if kept:
        yield texts.CONFIDENCE.format(given=given, more=more, inner=inner)
    for place, rule in enumerate(rules, start=3):
        own = _more(program, group=rule.by_group)
        within = takes if rule.by_group else inner
        names = {"column": rule.column, "promise": rule.lines("    "), "place": place}
        yield texts.ACCEPTED.format(given=given, more=own, inner=within, **names)
    yield _main(program, grouped=grouped)


def _main(program: Program, *, grouped: bool) -> str:
    """Return what the file does as a program."""
    width = "N_CLASSES" if program.score is None else "1"
    row = f"row[:{width}], row[{width}:]" if program.n_features else "row"
    grouped = grouped or program.grouped
    row += ", group" if grouped else ""
    last = "        cells, group = cells[:-1], cells[-1]\n" if grouped else ""
    result = f"calibrate({row})" if program.score is None else f"[probability({row})]"
    cells, helper = f"[repr(p) for p in {result}]", ""
    if program.decisions:
        helper = texts.CELLS.format(shown="" if program.score is None else "[1:]")
        cells = f"_cells(_calibrated({row}))"
    return helper + texts.MAIN.format(cells=cells, last=last)


def _rows(program: Program) -> str:
    """Return the function of several rows."""
    if not _more(program):
        return texts.ROWS
    lists = [name for name in ("features", "groups") if name[:5] in _more(program)]
    checks = "".join(texts.SAME_LENGTH.format(name=name) for name in lists)
    every = {"lists": ", ".join(lists), "checks": checks}
    each = ", ".join(f"{name}[i]" for name in lists)
    return texts.ROWS_WITH_MORE.format(**every, each=each)
