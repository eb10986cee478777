"""Which array in a file is what: names such as ``logits``, ``val_labels`` or ``probas_test``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smallcal.data.names import order_of
from smallcal.errors import FileError, InputError
from smallcal.io.words import (
    ALL_ROLES,
    ROLES,
    SCORE_KINDS,
    SCORE_ROLES,
    parse_name,
    says_scores,
    score_splits,
)

#: What the split to calibrate on is called, beside one called test.
CALIBRATION_SPLITS = ("cal", "val", "calibration", "validation", "valid")
#: The label of rows that torch's cross entropy leaves out.
IGNORED = -100

_SHOWN_NAMES = 8


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What the caller says of a file, where its own names do not say it.

    Attributes
    ----------
    input : {"logits", "probabilities", "score"}, optional
        What the scores are.
    columns : tuple of str
        The columns of a table that are classes, in order; ``class_*`` stands for several.
    logits_key, labels_key, group : str, optional
        The array, or the column, that holds scores, labels or groups; ``a.b`` of JSON lines is
        the field b of a.
    per : str, optional
        What tells models or tasks apart that a log may hold together.
    class_names : tuple of str, optional
        The classes in order. Columns called so are taken, and put in that order.
    known : tuple of str, optional
        Classes that columns may be called after, in whatever order.
    labels_only : bool
        Whether the scores are of no interest.
    labels : ndarray, optional
        The labels, if another file holds them.
    """

    input: str | None = None
    columns: tuple[str, ...] = ()
    logits_key: str | None = None
    labels_key: str | None = None
    group: str | None = None
    per: str | None = None
    class_names: tuple[str, ...] | None = None
    known: tuple[str, ...] | None = None
    labels_only: bool = False
    labels: NDArray[Any] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        several = len(self.columns) > 1 or "," in (self.logits_key or "")
        if self.input == "score" and several:
            named = self.logits_key or ",".join(self.columns)
            raise InputError.with_options(
                f"--score: name one field; got {named}. A calibrator takes one number per row: "
                "write their difference, or what else combines them, into a field of its own",
                code="option-format",
            )


#: The file's own names say everything.
AS_IT_IS = Choice()


@dataclass(frozen=True, eq=False, kw_only=True)
class Loaded:
    """What a file held, not yet checked; :class:`smallcal.data.predictions.Predictions` does that.

    Attributes
    ----------
    logits : ndarray
        The scores; a read-only memory map when they came from a .npy file. They are
        probabilities, or one number per row, if ``input`` says so.
    labels : ndarray or None
    features : ndarray or None
    groups : ndarray of str, or None
        The name of each row's group, "" where it has none.
    class_names : tuple of str, or None
    input : {"logits", "probabilities", "score"}
        What the file's own names say the scores are, unless the caller said otherwise.
    source : str
        The path as it was given.
    ordered : bool
        Whether labels that are numbers surely count in the order of ``class_names``.
    notes : tuple of str
        What was left out, in words.
    """

    logits: NDArray[Any]
    labels: NDArray[Any] | None = None
    features: NDArray[Any] | None = None
    groups: NDArray[np.str_] | None = None
    class_names: tuple[str, ...] | None = None
    input: str = "logits"
    source: str = ""
    ordered: bool = False
    notes: tuple[str, ...] = ()

    def in_order_of(self, known: Sequence[str] | None) -> Loaded:
        """Return the samples with columns in the order of these classes, where both have names.

        Raises
        ------
        InputError
            If the names differ, or labels are numbers of which one cannot tell how they count.

        Examples
        --------
        >>> loaded = Loaded(logits=np.array([[1.0, 2.0]]), class_names=("dog", "cat"))
        >>> loaded.in_order_of(("cat", "dog")).logits
        array([[2., 1.]])
        """
        if known is None or self.class_names is None:
            return self
        order = order_of(self.class_names, known, what=f"{self.source}: the columns")
        if order is None:
            return self
        labels = self.labels
        if labels is not None:
            labels = renumbered(labels, order, ordered=self.ordered, source=self.source)
        return replace(
            self,
            logits=self.logits[:, order],
            labels=labels,
            class_names=tuple(known),
            notes=(*self.notes, moved_note(self.source)),
        )

    def without_ignored(self) -> Loaded:
        """Return the samples without rows of the label -100, which means "no label".

        Examples
        --------
        >>> Loaded(logits=np.eye(2), labels=np.array([0, -100])).without_ignored().labels
        array([0])
        """
        if self.labels is None or self.labels.dtype.kind not in "if" or self.labels.ndim != 1:
            return self
        kept = self.labels != IGNORED
        if bool(kept.all()):
            return self
        if not bool(kept.any()):
            raise no_labels(self.source)
        note = ignored_note(self.source, len(kept), int((~kept).sum()))
        return replace(self.take(kept), notes=(*self.notes, note))

    def take(self, rows: NDArray[Any]) -> Loaded:
        """Return some of the samples."""
        return replace(
            self,
            logits=self.logits[rows],
            labels=None if self.labels is None else self.labels[rows],
            features=None if self.features is None else self.features[rows],
            groups=None if self.groups is None else self.groups[rows],
        )


def no_labels(source: str) -> FileError:
    """Build the error for data of which every row is to be left out."""
    return FileError(f"{source}: every label is {IGNORED}, which means no label", code="no-labels")


def ignored_note(source: str, n: int, left_out: int) -> str:
    """Return how many rows have the label that means no label."""
    return f"{source}: left out {left_out:,} of {n:,} rows, whose label is {IGNORED} (no label)"


def moved_note(source: str) -> str:
    """Return that columns were taken by name."""
    return f"{source}: columns are in another order than in the fit; they were matched by name"


def renumbered(
    labels: NDArray[Any], order: NDArray[Any], *, ordered: bool, source: str
) -> NDArray[Any]:
    """Return the labels of columns that were put in another order; names stay as they are.

    Examples
    --------
    >>> renumbered(np.array([0, 1, -100]), np.array([1, 0]), ordered=True, source="a.npz")
    array([   1,    0, -100])
    """
    if labels.dtype.kind not in "iubf":
        return labels
    if not ordered:
        raise InputError.with_options(
            f"{source}: the columns are in another order than in the fit, so labels that are "
            "numbers are ambiguous; write labels as class names, or give the order that they "
            "count in with --columns",
            code="labels-unknown",
        )
    places = np.argsort(order)
    found = labels.astype(np.float64) if labels.dtype.kind == "f" else labels.astype(np.int64)
    inside = (found >= 0) & (found < len(places)) & (found == np.floor(found))
    found[inside] = places[found[inside].astype(np.int64)]
    return found


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
    def of(cls, names: Iterable[str], *, source: str, choice: Choice = AS_IT_IS) -> Layout:
        """Sort the names of a file's arrays into splits and roles."""
        names = tuple(names)
        if choice.input == "score":
            return cls(source=source, names=names, splits=score_splits(names))
        splits = _sorted(names, ROLES, source, choice)
        if not _scored(splits) and says_scores(names):
            splits = score_splits(names)
        if not _scored(splits):
            splits = _sorted(names, ALL_ROLES, source, choice)
        return cls(source=source, names=names, splits=splits)

    @property
    def scored(self) -> tuple[str, ...]:
        """The prefixes under which the file holds logits or probabilities."""
        return _scored(self.splits)

    def choose(self, prefix: str | None, choice: Choice = AS_IT_IS) -> Mapping[str, str]:
        """Return the roles of the split that was asked for, or of the only one there is."""
        roles = dict(self._keyed(prefix, choice) if choice.logits_key else self._split(prefix))
        if choice.labels_key is not None:
            roles["labels"] = self._there(choice.labels_key, "--labels-key")
        if choice.group is not None:
            roles["groups"] = self._grouped(choice.group, roles)
        return roles

    def _grouped(self, key: str, roles: Mapping[str, str]) -> str:
        """Return the array of groups: one of this name in the split, or of this whole name."""
        scores = next(name for role, name in roles.items() if role in SCORE_KINDS)
        split = parse_name(scores, ALL_ROLES if parse_name(scores, ALL_ROLES)[0] else SCORE_ROLES)[
            1
        ]
        mine = (f"{split}_{key}", f"{key}_{split}") if split else ()
        found = next((name for name in mine if name in self.names), None)
        return self._there(key, "--group") if found is None else found

    def _split(self, prefix: str | None) -> Mapping[str, str]:
        if prefix is not None:
            if prefix not in self.scored:
                raise FileError(
                    f"{self.source} has no split {prefix!r}; {self._offer()}", code="file-column"
                )
            return self.splits[prefix]
        if "" in self.scored:
            return self.splits[""]
        if len(self.scored) == 1:
            return self.splits[self.scored[0]]
        if self.scored:
            raise FileError(
                f"{self.source} holds several splits; {self._offer()}", code="file-ambiguous"
            )
        raise FileError.with_options(
            f"{self.source} holds no array called logits or probabilities; it has "
            f"{self.described()}. Name the arrays logits and labels, or say --logits-key and "
            "--labels-key",
            code="file-column",
        )

    def _keyed(self, prefix: str | None, choice: Choice) -> Mapping[str, str]:
        """Return the roles of a split whose scores were named by the caller."""
        key = self._there(str(choice.logits_key), "--logits-key")
        role, own = parse_name(key)
        role = choice.input or (role if role in SCORE_KINDS else "logits")
        labelled = [name for name, roles in self.splits.items() if "labels" in roles]
        place = next((name for name in (prefix, own, "") if name in labelled), None)
        if place is None and prefix is None and len(labelled) == 1:
            place = labelled[0]
        others = {} if place is None else self.splits[place]
        return {role: key, **{name: a for name, a in others.items() if name not in SCORE_KINDS}}

    def _there(self, key: str, option: str) -> str:
        if key not in self.names:
            raise FileError.with_options(
                f"{option}: {self.source} has no {key!r}; it has {self.described()}",
                code="file-column",
            )
        return key

    def labels(self, prefix: str | None, choice: Choice = AS_IT_IS) -> str:
        """Return the name of the labels: those of the split, or the only array there is."""
        if choice.labels_key is not None and len(self.names) != 1:
            return self._there(choice.labels_key, "--labels-key")
        labelled = {key: roles["labels"] for key, roles in self.splits.items() if "labels" in roles}
        if prefix is None and len(self.names) == 1:
            return self.names[0]
        key = next(iter(labelled), "") if prefix is None and len(labelled) == 1 else prefix or ""
        if key in labelled:
            return labelled[key]
        if labelled:
            offer = ", ".join(f"{self.source}:{key}" for key in labelled if key)
            raise FileError(
                f"{self.source} holds several splits of labels; choose one: {offer}",
                code="file-ambiguous",
            )
        raise FileError.with_options(
            f"{self.source} holds no array called labels; it has {self.described()}. Name it "
            "with --labels-key",
            code="no-labels",
        )

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
        return "its arrays have no prefix: leave out the part after the colon"


def _sorted(
    names: Iterable[str], known: Mapping[str, str], source: str, choice: Choice
) -> dict[str, dict[str, str]]:
    """Return the roles of each prefix; what the caller names may be there twice."""
    named = {
        *(SCORE_KINDS if choice.logits_key else ()),
        *(("labels",) if choice.labels_key else ()),
        "groups",
    }
    splits: dict[str, dict[str, str]] = {}
    for name in names:
        role, prefix = parse_name(name, known)
        if role is None:
            continue
        first = splits.setdefault(prefix, {}).setdefault(role, name)
        if first != name and role not in named:
            option = {"labels": ", or say --labels-key"}.get(role, "")
            option = ", or say --logits-key" if role in SCORE_KINDS else option
            raise FileError.with_options(
                f"{source} holds {role} twice: {first} and {name}; keep one{option}",
                code="file-ambiguous",
            )
    return splits


def _scored(splits: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
    return tuple(key for key, roles in splits.items() if roles.keys() & {*SCORE_KINDS})


def score_role(roles: Mapping[str, str], input: str | None) -> str:
    """Return which scores of a split to take: what was asked for if it is there, else logits."""
    if input in roles and input in SCORE_KINDS:
        return input
    return next(kind for kind in SCORE_KINDS if kind in roles)


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
