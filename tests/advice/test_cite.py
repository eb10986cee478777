"""What to cite: every name has entries, the entries are sound BibTeX and agree with the rows."""

import json
import pickle
import re
from pathlib import Path

import pytest

import cite_table
import smallcal as sc
from smallcal._version import __version__
from smallcal.advice.cite import FEATURES, cite, works
from smallcal.calibrators import catalogue
from smallcal.calibrators.catalogue import ALIASES, METHODS
from smallcal.calibrators.method import Method
from smallcal.data.references import entries, entry, parsed
from smallcal.metrics import METRICS
from support.refused import refused

ROOT = Path(__file__).parents[2]
FILE = ROOT / "src" / "smallcal" / "data" / "references.bib"
#: Which fields a kind of entry must have beside author, title and year.
NEEDS = {
    "article": {"journal", "volume", "pages"},
    "inproceedings": {"booktitle"},
    "incollection": {"booktitle", "publisher"},
    "book": {"publisher"},
    "misc": set(),
}


@pytest.mark.parametrize("name", [*METHODS, *ALIASES, *FEATURES])
def test_every_name_has_something_to_cite(name):
    assert cite(name).startswith("@")
    assert works(name)


@pytest.mark.parametrize("name", METHODS)
def test_the_first_work_is_the_source_that_the_row_names(name):
    row = METHODS[name]
    first, *more = works(name)
    if row.source == "the SRTS paper":
        assert first.key == "liang2026srts"
    elif row.source in ("this project", ""):
        assert first.key == "smallcal"
    elif row.source.startswith("the package "):
        package = row.source.removeprefix("the package ")
        assert package in {work["keywords"] for work in (first, *more)}
    else:
        assert first.label == row.source


def test_metrics_without_a_source_are_the_plain_ones():
    plain = [name for name, row in METRICS.items() if not row.cites]
    assert plain == ["accuracy", "nll", "confidence_gap"]
    for name in plain:
        with pytest.raises(sc.InputError, match=f"^{name} names no work to cite$"):
            cite(name)


def test_names_of_methods_metrics_and_features_do_not_clash():
    names = [*METHODS, *ALIASES, *METRICS, *FEATURES, "all"]
    assert len(set(names)) == len(names)


def test_every_entry_is_used_and_known():
    rows = [row.cites for row in (*METHODS.values(), *METRICS.values())]
    used = {key for keys in (*rows, *FEATURES.values()) for key in keys}
    assert used == set(entries())


@pytest.mark.parametrize("key", entries())
def test_an_entry_is_complete(key):
    work = entry(key)
    assert NEEDS[work.kind] <= set(work.fields)
    assert re.fullmatch(r"(19|20)\d\d", work["year"])
    surname = work.label.split(" ")[0].strip(",").lower().replace("ł", "l").replace("ü", "u")
    if key != "smallcal":
        assert key.startswith(surname if surname != "le" else "lecoz")
        assert work["year"] in key
    assert (
        all("," in author for author in work.fields["author"].split(" and ")) or key == "smallcal"
    )
    assert ("eprint" in work.fields) == ("archiveprefix" in work.fields)
    if number := work["eprint"]:
        assert re.fullmatch(r"\d{4}\.\d{4,5}", number)
        assert 2000 + int(number[:2]) <= int(work["year"])  # no arXiv number after the venue
    if doi := work["doi"]:
        assert re.fullmatch(r"10\.\d{4,}/\S+", doi)
    if pages := work.fields.get("pages"):
        first, last = map(int, pages.split("--"))
        assert first <= last
    # LaTeX without packages reads ASCII alone, and no letter may be lost for people.
    assert work.bibtex.isascii()
    assert not re.search(r"[{}\\]", "".join(map(work.__getitem__, work.fields)))


def test_an_independent_parser_reads_the_same():
    bibtexparser = pytest.importorskip("bibtexparser")
    found = bibtexparser.parse_string(cite("all"))
    assert not found.failed_blocks
    assert {one.key: one.entry_type for one in found.entries} == {
        key: work.kind for key, work in entries().items()
    }
    for one in found.entries:
        assert {field.key: field.value for field in one.fields} == dict(entries()[one.key].fields)


def test_a_key_stands_once_in_the_file():
    keys = re.findall(r"^@\w+\{(\S+),$", FILE.read_text(encoding="utf-8"), flags=re.M)
    assert sorted(keys) == sorted(entries())
    assert keys[:2] == ["smallcal", "liang2026srts"]
    assert keys[2:] == sorted(keys[2:])


def test_without_a_name_it_is_smallcal_and_the_paper():
    text = sc.cite()
    assert re.findall(r"^@misc\{(\w+),", text, flags=re.M) == ["smallcal", "liang2026srts"]
    assert f"version = {{{__version__}}}," in text
    assert "Signal-Routed Temperature Scaling" in sc.cite("srts-bce")
    assert sc.cite("srts") == sc.cite("srts-bce") == sc.cite(method="srts-bce")
    assert not re.search("arxiv|doi", sc.cite("srts-bce"), flags=re.I)  # none is known


def test_a_prompt_shows_it_as_it_is_and_it_travels_as_text():
    text = sc.cite("ets")
    assert isinstance(text, str)
    assert repr(text) == str(text)
    again = pickle.loads(pickle.dumps(text))
    assert (type(again), again) == (str, str(text))


def test_several_names_share_an_entry_and_a_comment_says_whose():
    text = cite(["ts-nll", "vector", "ece15"])
    assert text.count("@inproceedings{guo2017calibration,") == 1
    assert "% For ts-nll, vector, ece15\n@inproceedings{guo2017calibration," in text
    assert "%" not in cite(["ts-nll"])
    comments = [line for line in cite("all").splitlines() if line.startswith("%")]
    assert max(map(len, comments)) <= 88
    assert not any("@" in line for line in comments)  # BibTeX would take it for an entry


def test_a_variant_is_cited_as_its_method():
    cal = sc.SRTS(n_groups=2).fit(*_drawn())
    assert cal.fitted_.method != "srts-bce"
    assert cite(cal.fitted_.method) == cite("srts-bce")


def _drawn():
    demo = sc.load_demo("cal")
    return demo.logits, demo.labels


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("srts_bec", r"^unknown method or metric 'srts_bec'; did you mean 'srts-bce'\?$"),
        ("smeec", r"^unknown method or metric 'smeec'; did you mean 'smece'\?$"),
        ("prediction_sets", r"did you mean 'prediction-sets'\?$"),
        ("magic", r"^unknown method or metric 'magic'; smallcal.methods\(\) lists methods$"),
        ("", "^unknown method or metric ''"),
        ([], "^cite was given an empty list of names$"),
        (3, "^cite takes the name of a method, or a list of names; got int$"),
        (["ts", None], "got NoneType$"),
    ],
)
def test_a_wrong_name_is_one_clear_line(given, message):
    with pytest.raises(sc.InputError, match=message):
        cite(given)


#: An entry as a package might bring it.
DOE = "@Misc{doe2030, author = {Doe, Jane and Roe, R.},\n title = {A {M}ap of\n Maps}, year={2030}}"


@pytest.mark.parametrize("cites", [(DOE,), (DOE, "guo2017calibration")])
def test_a_package_may_bring_its_entry(monkeypatch, cites):
    row = Method(objective="nll", source="Doe and Roe 2030", cites=cites)
    monkeypatch.setitem(catalogue.METHODS._rows, "doe", row)
    first, *more = works("doe")
    assert (first.kind, first.key, first.label) == ("misc", "doe2030", "Doe and Roe 2030")
    assert first["title"] == "A Map of Maps"
    assert first.authors == ["Jane Doe", "R. Roe"]
    assert [work.key for work in more] == list(cites[1:])


def test_a_package_that_names_no_work_says_what_it_says(monkeypatch):
    row = Method(objective="nll", source="my thesis")
    monkeypatch.setitem(catalogue.METHODS._rows, "mine", row)
    with refused("unknown-choice"):
        cite("mine")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense", "cites must hold keys of references.bib or BibTeX; got 'nonsense'"),
        (DOE + DOE, "cites must hold keys"),
        ("@misc{a, author = {A, B}, title = {C}}", "'a' has no year$"),
        ("@misc{a, title = {C}}", "'a' has no author and no year$"),
        ("@misc{a, author = {A, B}, year = 2030}", "'a' has a value that is not in braces"),
        ("@misc{a, author = {A, B", "a brace of the BibTeX entry 'a' is not closed"),
        ("@misc{a, author = {A, B}, title = {C}, year = {2030}", "not in braces"),
    ],
)
def test_an_entry_that_is_not_sound_is_refused(text, message):
    with pytest.raises(sc.InputError, match=message):
        entry(text)


def test_accents_are_read_as_letters():
    author = r"""{\'E}t{\"u}d{\`e}, {\L}{\o}{\ss}"""
    entry = f"@misc{{a, author = {{{author}}}, title = {{a \\& b -- c}}, year = {{2030}},}}"
    (found,) = parsed(f"text before {entry} and after")
    assert found.authors == ["Łøß Étüdè"]
    assert found["title"] == "a & b – c"
    assert found["pages"] == ""


def test_links():
    assert entry("joy2023sample").link == "https://doi.org/10.1609/aaai.v37i12.26742"
    assert entry("guo2017calibration").link == "https://arxiv.org/abs/1706.04599"
    assert entry("petej2024vennabers").link == "https://github.com/ip200/venn-abers"
    assert entry("brier1950verification").link == ""


def test_the_shell_prints_what_python_does(cli):
    for names in ([], ["srts"], ["ts-nll", "smece"], ["all"]):
        code, out, err = cli("cite", *names)
        assert (code, err) == (0, "")
        assert out == f"{cite(names or None)}\n"
    assert cli("cite", "ts-nll,smece")[1] == cli("cite", "ts-nll", "smece")[1]


def test_the_shell_gives_json(cli):
    code, out, _ = cli("cite", "hts", "--json")
    assert code == 2
    code, out, _ = cli("cite", "hts-bce", "smece", "--json")
    assert code == 0
    told = json.loads(out)
    assert told["names"] == {"hts-bce": ["balanya2024adaptive"], "smece": ["blasiok2024smooth"]}
    assert set(told["entries"]) == {"balanya2024adaptive", "blasiok2024smooth"}
    hts = told["entries"]["balanya2024adaptive"]
    assert hts["authors"][1] == "Juan Maroñas"
    assert hts["label"] == METHODS["hts-bce"].source
    assert (hts["type"], hts["pages"]) == ("article", "8073–8095")
    assert hts["bibtex"] == cite("hts-bce")


def test_the_shell_tells_a_wrong_name_in_one_line(cli):
    code, out, err = cli("cite", "srts-bca")
    assert (code, out) == (2, "")
    line = "unknown method or metric 'srts-bca'; did you mean 'srts-bce'?"
    assert err == f"smallcal: error: {line} [method-unknown]\n"
    assert "`smallcal methods` lists methods" in cli("cite", "magic")[2]
    assert cli("cite", ",")[0] == 2


def test_the_page_is_up_to_date():
    page = cite_table.PAGE.read_text(encoding="utf-8")
    assert cite_table.updated(page) == page, "run python scripts/cite_table.py"
    assert all(page.count(f"(`{key}`). ") == 1 for key in entries())
    assert all(f"`{name}`" in page for name in (*METHODS, *ALIASES))


def test_the_file_of_the_repository_agrees():
    """Its form was checked against the schema of the format once; here, what can go out of date."""
    yaml = pytest.importorskip("yaml")
    told = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(told)  # what the format requires
    assert told["cff-version"] == "1.2.0"
    assert told["type"] == "software"
    assert told["version"] == __version__
    ours, paper = map(entry, ("smallcal", "liang2026srts"))
    assert told["title"] == ours["title"]
    assert [one["name"] for one in told["authors"]] == ours.authors
    (reference,) = told["references"]
    assert {"type", "title", "authors"} <= set(reference)
    assert reference["title"] == paper["title"]
    people = [f"{one['given-names']} {one['family-names']}" for one in reference["authors"]]
    assert people == paper.authors
    assert str(reference["year"]) == paper["year"]
    license_line = re.search(r'^license = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.M)
    assert told["license"] == license_line[1]
