"""The reference of the command line, written from the program itself before each build.

One page for each verb in ``reference/cli``: usage, arguments, and options with their defaults, as
``smallcal VERB -h`` has them. The pages are not kept in the repository.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from typer.main import get_command

from smallcal.cli.app import Verbs
from smallcal.cli.app import app as program

#: Where the pages are written, below the documentation.
FOLDER = "reference/cli"
#: The page that has examples: a verb's section there is linked from its page.
EXAMPLES = "reference/command-line.md"

_LINK = "`Worked example <../command-line.html#{name}>`__ of ``{path}``.\n"
_TABLE = ".. list-table::\n   :widths: 20 80\n"


def pages(examples: str = "") -> dict[str, str]:
    """Return each page's reStructuredText by its name, ``index`` first.

    Parameters
    ----------
    examples : str
        The text of :data:`EXAMPLES`, whose sections are called as the verbs are.
    """
    shown = set(re.findall(r"^## ([\w-]+)$", examples, flags=re.MULTILINE))
    verbs = Verbs.verbs
    return {
        "index": _index(verbs),
        **{name: _verb_page(name, verb, linked=name in shown) for name, verb in verbs.items()},
    }


def _index(verbs: Mapping[str, Any]) -> str:
    command = get_command(program)
    rows = [f"   * - :doc:`{name}`\n     - {plain(verb.help)}" for name, verb in verbs.items()]
    return "\n".join(
        [
            _title("Commands"),
            f"{plain(command.help)} Here is what ``smallcal VERB -h`` prints. File types, exit "
            "codes and worked examples: :doc:`/reference/command-line`.\n",
            _TABLE,
            *rows,
            "",
            *_options("smallcal", command.params),
            ".. toctree::\n   :hidden:\n",
            *(f"   {name}" for name in verbs),
            "",
        ]
    )


def _verb_page(name: str, verb: Any, *, linked: bool) -> str:
    command = verb.command(name)
    path = f"smallcal {name}"
    parts = [f".. title:: {path}\n", _title(name), _body(path, command)]
    if linked:
        parts.append(_LINK.format(name=name, path=path))
    parts += _children(path, getattr(type(command), "verbs", {}))
    return "\n".join(parts)


def _children(path: str, verbs: Mapping[str, Any]) -> Iterator[str]:
    """Give a section for each subverb; neighbours that share one function share a section."""
    for _, several in groupby(verbs.items(), key=lambda item: item[1].target):
        same = list(several)
        name, verb = same[0]
        typed = name if len(same) == 1 else "NAME"
        yield _title(f"{path} {typed}", "-")
        if len(same) > 1:
            yield _TABLE
            yield from (f"   * - ``{one}``\n     - {plain(row.help)}" for one, row in same)
            yield ""
        yield _body(f"{path} {typed}", verb.command(name), says=len(same) == 1)


def _body(path: str, command: Any, *, says: bool = True) -> str:
    return "\n".join(
        [
            f"{plain(command.help)}\n" if says and command.help else "",
            f".. code-block:: text\n\n   {usage(path, command)}\n",
            *_arguments(command.params),
            *_options(path, command.params),
        ]
    )


def usage(path: str, command: Any) -> str:
    """Return how a command is typed: what it must be given, then whether it has options."""
    words = [path]
    words += [_metavar(one) for one in command.params if one.param_type_name == "argument"]
    shown = [one for one in command.params if one.param_type_name == "option" and not one.hidden]
    words += [f"{one.opts[0]} {one.metavar}" for one in shown if one.required]
    if any(not one.required for one in shown):
        words.append("[OPTIONS]")
    if getattr(type(command), "verbs", None):
        words.append(command.subcommand_metavar)
    return " ".join(words)


def _metavar(argument: Any) -> str:
    bare = argument.metavar or argument.name.upper()
    return bare if argument.required or bare.startswith("[") else f"[{bare}]"


def _arguments(params: list[Any]) -> Iterator[str]:
    shown = [one for one in params if one.param_type_name == "argument" and not one.hidden]
    if shown:
        yield ".. rubric:: Arguments\n"
    for one in shown:
        yield f"``{_metavar(one)}``\n   {plain(one.help or '')}\n"


def _options(path: str, params: list[Any]) -> Iterator[str]:
    shown = [one for one in params if one.param_type_name == "option" and not one.hidden]
    if shown:
        yield f".. rubric:: Options\n\n.. program:: {path}\n"
    for one in shown:
        value = "" if one.is_flag else f" {one.metavar or one.name.upper()}"
        names = sorted(one.opts, key=len, reverse=True)
        yield f".. option:: {', '.join(f'{name}{value}' for name in names)}\n"
        yield f"   {plain(one.help or '')}{_details(one)}\n"


def _details(option: Any) -> str:
    """Return what the terminal's help has in brackets."""
    parts = ["required"] if option.required else []
    parts += ["may be repeated"] if option.multiple else []
    if not option.is_flag and option.default is not None and option.show_default:
        parts.append(f"default: ``{option.default}``")
    parts += [f"at least {option.min}"] if option.min is not None else []
    parts += [f"at most {option.max}"] if option.max is not None else []
    return f" ({'; '.join(parts)})" if parts else ""


def _title(text: str, line: str = "=") -> str:
    return f"{text}\n{line * len(text)}\n"


def plain(words: str) -> str:
    r"""Return a sentence of the program as reStructuredText: what is in ticks is code.

    A colon makes ``FILE:val`` an address of the web, so that it is escaped, too.

    Examples
    --------
    >>> plain("A name that `smallcal methods` lists; class_* names several.")
    'A name that ``smallcal methods`` lists; class\\_\\* names several.'
    """
    parts = words.split("`")
    parts[::2] = [re.sub(r"([\\*|_:])", r"\\\1", part) for part in parts[::2]]
    parts[1::2] = [f"``{part}``" for part in parts[1::2]]
    return " ".join("".join(parts).split())


def write(docs: Path) -> None:
    """Write the pages below a folder of documentation; those that are as they were stay."""
    folder = docs / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        f"{name}.rst": text for name, text in pages((docs / EXAMPLES).read_text("utf-8")).items()
    }
    for old in folder.glob("*.rst"):
        if old.name not in texts:
            old.unlink()
    for name, text in texts.items():
        file = folder / name
        if not file.exists() or file.read_text("utf-8") != text:
            file.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before Sphinx looks for pages."""
    app.connect("builder-inited", lambda app: write(Path(app.srcdir)))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
