"""Costs of decisions for a number of classes: the best decision of a row, and its threshold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smallcal.data.checks import FloatArray, IntArray
from smallcal.errors import InputError
from smallcal.metrics.scored import row_blocks
from smallcal.metrics.units import Unit

#: The decision to hand a row over, and what it is called.
REVIEW = -1
REVIEW_NAME = "review"

#: Expected costs that differ by less than this share of the dearest are the same: they are sums,
#: whose last digits depend on the order of the classes.
_SLACK = 1e-12

#: Classes up to which it is solved whether a review is ever worth its cost.
_SOLVED = 100


@dataclass(frozen=True, eq=False, kw_only=True)
class CostTable:
    """What each decision costs when each class is the true one, for so many classes.

    Attributes
    ----------
    answers : ndarray of shape (C, C)
        Rows are answers, columns are true classes.
    review : ndarray of shape (C,), or None
        Of handing a row over, where that can be done.
    classes : tuple of str, or None
    score : bool
        Whether the classes are the outcomes 0 and 1 of a score.
    said : tuple of str
        What was assumed.
    """

    answers: FloatArray
    review: FloatArray | None = None
    classes: tuple[str, ...] | None = None
    score: bool = False
    said: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.review is not None and REVIEW_NAME in (self.classes or ()):
            raise InputError(
                f"costs: a class is called {REVIEW_NAME!r}, as handing over is; rename that class",
                code="costs-invalid",
            )

    @property
    def n_classes(self) -> int:
        """Columns."""
        return len(self.answers)

    @property
    def dearest(self) -> float:
        """The largest cost there is."""
        return float(max(self.answers.max(), 0 if self.review is None else self.review.max()))

    @property
    def wrong(self) -> float | None:
        """What every mistake costs, where all cost the same and a right answer nothing."""
        off = self.answers[~np.eye(self.n_classes, dtype=bool)]
        same = bool((off == off[0]).all()) and not bool(self.answers.diagonal().any())
        return float(off[0]) if same else None

    @property
    def flat_review(self) -> float | None:
        """What a review costs, where that does not depend on the true class."""
        flat = self.review is not None and bool((self.review == self.review[0]).all())
        return float(self.review[0]) if flat and self.review is not None else None

    @property
    def axis(self) -> str:
        """What one threshold can be set on.

        ``"confidence"`` in the answer, below which rows are passed on for review, where all
        mistakes cost the same; ``"saving"``, the expected cost of a review minus that of the
        answer, where they do not; ``"probability"`` of the second class, from which on it is the
        answer, where nothing can be passed on for review; nothing for more classes without reviews.
        """
        if self.review is not None:
            return "saving" if None in (self.wrong, self.flat_review) else "confidence"
        return "probability" if self.n_classes == 2 and min(self._extra) > 0 else ""

    @property
    def _extra(self) -> tuple[float, float]:
        """What a false alarm and a miss cost beyond the right answers, of two classes."""
        (right, miss), (alarm, found) = self.answers.tolist()
        return alarm - right, miss - found

    @property
    def threshold(self) -> float | None:
        """The threshold that costs least where probabilities are right; None where there is none.

        Examples
        --------
        >>> CostTable(answers=np.array([[0, 9.0], [1, 0]])).threshold
        0.1
        >>> CostTable(answers=20 * (1 - np.eye(3)), review=np.full(3, 5.0)).threshold
        0.75
        """
        if self.axis == "confidence":
            assert self.wrong is not None
            assert self.flat_review is not None
            return max(0.0, 1 - self.flat_review / self.wrong)
        if self.axis == "probability":
            alarm, miss = self._extra
            return alarm / (alarm + miss)
        return 0.0 if self.axis == "saving" else None

    def choose(self, proba: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return each row's decision of least expected cost, and that cost.

        Examples
        --------
        >>> table = CostTable(answers=np.array([[0, 9.0], [1, 0]]), review=np.array([0.5, 0.5]))
        >>> table.choose(np.array([[0.2, 0.8], [0.8, 0.2], [0.99, 0.01]]))
        (array([ 1, -1,  0]), array([0.2 , 0.5 , 0.09]))
        """
        answer, cost = self.answer(proba)
        if self.review is None:
            return answer, cost
        review = self.expected_review(proba)
        handed = review < cost - _SLACK * self.dearest
        return np.where(handed, REVIEW, answer), np.where(handed, review, cost)

    def answer(self, proba: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return each row's best answer, handing nothing over, and its expected cost."""
        answer, cost = np.empty(len(proba), dtype=np.int64), np.empty(len(proba))
        slack, last = _SLACK * self.dearest, self.n_classes - 1
        for rows in row_blocks(proba):
            expected = self._expected(proba[rows])
            cost[rows] = expected.min(axis=1)
            near = expected <= cost[rows][:, None] + slack
            # Of a score it is outcome 1 that is claimed: it comes first.
            answer[rows] = last - near[:, ::-1].argmax(axis=1) if self.score else near.argmax(1)
        return answer, cost

    def _expected(self, block: FloatArray) -> FloatArray:
        """Return the expected cost of each answer for some rows."""
        wide = block.astype(np.float64, copy=False)
        if self.wrong is not None:  # so that a thousand classes need no product of matrices
            return np.asarray(self.wrong * (wide.sum(axis=1, keepdims=True) - wide))
        return np.asarray(wide @ self.answers.T)

    def expected_review(self, proba: FloatArray) -> FloatArray:
        """Return the expected cost of handing each row over."""
        assert self.review is not None
        return np.asarray(proba @ self.review)

    def paid(self, decisions: IntArray, labels: IntArray) -> FloatArray:
        """Return what each decision did cost.

        Examples
        --------
        >>> table = CostTable(answers=np.array([[0, 9.0], [1, 0]]), review=np.array([0.5, 0.5]))
        >>> table.paid(np.array([0, 1, REVIEW]), np.array([1, 1, 1])).tolist()
        [9.0, 0.0, 0.5]
        """
        rows = self.answers if self.review is None else np.vstack([self.answers, self.review])
        return np.asarray(rows[decisions, labels])

    def names(self, decisions: IntArray) -> NDArray[np.str_]:
        """Return what decisions are called.

        Examples
        --------
        >>> CostTable(answers=1 - np.eye(2), classes=("a", "b")).names(np.array([1, -1])).tolist()
        ['b', 'review']
        """
        own = self.classes or tuple(map(str, range(self.n_classes)))
        return np.array([*own, REVIEW_NAME])[decisions]

    @property
    def unit(self) -> Unit:
        """How mean costs are written: as they are, with digits that suit the dearest."""
        return Unit(
            "", scale=1.0, digits=max(2, 4 - math.floor(math.log10(self.dearest))), change=""
        )

    @property
    def text(self) -> str:
        """The costs in words.

        Examples
        --------
        >>> CostTable(answers=20 * (1 - np.eye(3)), review=np.full(3, 5.0)).text
        'a wrong answer costs 20, a review 5'
        """
        if self.wrong is not None:
            said = f"a wrong answer costs {shown(self.wrong)}"
        elif self.n_classes == 2 and not self.answers.diagonal().any():
            (_, miss), (alarm, _) = self.answers.tolist()
            zero, one = self._two
            said = (
                f"a miss ({one} taken for {zero}) costs {shown(miss)}, a false alarm ({zero} taken "
                f"for {one}) {shown(alarm)}"
            )
        else:
            said = f"a matrix of {self.n_classes:,} decisions and classes"
        if self.review is None:
            return f"{said}; nothing is passed on for review"
        flat = self.flat_review
        ends = f"{shown(self.review.min())} to {shown(self.review.max())}"
        return f"{said}, a review {ends if flat is None else shown(flat)}"

    @property
    def rule(self) -> str:
        """What the best decisions amount to, by the costs alone.

        Examples
        --------
        >>> CostTable(answers=20 * (1 - np.eye(3)), review=np.full(3, 5.0)).rule
        'answered where the answer has a probability of 75.0 % or more, else passed on for review'
        >>> CostTable(answers=np.array([[0, 9.0], [1, 0]])).rule
        'decided for 1 where it has a probability of 10.0 % or more'
        """
        best, (zero, one) = self.threshold, self._two
        if best is not None and self.axis == "confidence":
            return (
                f"answered where the answer has a probability of {_share(best)} or more, else "
                "passed on for review"
            )
        if best is not None and self.axis == "probability":
            return f"decided for {one} where it has a probability of {_share(best)} or more"
        if self.axis == "saving" and self.n_classes == 2 and self.flat_review is not None:
            alarm, miss = self._extra
            (right, _), (_, found) = self.answers.tolist()
            high, low = 1 - (self.flat_review - found) / alarm, (self.flat_review - right) / miss
            if right == found and 0 <= low < high <= 1:
                return (
                    f"decided for {one} where it has a probability of {_share(high)} or more, for "
                    f"{zero} where that is {_share(low)} or less, else passed on for review"
                )
        if self.axis == "saving":
            return "answered where that is not expected to cost more than a review"
        return "the answer of least expected cost"

    @property
    def _two(self) -> Sequence[str]:
        """What the first two classes are called."""
        return self.classes[:2] if self.classes is not None and not self.score else ("0", "1")

    @property
    def notes(self) -> tuple[str, ...]:
        """What was assumed, and what will not be as it may have been meant."""
        found = list(self.said)
        if self.review is not None and self._never_reviewed():
            found.append(
                f"a review ({shown(self.review.min())}) is more expensive than answering ever is: "
                "nothing "
                "is passed on for review"
            )
        right = self.answers.diagonal()
        if bool((right > self.answers.min(axis=0)).any()):
            place = int((right > self.answers.min(axis=0)).argmax())
            name = self.names(np.array([place]))[0]
            found.append(f"of class {name} the right answer costs more than a wrong one")
        return tuple(found)

    def _never_reviewed(self) -> bool:
        """Whether no probabilities make a review worth its cost."""
        assert self.review is not None
        most = (1 - _SLACK) * self.dearest
        if self.wrong is not None:  # the worst a row can be is that all classes are as likely
            most = (1 - _SLACK) * self.wrong * (1 - 1 / self.n_classes)
        elif self.n_classes <= _SOLVED:
            return self._most_saved() <= _SLACK * self.dearest
        return float(self.review.min()) >= most

    def _most_saved(self) -> float:
        """Return what a review saves at most over the best answer: a linear program."""
        from scipy.optimize import linprog

        assert self.review is not None
        n = self.n_classes
        # Probabilities and what is saved, s: of no answer more than it costs beyond a review.
        beyond = np.column_stack([self.review - self.answers, np.ones(n)])
        sums = np.array([[*np.ones(n), 0.0]])
        found = linprog(
            [*np.zeros(n), -1.0],
            A_ub=beyond / self.dearest,
            b_ub=np.zeros(n),
            A_eq=sums,
            b_eq=[1.0],
            bounds=[*[(0, 1)] * n, (None, None)],
        )
        return math.inf if found.fun is None else -float(found.fun)


def _share(value: float) -> str:
    """Write a threshold; a small one, or one that is close to 1, keeps two digits."""
    near = min(value, 1 - value)
    digits = 1 if near >= 0.01 or near <= 0 else 1 - math.floor(math.log10(100 * near))
    return f"{100 * value:.{min(digits, 8)}f} %"


def shown(cost: float) -> str:
    """Write a cost as it was given.

    Examples
    --------
    >>> shown(100.0), shown(0.5), shown(25000.0)
    ('100', '0.5', '25,000')
    """
    return f"{cost:,.10g}"
