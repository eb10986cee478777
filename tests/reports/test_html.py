"""The page of a report, without a browser: escaped, the same bytes again, ordered, readable."""

from __future__ import annotations

import base64
import json
import re
from html.parser import HTMLParser
from importlib.resources import files
from itertools import pairwise

import numpy as np
import pytest

import smallcal as sc
from smallcal.data.shown import visible
from support.nasty_names import NASTY, RAW, nasty_report
from support.simulated import simulate

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

from smallcal.metrics import METRICS
from smallcal.reports.render import background, theme
from smallcal.reports.render.html import render
from smallcal.reports.render.svg import inline_svg

VOID = {"meta", "link", "br", "img", "hr", "input"}


class Page(HTMLParser):
    """Every element with its attributes and text; complains of tags that do not match."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.elements, self.wrong = [], [], []
        self.feed(text)
        self.close()
        self.wrong += [element["tag"] for element in self.open]

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        if len(set(names)) < len(names):
            self.wrong.append(f"{tag} {names}")
        inside = [element["tag"] for element in self.open]
        element = {"tag": tag, "attrs": dict(attrs), "text": "", "inside": inside}
        self.elements.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop()["tag"] != tag:
            self.wrong.append(f"/{tag}")

    def handle_data(self, data):
        for element in self.open:
            element["text"] += data

    def all(self, *tags):
        return [element for element in self.elements if element["tag"] in tags]

    def ids(self):
        return [e["attrs"]["id"] for e in self.elements if "id" in e["attrs"]]


@pytest.fixture(scope="module")
def nasty():
    return nasty_report()


@pytest.fixture(scope="module")
def report():
    return sc.report(
        simulate(500, 6, seed=1),
        simulate(700, 6, seed=2),
        methods=["ts-nll", "srts-bce", "default"],
        n_boot=100,
        command="smallcal report a.npz b.npz -o c.html",
    )


@pytest.fixture(scope="module")
def texts(report, nasty):
    """Both pages as text; drawing their figures takes seconds."""
    return {"report": report.to_html(), "nasty": nasty.to_html()}


@pytest.fixture(scope="module")
def page(texts):
    return Page(texts["report"])


@pytest.fixture(scope="module")
def nasty_page(texts):
    return Page(texts["nasty"])


@pytest.mark.parametrize("which", ["report", "nasty"])
def test_the_page_is_well_formed(which, texts):
    text = texts[which]
    found = Page(text)
    assert found.wrong == []
    assert len(set(found.ids())) == len(found.ids())
    strict = pytest.importorskip("html5lib")
    strict.HTMLParser(strict=True).parse(text)


def test_the_same_content_gives_the_same_bytes(report, texts):
    assert render(json.loads(report.to_json())) == texts["report"]


def test_names_are_shown_and_never_run(nasty_page):
    found = nasty_page
    assert len(found.all("script")) == 1
    assert "harmed" not in found.all("script")[0]["text"]
    assert found.all("img") == []
    for element in found.elements:
        assert not [name for name in element["attrs"] if name.startswith("on")]
        assert "harmed" not in "".join(
            value or ""
            for name, value in element["attrs"].items()
            if name in ("href", "src", "style")
        )
    heads = {element["text"] for element in found.all("th")}
    names = [visible(name, keep="\n") for name in NASTY]
    assert set(names) <= heads
    assert found.all("title")[0]["text"] == " ".join(names)
    assert found.all("h1")[0]["text"] == " ".join(names)


@pytest.mark.parametrize("form", ["html", "md"])
def test_controls_in_names_are_spelled_out(form, nasty, texts):
    text = texts["nasty"] if form == "html" else nasty.text("md")
    assert not RAW.search(text)
    assert "\\x1b" in text
    assert "\\u202e" in text


def test_json_keeps_names_exact(nasty):
    content = json.loads(nasty.to_json())
    assert content["title"] == " ".join(NASTY)


def test_nothing_is_written_that_a_template_language_would_read_again(nasty_page):
    assert "{{ 7 * 7 }}" in nasty_page.all("h1")[0]["text"]


def test_the_page_asks_for_nothing(page):
    for element in page.elements:
        attrs = element["attrs"]
        assert "src" not in attrs
        assert "srcset" not in attrs
        target = attrs.get("href", attrs.get("xlink:href"))
        assert target is None or target.startswith(("#", "data:"))
    style = page.all("style")[0]["text"]
    assert "@import" not in style
    assert "http" not in style
    assert "url(" not in style


def test_the_policy_allows_this_script_and_no_other(page):
    import hashlib

    policy = next(
        element["attrs"]["content"]
        for element in page.all("meta")
        if element["attrs"].get("http-equiv") == "Content-Security-Policy"
    )
    digest = hashlib.sha256(page.all("script")[0]["text"].encode()).digest()
    assert f"script-src 'sha256-{base64.b64encode(digest).decode()}';" in policy
    assert policy.startswith("default-src 'none';")


def test_headings_are_in_order(page):
    levels = [int(element["tag"][1]) for element in page.all("h1", "h2", "h3", "h4")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in pairwise(levels))


def test_the_verdict_comes_first(page, report):
    first = page.all("section")[0]["text"]
    assert report.content["verdict"]["headline"] in first
    for finding in report.content["verdict"]["findings"]:
        assert finding["text"] in first
    assert report.content["verdict"]["ship"]["text"] in first
    second = page.all("section")[1]["text"]
    for fact in report.content["verdict"]["facts"]:
        assert fact in second


def test_all_but_the_verdict_is_folded(page):
    folds = [e for e in page.all("details") if e["inside"][-1] == "section"]
    assert len(folds) == len(page.all("section")) - 1
    assert all("open" not in e["attrs"] for e in folds)
    inside = [e["inside"] for e in page.all("table", "figure")]
    assert inside
    assert all("details" in around for around in inside)


def test_landmarks_and_links_lead_somewhere(page):
    assert [len(page.all(tag)) for tag in ("main", "nav", "header", "footer")] == [1, 1, 1, 1]
    ids = set(page.ids())
    links = [e["attrs"]["href"][1:] for e in page.all("a") if e["attrs"]["href"].startswith("#")]
    assert links[0] == "content"
    assert set(links) <= ids
    for element in page.elements:
        for name in ("aria-labelledby", "aria-describedby"):
            assert set(element["attrs"].get(name, "").split()) <= ids


def test_tables_have_captions_heads_and_scopes(page):
    assert len(page.all("caption")) == len(page.all("table")) >= 8
    assert {e["attrs"]["scope"] for e in page.all("th")} == {"col", "row"}
    for element in page.all("caption"):
        assert len(element["text"]) > 10


def test_every_figure_is_told_in_words(page, report):
    pictures = page.all("svg")
    wanted = [figure["alt"] for figure in report.content["figures"]]
    assert sorted(element["attrs"]["aria-label"] for element in pictures) == sorted(wanted)
    assert all(len(alt) > 30 for alt in wanted)
    assert len(page.all("figcaption")) == len(pictures) >= 4


def test_every_mark_has_a_title_and_one_of_a_figure_is_a_stop(page):
    titles = [e for e in page.all("title") if "svg" in e["inside"]]
    marks = [e for e in page.elements if e["attrs"].get("class") == "mark"]
    assert [e["text"] for e in titles] == [e["attrs"]["aria-label"] for e in marks]
    stops = [e for e in marks if e["attrs"]["tabindex"] == "0"]
    assert 0 < len(stops) <= len(page.all("svg"))


def test_every_number_of_the_content_is_on_the_page(page, report):
    cells = [e["attrs"]["data-sort"] for e in page.elements if "data-sort" in e["attrs"]]
    for row in report.content["metrics"]["rows"]:
        for name, cell in row["cells"].items():
            scale = METRICS[name].unit.scale
            assert repr(float(scale * cell["plain"])) in cells
    for table in report.content["differences"]:
        for row in table["rows"]:
            for name, cell in row["metrics"].items():
                scale = METRICS[name].unit.scale
                assert repr(float(scale * cell["value"])) in cells


def test_artefacts_come_out_as_they_went_in(page, report, tmp_path):
    links = {
        e["attrs"]["download"]: e["attrs"]["href"]
        for e in page.all("a")
        if "download" in e["attrs"]
    }
    assert len(links) == len(report.content["artefacts"]) == 4
    z, y = simulate(500, 6, seed=1)
    for entry in report.content["artefacts"]:
        head, _, data = links[entry["file_name"]].partition(",")
        assert head == "data:application/json;base64"
        path = tmp_path / entry["file_name"]
        path.write_bytes(base64.b64decode(data))
        wanted = sc.make(entry["method"]).fit(z, y).predict_proba(z)
        np.testing.assert_array_equal(sc.load(path).predict_proba(z), wanted)


def test_a_large_artefact_is_left_out_with_a_word_but_not_the_recommended(report, monkeypatch):
    sizes = {
        entry["method"]: len(json.dumps(entry["document"], indent=1).encode()) + 1
        for entry in report.content["artefacts"]
    }
    monkeypatch.setattr(background, "MOST_BYTES", sizes[report.recommended])
    (block,) = [b for b in background.reproduce(report.content) if b.kind == "downloads"]
    assert [file.label for file in block.files if file.data] == [report.recommended]
    left = [file.note for file in block.files if not file.data]
    assert len(left) == 3
    assert all("too large to be in this page" in note for note in left)


COLOURS = re.compile(r"--([\w-]+): (#[0-9a-f]{6});")


def themes_of(page):
    """The colours of both themes as the page's own style sheet has them."""
    style = page.all("style")[0]["text"]
    light, dark, asked_light, asked_dark = (
        dict(COLOURS.findall(block)) for block in re.findall(r":root[^{]*\{([^}]*)\}", style)[:4]
    )
    assert light == asked_light
    assert dark == asked_dark
    return {"light": light, "dark": dark}


def luminance(colour):
    """WCAG 2.2's relative luminance, written out from its definition."""
    total = 0.0
    for weight, start in ((0.2126, 1), (0.7152, 3), (0.0722, 5)):
        share = int(colour[start : start + 2], 16) / 255
        total += weight * (share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4)
    return total


def ratio(one, other):
    a, b = sorted([luminance(one), luminance(other)], reverse=True)
    return (a + 0.05) / (b + 0.05)


@pytest.mark.parametrize("which", ["light", "dark"])
def test_text_can_be_read_and_marks_seen(page, which):
    colours = themes_of(page)[which]
    assert abs(ratio("#ffffff", "#767676") - 4.54) < 0.01
    for ground in ("paper", "card"):
        for name in ("ink", "soft", "accent", "good", "bad", "warn"):
            assert ratio(colours[name], colours[ground]) >= 4.5, (name, ground)
        for name in ("focus", "edge"):
            assert ratio(colours[name], colours[ground]) >= 3, (name, ground)
    for name in colours:
        if name.startswith("c-") and name != "c-d9d9d9":
            assert ratio(colours[name], colours["paper"]) >= 3, name
    assert ratio(colours["c-222222"], colours["paper"]) >= 4.5
    assert ratio(colours["c-767676"], colours["paper"]) >= 4.5


def test_every_colour_of_a_figure_is_a_variable_of_both_themes(page):
    from smallcal.plots import style

    assert {f"c-{colour[1:]}" for colour in style.COLOURS} <= set(theme.LIGHT)
    assert set(theme.LIGHT) == set(theme.DARK)
    for element in page.elements:
        if "svg" in [*element["inside"], element["tag"]]:
            assert not re.search(r"#[0-9a-f]{3,6}\b", element["attrs"].get("style", ""))


def test_the_contrast_that_is_published_is_the_one_computed_here():
    for colour in [*theme.LIGHT.values(), *theme.DARK.values()]:
        assert theme.contrast(colour, "#ffffff") == pytest.approx(ratio(colour, "#ffffff"))


def test_figures_lose_what_would_reach_beyond_them():
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        'width="4pt"><defs><style>*{stroke: red}</style><path id="m"/></defs><g id="tip-0">'
        '<defs><path id="n"/></defs><use xlink:href="#m" style="fill: #0072b2"/><g>'
        '<path d="M 0 0"/></g></g></svg>'
    )
    found = Page(inline_svg(svg, {"tip-0": ["one", "a < b"]}, label='"quoted"'))
    assert found.wrong == []
    assert found.all("style") == []
    assert [
        e["attrs"].get("aria-label") for e in found.all("use", "path") if e["attrs"].get("class")
    ] == ["one", "a < b"]
    assert found.all("svg")[0]["attrs"] == {"role": "group", "aria-label": '"quoted"'}
    assert found.all("use")[0]["attrs"]["href"] == "#m"
    assert found.all("use")[0]["attrs"]["style"] == "fill: var(--c-0072b2)"


def test_texts_that_do_not_match_the_marks_are_an_error():
    svg = '<svg xmlns="http://www.w3.org/2000/svg"><g id="a"><use/></g></svg>'
    with pytest.raises(ValueError, match="zip"):
        inline_svg(svg, {"a": ["one", "two"]}, label="")


def test_templates_are_in_the_package():
    names = {entry.name for entry in (files("smallcal.reports.render") / "templates").iterdir()}
    assert {"report.html", "parts.html", "report.css", "report.js"} <= names


def test_the_page_is_small(texts):
    assert max(len(text.encode()) for text in texts.values()) < 3_000_000
