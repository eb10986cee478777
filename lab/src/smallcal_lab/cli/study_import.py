"""``smallcal study import``: a folder of logits becomes a collection."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from smallcal.cli import options, terminal
from smallcal.cli.options import argument, flag, option
from smallcal.data import shown
from smallcal.errors import FileError
from smallcal_lab.cli.study_output import size_of
from smallcal_lab.studies.importers import import_calarena, import_folder


def study_import(
    source: Annotated[
        str,
        argument(
            "FOLDER|FILE.h5", "Folder of DATASET__MODEL.npz files, or one of CalArena's files."
        ),
    ],
    output: Annotated[
        str, option("DIR", "Folder for collection.toml.", "-o", "--output", show_default=False)
    ],
    force: Annotated[bool, flag("--force", "Overwrite existing files.")] = False,
    as_json: options.Json = False,
) -> None:
    """Write the collection.toml of a folder of logits."""
    if os.path.isdir(source):
        found = import_folder(source, output, force=force)
    elif Path(source).suffix.lower() in (".h5", ".hdf5"):
        with terminal.progress("Copying") as advance:
            found = import_calarena(source, output, force=force, advance=advance)
    else:
        raise FileError(f"{source} is neither a folder nor an .h5 file")
    terminal.note(*(f"left out: {line}" for line in found.left_out))
    collection = found.collection
    if as_json:
        terminal.show_json(
            {
                "output": output,
                "cells": [cell.name for cell in collection.cells],
                "shifts": sum(len(cell.shifts) for cell in collection.cells),
                "left_out": list(found.left_out),
            }
        )
        return
    terminal.say(f"Wrote {output}/collection.toml: {size_of(collection)}.")
    terminal.say(f"Next: smallcal study check {shown.command([output])}")
