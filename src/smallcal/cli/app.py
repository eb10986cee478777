"""The verbs, each a short function in its own module."""

from __future__ import annotations

from typing import Annotated

import typer

from smallcal._version import __version__
from smallcal.cli.verbs.apply import apply
from smallcal.cli.verbs.audit import audit
from smallcal.cli.verbs.compare import compare
from smallcal.cli.verbs.demo import demo
from smallcal.cli.verbs.evaluate import evaluate
from smallcal.cli.verbs.export import export
from smallcal.cli.verbs.fit import fit
from smallcal.cli.verbs.inspect import inspect, methods
from smallcal.cli.verbs.monitor import monitor
from smallcal.cli.verbs.plan import plan
from smallcal.cli.verbs.report import report
from smallcal.cli.verbs.select import select
from smallcal.cli.verbs.study import study

app = typer.Typer(
    name="smallcal",
    help="Calibrate a classifier from a few hundred labelled examples.",
    epilog="Start with: smallcal demo",
    context_settings={"help_option_names": ["-h", "--help"]},
    add_completion=False,
    pretty_exceptions_enable=False,
)

for verb in (
    *(demo, fit, apply, evaluate, compare, select, audit, plan, report, export, monitor),
    *(inspect, methods),
):
    app.command()(verb)
app.add_typer(study, name="study")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"smallcal {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _main(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
