"""Samples that lm-evaluation-harness writes with ``--log_samples``: one document per line.

``filtered_resps`` holds ``[log-likelihood, is_greedy]`` of each option (``resps`` the same within
another list), ``arguments`` the context and the text of each option, ``target`` the right one by
number or by text. Early releases wrote numbers and lists of lists; today (0.4.13) all are written
as text, and arguments as ``{"gen_args_0": {"arg_0": ..., "arg_1": ...}}``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from smallcal.errors import FileError
from smallcal.io.eval_logs.fields import require_field, value_at
from smallcal.io.eval_logs.options import padded
from smallcal.io.layout import IGNORED, Choice
from smallcal.io.tables import Table

Record = Mapping[str, Any]


def is_samples(record: Record) -> bool:
    """Whether a record is a sample of the harness."""
    answered = "filtered_resps" in record or "resps" in record
    return answered and "target" in record and ("doc_id" in record or "arguments" in record)


def read_samples(records: Sequence[Record], choice: Choice, source: str) -> Table:
    """Return option log-likelihoods as logits, and the target as label."""
    kept, notes = _one_filter(records, source)
    rows = [_likelihoods(record, number, source) for number, record in enumerate(kept, 1)]
    matrix, _, short = padded(rows, source)
    texts = [_texts(record, len(row)) for record, row in zip(kept, rows, strict=True)]
    arrays: dict[str, Any] = {"logits": matrix}
    if choice.labels is None:
        samples = zip(kept, rows, texts, strict=True)
        arrays["labels"] = np.array(
            [_label(*sample, f"{source}: sample {i}") for i, sample in enumerate(samples, 1)]
        )
    first = texts[0]
    if first is not None and len(first) == matrix.shape[1] and all(one == first for one in texts):
        arrays["class_names"] = np.array(first)
    if choice.group is not None:
        require_field(kept, choice.group, "--group", source)
        arrays["groups"] = [str(value_at(record, choice.group)) for record in kept]
    return Table(arrays, ordered=True, notes=(*notes, *short))


def _one_filter(records: Sequence[Record], source: str) -> tuple[Sequence[Record], tuple[str, ...]]:
    """Return the samples of the first filter: the harness writes each document once for each."""
    filters = dict.fromkeys(str(record.get("filter", "")) for record in records)
    if len(filters) < 2:
        return records, ()
    first = next(iter(filters))
    kept = [record for record in records if str(record.get("filter", "")) == first]
    note = f"{source}: used {len(kept):,} of {len(records):,} samples, those of filter {first!r}"
    return kept, (note,)


def _likelihoods(record: Record, number: int, source: str) -> list[float]:
    found = record["filtered_resps"] if "filtered_resps" in record else record["resps"]
    try:
        values = [_number(one) for one in found]
    except (TypeError, ValueError, IndexError):
        raise FileError.with_options(
            f"{source}: sample {number} has no log-likelihoods of options, so the task is not "
            "multiple choice; for a task that generates text, use --score and --outcome",
            code="file-value",
        ) from None
    if "acc_mutual_info" in record and len(values) % 2 == 0:
        values = values[: len(values) // 2]  # the others are without context
    return values


def _number(value: Any) -> float:
    """Return the log-likelihood of a pair with is_greedy; a text alone is an answer, "4" too."""
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, list):
        value, greedy = value
        if str(greedy) not in ("True", "False"):
            raise ValueError(greedy)
    elif isinstance(value, str):
        raise TypeError(value)
    return float(value)


def _texts(record: Record, n: int) -> list[str] | None:
    """Return the text of each option, or None where options differ in their contexts."""
    given = record.get("arguments")
    if isinstance(given, dict):
        given = [list(one.values()) if isinstance(one, dict) else one for one in given.values()]
    if not isinstance(given, list) or len(given) < n:
        return None
    pairs = given[:n]
    if not all(isinstance(pair, list) and len(pair) > 1 for pair in pairs):
        return None
    found = [str(pair[1]).strip() for pair in pairs]
    return found if len(set(found)) == n else None


def _label(record: Record, row: Sequence[float], texts: Sequence[str] | None, where: str) -> int:
    """Return the number of the right option, which the target gives as number, letter or text."""
    target, n = record["target"], len(row)
    told = str(target).strip()
    by_number = int(told) if told.removeprefix("-").isdecimal() else None
    if by_number == IGNORED:
        return IGNORED
    if by_number is not None and not 0 <= by_number < n:
        by_number = None
    by_text = texts.index(told) if texts is not None and told in texts else None
    if by_number is None and by_text is None and len(told) == 1 and "A" <= told <= "Z":
        by_text = ord(told) - ord("A") if ord(told) - ord("A") < n else None
    found = [one for one in (by_number, by_text) if one is not None]
    if not found:
        raise FileError(
            f"{where}: the target {told[:40]!r} is not one of its {n} options; samples with "
            "several right answers cannot be used",
            code="labels-out-of-range",
        )
    if len(set(found)) == 2 and record.get("acc") in (0, 1, "0.0", "1.0", "0", "1"):
        # Numbers as texts: the harness itself knew which of the two is right.
        hit, best = float(record["acc"]) == 1, int(np.argmax(row))
        agreeing = [one for one in found if (one == best) == hit]
        return (agreeing or found)[0]
    return found[0]
