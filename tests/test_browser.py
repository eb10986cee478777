"""The report in a real browser: nothing asked of a network, everything reachable, nothing run.

Without chromium these tests are skipped, unless SMALLCAL_BROWSER=required says that they must run.
"""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
import time
from pathlib import Path

import numpy as np
import pytest

import smallcal as sc
from nasty_names import NASTY, nasty_report
from simulated import simulate

REQUIRED = os.environ.get("SMALLCAL_BROWSER") == "required"
if not REQUIRED:
    for package in ("selenium", "jinja2", "matplotlib"):
        pytest.importorskip(package)

from selenium import webdriver  # noqa: E402
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

KEPT = Path(__file__).parents[1] / "test-artefacts"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
METHODS = ("none", "ts-nll", "srts-bce", "default")


@pytest.fixture(scope="module")
def driver():
    program = next(filter(None, map(shutil.which, NAMES)), None)
    server = shutil.which("chromedriver")
    if program is None or server is None:
        reason = "no chromium with chromedriver here: the report is not tested in a browser"
        if REQUIRED:
            pytest.fail(reason)
        pytest.skip(reason)
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    # With the path given, selenium looks for no driver elsewhere, and so downloads none.
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(server))
    yield started
    started.quit()


@pytest.fixture(scope="module")
def report():
    cal, test = sc.load_demo("cal"), sc.load_demo("test")
    return sc.report(
        (cal.logits, cal.labels),
        (test.logits, test.labels),
        methods=METHODS,
        class_names=test.class_names,
        n_boot=200,
        command="smallcal report cal.npz test.npz -o report.html",
    )


@pytest.fixture(scope="module")
def path(report, tmp_path_factory):
    target = tmp_path_factory.mktemp("report") / "report.html"
    report.save(target)
    return target


@pytest.fixture
def page(driver, path):
    """The demo's report, freshly loaded in a window of a common size."""
    return opened(driver, path)


def opened(driver, path, width=1280, height=900):
    driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    media(driver, scheme="light")
    driver.set_window_size(width, height)
    for kind in ("browser", "performance"):
        driver.get_log(kind)
    driver.get(path.as_uri())
    return driver


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


def kept(driver, name):
    """Keep a picture of the whole page, and give it as an array."""
    from PIL import Image

    KEPT.mkdir(exist_ok=True)
    shot = driver.execute_cdp_cmd(
        "Page.captureScreenshot", {"format": "png", "captureBeyondViewport": True}
    )
    data = base64.b64decode(shot["data"])
    (KEPT / name).write_bytes(data)
    with Image.open(io.BytesIO(data)) as picture:
        return np.asarray(picture.convert("RGB"))


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


def test_words_sort_too(page):
    table, _ = metric_column(page, "nll")
    table.find_element(By.CSS_SELECTOR, "thead th button").click()
    assert heads_of_rows(table) == sorted(METHODS_SHOWN(table))


def test_the_numbers_of_a_mark_show_on_hover(page, report):
    figure = page.find_element(By.CSS_SELECTOR, "figure svg .mark")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", figure)
    tip = page.find_element(By.ID, "tip")
    assert not tip.is_displayed()
    ActionChains(page).move_to_element(figure).perform()
    assert tip.is_displayed()
    shown = page.find_element(By.CSS_SELECTOR, "[aria-describedby=tip]")
    assert tip.text == " ".join(shown.get_attribute("aria-label").split("\n"))
    ActionChains(page).move_to_element(page.find_element(By.TAG_NAME, "h1")).perform()
    time.sleep(0.5)
    assert not tip.is_displayed()
