r"""Names from outside, written so that whoever shows them shows them, and does nothing else.

File, class, data set and column names may hold anything: codes that move a terminal's cursor,
commands of LaTeX, links of Markdown. There is one function for each place where they are shown;
whole pages of HTML escape in their templates, of what :func:`visible` left, and parts of pages by
:func:`html`.

>>> print(visible("cat\x1b[2J"), latex("50 %_{a}"), markdown("[x](y)"))
cat\x1b[2J 50 \%\_\{a\} \[x\](y)
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable
from html import escape

#: Controls (also those of eight bits), what turns the direction of text, breaks of lines and
#: paragraphs, halves of characters, and code points that are no characters.
_ODD = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\ufffe\uffff\U000e0000-\U000e007f]"
)

_LATEX = {
    **{sign: "\\" + sign for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\\": r"\textbackslash{}",
    # In text these print something else, or nothing where the line before ended in \\.
    **{"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"},
    **{sign: f"{{{sign}}}" for sign in "[]*"},
    **{"±": r"$\pm$", "–": "--", "→": r"$\to$"},
}

#: What Markdown or HTML would read as more than text.
_MARKDOWN = re.compile(r"[\\`*_{}\[\]<>#|~$&]|(?<=\w):(?=//)|(?<=\bwww)\.")
#: What makes a list or a rule of a line that begins with it.
_LINE_START = re.compile(r"^(\d{0,9})(?=[-+.)](?:\s|$)|-{2,}$)")


def visible(text: object, *, keep: str = "") -> str:
    r"""Return text for a terminal: what would not be seen, or would act, is spelled out.

    ``keep`` are characters that stay, such as the line breaks between sentences.

    Examples
    --------
    >>> print(visible("a\nb\x9b31m\u202ec"))
    a\nb\x9b31m\u202ec
    """
    return _ODD.sub(lambda odd: odd[0] if odd[0] in keep else _spelled(odd[0]), str(text))


def _spelled(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def one_line(text: object) -> str:
    r"""Return text for a message on a terminal: in one line, blanks run together.

    Examples
    --------
    >>> print(one_line("cannot read\n  a\x1b.npy"))
    cannot read a\x1b.npy
    """
    return visible(" ".join(str(text).split()))


def latex(text: object) -> str:
    r"""Return text that LaTeX prints as it is.

    Examples
    --------
    >>> print(latex(r"\input{a_b} ±1"))
    \textbackslash{}input\{a\_b\} $\pm$1
    """
    return "".join(_LATEX.get(sign, sign) for sign in visible(text))


def markdown(text: object) -> str:
    r"""Return text that Markdown shows as it is, in one line.

    Examples
    --------
    >>> print(markdown("a|b\n<script>"))
    a\|b \<script\>
    """
    line = visible(" ".join(str(text).split()))
    return _LINE_START.sub(r"\1\\", _MARKDOWN.sub(r"\\\g<0>", line))


def html(text: object) -> str:
    r"""Return text that HTML shows as it is, between tags or in a quoted attribute.

    Examples
    --------
    >>> print(html('<b title="x">'), html("a\x1b & b"))
    &lt;b title=&quot;x&quot;&gt; a\x1b &amp; b
    """
    return escape(visible(text), quote=True)


def in_json(text: str) -> str:
    r"""Return JSON that means the same, and that a terminal may be shown.

    Examples
    --------
    >>> print(in_json('{"name": "a\x9b31m"}'))
    {"name": "a\u009b31m"}
    """
    return _ODD.sub(lambda odd: odd[0] if odd[0] in "\n\r\t" else json.dumps(odd[0])[1:-1], text)


def command(words: Iterable[object]) -> str:
    r"""Return a command that a shell reads back word by word, in one line.

    Examples
    --------
    >>> print(command(["smallcal", "fit", "my file.npz", "a\nb.npz"]))
    smallcal fit 'my file.npz' $'a\nb.npz'
    """
    return " ".join(map(_shell_word, map(str, words)))


def _shell_word(word: str) -> str:
    if not _ODD.search(word):
        return shlex.quote(word)
    quoted = word.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{_ODD.sub(lambda odd: _shell_code(odd[0]), quoted)}'"


def _shell_code(character: str) -> str:
    """Return a character as $'...' spells it; a byte that is no text is that byte."""
    if 0xDC80 <= ord(character) <= 0xDCFF:
        return f"\\x{ord(character) - 0xDC00:02x}"
    short = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
    raw = character.encode("utf-8", errors="replace")
    return short.get(character) or "".join(f"\\x{byte:02x}" for byte in raw)
