"""What one must read to follow a call: `python scripts/reading_path.py "sc.SRTS().fit(z, y)"`.

Runs an expression once to load every module, then once more under a profiler, and prints each
function of smallcal that it executes, in call order, with its file and its lines of code
(docstrings, comments and blank lines left out). Reading each function once, in that order,
"returns" counts how often one comes back to a file already left: a straight path has none.

The expression sees `sc` (smallcal), `z` and `y` (the demo's calibration logits and labels),
`test_z` and `test_y`, `study` (runs the study of that name on the frozen collection, with few
draws) and `export` (makes the ONNX file of a calibrator).
"""

from __future__ import annotations

import ast
import contextlib
import io
import sys
import tempfile
import tokenize
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import smallcal as sc

ROOT = Path(sc.__file__).parent


class Step(NamedTuple):
    """A function that was executed."""

    module: str
    name: str
    first: int
    lines: int


def main(arguments: list[str]) -> None:
    """Print the path of each expression."""
    for expression in arguments or ["sc.TemperatureScaling().fit(z, y)"]:
        steps = path(compile(expression, "<call>", "eval"))
        for step in steps:
            print(f"{step.module:40} {step.first:5} {step.lines:5}  {step.name}")
        print(f"{expression}: {summary(steps)}\n")


def summary(steps: list[Step]) -> str:
    """Say how long a path is."""
    modules = {step.module for step in steps}
    lines = sum(step.lines for step in steps)
    return (
        f"{len(steps)} functions, {lines} lines in {len(modules)} files, {returns(steps)} returns"
    )


def returns(steps: list[Step]) -> int:
    """Count re-entries to a module already left.

    >>> returns([Step("a", "f", 1, 1), Step("b", "g", 1, 1), Step("a", "h", 9, 1)])
    1
    """
    visits = [
        step.module
        for before, step in zip([None, *steps], steps, strict=False)
        if before is None or before.module != step.module
    ]
    return len(visits) - len(set(visits))


def path(call: CodeType) -> list[Step]:
    """Return every function of smallcal that a call executes, in the order of first calls."""
    names = _names()
    _quietly(lambda: eval(call, dict(names)))
    seen: dict[tuple[str, int], None] = {}

    def note(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(ROOT)):
            seen.setdefault((code.co_filename, code.co_firstlineno))

    names = _names()
    sys.setprofile(note)
    try:
        _quietly(lambda: eval(call, dict(names)))
    finally:
        sys.setprofile(None)
    found: dict[tuple[str, int], Step] = {}
    for file, line in seen:
        # A comprehension, lambda or inner function is read with the function around it; a frame
        # without a function (a module or class body, generated code) is not a step.
        step = _function_at(file, line)
        if step is not None:
            found.setdefault((file, step.first), step)
    return list(found.values())


def _names() -> dict[str, Any]:
    cal, test = sc.load_demo("cal"), sc.load_demo("test")
    return {
        "sc": sc,
        "z": cal.logits,
        "y": cal.labels,
        "test_z": test.logits,
        "test_y": test.labels,
        "study": _study,
        "export": _export,
    }


@cache
def _frozen() -> Any:
    from smallcal_lab.studies.reproduce.frozen import load_frozen

    return load_frozen()[0]


def _study(name: str) -> object:
    from smallcal_lab.studies import run, study_named

    with tempfile.TemporaryDirectory() as folder:
        study = study_named(name).with_options(budgets=(250, 0), draws=2, n_boot=50)
        return run(study, _frozen(), Path(folder) / "run")


def _export(calibrator: Any) -> bytes:
    from smallcal.deploy.export import to_onnx

    return to_onnx(calibrator.fitted_)


def _quietly(call: Callable[[], object]) -> None:
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        call()


@cache
def _functions(file: str) -> list[tuple[int, int, str, int]]:
    """Return first and last line, name and lines of code of the outermost functions."""
    source = Path(file).read_text(encoding="utf-8")
    code = _lines_of_code(source)
    found = []

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                first = min([child.lineno, *(each.lineno for each in child.decorator_list)])
                last = child.end_lineno or first
                docs = _docstring_lines(child)
                n = len([line for line in code if first <= line <= last and line not in docs])
                found.append((first, last, prefix + child.name, n))
            elif isinstance(child, ast.ClassDef):
                visit(child, f"{prefix}{child.name}.")
            else:
                visit(child, prefix)

    visit(ast.parse(source), "")
    return found


def _function_at(file: str, line: int) -> Step | None:
    for first, last, name, lines in _functions(file):
        if first <= line <= last:
            module = Path(file).relative_to(ROOT).as_posix()
            return Step(module, name, first, lines)
    return None


def _docstring_lines(function: ast.AST) -> set[int]:
    found: set[int] = set()
    for node in ast.walk(function):
        value = node.value if isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            found.update(range(value.lineno, (value.end_lineno or value.lineno) + 1))
    return found


def _lines_of_code(source: str) -> set[int]:
    passive = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in passive:
            found.update(range(token.start[0], token.end[0] + 1))
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
