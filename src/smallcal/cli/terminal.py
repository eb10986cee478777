"""What the verbs print: tables and sentences for people, JSON for programs."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import typer

from smallcal.data import shown
from smallcal.data.plain import plain
from smallcal.io.progress import progress as progress

#: The exit code of a command that did its work and found something that must not be.
CHECK_FAILED = 1


def say(*texts: str) -> None:
    """Print sentences, wrapped at the width of the terminal; indented lines stay as they are.

    Each is a line, or wrapped lines: a name with line breaks in it begins none.
    """
    width = shutil.get_terminal_size().columns
    for line in map(shown.visible, texts):
        whole = line.startswith(" ") or len(line) <= width
        wrapped = (
            line
            if whole
            else textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)
        )
        sys.stdout.write(wrapped + "\n")


def show_table(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    text: Collection[int] = (0,),
    bold: Collection[tuple[int, int]] = (),
) -> None:
    """Print a table; ``text`` says which columns are words, the others are numbers.

    ``bold`` names cells by row and column.
    """
    # Not at the top: verbs that print sentences, or JSON, do without.
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for number, header in enumerate(_fitted([shown.visible(one) for one in headers], rows, text)):
        side: Literal["left", "right"] = "left" if number in text else "right"
        table.add_column(Text(header), justify=side, overflow="fold")
    for i, row in enumerate(rows):
        styles = ("bold" if (i, j) in bold else "" for j in range(len(row)))
        cells = zip(map(shown.visible, row), styles, strict=True)
        table.add_row(*(Text(cell, style) for cell, style in cells))
    console = Console(highlight=False)
    with console.capture() as drawn:  # a closed pipe is told by our own writing
        console.print(table, "", sep="\n")
    sys.stdout.write(drawn.get())


def _fitted(
    headers: Sequence[str], rows: Sequence[Sequence[str]], text: Collection[int]
) -> list[str]:
    """Return the headings; where the table is too wide, long ones of numbers take several lines.

    Else names in the first columns would be broken to make room for long headings.
    """
    cells = []
    for j in range(len(headers)):
        # A column of sentences needs no more than its longest word.
        wrapped = j in text and j > 0
        parts = (part for row in rows for part in (row[j].split() if wrapped else [row[j]]))
        cells.append(max(map(len, parts), default=0))
    fitted, wide = list(headers), shutil.get_terminal_size().columns
    for j in sorted(range(len(headers)), key=lambda j: cells[j] - len(headers[j])):
        needed = (
            max(cell, *map(len, head.split("\n"))) for head, cell in zip(fitted, cells, strict=True)
        )
        if sum(needed) + 2 * (len(headers) - 1) <= wide:
            break
        if j not in text:
            fitted[j] = textwrap.fill(headers[j], max(1, cells[j]), break_long_words=False)
    return fitted


def show_json(document: Mapping[str, Any] | Sequence[Any]) -> None:
    """Print JSON; a value that is not defined is null, for JSON has no NaN."""
    text = json.dumps(plain(document), indent=2, ensure_ascii=False)
    sys.stdout.write(shown.in_json(text) + "\n")


def note(*texts: str) -> None:
    """Tell the user something on stderr, in one line each."""
    sys.stderr.writelines(f"smallcal: note: {shown.one_line(text)}\n" for text in texts)


def leave(complaints: Iterable[str], *, code: int = CHECK_FAILED) -> None:
    """Say on stderr what did not pass, and leave with this code; without complaints, do nothing."""
    said = [f"smallcal: {shown.one_line(text)}\n" for text in complaints]
    sys.stderr.writelines(said)
    if said:
        raise typer.Exit(code)


@contextmanager
def noted_warnings(about: str = "") -> Iterator[None]:
    """Turn each different warning into one note when the block ends."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        note(f"{about}: {message}" if about else message)


def count(number: int, noun: str) -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> count(1, "sample"), count(1250, "sample")
    ('1 sample', '1,250 samples')
    """
    return f"{number:,} {noun}" + ("s" if number != 1 else "")


def size(n: int, n_classes: int, input: str = "logits") -> str:
    """Return how many samples of how many classes there are, or how many scores.

    Examples
    --------
    >>> size(1250, 345), size(60, 2, "score")
    ('1,250 samples, 345 classes', '60 scores')
    """
    if input == "score":
        return count(n, "score")
    return f"{count(n, 'sample')}, {n_classes:,} classes"


def typed(context: typer.Context, *, defaults: bool = False) -> str:
    """Return the command as it was typed; with its defaults written out if they are asked for."""
    words = typed_words(context, [str(one.name) for one in context.command.params], defaults)
    return shown.command([*context.command_path.split(), *words])


def typed_words(
    context: typer.Context, names: Collection[str], defaults: bool = False
) -> list[str]:
    """Return the words of some of a command's arguments and options, as they were typed."""
    words = []
    for option in context.command.params:
        value = context.params.get(str(option.name))
        if option.name not in names or value is None or value is False:
            continue
        if value == option.default and not defaults:
            continue
        flag = [] if option.param_type_name == "argument" else [option.opts[0]]
        for one in value if isinstance(value, list | tuple) else [value]:
            words += [*flag, *([] if one is True else [str(one)])]
    return words
