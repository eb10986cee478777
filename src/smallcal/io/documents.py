"""JSON that smallcal itself wrote, read so that no file can do harm.

Calibrators, states of monitors, manifests and reference values all come through here. What is not
a file, is too large or nested too deeply, names a key twice, or holds a number that is not one is
one clear error, in bounded time and memory.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from smallcal.errors import ArtefactError, FileError, code_of, missing_file

#: What smallcal writes is nested a handful of levels deep.
MAX_DEPTH = 32

#: Lists and objects in one document: empty ones take twenty times their text in memory.
MAX_CONTAINERS = 1_000_000

#: Digits of a whole number; one with more is beyond what a float64 holds.
MAX_DIGITS = 300

_SORTS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}

#: What a document that cannot be used raises.
Refusal = type[ArtefactError] | type[FileError]


def read_document(
    path: str | os.PathLike[str],
    *,
    most: int,
    what: str,
    error: Refusal = ArtefactError,
    wrote: str = "",
) -> Any:
    """Read a JSON file that must not be larger than ``most`` bytes.

    Parameters
    ----------
    path : path
    most : int
    what : str
        What such a file holds, for messages.
    error : type
        What to raise.
    wrote : str
        The command that writes such files, for messages.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "a.json"
    >>> _ = file.write_text('{"a": [1, 2.5]}')
    >>> read_document(file, most=1000, what="state")
    {'a': [1, 2.5]}
    """
    source = Path(path)
    try:
        raw = _bounded(source, most, what, error)
    except (OSError, ValueError) as failed:  # a name with a zero byte is a ValueError
        if isinstance(failed, error):
            raise
        why = getattr(failed, "strerror", None) or failed
        code = code_of(failed) if isinstance(failed, OSError) else "file-access"
        raise error(f"cannot read {source}: {why}{missing_file(source)}", code=code) from None
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        said = f"{source} is not JSON text"
        if not wrote:
            raise error(said, code="file-type") from None
        raise error(
            f"{said}; name the file that ",
            python="`save` wrote",
            shell=f"`{wrote}` wrote",
            code="file-type",
        ) from None
    return parse_document(text, source=str(source), error=error)


def _bounded(source: Path, most: int, what: str, error: Refusal) -> bytes:
    """Return the content of a file; nothing is opened that could be endless, or wait for ever."""
    found = source.stat()
    if not stat.S_ISREG(found.st_mode):
        sort = _SORTS.get(stat.S_IFMT(found.st_mode), "something else")
        raise error(f"cannot read {source}: it is {sort}, not a file", code="file-type")
    if found.st_size <= most:
        with source.open("rb") as handle:
            raw = handle.read(most + 1)  # a file may say that it is empty and be endless
        if len(raw) <= most:
            return raw
    size = max(found.st_size, most + 1)
    raise error(
        f"{source} is {size / 1e6:.3g} MB; a {what} is never larger than {most / 1e6:.3g} MB",
        code="file-too-large",
    )


def parse_document(text: str, *, source: str, error: Refusal = ArtefactError) -> Any:
    """Parse JSON that must be plain; ``source`` is named in errors.

    Examples
    --------
    >>> parse_document('{"a": 1, "a": 2}', source="it")
    Traceback (most recent call last):
    ...
    smallcal.errors.ArtefactError: it is not a JSON document: the key 'a' appears twice
    """
    try:
        if text.count("[") + text.count("{") > MAX_CONTAINERS:
            raise ValueError(f"it has more than {MAX_CONTAINERS:,} lists and objects")
        document = json.loads(
            text, parse_constant=_refused, parse_int=_whole, object_pairs_hook=_unique
        )
        _require_plain(document)
    except RecursionError:
        raise error(f"{source} is not a JSON document: {_DEEP}", code="file-damaged") from None
    except ValueError as wrong:
        raise error(f"{source} is not a JSON document: {wrong}", code="file-damaged") from None
    return document


_DEEP = f"it is nested more than {MAX_DEPTH} levels deep"


def _refused(name: str) -> float:
    raise ValueError(f"JSON does not allow the number {name}")


def _whole(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"the number {digits[:12]}... has {len(digits)} digits")
    return int(digits)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {shown(twice)} appears twice")
    return result


def _require_plain(document: Any) -> None:
    """Raise unless all numbers are finite, and nothing is nested too deeply."""
    level = [[document]]
    for _ in range(MAX_DEPTH + 1):
        below: list[Any] = []
        for entries in level:
            below += _require_each(entries)
        if not below:
            return
        level = [_entries(each) for each in below]
    raise ValueError(_DEEP)


def _entries(node: Any) -> list[Any]:
    return list(node.values()) if isinstance(node, dict) else node


def _require_each(entries: list[Any]) -> Iterable[Any]:
    """Check the numbers of one list, and return the lists and objects in it."""
    kinds = set(map(type, entries))  # a matrix is a million numbers: no loop over them in Python
    if float in kinds:
        numbers = entries if len(kinds) == 1 else [one for one in entries if type(one) is float]
        if not all(map(math.isfinite, numbers)):
            raise ValueError("it has a number beyond 1.8e308, the largest there is")
    return [one for one in entries if type(one) in (list, dict)] if kinds & {list, dict} else ()


def shown(value: object) -> str:
    """Return a value in an error: short, and whatever it is.

    Examples
    --------
    >>> shown("a"), len(shown("a" * 1000))
    ("'a'", 60)
    """
    if isinstance(value, int) and abs(value) > 10**40:  # longer ones Python may refuse to write
        return f"a number of {int(value.bit_length() * math.log10(2)) + 1} digits"
    return shortened(repr(value[:100] if isinstance(value, str) else value), 60)


def shortened(text: str, most: int = 300) -> str:
    """Return a text, or its beginning.

    Examples
    --------
    >>> shortened("a long story", 7)
    'a lo...'
    """
    return text if len(text) <= most else f"{text[: most - 3]}..."
