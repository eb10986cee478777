"""Shell completion: what may be typed next, from a table, so that no verb is imported for it.

``completion.json`` lists the verbs' options and the names that they take. It is made from the
verbs by ``scripts/completion_table.py``, and a test compares it with them.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.main import get_command

from smallcal.calibrators import plugins

TABLE = Path(__file__).with_name("completion.json")

#: The variable by which a shell asks; typer makes its name from the program's.
ASKED = "_SMALLCAL_COMPLETE"


@cache
def table() -> Mapping[str, Any]:
    """Return the verbs, their options, the methods and the metrics."""
    return json.loads(TABLE.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def outline(verb: str) -> Any:
    """Return a command that takes what a verb takes, and can do nothing.

    Examples
    --------
    >>> "--method" in [name for option in outline("fit").params for name in option.opts]
    True
    """
    made = typer.Typer(add_completion=False)
    below = [name for name in table()["verbs"] if name.startswith(f"{verb} ")]
    for name in below or [verb]:
        made.command(name.rpartition(" ")[2], help=table()["verbs"][name][0])(_nothing(name))
    return get_command(made)


def _nothing(verb: str) -> Callable[..., None]:
    """Return a function that does nothing, with the parameters of a verb."""

    def function(**given: object) -> None: ...

    like = table()["verbs"][verb][1]
    parameters = []
    for key, option in table()["options"].items():
        if key.rpartition(" ")[0] != like:
            continue
        kind: Any = {True: list[str], False: str}[option["many"]]
        kind = bool if option["takes"] == "flag" else kind | None
        said = {"help": option["help"], "autocompletion": _completer(option["takes"])}
        made = typer.Option(*option["names"], **said) if option["names"] else typer.Argument(**said)
        parameters.append(
            inspect.Parameter(
                key.rpartition(" ")[2],
                inspect.Parameter.KEYWORD_ONLY,
                default=False if kind is bool else None,
                annotation=Annotated[kind, made],
            )
        )
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {one.name: one.annotation for one in parameters}
    return function


def _completer(takes: str) -> Callable[[str], Iterator[tuple[str, str]]]:
    """Return the function that typer asks for what an option may be given."""

    def complete(incomplete: str) -> Iterator[tuple[str, str]]:
        return _values(takes, incomplete)

    return complete


def _values(takes: str, incomplete: str) -> Iterator[tuple[str, str]]:
    """Yield what an option may be given; nothing, where the shell shall offer files."""
    kind, _, choices = takes.partition(" ")
    before = ""
    if kind in ("methods", "metrics"):  # several, with commas between
        before = incomplete[: incomplete.rfind(",") + 1]
        kind = kind[:-1]
    known: Mapping[str, str] = {}
    if kind == "method":
        # The methods of the lab are in the table; "lab" stands for all of them.
        others = plugins.offered(plugins.METHODS).keys() - {"lab"}
        known = {**table()["methods"], **dict.fromkeys(sorted(others), "of another package")}
    elif kind == "metric":
        known = table()["metrics"]
    elif kind == "verb":
        known = {name: row[0] for name, row in table()["verbs"].items() if " " not in name}
    elif kind == "choice":
        known = dict.fromkeys(choices.split("|"), "")
    yield from ((before + name, help) for name, help in known.items())
