"""Claims that run: a feature, how it is checked, and the lines of each package that show it.

A feature has one check for all packages. A proof is a function whose arguments are named after
what :class:`peers.world.World` offers; what it returns must pass the check. The page shows the
body of that function, so what is read is what ran.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import logging
import os
import shlex
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from peers.packages import MAIN, installed

Check = Callable[[Any, Any], bool]


@dataclass
class Feature:
    """A row of a table: what is claimed, and the test that what a proof returns must pass."""

    name: str
    topic: str
    check: Check
    proofs: dict[str, Proof] = field(default_factory=dict)


@dataclass(frozen=True)
class Proof:
    """The lines of one package that show one feature."""

    run: Callable[[Any], Any]
    lines: str
    language: str = "python"


@dataclass(frozen=True)
class Outcome:
    """What came of a proof: "yes", "fails" or "not run", and why."""

    word: str
    why: str = ""


#: Every feature by name, in the order of the page.
FEATURES: dict[str, Feature] = {}


def feature(name: str, topic: str, check: Check) -> None:
    """Add a row to the tables."""
    FEATURES[name] = Feature(name, topic, check)


def shows(name: str, package: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function the proof that a package has a feature."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        wanted = list(inspect.signature(function).parameters)

        def run(world: Any) -> Any:
            return function(**{each: getattr(world, each) for each in wanted})

        FEATURES[name].proofs[package] = Proof(run, body(function))
        return function

    return add


def typed(name: str, *commands: str) -> None:
    """Let commands, run one after the other in a folder with the world's files, be the proof."""

    def run(world: Any) -> Any:
        done = [_command(each, world.folder) for each in commands]
        return {"codes": [each.returncode for each in done], "out": done[-1].stdout, "world": world}

    FEATURES[name].proofs["smallcal"] = Proof(run, "\n".join(commands), "sh")


def _command(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    program, *rest = shlex.split(line)
    if program != "smallcal":
        raise ValueError(f"not a command of smallcal: {line}")
    words = [sys.executable, "-m", "smallcal", *rest]
    environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}
    return subprocess.run(
        words, cwd=folder, capture_output=True, text=True, timeout=120, env=environment
    )


def body(function: Callable[..., Any]) -> str:
    """Return the lines inside a function, as a reader would type them."""
    lines = inspect.getsource(function).splitlines()
    first = next(
        i for i, line in enumerate(lines) if line.rstrip().endswith(":") and "def " in line
    )
    inside = textwrap.dedent("\n".join(lines[first + 1 :])).strip()
    return "\n".join(line.removeprefix("return ") for line in inside.splitlines())


def outcome(row: Feature, package: str, world: Any) -> Outcome:
    """Run one proof and say what came of it."""
    if not installed(package):
        return Outcome("not run", "not installed")
    try:
        with quiet():
            result = row.proofs[package].run(world)
            kept = bool(row.check(result, world))
    except ImportError as error:
        return Outcome("not run", f"needs {error.name or error}")
    except Exception as error:  # noqa: BLE001 - whatever a package raises is what is reported
        return Outcome("fails", f"{type(error).__name__}: {_first_words(error)}")
    return Outcome("yes") if kept else Outcome("fails", "the result does not pass the check")


def _first_words(error: Exception) -> str:
    """Return the first sentence of a message, without what Markdown would take for its own."""
    return str(error).splitlines()[0].split(". ")[0].replace("`", "'")[:80]


@contextlib.contextmanager
def quiet() -> Any:
    """Keep what packages print, warn of and log away from the tables."""
    level = logging.root.manager.disable
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(level)


def run_all(world: Any, packages: list[str] | None = None) -> dict[tuple[str, str], Outcome]:
    """Run every proof, or those of some packages: (feature, package) to what came of it."""
    return {
        (row.name, package): outcome(row, package, world)
        for row in FEATURES.values()
        for package in row.proofs
        if packages is None or package in packages
    }


def tables(found: dict[tuple[str, str], Outcome]) -> str:
    """Return the tables, one for each topic, with the lines behind each."""
    parts = []
    for topic in dict.fromkeys(row.topic for row in FEATURES.values()):
        rows = [row for row in FEATURES.values() if row.topic == topic]
        parts += [f"### {topic}", "", *_table(rows, found), "", *_notes(rows, found)]
        parts += ["<details>", f"<summary>The lines that show it: {topic.lower()}</summary>", ""]
        parts += [line for row in rows for line in _shown(row)]
        parts += ["</details>", ""]
    return "\n".join(parts).rstrip()


def _table(rows: list[Feature], found: dict[tuple[str, str], Outcome]) -> list[str]:
    heads = " | ".join(MAIN.values())
    lines = [f"| | {heads} | others |", "|---" + "|:---:" * len(MAIN) + "|---|"]
    for row in rows:
        cells = [found[row.name, each].word if each in row.proofs else "–" for each in MAIN]
        others = [_other(each, found[row.name, each]) for each in row.proofs if each not in MAIN]
        lines.append(f"| {row.name} | {' | '.join(cells)} | {', '.join(others)} |")
    return lines


def _other(package: str, result: Outcome) -> str:
    return package if result.word == "yes" else f"{package} ({result.word})"


def _notes(rows: list[Feature], found: dict[tuple[str, str], Outcome]) -> list[str]:
    """Return why a proof that was tried does not hold, one line each."""
    said = []
    for row in rows:
        for package in row.proofs:
            result = found[row.name, package]
            if result.word != "yes":
                said.append(f"- {row.name}, {package}: {result.word}, `{result.why}`.")
    return [*said, ""] if said else []


def _shown(row: Feature) -> list[str]:
    lines = [f"**{row.name[0].upper()}{row.name[1:]}**", ""]
    for package, proof in row.proofs.items():
        lines += [f"```{proof.language}", f"# {package}", proof.lines, "```", ""]
    return lines
