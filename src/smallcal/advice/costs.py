"""What decisions cost: a matrix, or a miss, a false alarm and a review by name.

The best decision for a row is the one whose expected cost under the row's probabilities is least.
That needs probabilities that mean what they say, and nothing else: no threshold is tuned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from smallcal.advice.cost_table import REVIEW_NAME, CostTable, shown
from smallcal.data.checks import FloatArray, IntArray, as_numpy
from smallcal.data.names import frame_names, order_of
from smallcal.errors import InputError
from smallcal.metrics.scored import Scored

#: Costs that have a name.
NAMED = ("miss", "false_alarm", "wrong", "review")


@dataclass(frozen=True, eq=False)
class Costs:
    """What each decision costs when each class is the true one.

    Parameters
    ----------
    matrix : array-like of shape (C, C) or (C + 1, C), optional
        Rows are decisions, columns are true classes; a last row is that of a review: handing the
        row over, to a person say. A frame names both. Only differences within a column matter for
        the decisions, so a gain is a cost of 0 with all others of its column raised by it.
    classes : sequence of str, optional
        Names of the matrix's columns, in order.
    miss : float, optional
        Of two classes or a score: outcome 1 taken for 0. Of more classes: a wrong answer.
    false_alarm : float, optional
        Of two classes or a score: outcome 0 taken for 1. Of a miss and a false alarm, the one
        that is not named costs what the other does.
    wrong : float, optional
        Any wrong answer.
    review : float, optional
        Handing a row over. Without it every row is answered.

    Examples
    --------
    >>> costs = Costs(miss=100, false_alarm=10, review=2)
    >>> costs.decide([0.9, 0.5, 0.01])  # the probability of outcome 1
    array([ 1, -1,  0])
    >>> costs.expected([0.9, 0.5, 0.01]).round(2).tolist()
    [1.0, 2.0, 1.0]
    >>> Costs(wrong=20, review=5).decide([[0.8, 0.1, 0.1], [0.4, 0.3, 0.3]])
    array([ 0, -1])
    """

    matrix: Any = None
    classes: Sequence[str] | None = None
    miss: float | None = None
    false_alarm: float | None = None
    wrong: float | None = None
    review: float | None = None

    def __post_init__(self) -> None:
        for name in NAMED:
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, _number(value, name))
        if self.matrix is not None:
            self._read_matrix()
        elif self.classes is not None:
            raise InputError(
                "costs: classes are names of a matrix's columns; pass matrix as well",
                code="costs-invalid",
            )
        elif self.wrong is None and self.miss is None and self.false_alarm is None:
            raise InputError(
                "costs: name what a mistake costs: a matrix, wrong, or miss and false_alarm",
                code="costs-invalid",
            )
        elif self.wrong is not None and (self.miss, self.false_alarm) != (None, None):
            raise InputError(
                "costs: wrong is any mistake, miss and false_alarm are the two kinds; name either",
                code="costs-invalid",
            )
        elif max(self.wrong or 0, self.miss or 0, self.false_alarm or 0) == 0:
            raise InputError(
                "costs: every mistake costs 0; there is nothing to decide", code="costs-invalid"
            )

    def _read_matrix(self) -> None:
        """Check the matrix, and put its rows in the order of its columns where both have names."""
        mistakes = [name for name in ("miss", "false_alarm", "wrong") if getattr(self, name)]
        if mistakes:
            raise InputError(
                f"costs: the matrix says what mistakes cost; leave {mistakes[0]} out",
                code="costs-invalid",
            )
        array = _in_order(self.matrix, _square(as_numpy(self.matrix, name="costs")))
        names = frame_names(self.matrix) if self.classes is None else self.classes
        if names is not None:
            names = tuple(str(name) for name in names)
            _require_classes(names, array)
        if self.review is not None:
            if len(array) > array.shape[1]:
                raise InputError(
                    "costs: the matrix has a row of reviews; leave review out", code="costs-invalid"
                )
            array = np.vstack([array, np.full(array.shape[1], self.review)])
        object.__setattr__(self, "matrix", array)
        object.__setattr__(self, "classes", names)

    def table(
        self, n_classes: int, class_names: Sequence[str] | None = None, *, score: bool = False
    ) -> CostTable:
        """Return the costs for so many classes; the matrix's names find theirs among the columns'.

        Parameters
        ----------
        n_classes : int
        class_names : sequence of str, optional
            Of the probabilities' columns. Where these have none, or the costs have none, they are
            taken in order.
        score : bool
            Whether rows hold the probability of outcome 1 alone.

        Examples
        --------
        >>> Costs(miss=8, false_alarm=2).table(2).threshold
        0.2
        >>> Costs([[0, 9], [1, 0]], classes=["a", "b"]).table(2, ["b", "a"]).answers.tolist()
        [[0.0, 1.0], [9.0, 0.0]]
        """
        if self.matrix is None:
            return self._named_table(n_classes, class_names, score=score)
        known = self.matrix.shape[1]
        if known != n_classes:
            raise InputError(
                f"costs: the matrix is for {known} classes, and there are {n_classes:,}",
                code="costs-invalid",
            )
        names, order = self.classes, np.arange(n_classes)
        if names is not None and class_names is not None:
            found = order_of(names, class_names, what="the columns of the cost matrix")
            order, names = order if found is None else found, class_names
        return CostTable(
            answers=self.matrix[np.ix_(order, order)],
            review=self.matrix[-1, order] if len(self.matrix) > known else None,
            classes=_names(names or class_names),
            score=score,
        )

    def _named_table(
        self, n_classes: int, class_names: Sequence[str] | None, *, score: bool
    ) -> CostTable:
        notes: list[str] = []
        if n_classes > 2 and self.false_alarm is not None:
            raise InputError(
                f"costs: false_alarm is for two classes or a score; of {n_classes:,} classes name "
                "wrong, or give a matrix",
                code="costs-invalid",
            )
        miss = self.wrong if self.miss is None else self.miss
        alarm = self.wrong if self.false_alarm is None else self.false_alarm
        if n_classes == 2 and self.wrong is None and None in (miss, alarm):
            left, other = ("a miss", alarm) if miss is None else ("a false alarm", miss)
            notes.append(
                f"{left} is not named and costs what the other mistake does, {shown(other or 0)}"
            )
        miss, alarm = (alarm if miss is None else miss), (miss if alarm is None else alarm)
        assert miss is not None
        assert alarm is not None
        answers = np.where(np.eye(n_classes, dtype=bool), 0.0, miss)
        if n_classes == 2:
            answers[1, 0] = alarm
        return CostTable(
            answers=answers,
            review=None if self.review is None else np.full(n_classes, self.review),
            classes=_names(class_names),
            score=score,
            said=tuple(notes),
        )

    def decide(self, proba: object, *, class_names: Sequence[str] | None = None) -> IntArray:
        """Return the decision of least expected cost for each row: a column, or -1 for a review.

        Ties go to the first column, of a score to outcome 1, and to an answer before a review.

        Parameters
        ----------
        proba : array-like of shape (n, C), or (n,) for the probability of outcome 1
            Calibrated probabilities.
        class_names : sequence of str, optional
            Names of the columns, where the matrix has names.
        """
        return self._chosen(proba, class_names)[0]

    def expected(self, proba: object, *, class_names: Sequence[str] | None = None) -> FloatArray:
        """Return the expected cost of each row's best decision."""
        return self._chosen(proba, class_names)[1]

    def _chosen(
        self, proba: object, class_names: Sequence[str] | None
    ) -> tuple[IntArray, FloatArray]:
        own = frame_names(proba) if class_names is None else class_names
        values = as_numpy(proba, name="proba")
        # The view checks probabilities; labels have no part in a decision.
        view = Scored.of(np.zeros(values.shape[:1], dtype=np.int64), values)
        table = self.table(view.n_classes, own, score=view.outcome)
        return table.choose(view.proba)

    def __repr__(self) -> str:
        given = self.to_dict()
        first = [repr(given.pop("matrix"))] if "matrix" in given else []
        rest = [f"{name}={value!r}" for name, value in given.items() if value is not None]
        return f"Costs({', '.join([*first, *rest])})"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data: what was given."""
        if self.matrix is None:
            given = {name: getattr(self, name) for name in NAMED}
            return {name: value for name, value in given.items() if value is not None}
        return {
            "matrix": self.matrix.tolist(),
            "classes": None if self.classes is None else list(self.classes),
        }


def _names(names: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names)


def _number(value: object, name: str) -> float:
    """Return a cost: a finite number that is not negative."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise InputError(
            f"costs: {name} must be a number; got {value!r}", code="costs-invalid"
        ) from None
    if not np.isfinite(number) or number < 0:
        raise InputError(
            f"costs: {name} must be finite and not negative; got {number:g}", code="costs-invalid"
        )
    return number


def _square(array: Any) -> FloatArray:
    """Return a matrix with a row for each class, and one more for reviews if there are such."""
    if array.ndim != 2 or array.dtype.kind not in "fiub":
        raise InputError(
            f"costs: the matrix must be numbers of shape (C, C), or (C + 1, C) with a last row of "
            f"reviews; got shape {array.shape}, {array.dtype}",
            code="costs-invalid",
        )
    rows, columns = array.shape
    if columns < 2 or rows - columns not in (0, 1):
        raise InputError(
            "costs: the matrix must have a row for each decision and a column for each true class, "
            f"(C, C), or (C + 1, C) with a last row of reviews; got {rows} x {columns}",
            code="costs-invalid",
        )
    wide = np.asarray(array, dtype=np.float64)
    bad = ~(np.isfinite(wide) & (wide >= 0))
    if bool(bad.any()):
        i, j = np.argwhere(bad)[0]
        raise InputError(
            f"costs: the matrix must be finite and not negative; row {i}, column {j} is "
            f"{wide[i, j]:g}. For a gain, raise the other entries of its column",
            code="costs-invalid",
        )
    if bool((wide[:columns] == wide[0]).all()):
        raise InputError(
            "costs: every answer costs the same; there is nothing to decide", code="costs-invalid"
        )
    return wide


def _in_order(frame: Any, array: FloatArray) -> FloatArray:
    """Return the rows of a frame in the order of its columns; rows that are just counted stay."""
    columns = getattr(frame, "columns", None)
    rows = [] if columns is None else [str(row) for row in getattr(frame, "index", ())]
    if columns is None or rows == [str(i) for i in range(len(rows))]:
        return array
    return array[row_order(rows, [str(column) for column in columns])]


def _require_classes(names: Sequence[str], array: FloatArray) -> None:
    if len(names) != array.shape[1] or len(set(names)) < len(names):
        raise InputError(
            f"costs: classes must be {array.shape[1]} different names, one for each column of the "
            f"matrix; got {len(names)} ({len(set(names))} different)",
            code="costs-invalid",
        )


def row_order(rows: Sequence[str], classes: Sequence[str]) -> IntArray:
    """Return where the decision for each class stands among rows, and the review after them.

    Examples
    --------
    >>> row_order(["review", "b", "a"], ["a", "b"])
    array([2, 1, 0])
    """
    decisions = [*classes, REVIEW_NAME][: max(len(rows), len(classes))]
    order = order_of(rows, decisions, what="the rows of the cost matrix")
    return np.arange(len(rows)) if order is None else np.asarray(order, dtype=np.int64)
