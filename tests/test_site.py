"""The site without building it: every page is in a list, every public name in the reference."""

import doctest
import fnmatch
import importlib
import posixpath
import re
from pathlib import Path

import pytest

import check_site
import smallcal as sc

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
#: Folders that the build writes, and those that hold no page.
MADE = (
    "gallery", "sg_execution_times", "reference/cli", "reference/api/generated",
    "_ext", "_static", "_templates",
)  # fmt: skip

_TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```", re.DOTALL | re.MULTILINE)
_AUTOSUMMARY = re.compile(r"\.\. currentmodule:: (\S+)|^   (~?[\w.]+)$", re.MULTILINE)


def pages():
    """Return the pages that are written by hand, without their suffixes."""
    files = [file for kind in ("*.md", "*.rst", "*.ipynb") for file in DOCS.rglob(kind)]
    names = [file.relative_to(DOCS).with_suffix("").as_posix() for file in files]
    return {name for name in names if not name.startswith(MADE)}


def listed(page, known):
    """Return the pages that the lists of a page name."""
    file = next(
        DOCS / f"{page}{kind}" for kind in (".md", ".rst") if (DOCS / f"{page}{kind}").exists()
    )
    found = set()
    for block in _TOCTREE.findall(file.read_text(encoding="utf-8")):
        entries = [line.strip() for line in block.splitlines()]
        for entry in (line for line in entries if line and not line.startswith(":")):
            path = re.sub(r".*<(.*)>", r"\1", entry)
            path = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
            found |= {name for name in known if fnmatch.fnmatchcase(name, path)}
    return found


def test_every_page_can_be_reached_from_the_front_page():
    known = pages()
    reached, new = set(), {"index"}
    while new:
        reached |= new
        with_lists = {page for page in new if not (DOCS / f"{page}.ipynb").exists()}
        new = {name for page in with_lists for name in listed(page, known)} - reached
    # Notebooks stand under the gallery, whose page the build writes.
    assert {name for name in known - reached if not name.startswith("notebooks/")} == set()
    assert len(reached) > 50


def in_the_reference():
    """Return every name that the API reference has, with its module."""
    found = set()
    for file in (DOCS / "reference" / "api").glob("*.rst"):
        module = ""
        for changed, name in _AUTOSUMMARY.findall(file.read_text(encoding="utf-8")):
            module = changed or module
            if name:
                found.add(f"{module}.{name.lstrip('~')}")
    return found


@pytest.mark.parametrize(
    "module",
    [
        *("smallcal", "smallcal.metrics", "smallcal.plots", "smallcal.runtime"),
        *("smallcal_lab.plots", "smallcal_lab.studies", "smallcal_lab.vision"),
        "smallcal.deploy.export",
    ],
)
def test_every_public_name_is_in_the_reference(module):
    if module == "smallcal_lab.vision":
        pytest.importorskip("PIL")
    if module == "smallcal.deploy.export":
        pytest.importorskip("onnx")
    package = importlib.import_module(module)
    names = {f"{module}.{name}" for name in package.__all__ if name != "__version__"}
    assert names - in_the_reference() == set()


def test_what_functions_return_is_in_the_reference():
    assert {"smallcal.statistics.compare.Comparison", "smallcal.advice.plan_words.Plan"} <= (
        in_the_reference()
    )


# --- the extensions ------------------------------------------------------------------------------


@pytest.fixture
def extension():
    for package in ("sphinx", "latex2mathml"):
        pytest.importorskip(package, reason="what builds the site is not installed")
    return importlib.import_module


@pytest.mark.parametrize("name", ["api_members", "cli_reference", "mathml", "repository_links"])
def test_the_examples_of_an_extension_run(extension, name):
    results = doctest.testmod(extension(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert results.attempted > 0
    assert results.failed == 0


def test_every_verb_has_a_page_with_every_option(extension):
    from smallcal.cli.app import Verbs

    texts = extension("cli_reference").pages("## fit\n")
    assert list(texts) == ["index", *Verbs.verbs]
    for name, verb in Verbs.verbs.items():
        for one in verb.command(name).params:
            if one.param_type_name == "option":
                assert f"{one.opts[0]}" in texts[name]
    assert "command-line.html#fit" in texts["fit"]
    assert "command-line.html#" not in texts["apply"]
    assert "default: ``95%``" in texts["certify"]
    assert "smallcal apply CAL DATA -o OUT [OPTIONS]" in texts["apply"]
    assert texts["study"].count("\n.. program::") >= 6
    assert "* - ``budget``" in texts["study"]


def test_pages_of_verbs_that_are_gone_are_removed(extension, tmp_path):
    made = extension("cli_reference")
    (tmp_path / "reference" / "cli").mkdir(parents=True)
    (tmp_path / made.EXAMPLES).write_text("# The command line\n")
    old = tmp_path / made.FOLDER / "gone.rst"
    old.write_text("gone")
    made.write(tmp_path)
    assert not old.exists()
    fit = tmp_path / made.FOLDER / "fit.rst"
    before = fit.stat().st_mtime_ns
    made.write(tmp_path)
    assert fit.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("latex", "part"),
    [
        (r"p_k = \frac{e^{z_k/T}}{\sum_j e^{z_j/T}}", "<mfrac>"),
        (r"\hat y", "<mover"),
        (r"\arg\max_j z_j", "<mo>arg</mo>"),
        (r"\mathbb{R}", "&#x0211D;"),
    ],
)
def test_formulas_become_mathml(extension, latex, part):
    found = extension("mathml").mathml(latex, block=True)
    assert part in found
    assert 'display="block"' in found


@pytest.mark.parametrize("latex", [r"\nosuchthing", r"\begin{aligned} a &= b \end{aligned}"])
def test_a_formula_that_cannot_be_shown_is_an_error(extension, latex):
    with pytest.raises(ValueError, match="no MathML for"):
        extension("mathml").mathml(latex)


def test_links_lead_to_the_site_or_to_the_repository(extension, tmp_path):
    for name in ("src/a.py", "docs/guides/b.md", "CHANGELOG.md", "docs/figures/c.svg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")

    def led(text, file="CONTRIBUTING.md", page="docs/contributing/index.md"):
        url = "https://example.org"
        return extension("repository_links").on_the_site(text, file, page, url, tmp_path)

    assert led("[a](src/a.py)") == "[a](https://example.org/blob/main/src/a.py)"
    assert led("[a](src)") == "[a](https://example.org/tree/main/src)"
    assert led("[b](docs/guides/b.md#c)") == "[b](../guides/b.md#c)"
    assert led("[c](CHANGELOG.md)") == "[c](../changelog.md)"
    assert led("![c](docs/figures/c.svg)") == "![c](../figures/c.svg)"
    inside = ("docs/guides/b.md", "docs/guides/b.md")
    assert led("[a](../../src/a.py)", *inside) == "[a](https://example.org/blob/main/src/a.py)"
    assert led("[c](../figures/c.svg)", *inside) == "[c](../figures/c.svg)"
    for same in ("[x](https://x.org/y)", "[x](#y)", "[x](gone.md)", "```md\n[a](src/a.py)\n```\n"):
        assert led(same) == same


# --- the check of the built site -----------------------------------------------------------------


def problems(tmp_path, **files):
    for name, text in files.items():
        (tmp_path / f"{name}.html").write_text(text)
    return list(check_site.problems_of_files(tmp_path))


def test_a_sound_site_has_no_problem(tmp_path):
    (tmp_path / "a.svg").write_text("<svg/>")
    text = '<h1 id="top">A</h1><a href="b.html#here">b</a><a href="#top"></a><img src="a.svg">'
    assert problems(tmp_path, a=text, b='<p id="here"><a href="https://x.org">x</a>') == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('<a href="gone.html">', "a.html: gone.html leads nowhere"),
        ('<a href="a.html#gone">', "a.html: a.html#gone names no place of that page"),
        ('<a href="#gone">', "a.html: #gone names no place of that page"),
        ('<img src="gone.png">', "a.html: gone.png leads nowhere"),
        ('<script src="https://cdn.x/y.js"></script>', "a.html: loads https://cdn.x/y.js"),
        ('<link rel="stylesheet" href="//x.org/y.css">', "a.html: loads //x.org/y.css"),
    ],
)
def test_what_leads_nowhere_or_elsewhere_is_said(tmp_path, text, said):
    assert problems(tmp_path, a=text) == [said]


def test_styles_that_load_from_elsewhere_and_empty_sites_are_said(tmp_path):
    assert problems(tmp_path) == [f"{tmp_path}: no page"]
    (tmp_path / "x.css").write_text("@font-face { src: url(https://x.org/y.woff) }")
    assert problems(tmp_path, a="") == ["x.css: loads from elsewhere"]


def test_the_exit_code_tells_of_problems(tmp_path, capsys):
    assert problems(tmp_path, a="") == []
    assert check_site.main([str(tmp_path), "--no-browser"]) == 0
    assert problems(tmp_path, a='<a href="b.html">')
    assert check_site.main([str(tmp_path), "--no-browser"]) == 1
    assert "b.html leads nowhere" in capsys.readouterr().out


def test_the_front_page_names_what_it_shows():
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    assert "figures/reliability.svg" in text
    assert "pip install smallcal" in text
    assert "Calibrator" in sc.__all__
