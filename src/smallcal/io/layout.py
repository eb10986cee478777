"""Which array in a file is what: names such as ``logits``, ``val_labels`` or ``probas_test``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smallcal.errors import FileError

#: What an array that holds so is called.
_WORDS: Mapping[str, tuple[str, ...]] = {
    "logits": ("logits",),
    "probabilities": ("probabilities", "probas", "probs"),
    "class_names": ("class_names",),
    "features": ("features",),
    "labels": ("labels", "label", "targets", "target", "y"),
}
#: What an array called so holds.
ROLES = MappingProxyType({word: role for role, words in _WORDS.items() for word in words})

LABEL_NAMES = _WORDS["labels"]
SCORE_KINDS = ("logits", "probabilities")
#: What the split to calibrate on is called, beside one called test.
CALIBRATION_SPLITS = ("cal", "val", "calibration", "validation", "valid")

_SHOWN_NAMES = 8


@dataclass(frozen=True, eq=False, kw_only=True)
class Loaded:
    """What a file held, not yet checked; :class:`smallcal.data.predictions.Predictions` does that.

    Attributes
    ----------
    logits : ndarray
        The scores; a read-only memory map when they came from a .npy file. They are
        probabilities if ``input`` says so.
    labels : ndarray or None
    features : ndarray or None
    class_names : tuple of str, or None
    input : {"logits", "probabilities"}
        What the file's own names say the scores are, unless the caller said otherwise.
    source : str
        The path as it was given.
    """

    logits: NDArray[Any]
    labels: NDArray[Any] | None = None
    features: NDArray[Any] | None = None
    class_names: tuple[str, ...] | None = None
    input: str = "logits"
    source: str = ""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The splits of one file: for each prefix, the array that plays each role.

    Examples
    --------
    >>> layout = Layout.of(["probas_cal", "labels_cal", "probas_test"], source="a.h5")
    >>> layout.splits["cal"]
    {'probabilities': 'probas_cal', 'labels': 'labels_cal'}
    """

    source: str
    names: tuple[str, ...]
    splits: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, names: Iterable[str], *, source: str) -> Layout:
        """Sort the names of a file's arrays into splits and roles."""
        splits: dict[str, dict[str, str]] = {}
        names = tuple(names)
        for name in names:
            role, prefix = parse_name(name)
            if role is None:
                continue
            if role in splits.setdefault(prefix, {}):
                raise FileError(
                    f"{source} holds {role} twice: {splits[prefix][role]} and {name}; keep one"
                )
            splits[prefix][role] = name
        return cls(source=source, names=names, splits=splits)

    @property
    def scored(self) -> tuple[str, ...]:
        """The prefixes under which the file holds logits or probabilities."""
        return tuple(key for key, roles in self.splits.items() if roles.keys() & {*SCORE_KINDS})

    def choose(self, prefix: str | None) -> Mapping[str, str]:
        """Return the roles of the split that was asked for, or of the only one there is."""
        if prefix is not None:
            if prefix not in self.scored:
                raise FileError(f"{self.source} has no split {prefix!r}; {self._offer()}")
            return self.splits[prefix]
        if "" in self.scored:
            return self.splits[""]
        if len(self.scored) == 1:
            return self.splits[self.scored[0]]
        if self.scored:
            raise FileError(f"{self.source} holds several splits; {self._offer()}")
        raise FileError(
            f"{self.source} holds no array called logits or probabilities; it has "
            f"{self.described()}. Name the arrays logits and labels"
        )

    def labels(self, prefix: str | None) -> str:
        """Return the name of the labels: those of the split, or the only array there is."""
        labelled = {key: roles["labels"] for key, roles in self.splits.items() if "labels" in roles}
        if prefix is None and len(self.names) == 1:
            return self.names[0]
        key = next(iter(labelled), "") if prefix is None and len(labelled) == 1 else prefix or ""
        if key in labelled:
            return labelled[key]
        if labelled:
            offer = ", ".join(f"{self.source}:{key}" for key in labelled if key)
            raise FileError(f"{self.source} holds several splits of labels; choose one: {offer}")
        raise FileError(f"{self.source} holds no array called labels; it has {self.described()}")

    def described(self) -> str:
        """Return the names of the arrays, the first few of many."""
        if not self.names:
            return "no arrays"
        more = len(self.names) - _SHOWN_NAMES
        return ", ".join(self.names[:_SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")

    def _offer(self) -> str:
        choices = ", ".join(f"{self.source}:{key}" for key in self.scored if key)
        if choices:
            return f"choose one: {choices}"
        return "its arrays carry no prefix: leave out what follows the colon"


def parse_name(name: str) -> tuple[str | None, str]:
    """Return the role of an array's name and its prefix.

    Examples
    --------
    >>> parse_name("val_logits"), parse_name("probas_test"), parse_name("y"), parse_name("id")
    (('logits', 'val'), ('probabilities', 'test'), ('labels', ''), (None, ''))
    """
    lower = name.lower()
    if lower in ROLES:
        return ROLES[lower], ""
    for word, role in ROLES.items():
        if lower.endswith("_" + word):
            return role, name[: -len(word) - 1]
    for word, role in ROLES.items():
        if lower.startswith(word + "_"):
            return role, name[len(word) + 1 :]
    return None, ""


def score_role(roles: Mapping[str, str], input: str | None) -> str:
    """Return which scores of a split to take: what was asked for if it is there, else logits."""
    if input in roles and input in SCORE_KINDS:
        return input
    return "logits" if "logits" in roles else "probabilities"


def two_columns(probabilities: NDArray[Any]) -> NDArray[Any]:
    """Return a binary model's probabilities of class 1 as those of both classes.

    Examples
    --------
    >>> import numpy as np
    >>> two_columns(np.array([0.25, 1.0])).tolist()
    [[0.75, 0.25], [0.0, 1.0]]
    """
    if probabilities.ndim == 1 or probabilities.shape[1:] == (1,):
        positive = probabilities.reshape(-1)
        return np.column_stack([1 - positive, positive])
    return probabilities
