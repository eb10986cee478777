"""``smallcal help VERB``: what ``smallcal VERB -h`` says."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from smallcal.cli.options import argument


def help(
    context: typer.Context,
    verb: Annotated[list[str] | None, argument("[VERB]...", "A command, such as fit.")] = None,
) -> None:
    """Show the help of a command."""
    shown: Any = context.find_root()
    for name in verb or []:
        if not hasattr(shown.command, "resolve_command"):
            break  # a verb's own arguments
        _, command, _ = shown.command.resolve_command(shown, [name])
        shown = type(shown)(command, info_name=name, parent=shown)  # its arguments are not asked
    typer.echo(shown.get_help())
