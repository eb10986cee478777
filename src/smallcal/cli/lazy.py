"""Verbs that are imported when they are asked for, so that ``smallcal -h`` answers at once.

A group knows of each verb its name, one line of help and where its function is. This is the one
place that imports late: a verb's module imports what it needs at its top.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from smallcal.calibrators import plugins
from smallcal.cli.as_typed import as_typed
from smallcal.cli.complete import outline
from smallcal.errors import InputError, choose


class Verb(NamedTuple):
    """A verb before its module is imported.

    Attributes
    ----------
    target : str
        ``module:name`` of its function, or of the :class:`typer.Typer` of a group; nothing for a
        verb that smallcal-lab brings.
    help : str
        The first line of its docstring, which a test compares.
    panel : str or None
        The heading it is listed under.
    """

    target: str
    help: str
    panel: str | None = None

    def load(self, name: str) -> Any:
        """Import the module and return the function, or the group."""
        if not self.target:
            if name not in plugins.offered(plugins.COMMANDS):
                raise plugins.needs_lab(f"smallcal {name}")
            return plugins.load(name, plugins.COMMANDS)
        module, _, function = self.target.partition(":")
        return getattr(import_module(module), function)

    def command(self, name: str) -> Any:
        """Return the command itself."""
        found = self.load(name)
        if isinstance(found, typer.Typer):
            return get_command(found)
        single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        careful = import_module("smallcal.cli.outputs").Careful  # it needs NumPy, a list does not
        single.command(name, help=self.help, cls=careful)(found)
        return get_command(single)


def verbs_of(
    helps: Mapping[str, str],
    *,
    package: str = "smallcal.cli.verbs",
    prefix: str = "",
    panel: str | None = None,
) -> dict[str, Verb]:
    """Return verbs by name; each is the function of its name in the module of its name.

    Examples
    --------
    >>> verbs_of({"fit": "Fit a calibrator."})["fit"].target
    'smallcal.cli.verbs.fit:fit'
    """
    own = {name: f"{prefix}{name}" for name in helps}
    return {
        name: Verb(f"{package}.{own[name]}:{own[name]}", text, panel)
        for name, text in helps.items()
    }


class LazyGroup(TyperGroup):
    """Commands that are listed from :attr:`verbs` and imported when one of them is called."""

    verbs: ClassVar[Mapping[str, Verb]] = {}
    #: What one of them is called.
    what: ClassVar[str] = "verb"

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        for name, verb in self.verbs.items():
            listed = TyperCommand(name, help=verb.help, rich_help_panel=verb.panel)
            self.add_command(listed)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options of the group itself."""
        return as_typed(super().get_params(ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        """Return the command that was typed, imported now; a name that is unknown is an error.

        A shell that completes a line gets an outline of the command, which imports nothing.
        """
        name, rest = args[0], args[1:]
        if name not in self.verbs:
            if ctx.resilient_parsing:
                return None, None, rest
            raise InputError(
                f"unknown {self.what} {name!r}; {choose(name, self.verbs)}", code="unknown-choice"
            )
        if ctx.resilient_parsing:
            return name, outline(name), rest
        return name, self.verbs[name].command(name), rest
