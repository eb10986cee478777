"""Names of classes: what a header says, and columns put in order by them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smallcal.errors import InputError

_KIND_WORD = re.compile(r"((?:logits?|prob|probs|probas?|probability|probabilities)_).*", re.DOTALL)
_NUMBERED = re.compile(r"(?:(?:logits?|probs?|class|column|col|c|x|z)_?)?(\d+)")

_SHOWN_NAMES = 5
#: Letters of a name at most: arrays of names take as much room for each as for the longest.
_MOST_LETTERS = 10_000


class Header(NamedTuple):
    """What the headers of score columns say: names of classes or None, and the word before them."""

    names: tuple[str, ...] | None
    word: str


def kind_word(header: str) -> str:
    """Return the word in front of a class's name that says what the numbers are, or nothing.

    Examples
    --------
    >>> kind_word("logit_cat"), kind_word("Prob_0"), kind_word("cat")
    ('logit_', 'prob_', '')
    """
    match = _KIND_WORD.fullmatch(header.lower())
    return match[1] if match else ""


def number_of(header: str) -> int | None:
    """Return the number of a column that is called by its number, or None.

    Examples
    --------
    >>> number_of("3"), number_of("class_3"), number_of("cat")
    (3, 3, None)
    """
    match = _NUMBERED.fullmatch(header.lower())
    return int(match[1]) if match else None


def read_header(headers: Sequence[str]) -> Header:
    """Take the word off that all headers begin with; columns 0, 1, 2, ... have no names.

    Examples
    --------
    >>> read_header(["logit_cat", "logit_dog"])
    Header(names=('cat', 'dog'), word='logit_')
    >>> read_header(["prob_0", "prob_1"])
    Header(names=None, word='prob_')
    """
    words = {kind_word(header) for header in headers}
    word = words.pop() if len(words) == 1 else ""
    names = tuple(header[len(word) :] for header in headers)
    return Header(None if _are_numbers(names, word) else names, word)


def _are_numbers(names: Sequence[str], word: str) -> bool:
    """Whether columns are numbered; behind a word, c0 is the name of a class."""
    return in_order(names) and (not word or all(map(str.isdecimal, names)))


def require_names(names: Sequence[str], *, what: str = "class_names") -> None:
    r"""Raise where a name could not be written to every file and read back.

    Examples
    --------
    >>> require_names(["cat", "sea\nlion", ""])
    >>> require_names(["cat", "dog\0"])
    Traceback (most recent call last):
    ...
    smallcal.errors.InputError: class_names: 'dog\x00' ends with NUL, which arrays of text drop;...
    """
    for name in names:
        if len(name) > _MOST_LETTERS:
            short = f"{name[:20]!r}..."
            raise InputError(
                f"{what}: {short} has {len(name):,} characters; at most {_MOST_LETTERS:,} are "
                "allowed",
                code="class-names-invalid",
            )
        if name.endswith("\0"):
            raise InputError(
                f"{what}: {name!r} ends with NUL, which arrays of text drop; rename that class",
                code="class-names-invalid",
            )
        if any("\ud800" <= letter <= "\udfff" for letter in name):
            raise InputError(
                f"{what}: {name!r} is not valid text (half of a surrogate pair); rename that class",
                code="class-names-invalid",
            )


def in_order(names: Sequence[str]) -> bool:
    """Whether names are numbers that count up from 0 or from 1."""
    numbers = [number_of(name) for name in names]
    first = numbers[0] if numbers else None
    if first is None or first > 1:
        return False
    return numbers == [*range(first, first + len(numbers))]


def frame_names(values: object) -> tuple[str, ...] | None:
    """Return the names of a DataFrame's columns if they name classes, else None.

    Examples
    --------
    >>> frame_names(np.eye(2)) is None
    True
    """
    columns = getattr(values, "columns", None)
    if columns is None or not hasattr(values, "to_numpy"):
        return None
    headers = list(columns)
    if not headers or not all(isinstance(header, str) for header in headers):
        return None
    names = read_header(headers).names
    return None if names is None or len(set(names)) < len(names) else names


def by_name(scores: NDArray[Any], given: object, known: Sequence[str] | None) -> NDArray[Any]:
    """Return scores with their columns in the order of known classes, where a frame names both.

    Examples
    --------
    >>> by_name(np.array([[1.0, 2.0]]), np.array([[1.0, 2.0]]), ["cat", "dog"])
    array([[1., 2.]])
    """
    names = None if known is None else frame_names(given)
    if known is None or names is None:
        return scores
    order = order_of(names, known, what="the columns")
    return scores if order is None else scores[:, order]


def order_of(names: Sequence[str], known: Sequence[str], *, what: str) -> NDArray[Any] | None:
    """Return where each known name stands among the names; None where all stand as they should.

    Raises
    ------
    InputError
        If the two do not name the same classes.

    Examples
    --------
    >>> order_of(["dog", "cat"], ["cat", "dog"], what="columns")
    array([1, 0])
    >>> order_of(["dog", "wolf"], ["cat", "dog"], what="columns")
    Traceback (most recent call last):
    ...
    smallcal.errors.InputError: columns do not match the class names: missing 'cat'; unknown 'wolf'
    """
    if tuple(names) == tuple(known):
        return None
    place = {name: i for i, name in enumerate(names)}
    missing = [name for name in known if name not in place]
    unknown = sorted(place.keys() - set(known), key=place.__getitem__)
    if missing or unknown or len(place) < len(names):
        parts = [("missing", missing), ("unknown", unknown)]
        said = "; ".join(f"{word} {listed(found)}" for word, found in parts if found)
        raise InputError(
            f"{what} do not match the class names: {said or 'a name repeats'}",
            code="class-names-invalid",
        )
    return np.array([place[name] for name in known])


def listed(names: Sequence[str]) -> str:
    """Return names in quotes, the first few of many.

    Examples
    --------
    >>> listed(["a", "b"]), listed(list("abcdefg"))
    ("'a', 'b'", "'a', 'b', 'c', 'd', 'e' and 2 more")
    """
    shown = ", ".join(repr(str(name)) for name in names[:_SHOWN_NAMES])
    more = len(names) - _SHOWN_NAMES
    return shown + (f" and {more} more" if more > 0 else "")
