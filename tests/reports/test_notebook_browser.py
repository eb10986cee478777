"""What notebooks show, in a real browser, in pages with the colours of the notebooks that exist.

Without chromium these tests are skipped, unless SMALLCAL_BROWSER=required says that they must run.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from smallcal.reports.render.theme import contrast
from support.browser import REQUIRED, chromium
from support.notebook_results import nasty_results

if not REQUIRED:
    for package in ("selenium", "matplotlib"):
        pytest.importorskip(package)

KEPT = Path(__file__).parents[2] / "test-artefacts"

_LAB = "--jp-layout-color0: {}; --jp-content-font-color1: {}; --jp-ui-font-family: sans-serif;"
_CODE = "--vscode-editor-background: {}; --vscode-editor-foreground: {};"
_DOCS = "--pst-color-background: {}; --pst-color-text-base: {};"

#: Where results are shown: attributes of the page, its variables, its paper, and what the system
#: prefers, which need not be what the notebook does.
HOSTS = {
    "plain light": ("", "", "#ffffff", "light"),
    "plain dark": ("", "", "#12161c", "dark"),
    # A page that is white whatever the system prefers, such as an old notebook.
    "white on a dark system": ("", "", "#ffffff", "dark"),
    "lab light": (
        'data-jp-theme-light="true"',
        _LAB.format("white", "rgba(0, 0, 0, 0.87)"),
        "#ffffff",
        "dark",
    ),
    "lab dark": ('data-jp-theme-light="false"', _LAB.format("#111111", "#fff"), "#111111", "light"),
    "code light": (
        'class="vscode-light" data-vscode-theme-kind="vscode-light"',
        _CODE.format("#ffffff", "#3b3b3b"),
        "#ffffff",
        "dark",
    ),
    "code dark": (
        'class="vscode-dark" data-vscode-theme-kind="vscode-dark"',
        _CODE.format("#1f1f1f", "#cccccc"),
        "#1f1f1f",
        "light",
    ),
    "code contrast": (
        'class="vscode-high-contrast" data-vscode-theme-kind="vscode-high-contrast"',
        _CODE.format("#000000", "#ffffff"),
        "#000000",
        "light",
    ),
    "docs light": ('data-theme="light"', _DOCS.format("#ffffff", "#222832"), "#ffffff", "dark"),
    "docs dark": ('data-theme="dark"', _DOCS.format("#14181e", "#ced6dd"), "#14181e", "light"),
}
every_host = pytest.mark.parametrize("host", HOSTS)

#: What JupyterLab and nbconvert say of every table in an output: ours must not be bent by it.
RULES = """
.jp-RenderedHTMLCommon table { border-collapse: collapse; table-layout: fixed; font-size: 12px;
  margin-left: auto; border: none; }
.jp-RenderedHTMLCommon td, .jp-RenderedHTMLCommon th, .jp-RenderedHTMLCommon tr {
  vertical-align: middle; padding: 0.5em; max-width: none; border: none; text-align: right; }
.jp-RenderedHTMLCommon tbody tr:nth-child(odd) { background: #f5f5f5; }
.jp-RenderedHTMLCommon tbody tr:hover { background: #e3f2fd; }
.jp-RenderedHTMLCommon code { background: #eeeeee; }
"""

#: Every text with its colour and what lies behind it.
TEXTS = """
const found = [];
for (const box of document.querySelectorAll('.smallcal-nb')) {
  const walk = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode, parent = node.parentElement;
    if (!node.data.trim() || parent.closest('style, title') || !parent.checkVisibility()) continue;
    const style = getComputedStyle(parent);
    let behind = parent, paper;
    do {
      paper = getComputedStyle(behind).backgroundColor;
      behind = behind.parentElement;
    } while (behind && /rgba\\(.*, 0\\)|transparent/.test(paper));
    found.push([node.data.trim().slice(0, 60), parent.closest('svg') ? style.fill : style.color,
                paper]);
  }
}
return found;
"""

#: Every mark and line of figures: its colour.
INKS = """
return Array.from(document.querySelectorAll('.smallcal-nb svg :is(path, use)'))
  .filter((e) => e.checkVisibility() && !e.closest('defs, clipPath'))
  .flatMap((e) => { const s = getComputedStyle(e);
    return [s.fillOpacity === '0' ? 'none' : s.fill, s.stroke]; })
  .filter((c) => c !== 'none');
"""


@pytest.fixture(scope="module")
def driver():
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def shown():
    return {name: result._repr_html_() for name, result in nasty_results().items()}


def opened(driver, shown, folder, host, width=1100):
    attributes, variables, paper, system = HOSTS[host]
    outputs = "".join(
        f'<div class="jp-OutputArea-output jp-RenderedHTMLCommon">{markup}</div>'
        for markup in shown.values()
    )
    page = folder / "notebook.html"
    page.write_text(
        f'<!doctype html><html {attributes} lang="en"><meta charset="utf-8"><title>n</title>'
        f"<style>:root {{ {variables} }} body {{ background: {paper}; }} {RULES}</style>"
        f"<body>{outputs}</body></html>",
        encoding="utf-8",
    )
    features = [{"name": "prefers-color-scheme", "value": system}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    for kind in ("browser", "performance"):
        driver.get_log(kind)
    driver.get(page.as_uri())
    driver.execute_script("for (const d of document.querySelectorAll('details')) d.open = true")
    return driver


def mixed(colour, paper):
    """Return a computed colour as it looks on paper, as #rrggbb."""
    inside = colour[colour.index("(") + 1 : -1].replace("/", " ").replace(",", " ").split()
    *parts, alpha = [float(each) for each in (*inside, "1")][:4]
    behind = [int(paper[i : i + 2], 16) for i in (1, 3, 5)]
    seen = [alpha * ink + (1 - alpha) * page for ink, page in zip(parts, behind, strict=True)]
    return "#" + "".join(f"{round(each):02x}" for each in seen)


@every_host
def test_every_word_can_be_read(driver, shown, tmp_path, host):
    page = opened(driver, shown, tmp_path, host)
    texts = page.execute_script(TEXTS)
    assert len(texts) > 1000
    dim = set()
    for text, ink, paper in texts:
        behind = mixed(paper, "#ffffff")
        found = contrast(mixed(ink, behind), behind)
        if found < 4.5:
            dim.add((text, ink, paper, round(found, 2)))
    assert dim == set()


@every_host
def test_marks_and_lines_can_be_seen(driver, shown, tmp_path, host):
    page = opened(driver, shown, tmp_path, host)
    paper = page.execute_script(
        "return getComputedStyle(document.querySelector('.smallcal-nb')).backgroundColor"
    )
    behind = mixed(paper, "#ffffff")
    colours = {mixed(each, behind) for each in page.execute_script(INKS)}
    # One faint line stays behind on purpose: where the pilot is, in a plan.
    faint = [each for each in colours if contrast(each, behind) < 3]
    assert len(colours) > 4
    assert len(faint) <= 1


@every_host
def test_paper_is_the_notebooks_own(driver, shown, tmp_path, host):
    page = opened(driver, shown, tmp_path, host)
    papers = page.execute_script(
        "return Array.from(document.querySelectorAll('.smallcal-nb'),"
        "(e) => getComputedStyle(e).backgroundColor)"
    )
    _, _, paper, _ = HOSTS[host]
    # Where a page does not say what it is, ours go together, as the system prefers.
    wanted = "#12161c" if host == "white on a dark system" else paper
    assert {mixed(each, "#ffffff") for each in papers} == {wanted}


@every_host
def test_nothing_is_asked_said_or_run(driver, shown, tmp_path, host):
    page = opened(driver, shown, tmp_path, host)
    time.sleep(0.2)
    assert page.execute_script("return window.harmed") is None
    assert page.get_log("browser") == []
    messages = [json.loads(row["message"])["message"] for row in page.get_log("performance")]
    asked = [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]
    assert [url for url in asked if not url.endswith("/notebook.html")] == []


@pytest.mark.parametrize("width", [380, 700, 1400])
def test_nothing_is_wider_than_the_cell(driver, shown, tmp_path, width):
    page = opened(driver, shown, tmp_path, "lab light", width=width)
    wide = page.execute_script(
        """const most = document.documentElement.clientWidth;
        const out = (e) => e.getBoundingClientRect().right > most + 1;
        const inner = (e) => !e.closest('.smallcal-nb-scroll') || e.matches('.smallcal-nb-scroll');
        return Array.from(document.querySelectorAll('.smallcal-nb, .smallcal-nb *:not(svg *)'))
          .filter((e) => e.checkVisibility() && inner(e) && out(e))
          .map((e) => e.outerHTML.slice(0, 200));"""
    )
    assert wide == []


def test_a_notebooks_rules_for_tables_do_not_bend_ours(driver, shown, tmp_path):
    page = opened(driver, shown, tmp_path, "lab dark")
    script = """const cells = document.querySelectorAll('.smallcal-nb tbody th');
    const rows = document.querySelectorAll('.smallcal-nb tr');
    return [new Set(Array.from(cells, (e) => getComputedStyle(e).textAlign)),
            new Set(Array.from(rows, (e) => getComputedStyle(e).backgroundColor))]
      .map((each) => Array.from(each));"""
    aligned, papers = page.execute_script(script)
    assert aligned == ["left"]
    assert papers == ["rgba(0, 0, 0, 0)"]


def test_our_rules_do_not_reach_beyond_the_box(driver, shown, tmp_path):
    page = opened(driver, shown, tmp_path, "plain light")
    script = """const add = (html) => { const d = document.createElement('div');
      d.innerHTML = html; document.body.append(d); return d.querySelector('td, p, code'); };
    const of = (e) => { const s = getComputedStyle(e);
      return [s.color, s.padding, s.margin, s.fontFamily, s.textAlign, s.borderBottom]; };
    const plain = ['<table><tr><td>a</td></tr></table>', '<p>a</p>', '<code>a</code>'];
    const with_ours = plain.map((html) => of(add(html)));
    for (const style of document.querySelectorAll('.smallcal-nb style')) style.remove();
    return [with_ours, plain.map((html) => of(add(html)))];"""
    with_ours, without = page.execute_script(script)
    assert with_ours == without


@pytest.mark.parametrize("host", ["lab light", "lab dark"])
def test_pictures_are_kept_to_look_at(driver, shown, tmp_path, host):
    page = opened(driver, shown, tmp_path, host)
    KEPT.mkdir(exist_ok=True)
    assert page.get_screenshot_as_file(str(KEPT / f"notebook-{host.replace(' ', '-')}.png"))
