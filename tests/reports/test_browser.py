"""The report in a real browser: nothing asked of a network, everything reachable, nothing run.

Without chromium these tests are skipped, unless SMALLCAL_BROWSER=required says that they must run.
"""

from __future__ import annotations

import base64
import io
import json
import time
from pathlib import Path

import numpy as np
import pytest

import smallcal as sc
from smallcal.data.shown import visible
from support.browser import REQUIRED, chromium
from support.nasty_names import NASTY, nasty_report

if not REQUIRED:
    for package in ("selenium", "jinja2", "matplotlib"):
        pytest.importorskip(package)

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

KEPT = Path(__file__).parents[2] / "test-artefacts"
METHODS = ("none", "ts-nll", "srts-bce", "signal-linear", "default")
#: Nasty names as a page has them.
SHOWN = [visible(name, keep="\n") for name in NASTY]


@pytest.fixture(scope="module")
def driver():
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def report():
    cal, test = sc.load_demo("cal"), sc.load_demo("test")
    return sc.report(
        (cal.logits, cal.labels),
        (test.logits, test.labels),
        methods=METHODS,
        class_names=test.class_names,
        n_boot=200,
        costs=sc.Costs(wrong=10, review=4),
        command="smallcal report cal.npz test.npz -o report.html",
    )


@pytest.fixture(scope="module")
def path(report, tmp_path_factory):
    target = tmp_path_factory.mktemp("report") / "report.html"
    report.save(target)
    return target


@pytest.fixture
def folded(driver, path):
    """The demo's report, freshly loaded in a window of a common size."""
    return opened(driver, path)


@pytest.fixture
def page(folded):
    """The same with its parts unfolded."""
    unfold(folded)
    return folded


def unfold(driver):
    script = "for (const part of document.querySelectorAll('section > details')) part.open = true"
    driver.execute_script(script)


def telephone(driver, width=390, height=844):
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": True}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def opened(driver, path, width=1280, height=900):
    driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    media(driver, scheme="light")
    driver.set_window_size(width, height)
    for kind in ("browser", "performance"):
        driver.get_log(kind)
    loaded(driver, path)
    return driver


def loaded(driver, path):
    """Load a page to its last line: on a busy machine `get` may be back before that."""
    driver.execute_script("document.documentElement.dataset.stale = 'yes'")
    driver.get(path.as_uri())
    new = "return document.readyState === 'complete' && !document.documentElement.dataset.stale"
    WebDriverWait(driver, 60).until(lambda _: driver.execute_script(new))


def media(driver, scheme="light", kind=""):
    features = [
        {"name": "prefers-color-scheme", "value": scheme},
        {"name": "prefers-reduced-motion", "value": "reduce"},
    ]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": kind, "features": features})


def background(driver):
    return driver.execute_script("return getComputedStyle(document.body).backgroundColor")


def focused(driver):
    return driver.switch_to.active_element


def press(driver, *keys):
    for key in keys:
        ActionChains(driver).send_keys(key).perform()


def kept(driver, name, height=3000):
    """Keep a picture of the page's upper part, and give each pixel as one number."""
    from PIL import Image

    KEPT.mkdir(exist_ok=True)
    clip = {"x": 0, "y": 0, "width": 1280, "height": height, "scale": 1}
    shot = driver.execute_cdp_cmd(
        "Page.captureScreenshot", {"format": "png", "captureBeyondViewport": True, "clip": clip}
    )
    data = base64.b64decode(shot["data"])
    (KEPT / name).write_bytes(data)
    with Image.open(io.BytesIO(data)) as picture:
        return np.asarray(picture.convert("RGB")) @ np.array([1 << 16, 1 << 8, 1])


def requests_of(driver):
    messages = [json.loads(row["message"])["message"] for row in driver.get_log("performance")]
    return [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]


def test_the_page_opens_from_disk_without_a_word_or_a_request(page, path):
    time.sleep(0.3)
    assert page.get_log("browser") == []
    asked = requests_of(page)
    assert asked[0] == path.as_uri()
    assert {url for url in asked[1:] if not url.startswith("data:")} == set()


def test_the_page_forbids_itself_the_network(page):
    """So that the test above does not rest on what this page happens to ask for."""
    page.execute_script("document.body.append(new Image()); document.images[0].src = arguments[0]",
                        "http://127.0.0.1:9/nothing.png")  # fmt: skip
    time.sleep(0.3)
    assert "Content Security Policy" in page.get_log("browser")[0]["message"]


def test_the_verdict_is_one_screen_and_the_rest_is_folded(folded):
    box = folded.find_element(By.ID, "verdict").rect
    assert box["y"] + box["height"] <= folded.execute_script("return innerHeight")
    shown = folded.find_element(By.ID, "verdict").text
    for words in ("Use smallcal", "ECE", "top-label log-loss", "Above 90 % confidence"):
        assert words in shown
    assert folded.find_element(By.ID, "ship").is_displayed()
    for table in folded.find_elements(By.CSS_SELECTOR, "table, figure"):
        assert not table.is_displayed()


def test_a_link_of_the_contents_unfolds_its_part(folded):
    table, _ = metric_column(folded, "ece15")
    assert not table.is_displayed()
    folded.find_element(By.CSS_SELECTOR, "nav a[href='#metrics']").click()
    WebDriverWait(folded, 5).until(lambda _: table.is_displayed())
    assert not folded.find_element(By.ID, "figure-reliability").is_displayed()


def test_on_a_telephone_the_columns_that_matter_are_in_sight_and_tables_say_that_they_scroll(page):
    telephone(page)
    for name in ("metrics-0", "differences-0-0"):
        table = page.find_element(By.ID, f"table-{name}")
        page.execute_script("arguments[0].scrollIntoView({block: 'center'})", table)
        heads = table.find_elements(By.CSS_SELECTOR, "thead th")
        first = [head.get_attribute("data-key") for head in heads[1:3]]
        assert first == ["ece15", "top_label_bce"]
        for row in table.find_elements(By.CSS_SELECTOR, "tr"):
            number = row.find_elements(By.CSS_SELECTOR, "th, td")[2]
            text = "const r = document.createRange(); r.selectNodeContents(arguments[0]); "
            text += "return r.getBoundingClientRect().right"
            assert page.execute_script(text, number) <= 390 - 16
    boxes = page.find_elements(By.CSS_SELECTOR, ".scroll")
    wide = 0
    for box in boxes:
        hint = box.find_element(By.XPATH, "preceding-sibling::p[1]")
        more = box.get_property("scrollWidth") > box.get_property("clientWidth") + 1
        if box.is_displayed():
            assert hint.is_displayed() == more
            wide += more
    assert wide > 3


def test_where_everything_fits_no_table_says_that_it_scrolls(page):
    hints = page.find_elements(By.CSS_SELECTOR, "#metrics .hint")
    assert hints
    assert not any(hint.is_displayed() for hint in hints)


def test_a_table_sorts_on_click_both_ways(page, report):
    table, column = metric_column(page, "ece15")
    values = {name: row["ece15"] for name, row in values_of(report).items()}
    up = sorted(values, key=values.get)
    head = table.find_elements(By.CSS_SELECTOR, "thead th")[column]
    button = head.find_element(By.TAG_NAME, "button")
    button.click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert heads_of_rows(table) == up
    button.click()
    assert head.get_attribute("aria-sort") == "descending"
    assert heads_of_rows(table) == up[::-1]
    assert len(table.find_elements(By.CSS_SELECTOR, "[aria-sort]")) == 1


@pytest.mark.parametrize("key", [Keys.ENTER, Keys.SPACE])
def test_a_table_sorts_with_the_keyboard(page, report, key):
    table, column = metric_column(page, "nll")
    values = {name: row["nll"] for name, row in values_of(report).items()}
    head = table.find_elements(By.CSS_SELECTOR, "thead th")[column]
    page.execute_script("arguments[0].focus()", head.find_element(By.TAG_NAME, "button"))
    press(page, key)
    assert head.get_attribute("aria-sort") == "ascending"
    assert heads_of_rows(table) == sorted(values, key=values.get)


def metric_column(page, key):
    """Return the table that has a metric, and the number of its column."""
    head = page.find_element(By.CSS_SELECTOR, f"#metrics th[data-key={key}]")
    return head.find_element(By.XPATH, "ancestor::table"), head.get_property("cellIndex")


def heads_of_rows(table):
    return [head.text for head in table.find_elements(By.CSS_SELECTOR, "tbody th")]


def values_of(report):
    """Return the numbers that the table shows: of ECE the plain one, its estimate stands beside."""
    return {
        row["method"]: {
            name: cell.get("plain", cell["value"]) for name, cell in row["cells"].items()
        }
        for row in report.content["metrics"]["rows"]
    }


def test_words_sort_too(page, report):
    table, _ = metric_column(page, "nll")
    table.find_element(By.CSS_SELECTOR, "thead th button").click()
    assert heads_of_rows(table) == sorted(values_of(report))


def reliability_texts(report):
    """What the marks of the reliability diagram must say, from the numbers of the content."""
    data = next(f["data"] for f in report.content["figures"] if f["id"] == "reliability")
    return [
        (name, f"confidence {100 * c:.2f} %, accuracy {100 * a:.2f} %")
        for name, row in data.items()
        for c, a in zip(row["confidence"], row["accuracy"], strict=True)
    ]


def test_the_numbers_of_a_mark_show_on_hover(page, report):
    marks = page.find_elements(By.CSS_SELECTOR, "#figure-reliability .mark")
    wanted = reliability_texts(report)
    assert len(marks) == len(wanted) > 20
    tip = page.find_element(By.ID, "tip")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", marks[7])
    assert not tip.is_displayed()
    for number in (7, 12, 20):
        over = ActionChains(page).move_to_element(marks[number])
        # A busy browser may drop a movement, so it is made again until one is noticed.
        WebDriverWait(page, 20).until(lambda _, over=over: over.perform() or tip.is_displayed())
        # Marks may lie over each other; the one that is told of must be among them.
        shown = page.find_element(By.CSS_SELECTOR, "[aria-describedby=tip]")
        name, text = wanted[marks.index(shown)]
        assert tip.text.startswith(f"{name}, ")
        assert text in tip.text
        assert near(page, shown, marks[number])
    ActionChains(page).move_to_element(page.find_element(By.CSS_SELECTOR, "h2")).perform()
    time.sleep(0.6)
    assert not tip.is_displayed()


def near(page, one, other):
    script = """const [a, b] = Array.from(arguments, (e) => e.getBoundingClientRect());
    return Math.hypot(a.left + a.right - b.left - b.right, a.top + a.bottom - b.top - b.bottom)"""
    return page.execute_script(script, one, other) < 16


def test_the_numbers_of_a_mark_show_on_focus_and_the_arrows_move(page, report):
    marks = page.find_elements(By.CSS_SELECTOR, "#figure-reliability .mark")
    wanted = reliability_texts(report)
    tip = page.find_element(By.ID, "tip")
    page.execute_script("arguments[0].focus()", marks[0])
    assert wanted[0][1] in tip.text
    press(page, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert focused(page) == marks[2]
    assert wanted[2][1] in tip.text
    assert focused(page).get_attribute("aria-describedby") == "tip"
    press(page, Keys.ARROW_DOWN)
    second = next(i for i, (name, _) in enumerate(wanted) if name != wanted[0][0])
    assert focused(page) == marks[second + 2]
    assert wanted[second + 2][0] in tip.text
    press(page, Keys.HOME)
    assert focused(page) == marks[second]
    press(page, Keys.ESCAPE)
    assert not tip.is_displayed()
    assert page.find_elements(By.CSS_SELECTOR, "[aria-describedby=tip]") == []


def test_the_tooltip_stays_in_the_window(page):
    tip = page.find_element(By.ID, "tip")
    for figure in page.find_elements(By.CSS_SELECTOR, "figure"):
        marks = figure.find_elements(By.CSS_SELECTOR, ".mark")
        for mark in (marks[0], marks[-1]):
            page.execute_script(
                "arguments[0].scrollIntoView({block: 'center'}); arguments[0].focus()", mark
            )
            time.sleep(0.05)
            press(page, Keys.HOME, Keys.END)
            assert tip.is_displayed()
            box = tip.rect
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= page.execute_script("return innerWidth")


def test_every_stop_is_reached_with_the_tab_key_in_order(page):
    stops = page.execute_script(
        """return Array.from(document.querySelectorAll("a[href], button, summary, [tabindex='0']"))
        .filter((e) => e.checkVisibility() && e.tabIndex >= 0)"""
    )
    assert len(stops) > 60
    page.execute_script("window.reached = []; document.addEventListener('focusin', "
                        "(event) => window.reached.push(event.target))")  # fmt: skip
    ActionChains(page).send_keys(*[Keys.TAB] * len(stops)).perform()
    reached = page.execute_script("return window.reached")
    assert [e.id for e in reached] == [e.id for e in stops]


def test_the_skip_link_skips(page):
    press(page, Keys.TAB)
    assert focused(page).text == "Skip to the content"
    press(page, Keys.ENTER)
    press(page, Keys.TAB)
    inside = "return document.querySelector('main').contains(document.activeElement)"
    assert page.execute_script(inside)


def test_the_focus_can_be_seen(page):
    press(page, Keys.TAB, Keys.TAB)
    assert focused(page).value_of_css_property("outline-style") == "solid"
    assert focused(page).value_of_css_property("outline-width") == "3px"


WHITE, NIGHT = "rgb(255, 255, 255)", "rgb(18, 22, 28)"


def test_the_button_turns_the_colours_and_turns_them_back(page):
    button = page.find_element(By.ID, "theme")
    line = page.find_element(By.CSS_SELECTOR, "figure svg text")
    seen = []
    for _ in range(3):
        seen.append(
            (
                background(page),
                line.value_of_css_property("fill"),
                button.text,
            )
        )
        button.click()
    assert [row[0] for row in seen] == [WHITE, NIGHT, WHITE]
    assert [row[2] for row in seen] == ["Dark colours", "Light colours", "Dark colours"]
    assert seen[0][1] == seen[2][1] != seen[1][1]


def test_the_page_follows_the_system_until_the_button_is_pressed(page):
    media(page, scheme="dark")
    assert background(page) == NIGHT
    assert page.find_element(By.ID, "theme").text == "Light colours"
    page.find_element(By.ID, "theme").click()
    assert background(page) == WHITE
    assert page.find_element(By.ID, "theme").text == "Dark colours"
    media(page, scheme="light")
    media(page, scheme="dark")
    assert background(page) == WHITE


def test_a_page_that_opens_in_the_dark_offers_light(driver, path):
    opened(driver, path)
    media(driver, scheme="dark")
    loaded(driver, path)
    assert background(driver) == NIGHT
    assert driver.find_element(By.ID, "theme").text == "Light colours"


def test_paper_is_white_and_open_and_has_no_buttons(page):
    page.find_element(By.ID, "theme").click()
    assert background(page) == NIGHT
    media(page, scheme="dark", kind="print")
    assert background(page) == WHITE
    assert not page.find_element(By.ID, "theme").is_displayed()
    assert not page.find_element(By.TAG_NAME, "nav").is_displayed()
    for part in page.find_elements(By.CSS_SELECTOR, "details > :not(summary, .hint)"):
        assert part.size["height"] > 0
    # A sheet of A4 within its margins: what sticks out there is cut off.
    size = {"width": 688, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    for table in page.find_elements(By.TAG_NAME, "table"):
        assert table.rect["x"] + table.rect["width"] <= 688


def test_the_page_prints(page):
    pdf = base64.b64decode(
        page.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"]
    )
    KEPT.mkdir(exist_ok=True)
    (KEPT / "report.pdf").write_bytes(pdf)
    assert pdf.startswith(b"%PDF-")
    assert pdf.count(b"/Type /Page\n") >= 4
    assert len(pdf) > 100_000


def test_a_downloaded_calibrator_loads_and_predicts(page, report, tmp_path):
    page.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    link = page.find_element(By.CSS_SELECTOR, ".downloads a")
    link.click()
    path = tmp_path / link.get_attribute("download")
    for _ in range(100):
        if path.exists():
            break
        time.sleep(0.05)
    assert link.text == report.recommended
    cal, test = sc.load_demo("cal"), sc.load_demo("test")
    fitted = sc.make(report.recommended).fit(cal.logits, cal.labels)
    found = sc.load(path).predict_proba(test.logits)
    np.testing.assert_array_equal(found, fitted.predict_proba(test.logits))


def test_the_command_can_be_copied(page, report):
    page.execute_cdp_cmd(
        "Browser.grantPermissions",
        {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]},
    )
    read = "navigator.clipboard.readText().then(arguments[0], (e) => arguments[0](String(e)))"
    wanted = {
        "ship": report.content["verdict"]["ship"]["text"],
        "command": report.content["reproduce"]["command"],
    }
    for source, text in wanted.items():
        button = page.find_element(By.CSS_SELECTOR, f"button.copy[data-source={source}]")
        button.click()
        time.sleep(0.2)
        assert button.find_element(By.XPATH, "../*[@role='status']").text == "Copied"
        assert page.execute_async_script(read) == text


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_the_page_never_scrolls_sideways(page, width):
    size = {"width": width, "height": 740, "deviceScaleFactor": 1, "mobile": width < 700}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    for part in page.find_elements(By.CSS_SELECTOR, "details details > summary"):
        part.click()
    wide = "return [document.documentElement.scrollWidth, document.body.scrollWidth]"
    assert max(page.execute_script(wide)) <= width
    if width == 360:
        boxes = page.find_elements(By.CSS_SELECTOR, ".scroll")
        wider = [box.get_property("scrollWidth") > box.get_property("clientWidth") for box in boxes]
        assert sum(wider) > 3
    page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_picture_of_the_page_is_not_blank(page, scheme):
    media(page, scheme=scheme)
    picture = kept(page, f"report-{scheme}.png")
    assert len(set(picture.ravel().tolist())) > 50
    ground = 0x12161C if scheme == "dark" else 0xFFFFFF
    assert 0.3 < (picture == ground).mean() < 0.98


def test_without_script_the_page_is_whole(driver, path):
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        loaded(driver, path)
        marks = driver.find_elements(By.CSS_SELECTOR, "#figure-reliability .mark")
        titles = driver.find_elements(By.CSS_SELECTOR, "#figure-reliability .mark > title")
        assert len(marks) == len(titles) > 20
        assert not driver.find_element(By.ID, "theme").is_displayed()
        assert driver.find_element(By.CSS_SELECTOR, ".verdict").is_displayed()
    finally:
        driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


@pytest.mark.slow
def test_nasty_names_are_shown_and_do_nothing(driver, tmp_path):
    found = nasty_report()
    found.save(tmp_path / "nasty.html")
    page = opened(driver, tmp_path / "nasty.html")
    time.sleep(0.3)
    for part in page.find_elements(By.TAG_NAME, "summary"):
        part.click()
    for mark in page.find_elements(By.CSS_SELECTOR, ".mark")[:5]:
        page.execute_script("arguments[0].focus()", mark)
    for cell in page.find_elements(By.CSS_SELECTOR, "#table-classes tbody th"):
        ActionChains(page).move_to_element(cell).perform()
        assert cell.get_property("textContent") in SHOWN
    assert page.execute_script("return window.harmed") is None
    assert page.execute_script("return document.scripts.length") == 1
    assert page.get_log("browser") == []
    assert page.execute_script("return document.title") == " ".join(" ".join(SHOWN).split())


def test_the_browser_reads_the_page_as_it_was_written(page, path):
    """A page that is not well formed is mended by the browser, and then has other elements."""
    import html5lib

    tree = html5lib.parse(path.read_text(encoding="utf-8"), namespaceHTMLElements=False)
    names = [
        element.tag.rpartition("}")[2] for element in tree.iter() if isinstance(element.tag, str)
    ]
    # The script takes the titles of marks away.
    shown = page.execute_script(
        "return Array.from(document.querySelectorAll('*'), (e) => e.localName)"
    )
    titles = [name for name in names if name == "title"]
    assert len(names) - len(shown) == len(titles) - 1
    assert [n for n in names if n != "title"] == [n for n in shown if n != "title"]


def test_the_file_is_small(path):
    assert path.stat().st_size < 3_000_000
