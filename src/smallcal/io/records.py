"""Tables as JSON: an object per sample in lines or a list, or arrays by name; packed or not."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smallcal.data.groups import as_groups
from smallcal.errors import FileError
from smallcal.io.columns import Columns, list_arrays
from smallcal.io.eval_logs.fields import plain_records, refuse_mixed
from smallcal.io.eval_logs.harness import is_samples, read_samples
from smallcal.io.eval_logs.options import is_shown, padded, shown
from smallcal.io.judge import Labels, count_labels
from smallcal.io.layout import AS_IT_IS, Choice
from smallcal.io.tables import Table
from smallcal.io.text import floats_of, is_float, label_place, table_of, text_of, typed
from smallcal.io.words import SCORE_KINDS, parse_name, says_scores


def read_json_lines(file: Path, choice: Choice = AS_IT_IS) -> Table:
    """Read one JSON object per line: a list of scores and a label, or a number per class."""
    records = []
    with text_of(file) as handle:
        for number, line in enumerate(handle, start=1):
            if line.strip():
                records.append(_parsed(line, f"{file}, line {number}"))
    return _records(records, file, choice, counted_from=1)


def read_json(file: Path, choice: Choice = AS_IT_IS) -> Table | Mapping[str, Any]:
    """Read a JSON object of arrays by name, or a list of objects, one for each sample."""
    with text_of(file) as handle:
        content = _parsed(handle.read(), str(file))
    if isinstance(content, list):
        return _records(content, file, choice, counted_from=0)
    if not isinstance(content, dict):
        raise FileError(
            f"{file} holds a {type(content).__name__}; write an object or a list", code="file-value"
        )
    if str(content.get("format", "")).startswith("smallcal"):
        raise FileError(f"{file} is a saved calibrator; name a file of logits", code="file-type")
    arrays = {name: values for name, values in content.items() if isinstance(values, list)}
    scored = choice.input == "score" or says_scores(arrays)
    nested = scored or any(map(_is_nested, arrays.values()))
    if not choice.labels_only and arrays and not nested:
        return _records([content], file, choice, counted_from=0)
    return {name: _plain(values, f"{file}: {name}") for name, values in arrays.items()}


def _is_nested(values: list[Any]) -> bool:
    return bool(values) and isinstance(values[0], list)


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        why = str(error).splitlines()[0]
        raise FileError(f"{where}: not JSON ({why}); write it again", code="file-damaged") from None


def _plain(values: list[Any], where: str) -> NDArray[Any]:
    """Return nested lists as an array."""
    try:
        found = np.array(values)
    except (ValueError, OverflowError):
        raise FileError(f"{where} must hold lists of one length", code="file-ragged") from None
    return found if found.dtype.kind in "fiubU" else np.array(values, dtype=object)


def _records(records: Sequence[Any], file: Path, choice: Choice, *, counted_from: int) -> Table:
    """Return the arrays of objects that each describe one sample."""
    if not records or not all(isinstance(record, dict) and record for record in records):
        raise FileError(
            f"{file} must hold one JSON object per sample, such as {{'logits': [...]}}",
            code="file-value",
        )
    if not choice.labels_only:
        refuse_mixed(records, choice, str(file))
        if _is_plain(choice) and is_samples(records[0]):
            return read_samples(records, choice, str(file))
    records, choice = plain_records(records, choice, str(file))
    headers = list(records[0])
    for number, record in enumerate(records, start=counted_from):
        if record.keys() != records[0].keys():
            odd = next(iter(record.keys() ^ records[0].keys()))
            raise FileError(
                f"{file}: sample {number} and the first do not have the same keys: only one of "
                f"them has {odd!r}",
                code="file-ragged",
            )
    columns = {name: [record[name] for record in records] for name in headers}
    held = [name for name in headers if isinstance(records[0][name], list | dict)]
    if not choice.labels_only:
        options = any(is_shown(records[0][name]) for name in held)
        asked = replace(choice, columns=()) if options else choice
        lists = list_arrays(headers, held, asked, source=str(file))
        if lists:
            return _from_lists(columns, lists, file, choice)
    found = Columns.of(
        headers,
        source=str(file),
        choice=choice,
        look=lambda places: {i: floats_of(columns[headers[i]]) for i in places},
        seen=lambda: _counted_column(columns, headers, choice, file),
    )
    scores = [_scores(columns[headers[i]], f"{file}: {headers[i]!r}") for i in found.scores]
    names = frozenset(found.class_names or ())
    labels = None if found.label is None else _labels(columns[headers[found.label]], file, names)
    groups = None if found.group is None else as_groups(columns[headers[found.group]])
    return table_of(found, np.column_stack(scores) if scores else None, labels, groups)


def _is_plain(choice: Choice) -> bool:
    return choice.logits_key is None and choice.input in (None, "logits")


def _counted_column(
    columns: Mapping[str, list[Any]], headers: Sequence[str], choice: Choice, file: Path
) -> Labels | None:
    place = label_place(headers, choice, source=str(file))
    return None if place is None else count_labels(typed(columns[headers[place]]))


def _from_lists(
    columns: Mapping[str, list[Any]],
    lists: Mapping[str, tuple[str, ...]],
    file: Path,
    choice: Choice,
) -> Table:
    arrays: dict[str, Any] = {}
    notes: tuple[str, ...] = ()
    labels = next((columns[c] for n, (c,) in lists.items() if parse_name(n)[0] == "labels"), None)
    for name, (column,) in lists.items():
        values: Any = columns[column]
        if parse_name(name)[0] == "labels":
            arrays[name] = _labels(values, file)
            continue
        if parse_name(name)[0] == "groups":
            arrays[name] = as_groups(values)
            continue
        where = f"{file}: {column!r}"
        if isinstance(values[0], dict) and all(_alike(row, values[0]) for row in values):
            arrays["class_names"] = np.array(list(values[0]), dtype=str)
            values = [[row[name] for name in values[0]] for row in values]
        elif any(map(is_shown, values)) and parse_name(column)[0] in SCORE_KINDS:
            raise FileError(
                f"{where} must name the same classes in every sample", code="class-names-invalid"
            )
        elif any(map(is_shown, values)):
            options = choice.columns or choice.class_names or choice.known
            values, names, notes = shown(values, options, labels, where)
            arrays["class_names"] = np.array(names, dtype=str)
        elif parse_name(name)[0] != "probabilities" and _is_ragged(values):
            values, _, notes = padded(values, where)
        arrays[name] = values if isinstance(values, np.ndarray) else _plain(values, where)
    return Table(arrays, ordered=bool(choice.columns), notes=notes)


def _is_ragged(values: Sequence[Any]) -> bool:
    return len({len(row) if isinstance(row, list) else 0 for row in values}) > 1


def _alike(row: Any, first: Mapping[str, Any]) -> bool:
    return isinstance(row, dict) and row.keys() == first.keys()


def _scores(values: Iterable[Any], where: str) -> NDArray[np.float64]:
    found = list(values)
    bad = next((i for i, one in enumerate(found) if not is_float(one)), None)
    if bad is not None:
        raise FileError(
            f"{where} must be a number in every sample; sample {bad} has {found[bad]!r}",
            code="file-value",
        )
    return np.array(found, dtype=np.float64)


def _labels(values: list[Any], file: Path, names: Collection[str] = ()) -> NDArray[Any]:
    if any(isinstance(value, list | dict | None) for value in values):
        raise FileError(
            f"{file}: a label is missing or not a single value; drop those samples",
            code="file-value",
        )
    return typed(values, names)
