"""``smallcal doctor``: what is installed, what is missing, and how to get it."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any

import smallcal
from smallcal._version import __version__
from smallcal.cli import installation, options, terminal
from smallcal.cli.installation import PURPOSES, Package


def doctor(as_json: options.Json = False) -> None:
    """Say what is installed, what is missing, and how to get it."""
    core, extras = installation.core(), installation.extras()
    if as_json:
        terminal.show_json(_document(core, extras))
    else:
        _tell(core, extras)
    broken = ", ".join(package.text() for package in core if not package.fine)
    terminal.leave(
        [f"smallcal cannot run: {broken}; pip install --upgrade smallcal"] if broken else []
    )


def install(extra: str) -> str:
    """Return the line that installs an extra."""
    return f"pip install 'smallcal[{extra}]'"


def _tell(core: list[Package], extras: dict[str, list[Package]]) -> None:
    terminal.say(
        f"smallcal {__version__} in {_folder()}",
        f"Python {platform.python_version()} ({platform.python_implementation()}) in {sys.prefix}",
        f"{platform.system()} {platform.machine()}, {_cores()}",
        f"Needed: {', '.join(package.text() for package in core)}",
        "",
    )
    rows = [
        [name, "yes" if not _lacking(packages) else "no", PURPOSES[name]]
        for name, packages in extras.items()
    ]
    terminal.show_table(["extra", "installed", "what it is for"], rows, text=(0, 1, 2))
    lacking = {name: found for name, packages in extras.items() if (found := _lacking(packages))}
    if lacking:
        terminal.say("To get what is missing:")
    for name, packages in lacking.items():
        terminal.say(
            f"  {install(name)}",
            *(f"      {package.text()}" for package in packages if name != "all"),
        )
    terminal.say(*[""] * bool(lacking), _completion())


def _lacking(packages: list[Package]) -> list[Package]:
    return [package for package in packages if not package.fine]


def _folder() -> Path:
    return Path(smallcal.__file__).parent


def _cores() -> str:
    limits = installation.thread_limits()
    told = ", ".join(f"{name}={value}" for name, value in limits.items())
    return f"{terminal.count(installation.cores(), 'processor core')}, " + (
        f"threads limited by {told}" if told else "no limit on threads is set"
    )


def _completion() -> str:
    shells = list(installation.completed_shells())
    if shells:
        return f"Shell completion is installed for {', '.join(shells)}."
    return "Shell completion is not installed; smallcal --install-completion installs it."


def _document(core: list[Package], extras: dict[str, list[Package]]) -> dict[str, Any]:
    return {
        "smallcal": __version__,
        "folder": str(_folder()),
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "prefix": sys.prefix,
        "system": platform.platform(),
        "shell": os.path.basename(os.environ.get("SHELL", "")) or None,
        "completion": list(installation.completed_shells()),
        "cores": installation.cores(),
        "threads": installation.thread_limits(),
        "fine": all(package.fine for package in core),
        "needed": [_row(package) for package in core],
        "extras": {
            name: {
                "installed": not _lacking(packages),
                "for": PURPOSES[name],
                "install": install(name),
                "packages": [_row(package) for package in packages],
            }
            for name, packages in extras.items()
        },
    }


def _row(package: Package) -> dict[str, Any]:
    return {
        "name": package.name,
        "least": package.least or None,
        "found": package.found,
        "fine": package.fine,
    }
