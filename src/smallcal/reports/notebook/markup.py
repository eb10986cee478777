"""Parts of a page: text, tables, lists, each escaped where it is made.

What comes out is :class:`Safe`, and whatever is not is escaped when it goes in: a name that holds
a tag can only be text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import islice

from smallcal.data.shown import html, visible
from smallcal.reports.render.theme import DARK, LIGHT

#: Letters of a name, or of a sentence that may quote one, that are shown.
MOST_LETTERS, MOST_SAID = 60, 1000
#: A name of so many letters stays in one line.
_ONE_LINE = 24
#: Rows of a table that are shown.
MOST_ROWS = 30

#: What levels and verdicts are called: a colour alone would not tell everybody.
_WORDS: Mapping[str, str] = {"fine": "fine", "care": "take care", "bad": "warning"}


class Safe(str):
    """Markup, made here of parts that were escaped; anything else is text."""

    __slots__ = ()


def safe(value: object) -> Safe:
    """Return markup as it is, and text escaped.

    Examples
    --------
    >>> safe("<b>"), safe(Safe("<b>"))
    ('&lt;b&gt;', '<b>')
    """
    return value if isinstance(value, Safe) else Safe(html(value))


def tag(name: str, *inside: object, kind: str = "", **attributes: str) -> Safe:
    """Return an element; ``kind`` is its class, without the prefix that keeps it ours.

    Examples
    --------
    >>> tag("td", "<1 %", kind="num", title='"x"')
    '<td class="smallcal-nb-num" title="&quot;x&quot;">&lt;1 %</td>'
    """
    classes = " ".join(f"smallcal-nb-{each}" for each in kind.split())
    given = {**({"class": classes} if classes else {}), **attributes}
    written = "".join(f' {key}="{html(value)}"' for key, value in given.items())
    return Safe(f"<{name}{written}>{''.join(map(safe, inside))}</{name}>")


def shortened(text: object, most: int = MOST_LETTERS) -> str:
    """Return text with its middle left out where it is long.

    Examples
    --------
    >>> shortened("a" * 100, 9)
    'aaaa…aaaa'
    """
    whole = " ".join(str(text).split())
    half = (most - 1) // 2
    return whole if len(whole) <= most else f"{whole[:half]}…{whole[-half:]}"


def named(name: object) -> Safe:
    """Return a name from outside: short, and whatever its direction, apart from what follows.

    A blank one stands in quotes, so that there is something to see.

    Examples
    --------
    >>> named("<cat>")
    '<bdi class="smallcal-nb-name">&lt;cat&gt;</bdi>'
    """
    # Only the ends of a long one are shown: what lies between need not be looked at.
    given = str(name)
    whole = visible(given if len(given) <= MOST_SAID else shortened(given, MOST_SAID))
    shown = shortened(whole) if whole.strip() else f"“{whole}”"
    more = {"title": whole} if "…" in shown and shown != whole else {}
    return tag("bdi", shown, kind="" if len(shown) > _ONE_LINE else "name", **more)


def said(*sentences: object, kind: str = "") -> Safe:
    """Return a paragraph of sentences."""
    inside = " ".join(safe(_told(each)) for each in sentences)
    return tag("p", Safe(inside), kind=kind)


def _told(sentence: object) -> object:
    return sentence if isinstance(sentence, Safe) else shortened(sentence, MOST_SAID)


def label(level: str, word: str = "") -> Safe:
    """Return a word with the colour of a level or verdict: "fine", "care", "bad", "better" ..."""
    return tag("span", word or _WORDS.get(level, level), kind=f"tag {level}")


def findings(rows: Iterable[tuple[str, str]]) -> Safe:
    """Return sentences, each with a word that says how much it matters; nothing without any."""
    items = [tag("li", label(level), " ", _told(text)) for level, text in rows]
    return tag("ul", *items) if items else Safe("")


def title(what: str, *about: object) -> Safe:
    """Return the first line: what it is, and of what."""
    return tag("p", tag("b", what), *(Safe(f" {safe(each)}") for each in about), kind="head")


def facts(rows: Iterable[tuple[str, object]]) -> Safe:
    """Return a table of two columns: what, and its value; what has no value is left out."""
    shown = [
        tag("tr", tag("th", name, scope="row"), tag("td", _told(value)))
        for name, value in rows
        if value not in ("", None)
    ]
    return tag("div", tag("table", tag("tbody", *shown), kind="facts"), kind="scroll")


def table(
    heads: Sequence[object],
    rows: Iterable[Sequence[object]],
    *,
    words: Iterable[int] = (0,),
    caption: object = "",
    total: int = 0,
    more: str = "rows",
) -> Safe:
    """Return a table; the first column heads its rows, columns in ``words`` are no numbers.

    Of many rows the first are shown, and how many ``more`` there are is said under the table. No
    others are made where ``rows`` come one by one; then ``total`` says how many there are.

    Examples
    --------
    >>> table(["a", "b"], [["<x>", "1"]])[:53]
    '<div class="smallcal-nb-scroll"><table><thead><tr><th'
    """
    given, texts = list(rows if not total else islice(rows, MOST_ROWS)), set(words)

    def kind(column: int) -> str:
        return "" if column in texts else "num"

    head = [tag("th", each, kind=kind(i), scope="col") for i, each in enumerate(heads)]
    body = [
        tag(
            "tr",
            tag("th", row[0], scope="row"),
            *(tag("td", each, kind=kind(i)) for i, each in enumerate(row[1:], start=1)),
        )
        for row in given[:MOST_ROWS]
    ]
    parts = [tag("thead", tag("tr", *head)), tag("tbody", *body)]
    if caption:
        parts.insert(0, tag("caption", caption))
    whole = tag("div", tag("table", *parts), kind="scroll")
    left = (total or len(given)) - MOST_ROWS
    return whole if left <= 0 else Safe(whole + said(f"And {left:,} more {more}.", kind="note"))


def beside(*parts: Safe) -> Safe:
    """Return parts next to one another where there is room; empty ones are left out."""
    shown = [tag("div", part) for part in parts if part]
    return tag("div", *shown, kind="row") if len(shown) > 1 else Safe("".join(shown))


def folded(summary: object, *parts: Safe) -> Safe:
    """Return parts behind a line that unfolds them."""
    return tag("details", tag("summary", summary), *parts)


def small(text: object, kind: str = "") -> Safe:
    """Return a second line in a cell."""
    return tag("small", text, kind=kind)


def box(parts: Iterable[Safe]) -> str:
    """Return the whole: a box with its own style, which reaches nothing else.

    Examples
    --------
    >>> box([title("Plan")]).rpartition("</style>")[2]
    '<p class="smallcal-nb-head"><b>Plan</b></p></div>'
    """
    inside = "".join(part for part in parts if part)
    return f'<div class="smallcal-nb"><style>{_style()}</style>{inside}</div>'


#: Where notebooks and pages of documentation say which of the two they are.
_SAY_LIGHT = (
    "[data-jp-theme-light=true]",
    "[data-vscode-theme-kind$=light]",
    "[data-theme=light]",
    "[theme=light]",
)
_SAY_DARK = (
    "[data-jp-theme-light=false]",
    "[data-vscode-theme-kind$=dark]",
    "[data-vscode-theme-kind=vscode-high-contrast]",
    "[data-theme=dark]",
    "[theme=dark]",
)
#: Paper and ink are the notebook's own, where it has them: both, so that they go together.
_HOST = {
    "paper": ("--jp-layout-color0", "--vscode-editor-background", "--pst-color-background"),
    "ink": ("--jp-content-font-color1", "--vscode-editor-foreground", "--pst-color-text-base"),
}
_UNUSED = ("edge", "focus", "c-222222")


@cache
def _style() -> str:
    """Return the style sheet: colours of the report, in the notebook's own light or dark."""
    rules = (files("smallcal.reports.notebook") / "notebook.css").read_text(encoding="utf-8")
    light, dark = _variables(LIGHT), _variables(DARK)
    return " ".join(
        (
            f".smallcal-nb {{{light}}}",
            f"@media (prefers-color-scheme: dark) {{.smallcal-nb {{{dark}}}}}",
            f":is({','.join(_SAY_LIGHT)}) .smallcal-nb {{{light}}}",
            f":is({','.join(_SAY_DARK)}) .smallcal-nb {{{dark}}}",
            *rules.split(),
        )
    )


def _variables(colours: Mapping[str, str]) -> str:
    chosen = {name: colour for name, colour in colours.items() if name not in _UNUSED}
    # Text of figures is ink as well.
    each = (f"--{name}:{_hosted(name, colour)}" for name, colour in chosen.items())
    return ";".join([*each, "--c-222222:var(--ink)"])


def _hosted(name: str, colour: str) -> str:
    for variable in reversed(_HOST.get(name, ())):
        colour = f"var({variable},{colour})"
    return colour
