"""Fields of a log by path, ``judge.score`` or ``choices.0.text``, and logs of several models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from smallcal.data.names import listed
from smallcal.errors import FileError, did_you_mean
from smallcal.io.layout import Choice

#: What tells apart results that one calibrator should not be fitted on together.
_MODELS = ("model", "model_name", "model_id", "task", "task_name", "benchmark")
#: Where APIs keep the tokens that might have come first, and what a log calls them.
_API = (
    "logprobs.content.0.top_logprobs",
    "choices.0.logprobs.content.0.top_logprobs",
    "response.body.choices.0.logprobs.content.0.top_logprobs",
    "logprobs.top_logprobs.0",
    "choices.0.logprobs.top_logprobs.0",
)
_TOP = "logprobs"
#: Two scores that a judgement compares.
_PAIRS = (("score_a", "score_b"), ("score_1", "score_2"), ("reward_a", "reward_b"))
_MISSING = object()
_SHOWN_PATHS = 30

Record = Mapping[str, Any]


def value_at(record: Any, path: str) -> Any:
    """Return what lies at a path, or a marker if there is nothing.

    Examples
    --------
    >>> value_at({"judge": {"marks": [3, 4]}}, "judge.marks.1")
    4
    """
    if isinstance(record, dict) and path in record:
        return record[path]
    found = record
    for part in path.split("."):
        if isinstance(found, dict) and part in found:
            found = found[part]
        elif isinstance(found, list) and part.isdecimal() and int(part) < len(found):
            found = found[int(part)]
        else:
            return _MISSING
    return found


def _holds(record: Any, path: str) -> bool:
    return value_at(record, path) is not _MISSING


def _paths(record: Any, before: str = "") -> Iterator[str]:
    """Yield the paths of a record's single values."""
    inner = record.items() if isinstance(record, dict) else enumerate(record)
    for name, value in inner:
        if isinstance(value, dict | list) and value:
            yield from _paths(value, f"{before}{name}.")
        else:
            yield f"{before}{name}"


def require_field(records: Sequence[Record], path: str, option: str, source: str) -> None:
    """Raise where a field is in no sample, or missing in some of them."""
    without = [
        i for i, record in enumerate(records, 1) if value_at(record, path) in (_MISSING, None)
    ]
    if len(without) == len(records):
        known = list(islice(_paths(records[0]), _SHOWN_PATHS))
        meant = did_you_mean(path, known) or f"it has {listed(known)}"
        what = "field" if "." in path else "column"
        raise FileError.with_options(
            f"{option}: {source} has no {what} {path!r}; {meant}", code="file-column"
        )
    if without:
        more = f" and {len(without) - 5} more" if len(without) > 5 else ""
        raise FileError.with_options(
            f"{option}: {path!r} is missing in {len(without)} of {len(records)} samples of "
            f"{source}: {', '.join(map(str, without[:5]))}{more}; drop those samples",
            code="file-value",
        )


def refuse_mixed(records: Sequence[Record], choice: Choice, source: str) -> None:
    """Raise where a log holds several models or tasks, unless the caller knows that."""
    for name in _MODELS:
        values = dict.fromkeys(record.get(name) for record in records)
        known = [value for value in values if isinstance(value, str)]
        several = len(known) == len(values) > 1
        if several and name not in (choice.group, choice.per):
            raise FileError.with_options(
                f"{source} holds {len(values)} values of {name!r}: {listed(known)}; keep the "
                f"samples of one, fit a calibrator for each with --per {name}, or one calibrator "
                f"with an effect for each with --group {name}",
                code="file-ambiguous",
            )


def plain_records(
    records: Sequence[Record], choice: Choice, source: str
) -> tuple[Sequence[Record], Choice]:
    """Return records whose fields are all on top, those asked for by path among them.

    Where nothing of a log is asked for they stay as they are. Fields that only some samples have
    are left out, unless they are asked for.
    """
    records, choice = _compared(records, choice, source)
    asked = {
        path: option
        for path, option in _asked(choice).items()
        if option != "--logits-key" or "." in path or path in records[0]
    }  # else it is a word that columns begin with
    for path, option in asked.items():
        require_field(records, path, option, source)
    named = bool(choice.logits_key) or choice.labels_only or choice.input == "score"
    top = None if named else next((path for path in _API if _holds(records[0], path)), None)
    if not asked and top is None and choice.input != "score":
        return records, choice
    kept = [name for name in records[0] if all(name in record for record in records)]
    if named:
        kept = [name for name in kept if not isinstance(records[0][name], list | dict)]
    if top is not None:
        kept = [name for name in kept if name != top.partition(".")[0]]
    return [_plain(record, kept, asked, top) for record in records], choice


def _compared(
    records: Sequence[Record], choice: Choice, source: str
) -> tuple[Sequence[Record], Choice]:
    """Make the difference of two scores beside a winner the score, if the caller says nothing."""
    if choice.input is not None or choice.logits_key is not None or choice.labels_only:
        return records, choice
    pair = next((pair for pair in _PAIRS if all(name in records[0] for name in pair)), None)
    if pair is None or "winner" not in records[0]:
        return records, choice
    name = " - ".join(pair)
    made = [{**record, name: _difference(record, pair, source)} for record in records]
    return made, replace(choice, input="score", logits_key=name)


def _difference(record: Record, pair: tuple[str, str], source: str) -> float:
    first, second = map(record.get, pair)
    try:
        return float(first) - float(second)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise FileError(
            f"{source}: {pair[0]} and {pair[1]} must be numbers in every sample; got {first!r} "
            f"and {second!r}",
            code="file-value",
        ) from None


def _asked(choice: Choice) -> dict[str, str]:
    """Return the paths that the caller names, each with its option."""
    scored, asked = choice.input == "score", {}
    if choice.logits_key:
        asked[choice.logits_key] = "--score" if scored else "--logits-key"
    if choice.labels_key is not None:
        asked[choice.labels_key] = "--outcome" if scored else "--labels-key"
    if choice.group is not None:
        asked[choice.group] = "--group"
    return asked


def _plain(
    record: Record, kept: Sequence[str], asked: Mapping[str, str], top: str | None
) -> Record:
    found = {name: record[name] for name in kept}
    found |= {path: value_at(record, path) for path in asked}
    if top is not None:
        shown = value_at(record, top)
        found[_TOP] = [] if shown is _MISSING or shown is None else shown
    return found
