"""Tell the columns of a table that are classes from those that are not, by names and numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smallcal.data.checks import probabilities_like
from smallcal.data.names import in_order, listed, number_of
from smallcal.errors import FileError

#: Columns that pandas makes of an index.
_MADE_BY_PANDAS = re.compile(r"|unnamed: \d+|__index_level_\d+__")
#: Columns that number or name the rows.
_INDEX = re.compile(
    r"(?:.*[ _-])?(?:id|ids|idx|index|uid|uuid|guid)|row|rownum|"
    r"row[ _-]?(?:number|num|nr|no|name)s?|level_\d+|file ?_?names?|paths?"
)
#: Columns that may say something of a prediction, or be a class of this name.
_DOUBTFUL = re.compile(
    r"(?:y_)?(?:pred|preds|prediction|predictions|predicted)(?:_(?:label|class|idx|index))?|"
    r"(?:max_?|top_?1?_?)?(?:confidence|conf|prob|probability|score)|correct|is_correct|loss|nll|"
    r"entropy|margin|weight|sample_weight|fold|split|seed|timestamp|time|date"
)
#: Rows that are looked at to see what a column holds, and the fewest that tell anything.
SAMPLE = 1000
_FEWEST = 10

#: Numbers of the first rows of some columns, by place; None for a column without numbers.
Look = Callable[[Sequence[int]], Mapping[int, NDArray[np.float64] | None]]


class Labels(NamedTuple):
    """Whether labels are names, and how often each occurs."""

    names: bool
    counts: Mapping[str, int]


#: The labels of a table, None if it has none.
Seen = Callable[[], Labels | None]


def count_labels(labels: NDArray[Any]) -> Labels:
    """Count how often each label occurs.

    Examples
    --------
    >>> count_labels(np.array(["cat", "dog", "cat"]))
    Labels(names=True, counts={'cat': 2, 'dog': 1})
    """
    values, counts = np.unique(labels, return_counts=True)
    found = dict(zip(map(str, values.tolist()), counts.tolist(), strict=True))
    return Labels(labels.dtype.kind not in "iubf", found)


class Judge:
    """Tells columns that are classes from those that are not."""

    def __init__(
        self,
        names: Sequence[str],
        source: str,
        look: Look | None,
        seen: Seen,
        known: frozenset[str],
    ) -> None:
        self._names, self._source = names, source
        self._look, self._seen, self._known = look, seen, known
        self._values: Mapping[int, NDArray[np.float64] | None] = {}

    def classes(self, places: Sequence[int]) -> tuple[list[int], list[int]]:
        """Return the columns that are classes and those that are left out."""
        named = self._names
        if in_order([named[i] for i in places]):
            return list(places), []
        labels = self._seen()
        counts = labels.counts if labels is not None and labels.names else None
        self._values = {} if self._look is None else self._look(places)
        sure = {i for i in places if named[i] in self._known or named[i] in (counts or {})}
        out = [i for i in places if i not in sure and self._is_no_class(i)]
        rest = [i for i in places if i not in out]
        out += [i for i in rest if i not in sure and self._counts_whole(i, rest)]
        rest = [i for i in places if i not in out]
        doubtful = self._doubtful(rest, sure, counts)
        if doubtful and not self._add_up(rest):
            rest = self._without(rest, doubtful, plain=counts is not None or bool(self._known))
            out = [i for i in places if i not in rest]
        elif not self._known and not self._add_up(rest):
            self._refuse_too_many(rest, labels)
        if out and len(rest) == 1:
            raise self._question(out, rest)
        return rest, sorted(out)

    def _without(self, rest: list[int], doubtful: list[int], *, plain: bool) -> list[int]:
        """Return the columns without the doubtful ones, or ask.

        Where classes have names, it is plain that a column called after something else is none.
        """
        if plain:
            rest = [i for i in rest if i not in doubtful or not _is_doubtful(self._names[i])]
            doubtful = [i for i in doubtful if i in rest]
        kept = [i for i in rest if i not in doubtful]
        if doubtful and not self._add_up(kept):
            raise self._question(doubtful, kept)
        return kept

    def _is_no_class(self, place: int) -> bool:
        """Whether a column numbers the rows or holds no numbers."""
        name, own = self._names[place].lower(), self._values.get(place)
        if own is None and place in self._values:
            return True
        if _MADE_BY_PANDAS.fullmatch(name):
            return True
        # A column called id of fractions may well be Indonesian.
        return _INDEX.fullmatch(name) is not None and (own is None or _is_whole(own))

    def _counts_whole(self, place: int, others: Sequence[int]) -> bool:
        """Whether a column of different whole numbers stands beside ones of fractions."""
        own = self._values.get(place)
        if own is None or len(own) < _FEWEST or number_of(self._names[place]) is not None:
            return False
        if not _is_whole(own) or np.ptp(own) == 0:
            return False
        values = (self._values.get(i) for i in others if i != place)
        return any(one is not None and not _is_whole(one) for one in values)

    def _doubtful(
        self, rest: Sequence[int], sure: set[int], counts: Mapping[str, int] | None
    ) -> list[int]:
        """Return the columns of which the names do not tell whether they are classes."""
        named = self._names
        if self._known and self._known <= {named[i] for i in rest}:
            return [i for i in rest if i not in sure]
        if self._known & {named[i] for i in rest}:
            return []  # which names are missing and which are unknown is said where they are used
        numbered = [i for i in rest if number_of(named[i]) is not None]
        if len(numbered) > 1 and in_order([named[i] for i in numbered]):
            return [i for i in rest if i not in numbered and i not in sure]
        unseen = [i for i in rest if i not in sure]
        if sure and counts is not None and len(unseen) > _expected_unseen(counts):
            return unseen
        return [i for i in unseen if _is_doubtful(named[i])]

    def _refuse_too_many(self, rest: Sequence[int], labels: Labels | None) -> None:
        """Raise where labels that are numbers leave columns over that no rarity explains."""
        if labels is None or labels.names or not labels.counts:
            return
        n = sum(labels.counts.values())
        if n < _FEWEST * len(rest) or _expected_unseen(labels.counts):
            return
        n_classes = int(max(float(label) for label in labels.counts)) + 1
        if 1 < n_classes < len(rest):
            raise FileError.with_options(
                f"{self._source}: labels run from 0 to {n_classes - 1} and {len(rest)} columns "
                "may be classes; name the classes: --columns A,B,...",
                code="file-ambiguous",
            )

    def _add_up(self, places: Sequence[int]) -> bool:
        """Whether these columns are the probabilities of all classes there are."""
        values = [self._values.get(i) for i in places]
        found = [one for one in values if one is not None]
        if len(found) < max(2, len(places)) or not len(found[0]):
            return False
        return bool(probabilities_like(np.column_stack(found)))

    def _question(self, doubtful: Sequence[int], kept: Sequence[int]) -> FileError:
        names = [self._names[i] for i in doubtful]
        offer = ",".join(self._names[i] for i in kept[:3]) + (",..." if len(kept) > 3 else "")
        are = "is a class" if len(names) == 1 else "are classes"
        said = f"cannot tell whether {listed(names)} {are}"
        if self._known and self._known <= {*self._names}:
            said = f"the columns do not match the class names: unknown {listed(names)}"
        single = "" if len(kept) + len(names) > 1 else ", or say --input score"
        return FileError.with_options(
            f"{self._source}: {said}; name the classes: --columns {offer or 'A,B,...'}{single}",
            code="file-ambiguous",
        )


def numbers_rows(name: str) -> bool:
    """Whether a column called so numbers or names the rows.

    Examples
    --------
    >>> numbers_rows("doc_id"), numbers_rows("score")
    (True, False)
    """
    lower = name.lower()
    return bool(_MADE_BY_PANDAS.fullmatch(lower) or _INDEX.fullmatch(lower))


def _is_doubtful(name: str) -> bool:
    return _DOUBTFUL.fullmatch(name.lower()) is not None


def _is_whole(values: NDArray[np.float64]) -> bool:
    return bool(np.isfinite(values).all() and (values == np.floor(values)).all())


def of_fractions(values: NDArray[np.float64] | None) -> bool:
    """Whether a column holds numbers that are not all whole.

    Examples
    --------
    >>> of_fractions(np.array([0.5, 2.0])), of_fractions(np.array([3.0])), of_fractions(None)
    (True, False, False)
    """
    return values is not None and bool(len(values)) and not _is_whole(values)


def _expected_unseen(counts: Mapping[str, int]) -> float:
    """Return about how many classes may well not occur among the labels, judged by the rare ones.

    Chao's estimate, doubled: the more classes occur once, the more do not occur at all.

    Examples
    --------
    >>> _expected_unseen({"cat": 40, "dog": 60}), _expected_unseen({"cat": 1, "dog": 9})
    (0.0, 1.0)
    """
    often = Counter(counts.values())
    once, twice = often[1], often[2]
    return once + once * (once - 1) / (twice + 1)
