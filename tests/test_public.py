"""The public surface: exactly these names, light to import, the contract runs as written."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import method_table
import smallcal as sc
from smallcal.calibrators.catalogue import METHODS
from support.pages import run_page

ROOT = Path(__file__).parents[1]


def test_all_is_exactly_what_is_public():
    for name in sc.__all__:
        assert getattr(sc, name) is not None
    assert sorted(dir(sc)) == sorted(sc.__all__)
    assert len(set(sc.__all__)) == len(sc.__all__)


#: Every package whose names load their module when first used.
LAZY = [
    file
    for tree in ("src", "lab/src")
    for file in sorted((ROOT / tree).rglob("__init__.py"))
    if "attach(" in file.read_text()
]


@pytest.mark.parametrize("file", LAZY, ids=lambda file: file.parent.name)
def test_a_lazy_package_gives_the_names_that_it_shows_to_type_checkers(file):
    package = ".".join(file.parent.parts[file.parent.parts.index("src", len(ROOT.parts)) + 1 :])
    tree = ast.parse(file.read_text(encoding="utf-8"))
    (shown,) = [node for node in tree.body if isinstance(node, ast.If)]
    (call,) = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "attach"
    ]
    for_checkers = {
        alias.asname: (entry.module, alias.name) for entry in shown.body for alias in entry.names
    }
    homes = ast.literal_eval(call.args[1])
    loaded = {name: (f"{package}.{home}", name) for home, names in homes.items() for name in names}
    assert for_checkers == loaded


def test_the_lazy_packages_are_found():
    found = {file.parent.name for file in LAZY}
    assert found >= {"smallcal", "calibrators", "adapters", "io", "plots", "reports"}


def test_importing_smallcal_loads_nothing_heavy():
    # scikit-learn itself loads pandas where that is installed; what smallcal adds is tested.
    program = (
        "import sys, sklearn.base, scipy.fft, scipy.optimize; before = set(sys.modules);"
        "import smallcal; smallcal.SRTS; smallcal.evaluate; smallcal.compare;"
        "heavy = {'torch', 'matplotlib', 'pyarrow', 'pandas', 'h5py', 'dask', 'onnx', 'typer'};"
        "heavy |= {'PIL', 'smallcal_lab.vision'};"
        "print(sorted(heavy & (set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


#: What pages about extras need.
NEEDS = {
    "guides/plots.md": "matplotlib",
    "guides/notebooks.md": "matplotlib",
    "lab/plots.md": "matplotlib",
    "lab/vision.md": "PIL",
    "lab/studies.md": "pyarrow",
}


@pytest.mark.parametrize(
    ("page", "least"),
    [
        ("start/five-minutes.md", 18),
        ("start/your-own-data.md", 19),
        ("guides/python.md", 50),
        ("guides/eval-logs.md", 15),
        ("guides/scores.md", 15),
        ("explanation/statistics.md", 15),
        ("explanation/four-axes.md", 2),
        ("explanation/why-signals.md", 13),
        ("explanation/default.md", 18),
        ("guides/choosing.md", 10),
        ("guides/audit.md", 6),
        ("guides/planning.md", 9),
        ("guides/certify.md", 9),
        ("guides/plots.md", 12),
        ("lab/plots.md", 9),
        ("lab/simulate.md", 10),
        ("guides/report.md", 9),
        ("guides/monitor.md", 17),
        ("guides/prediction-sets.md", 12),
        ("guides/adapt.md", 18),
        ("lab/vision.md", 6),
        ("guides/notebooks.md", 20),
        ("recipes/llm-judge.md", 20),
        ("recipes/multiple-choice.md", 12),
        ("recipes/binary-model.md", 20),
        ("recipes/reranker.md", 15),
        ("recipes/judge-alone.md", 18),
        ("guides/decide.md", 24),
        ("guides/groups.md", 13),
        ("guides/costs.md", 20),
        ("guides/refresh.md", 14),
        ("lab/studies.md", 25),
        ("explanation/score-maps.md", 9),
        ("guides/evaluate.md", 12),
        ("guides/compare.md", 9),
        ("index.md", 5),
        ("cite.md", 5),
        ("faq.md", 27),
    ],
)
def test_the_examples_in_the_docs_run(page, least, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the front page saves a file
    if page in NEEDS:
        pytest.importorskip(NEEDS[page], reason="the page is about an extra")
    results = run_page(ROOT / "docs" / page)
    assert results.attempted >= least
    assert results.failed == 0


def test_the_readme_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    results = run_page(ROOT / "README.md")
    assert results.attempted >= 11
    assert results.failed == 0


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(sc, "nothing")


def test_the_table_of_the_demo_is_what_it_prints():
    """Each number of the page on the demo, to the last digit shown, give or take one."""
    done = subprocess.run(
        [sys.executable, "-m", "smallcal", "demo", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    computed = {
        (row["budget"], row["method"]): row["mean"] for row in json.loads(done.stdout)["results"]
    }
    table = (ROOT / "docs" / "start" / "demo.md").read_text(encoding="utf-8")
    checked, budget = 0, 0
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != 7 or not re.match(r"\d", cells[2]):
            continue
        budget = int(cells[0].replace(",", "")) if cells[0] else budget
        mean = computed[budget, cells[1]]
        metrics = ("ece15", "top_label_bce", "nll", "brier", "accuracy")
        for metric, cell in zip(metrics, cells[2:], strict=True):
            assert float(cell.split("±")[0]) == pytest.approx(100 * mean[metric], abs=0.011)
            checked += 1
    assert checked == 50


def test_the_tables_of_methods_and_metrics_in_the_docs_are_up_to_date():
    for file, what, make in method_table.TABLES:
        page = file.read_text(encoding="utf-8")
        assert method_table.updated(page, what, make()) == page, (
            "run python scripts/method_table.py"
        )
    assert all(row.good_for and row.summary for row in METHODS.values())


def test_the_published_schema_is_what_the_loader_checks():
    published = method_table.SCHEMA.read_text(encoding="utf-8")
    assert published == method_table.schema(), "run python scripts/method_table.py"
