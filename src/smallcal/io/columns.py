"""Which columns of a table are classes, which one is the label, and which are neither.

The same rules hold for every table, whatever file it came in. A column is taken as a class because
the caller or its own name says so, or because nothing speaks against it. What is plainly no class
is left out with a note; where one cannot tell, the caller is asked for ``--columns``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial

from smallcal.data.names import (
    in_order,
    kind_word,
    listed,
    number_of,
    order_of,
    read_header,
    require_names,
)
from smallcal.errors import FileError
from smallcal.io.judge import Judge, Look, Seen, count_labels, numbers_rows, of_fractions
from smallcal.io.layout import AS_IT_IS, Choice
from smallcal.io.words import (
    GROUP_NAMES,
    LABEL_NAMES,
    OUTCOME_WORDS,
    SCORE_KINDS,
    SCORE_WORDS,
    holds_scores,
    parse_name,
)


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The meaning of a table's columns.

    Attributes
    ----------
    scores : tuple of int
        Where the classes stand, in order.
    label, group : int or None
    class_names : tuple of str, or None
    kind : {"logits", "probabilities", "score"}
    ordered : bool
        Whether the caller gave the order.
    notes : tuple of str
        What was left out.

    Examples
    --------
    >>> columns = Columns.of(["cat", "dog", "label"], source="a.csv")
    >>> columns.scores, columns.label, columns.class_names
    ((0, 1), 2, ('cat', 'dog'))
    >>> Columns.of(["prob_0", "prob_1"], source="a.csv").kind
    'probabilities'
    >>> (note,) = Columns.of(["id", "cat", "dog"], source="a.csv").notes
    >>> first, rest = note.split("; ")
    >>> first
    "a.csv: not used as classes, going by names and values: 'id'"
    >>> rest
    'to choose the classes, use --columns'
    """

    scores: tuple[int, ...]
    label: int | None
    class_names: tuple[str, ...] | None
    kind: str
    ordered: bool = False
    notes: tuple[str, ...] = ()
    group: int | None = None

    @classmethod
    def of(
        cls,
        headers: Sequence[str],
        *,
        source: str,
        choice: Choice = AS_IT_IS,
        look: Look | None = None,
        seen: Seen = lambda: None,
    ) -> Columns:
        """Read the header row; look at the rows only where that does not tell."""
        table = _Header(tuple(map(_name, headers)), source)
        if choice.labels is not None:
            seen = partial(count_labels, choice.labels)
        if choice.input is None and not choice.labels_only and table.says_score(choice):
            choice = replace(choice, input="score")
        label = table.label(choice)
        if choice.labels_only:
            return cls(scores=(), label=label, class_names=None, kind="logits")
        group = table.group(choice, look)
        if choice.input == "score":
            scores = table.score(choice, {label, group}, look)
            return cls(scores=scores, label=label, class_names=None, kind="score", group=group)
        if choice.columns or choice.logits_key is not None:
            scores = table.asked_for(choice, label)
            names, word = read_header([table.names[i] for i in scores])
            kind = "probabilities" if word.startswith("prob") else "logits"
            ordered = bool(choice.columns)
            found = cls(scores=scores, label=label, class_names=names, kind=kind, ordered=ordered)
        else:
            found = _by_rule(table, {label, group}, choice, look, seen)
            found = replace(found, label=label)
        if found.class_names is not None:
            require_names(found.class_names, what=f"{source}: the columns")
        if group is not None and (group in found.scores or group == label):
            raise FileError.with_options(
                f"--group: column {table.names[group]!r} of {source} is a class or the label; "
                "name another column",
                code="file-ambiguous",
            )
        return replace(found, group=group)._named(choice.class_names, source)

    def _named(self, names: tuple[str, ...] | None, source: str) -> Columns:
        """Put the columns in the order of the names, or give the names to columns of others."""
        own = self.class_names
        if names is None or not self.scores:
            return self
        if own is None or not set(own) & set(names):
            return replace(self, class_names=names, ordered=True)
        order = order_of(own, names, what=f"{source}: the columns")
        scores = self.scores if order is None else tuple(self.scores[i] for i in order)
        return replace(self, scores=scores, class_names=names, ordered=True)


def _name(header: str) -> str:
    """Return the name of a column; blanks around it count only behind a word that we write."""
    return header if kind_word(header) else header.strip()


@dataclass(frozen=True)
class _Header:
    """The names of all columns, and whose they are."""

    names: tuple[str, ...]
    source: str

    def __post_init__(self) -> None:
        counts = Counter(name for name in self.names if name)
        repeated = next((name for name, count in counts.items() if count > 1), None)
        if repeated is not None:
            raise FileError(
                f"{self.source} has two columns called {repeated!r}; rename one",
                code="file-ambiguous",
            )

    def place(self, name: str, option: str) -> int:
        if name not in self.names:
            raise FileError.with_options(
                f"{option}: {self.source} has no column {name!r}; it has {listed(self.names)}",
                code="file-column",
            )
        return self.names.index(name)

    def label(self, choice: Choice) -> int | None:
        """Return the column of the labels."""
        if choice.labels_key is not None:
            return self.place(choice.labels_key, "--labels-key")
        places = self._called(LABEL_NAMES, choice)
        if choice.input == "score":
            places = self._called(OUTCOME_WORDS, choice) or places
        if len(places) > 1:
            found = " and ".join(self.names[i] for i in places)
            raise FileError.with_options(
                f"{self.source} has several label columns, {found}; keep one, or say --labels-key",
                code="file-ambiguous",
            )
        return places[0] if places else None

    def _called(self, words: Sequence[str], choice: Choice) -> list[int]:
        """Return the columns that are called so, but for those that the caller takes as scores."""
        taken = (*choice.columns, choice.logits_key)
        named = enumerate(self.names)
        return [i for i, name in named if name.lower() in words and name not in taken]

    def says_score(self, choice: Choice) -> bool:
        """Whether the names say that the table holds one score, and the caller nothing else."""
        if choice.columns or choice.logits_key is not None or choice.class_names or choice.known:
            return False
        if any(kind_word(name) or holds_scores(name) for name in self.names if name != "scores"):
            return False
        scores, outcomes = (self._called(words, choice) for words in (SCORE_WORDS, OUTCOME_WORDS))
        known = {*scores, *outcomes, *self._called(LABEL_NAMES, choice)}
        rest = [name for i, name in enumerate(self.names) if i not in known]
        return len(scores) == 1 and (bool(outcomes) or all(map(numbers_rows, rest)))

    def score(self, choice: Choice, others: set[int | None], look: Look | None) -> tuple[int, ...]:
        """Return the column of the score."""
        asked = choice.columns or (choice.logits_key and (choice.logits_key,))
        if asked:
            option = "--columns" if choice.columns else "--score"
            found = [self.place(name, option) for name in asked]
            taken = next((self.names[i] for i in found if i in others), None)
            if taken is not None:
                raise FileError.with_options(
                    f"{option}: column {taken!r} of {self.source} is the outcome or the group; "
                    "name another column",
                    code="file-ambiguous",
                )
            return tuple(found)
        rest = [i for i in range(len(self.names)) if i not in others]
        found = [i for i in self._called(SCORE_WORDS, choice) if i in rest] or rest
        if len(found) > 1 and look is not None:
            values = look(found)
            found = [i for i in found if values.get(i) is not None]
            found = [i for i in found if not numbers_rows(self.names[i])]
        if len(found) == 1:
            return tuple(found)
        names = [self.names[i] for i in found] or self.names
        raise FileError.with_options(
            f"{self.source}: cannot tell which column is the score, among {listed(names)}; name it "
            "with --score",
            code="file-ambiguous",
        )

    def group(self, choice: Choice, look: Look | None) -> int | None:
        """Return the column of the groups; one of fractions is a class that is called so."""
        if choice.group is not None:
            return self.place(choice.group, "--group")
        classes = {*choice.columns, *(choice.class_names or ()), *(choice.known or ())}
        called = [i for i, name in enumerate(self.names) if name.lower() in GROUP_NAMES]
        places = [i for i in called if self.names[i] not in classes]
        found = (i for i in places if look is None or not of_fractions(look([i])[i]))
        return next(found, None)

    def asked_for(self, choice: Choice, label: int | None) -> tuple[int, ...]:
        """Return the columns that the caller named, or all that begin with a word."""
        if choice.columns:
            found = [i for name in choice.columns for i in self._matching(name)]
        else:
            key = str(choice.logits_key)
            begins = tuple(f"{key}{sign}" for sign in "_.- ")
            found = [i for i, name in enumerate(self.names) if name.startswith(begins)]
            if not found:
                self.place(key, "--logits-key")
                raise FileError.with_options(
                    f"--logits-key: column {key!r} of {self.source} holds one number per row; "
                    "name the classes with --columns, or say --input score",
                    code="array-shape",
                )
        option = "--columns" if choice.columns else "--logits-key"
        if label in found:
            raise FileError.with_options(
                f"{option}: column {self.names[label or 0]!r} of {self.source} is the label, not "
                "a class; leave it out",
                code="file-ambiguous",
            )
        scores = tuple(dict.fromkeys(found))
        if len(scores) < 2:
            raise FileError.with_options(
                f"{option}: name at least two classes; got {len(scores)}. For one score per row "
                "and its outcome, use --input score",
                code="too-few-options",
            )
        return scores

    def _matching(self, name: str) -> list[int]:
        if name in self.names:
            return [self.names.index(name)]
        found = [i for i, header in enumerate(self.names) if fnmatchcase(header, name)]
        return found or [self.place(name, "--columns")]


def _by_rule(
    table: _Header, others: set[int | None], choice: Choice, look: Look | None, seen: Seen
) -> Columns:
    """Return the columns that are classes by name, by the labels or by their numbers."""
    rest = [i for i in range(len(table.names)) if i not in others]
    said = [i for i in rest if kind_word(table.names[i])]
    known = frozenset(choice.class_names or choice.known or ())
    notes: tuple[str, ...] = ()
    if len(said) > 1 and len({kind_word(table.names[i])[:4] for i in said}) == 1:
        scores = said  # what has another name is something else: numbers of rows, temperatures
    else:
        judge = Judge(table.names, table.source, look, seen, known)
        scores, left_out = judge.classes(rest)
        notes = _note(table, left_out)
    names, word = read_header([table.names[i] for i in scores])
    if names is not None and not known.issuperset(names):
        _require_names(names, word, source=table.source)
    kind = "probabilities" if word.startswith("prob") else "logits"
    return Columns(scores=tuple(scores), label=None, class_names=names, kind=kind, notes=notes)


def _note(table: _Header, left_out: Sequence[int]) -> tuple[str, ...]:
    """Say which columns were left out."""
    names = [table.names[i] for i in left_out]
    if not names:
        return ()
    return (
        f"{table.source}: not used as classes, going by names and values: {listed(names)}; to "
        "choose the classes, use --columns",
    )


def _require_names(names: Sequence[str], word: str, *, source: str) -> None:
    """Raise where headers are data, or numbers out of order; behind a word, 1999 is a name."""
    numbers = [number_of(name) for name in names]
    if not word and all(map(_is_number, names)) and None in numbers:
        raise FileError(
            f"{source} has no header row: its first line is numbers. Add column names",
            code="file-header",
        )
    counted = {*numbers} in ({*range(len(names))}, {*range(1, len(names) + 1)})
    if names and None not in numbers and not in_order(names) and (counted or not word):
        raise FileError(
            f"{source}: numbered columns must be in the order 0, 1, 2, ...; the first line has "
            f"{', '.join(names[:5])}. If it is data, add a header row",
            code="file-header",
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def list_arrays(
    names: Sequence[str], held: Sequence[str], choice: Choice, *, source: str
) -> dict[str, tuple[str, ...]]:
    """Return the arrays of a table with whole rows of scores in a column; nothing without such.

    ``held`` are the columns of lists. What the caller names is called after its role.

    Examples
    --------
    >>> list_arrays(["id", "logits", "label"], ["logits"], Choice(), source="a.parquet")
    {'logits': ('logits',), 'label': ('label',)}
    """
    key = choice.logits_key
    if choice.columns or choice.input == "score" or (key is not None and key not in held):
        return {}
    found: dict[str, tuple[str, ...]] = {name: (name,) for name in held if holds_scores(name)}
    if key is not None:
        found = {choice.input or _role(key): (key,)}
    if not found:
        return {}
    header = _Header(tuple(names), source)
    if choice.group is not None:
        found["groups"] = (names[header.place(choice.group, "--group")],)
    else:
        found |= {name: (name,) for name in names if parse_name(name)[0] == "groups"}
    if choice.labels_key is not None:
        place = header.place(choice.labels_key, "--labels-key")
        return {**found, "labels": (names[place],)}
    return found | {name: (name,) for name in names if parse_name(name)[0] == "labels"}


def _role(key: str) -> str:
    role = parse_name(key)[0]
    return role if role in SCORE_KINDS else "logits"
