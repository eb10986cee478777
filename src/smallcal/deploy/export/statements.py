"""Turn a program into the few statements that a person would write, for Python and SQL.

One statement for each operation is hard to read and slow; one expression for all repeats what is
shared. So a value has a name where it is used twice, made of a whole row, or asked for at the
end; the rest is arithmetic inside the statement that uses it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from smallcal.calibrators.program import PAIRS, SINGLES, Program, Value
from smallcal.data.predictions import FloatArray

#: How many operations deep one expression may be.
MAX_DEPTH = 6
ELEMENTWISE = (*PAIRS, *SINGLES, "choose")
#: Operations that can read their value while it is being made.
_REDUCING = ("sum", "largest")
#: What a name says, where the operation alone would be hard to read.
_WORDS = {"sum": "total", "join": "joined", "rank": "below"}

#: By the ``id`` of a value.
Names = Mapping[int, str]


@dataclass(frozen=True, eq=False)
class Statements:
    """The named values of a program in order, and their names.

    Attributes
    ----------
    values : tuple of Value
        Those that are computed, each after those it is made of.
    constants : tuple of Value
        Those of more than one number, which are not computed.
    names : dict
        By the ``id`` of a value.
    program : Program
        Kept so that the ids stay its own.
    """

    values: tuple[Value, ...]
    constants: tuple[Value, ...]
    names: Mapping[int, str]
    program: Program

    def leaves(self, value: Value) -> list[Value]:
        """Return the named rows that an expression reads, in order, each once.

        Values of one number are no rows: they are the same for each number of a row.
        """
        found: dict[int, Value] = {}
        stack = list(reversed(value.of))
        while stack:
            part = stack.pop()
            if id(part) not in self.names:
                stack.extend(reversed(part.of))
            elif part.width > 1:
                found.setdefault(id(part), part)
        return list(found.values())


def statements_of(program: Program) -> Statements:
    """Decide what gets a name.

    Examples
    --------
    >>> from smallcal.calibrators.program import exp, given
    >>> z = given("logits", 3)
    >>> weight = exp(z - z.largest())
    >>> found = statements_of(Program(weight / weight.sum(), None, 3, 0, "logits"))
    >>> [found.names[id(value)] for value in found.values]
    ['logits', 'largest_1', 'exp_2', 'total_3', 'probabilities']
    """
    users: dict[int, list[Value]] = {}
    order = list(program.values())
    for value in order:
        for part in value.of:
            users.setdefault(id(part), []).append(value)
    last = {id(value): name for name, value in program.decisions}
    results = {name: getattr(program, name) for name in ("temperature", "confidence")}
    last |= {id(value): name for name, value in results.items() if value is not None}
    last[id(program.probabilities)] = "probabilities"
    names: dict[int, str] = {}
    depth: dict[int, int] = {}
    named: list[Value] = []
    constants: list[Value] = []
    for value in order:
        if value.operation == "constant" and id(value) not in last:
            if value.width > 1:
                constants.append(value)
                names[id(value)] = f"constant_{len(constants)}"
            continue
        inside = max((depth.get(id(part), 0) for part in value.of), default=0)
        depth[id(value)] = inside + (value.operation != "join")
        in_place = id(value) not in last and depth[id(value)] < MAX_DEPTH
        if in_place and _fits_in(value, users[id(value)]):
            continue
        depth[id(value)] = 0
        names[id(value)] = last.get(id(value)) or _name(value, len(named))
        named.append(value)
    return Statements(tuple(named), tuple(constants), names, program)


def _fits_in(value: Value, users: list[Value]) -> bool:
    """Return whether a value can be written inside the only expression that uses it."""
    if len(users) > 1:
        return False
    (user,) = users
    if value.operation == "join":
        return user.operation == "join"
    if value.operation not in ELEMENTWISE:
        return False
    if user.operation == "join":
        return value.width == 1
    if user.operation in ELEMENTWISE:
        return user.width == value.width  # else it would be computed once per number
    return user.operation in _REDUCING and value.width > 1


def _name(value: Value, number: int) -> str:
    operation = value.operation
    return operation if not value.of else f"{_WORDS.get(operation, operation)}_{number}"


class Writer(ABC):
    """Writes the values of a program in a language; ``{0}``, ``{1}``, ``{2}`` are the parts.

    Attributes
    ----------
    forms : dict
        Of the operations; those elementwise that are no calls begin and end with a bracket. Beside
        them ``row`` (of what :meth:`each` gives), ``scaled`` (numbers, a factor), ``dots`` (a
        matrix, a row), and ``several`` and ``single``, the parts of a ``join``.
    not_zero : str
        A condition.
    """

    forms: ClassVar[Mapping[str, str]]
    not_zero: ClassVar[str]

    def __init__(self, statements: Statements, name: Callable[[str], str]) -> None:
        self.statements = statements
        self.names = {key: name(plain) for key, plain in statements.names.items()}

    @staticmethod
    @abstractmethod
    def number(number: float, /) -> str:
        """Write a float."""

    @abstractmethod
    def numbers(self, numbers: FloatArray) -> str:
        """Write a list of floats, or a list of such lists."""

    @abstractmethod
    def each(self, value: Value) -> str:
        """Write the arithmetic of a row, number by number."""

    def made(self, value: Value) -> str:
        """Write what a named value is made of."""
        if value.operation in ELEMENTWISE and value.width > 1:
            return self.forms["row"].format(self.each(value))
        if value.operation in ELEMENTWISE:
            return self.expression(value, self.names)
        if value.operation == "constant":
            return self.number(float(value.numbers[0]))
        if value.operation == "join":
            return self.forms["join"].format(", ".join(self._joined(value)))
        (row,) = value.of
        if value.operation == "dot":
            return self._dot(row, value.numbers)
        if value.operation == "rank":
            return self.forms["rank"].format(self.numbers(value.numbers), self._argument(row))
        if row.width == 1:
            return self.number(1.0) if value.operation == "at_top" else self._argument(row)
        inside = self.names.get(id(row)) or self.each(row)
        return self.forms[value.operation].format(inside)

    def expression(self, value: Value, names: Names) -> str:
        """Write a value's arithmetic down to what has a name."""
        return bare(self._arithmetic(value, names))

    def _arithmetic(self, value: Value, names: Names) -> str:
        parts = [self._part(part, names) for part in value.of]
        if value.operation == "choose":
            parts[0] = self._condition(value.of[0], names)
        form = self.forms[value.operation]
        return form.format(*(parts if form.startswith("(") else map(bare, parts)))

    def _condition(self, value: Value, names: Names) -> str:
        if id(value) not in names and value.operation == "reached":
            return "{} >= {}".format(*(self._part(part, names) for part in value.of))
        return self.not_zero.format(self._part(value, names))

    def _part(self, value: Value, names: Names) -> str:
        """Write a value where it is used: by name, as a number, or in place."""
        if id(value) in names:
            return names[id(value)]
        if value.operation == "constant":
            return self.number(float(value.numbers[0]))
        return self._arithmetic(value, names)

    def _argument(self, value: Value) -> str:
        return bare(self._part(value, self.names))

    def _dot(self, row: Value, matrix: FloatArray) -> str:
        x = self._part(row, self.names)
        if matrix.size == 1:
            return f"{self.number(float(matrix[0, 0]))} * {x}"
        if row.width == 1:
            return self.forms["scaled"].format(self.numbers(matrix[:, 0]), x)
        if len(matrix) == 1:
            return self.forms["dot"].format(self.numbers(matrix[0]), x)
        return self.forms["dots"].format(self.numbers(matrix), x)

    def _joined(self, value: Value) -> Iterator[str]:
        for part in value.of:
            if part.operation == "join" and id(part) not in self.names:
                yield from self._joined(part)
            else:
                yield self.forms["several" if part.width > 1 else "single"].format(
                    self._argument(part)
                )


#: What every language writes alike: brackets and a sign between.
INFIX: Mapping[str, str] = MappingProxyType(
    {
        "add": "({0} + {1})",
        "subtract": "({0} - {1})",
        "multiply": "({0} * {1})",
        "divide": "({0} / {1})",
    }
)


def bare(text: str) -> str:
    """Return an expression without the brackets around all of it.

    Examples
    --------
    >>> bare("(a + b)"), bare("max(a, b)")
    ('a + b', 'max(a, b)')
    """
    return text[1:-1] if text.startswith("(") else text
