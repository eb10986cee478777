"""The gallery's examples and the notebooks of the docs: they run, draw, and warn of nothing."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
SECTIONS = sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir())
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))

#: Extras that a notebook says it needs, by what they bring.
NEEDS = {"logits-to-report": ["matplotlib", "jinja2"], "comparison": ["matplotlib", "pyarrow"]}

# A process of its own: one example adds a kind of map, which would then be there for all tests.
RUN_EXAMPLES = """
import runpy, sys, warnings
import matplotlib.pyplot as plt

for path in sys.argv[1:]:
    print("running", path, flush=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runpy.run_path(path, run_name="__main__")
    assert plt.get_fignums(), f"{path} draws nothing"
    plt.close("all")
"""

# Cells share their names, and what a cell ends with is shown, as a kernel would do it.
RUN_NOTEBOOK = """
import ast, json, sys, warnings
from pathlib import Path

names = {"__name__": "__main__"}
warnings.simplefilter("error")
for cell in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["cells"]:
    if cell["cell_type"] != "code":
        continue
    print("running", cell["id"], flush=True)
    body = ast.parse("".join(cell["source"])).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), cell["id"], "exec"), names)
    if last is not None:
        shown = eval(compile(ast.Expression(last.value), cell["id"], "eval"), names)
        page = getattr(shown, "_repr_html_", lambda: None)()
        assert isinstance(repr(shown) if page is None else page, str)
"""


def run(program, *paths, cwd):
    """Run a program on files as a newcomer would: no screen, nothing but the files."""
    kept = {key: value for key, value in os.environ.items() if key != "DISPLAY"}
    spare = cwd / "tmp"
    spare.mkdir()
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, paths)],
        cwd=cwd,
        env={**kept, "MPLBACKEND": "agg", "TMPDIR": str(spare)},
        capture_output=True,
        text=True,
    )


def examples(section):
    return sorted((EXAMPLES / section).glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("section", SECTIONS)
def test_the_examples_run_draw_and_warn_of_nothing(section, tmp_path):
    pytest.importorskip("matplotlib", reason="the examples draw")
    done = run(RUN_EXAMPLES, *examples(section), cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    assert done.stderr == ""
    assert [path.name for path in tmp_path.iterdir()] == ["tmp"]  # nothing is left behind


def test_the_gallery_has_what_the_site_promises():
    assert sum(len(examples(section)) for section in SECTIONS) >= 12
    for section in SECTIONS:
        assert (EXAMPLES / section / "README.rst").is_file()
        for path in examples(section):
            # Only files of this name are drawn by sphinx-gallery's own rule.
            assert path.name.startswith("plot_"), path
            opening = re.match(r'"""\n(.+)\n(=+)\n\n', path.read_text(encoding="utf-8"))
            assert opening, f"{path} does not open with a title"
            assert len(opening[1]) == len(opening[2]), path


PAGES = [path for path in sorted(EXAMPLES.rglob("*")) if path.suffix in (".py", ".rst")]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_pages_that_an_example_names_exist(path):
    text = path.read_text(encoding="utf-8")
    named = re.findall(r":doc:`(?:[^`<]*<)?(/[\w/-]+)>?`", text)
    assert len(named) == text.count(":doc:")
    assert [name for name in named if not (ROOT / "docs" / f"{name[1:]}.md").is_file()] == []


def test_there_are_three_notebooks():
    assert len(NOTEBOOKS) == 3


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_kept_without_outputs_and_link_to_pages(path):
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["nbformat"] == 4
    ids = [cell["id"] for cell in document["cells"]]
    assert len(set(ids)) == len(ids)
    for cell in document["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None), cell["id"]
        for target in re.findall(r"\]\((\S+?)(?:#[\w-]+)?\)", source) * (
            cell["cell_type"] == "markdown"
        ):
            assert (path.parent / target).is_file(), f"{cell['id']} links to {target}"


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebooks_run_from_top_to_bottom(path, tmp_path):
    for package in NEEDS.get(path.stem, ["matplotlib"]):
        pytest.importorskip(package, reason="the notebook is about an extra")
    done = run(RUN_NOTEBOOK, path, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    assert done.stderr == ""
    assert [path.name for path in tmp_path.iterdir()] == ["tmp"]
