"""Style, types and layers are part of the tests."""

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = (ROOT / "src", ROOT / "lab/src")

COMMANDS = {
    "ruff": [sys.executable, "-m", "ruff", "check", "."],
    "ruff format": [sys.executable, "-m", "ruff", "format", "--check", "."],
    "mypy": [sys.executable, "-m", "mypy"],
    "importlinter": [
        sys.executable,
        "-c",
        "from importlinter.cli import lint_imports_command; lint_imports_command()",
    ],
}


@pytest.mark.parametrize("tool", COMMANDS)
def test_the_code_is_clean(tool):
    if importlib.util.find_spec(tool.split()[0]) is None:
        pytest.skip(f"{tool} is not installed: the light run has no developer tools")
    done = subprocess.run(COMMANDS[tool], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


def test_modules_stay_small():
    files = [path for source in SOURCES for path in source.rglob("*.py")]
    sizes = {path: len(path.read_text().splitlines()) for path in files}
    assert {str(path): size for path, size in sizes.items() if size > 600} == {}


#: Functions that may import a part of smallcal late, and why.
LATE = {
    "cli/__init__.py _invoke": "who interrupts while packages load sees one line, too",
    "cli/paper.py paper": "an extra, and a list of options needs none",
    "cli/logits.py logits": "an extra: images need Pillow, its help does not",
    "cli/train.py train": "an extra: images need Pillow, its help does not",
    "vision/paper/run.py _train": "a plan is made without torch",
    "vision/paper/run.py _extract": "a plan is made without torch",
    "advice/copies.py copies_note": "certify and evaluate load no more than they need",
    "calibrators/base.py to_torch": "an extra, and a room above",
    "data/in_notebook.py html_of": "what notebooks show is made in a room above",
    "deploy/adapters/torch.py calibrate": "an extra: the class of a module needs torch",
    "deploy/export/__init__.py __getattr__": "an extra: the class of a module needs torch",
    "studies/tables/table.py tables_of": "the catalogue of tables is made of such tables",
}


def test_no_function_imports_what_its_module_could():
    """Imports inside functions hide cycles; verbs are imported late by ``cli/lazy.py`` alone."""
    found = set()
    packages = (ROOT / "src/smallcal", ROOT / "lab/src/smallcal_lab")
    for package, path in ((one, path) for one in packages for path in one.rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                names = {name for node in ast.walk(function) for name in imported(node)}
                if names & {"smallcal", "smallcal_lab"}:
                    found.add(f"{path.relative_to(package).as_posix()} {function.name}")
    assert found <= set(LATE)


def imported(node):
    """Return the packages that a statement imports from."""
    if isinstance(node, ast.ImportFrom):
        return [(node.module or "").partition(".")[0]]
    aliases = node.names if isinstance(node, ast.Import) else []
    return [alias.name.partition(".")[0] for alias in aliases]
