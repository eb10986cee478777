"""``smallcal study``: the paper's experiments on one's own logits; every study is a command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import typer

from smallcal.cli.lazy import LazyGroup, Verb, verbs_of
from smallcal_lab.studies import STUDIES

_AROUND = {
    "import": "Write the collection.toml of a folder of logits.",
    "check": "Check a collection for problems: files, shapes, labels, samples in two splits.",
    "show": "Print the tables of a finished run; the logits are not needed.",
    "list": "List the studies and their questions.",
    "reproduce": "Recompute the paper's published values from your logits, and compare.",
}
_RUN = "smallcal_lab.cli.study_run:study_run"


class Studies(LazyGroup):
    """What comes before and after a study, and the studies, which share one function."""

    verbs: ClassVar[Mapping[str, Verb]] = {
        **verbs_of(_AROUND, package="smallcal_lab.cli", prefix="study_", panel="Before and after"),
        **{name: Verb(_RUN, one.question, "Studies") for name, one in STUDIES.items()},
    }

    what: ClassVar[str] = "study"


study = typer.Typer(
    cls=Studies,
    help="Run the paper's experiments on your own logits, and print their tables.",
    epilog="Start with: smallcal study import FOLDER -o DIR",
    subcommand_metavar="NAME DIR --out RUN",
    add_completion=False,
)


@study.callback(invoke_without_command=True)
def _study(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
