"""What arrays, columns and fields are called: the words for logits, scores, labels and outcomes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

#: What an array that holds so is called.
_WORDS: Mapping[str, tuple[str, ...]] = {
    "logits": ("logits",),
    "probabilities": (
        *("probabilities", "probas", "probs", "proba"),
        *("softmax", "y_prob", "y_probs", "y_proba"),
    ),
    "class_names": ("class_names",),
    "features": ("features",),
    "labels": (
        *("labels", "label", "targets", "target", "y"),
        *("label_ids", "y_true", "true_labels", "true_label", "ground_truth", "gt"),
    ),
    "groups": ("groups", "group"),
}
#: What logits are called too, in files that hold nothing called logits or probabilities.
_WEAK_WORDS = (
    *("predictions", "outputs", "output", "y_pred", "y_score", "scores", "preds"),
    *("logprobs", "log_probs", "loglikelihoods"),
)
#: What one number per row is called, and what came of it: 0 or 1.
SCORE_WORDS = (
    *("score", "scores", "y_score", "y_scores", "confidence", "confidences", "margin", "margins"),
    *("decision_function", "score_difference", "difference", "probability"),
)
OUTCOME_WORDS = ("outcome", "outcomes", "correct", "is_correct", "success", "winner")
#: Kinds of scores, those that say more first.
SCORE_KINDS = ("logits", "probabilities", "score")


def _longest_first(roles: Mapping[str, str]) -> Mapping[str, str]:
    """Put y_true before y, or it would be a split called true."""
    return MappingProxyType(dict(sorted(roles.items(), key=lambda pair: -len(pair[0]))))


#: What an array called so holds.
ROLES = _longest_first({word: role for role, words in _WORDS.items() for word in words})
ALL_ROLES = _longest_first({**ROLES, **dict.fromkeys(_WEAK_WORDS, "logits")})
LABEL_NAMES = _WORDS["labels"]
GROUP_NAMES = _WORDS["groups"]

_OTHERS = {word: role for word, role in ROLES.items() if role in ("groups", "features")}
#: What a file of scores calls its arrays; words of the first table go before those of the others.
_SCORE_TABLES = tuple(
    _longest_first(roles)
    for roles in (
        {
            **dict.fromkeys(SCORE_WORDS, "score"),
            **dict.fromkeys(OUTCOME_WORDS, "labels"),
            **_OTHERS,
        },
        {
            **dict.fromkeys(_WORDS["probabilities"], "score"),
            **dict.fromkeys(LABEL_NAMES, "labels"),
        },
        dict.fromkeys((*_WORDS["logits"], *_WEAK_WORDS), "score"),
    )
)


SCORE_ROLES = _SCORE_TABLES[0]


def parse_name(name: str, known: Mapping[str, str] = ROLES) -> tuple[str | None, str]:
    """Return the role of an array's name and its prefix.

    Examples
    --------
    >>> parse_name("val_logits"), parse_name("probas_test"), parse_name("y"), parse_name("id")
    (('logits', 'val'), ('probabilities', 'test'), ('labels', ''), (None, ''))
    """
    lower = name.lower()
    if lower in known:
        return known[lower], ""
    for word, role in known.items():
        if lower.endswith("_" + word):
            return role, name[: -len(word) - 1]
    for word, role in known.items():
        if lower.startswith(word + "_"):
            return role, name[len(word) + 1 :]
    return None, ""


def holds_scores(name: str) -> bool:
    """Whether a column of lists called so holds the scores of a row."""
    return parse_name(name, ALL_ROLES)[0] in SCORE_KINDS


def called_score(name: str) -> bool:
    """Whether an array of one number per row is called a score.

    Examples
    --------
    >>> called_score("val_scores"), called_score("val_logits")
    (True, False)
    """
    return parse_name(name, SCORE_ROLES)[0] == "score"


def says_scores(names: Iterable[str]) -> bool:
    """Whether names say that a file holds one number per row and what came of it.

    ``scores`` alone may be logits, and says so only beside outcomes.

    Examples
    --------
    >>> says_scores(["val_scores", "val_outcomes"]), says_scores(["scores", "labels"])
    (True, False)
    """
    roles = {name: parse_name(name, SCORE_ROLES)[0] for name in names}
    scores = [name for name, role in roles.items() if role == "score"]
    sure = any(parse_name(name, ALL_ROLES)[0] is None for name in scores)
    return bool(scores) and (sure or "labels" in roles.values())


def score_splits(names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return, for each prefix, the arrays of a file that holds one number per row.

    Examples
    --------
    >>> score_splits(["val_scores", "val_outcomes", "val_labels"])
    {'val': {'score': 'val_scores', 'labels': 'val_outcomes'}}
    """
    splits: dict[str, dict[str, str]] = {}
    for table in _SCORE_TABLES:
        for name in names:
            role, prefix = parse_name(name, table)
            if role is not None:
                splits.setdefault(prefix, {}).setdefault(role, name)
    return splits
