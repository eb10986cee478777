"""The built site in Chromium: errors, sideways scrolling, the search, light and dark."""

from __future__ import annotations

import base64
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
         "--disable-background-networking", "--force-prefers-reduced-motion")  # fmt: skip
#: The main pages of every section; those that are not in the site are a problem, too.
PAGES = (
    "index.html",
    "start/index.html",
    "start/install.html",
    "start/five-minutes.html",
    "start/your-own-data.html",
    "guides/index.html",
    "guides/evaluate.html",
    "guides/plots.html",
    "guides/monitor.html",
    "recipes/llm-judge.html",
    "reference/index.html",
    "reference/api/index.html",
    "reference/api/plots.html",
    "reference/api/generated/smallcal.Calibrator.html",
    "reference/cli/fit.html",
    "reference/cli/study.html",
    "reference/command-line.html",
    "reference/methods.html",
    "reference/metrics.html",
    "explanation/index.html",
    "explanation/no-harm.html",
    "explanation/statistics.html",
    "changelog.html",
    "contributing/index.html",
    "search.html",
    "genindex.html",
)
#: Width, height and whether it is a telephone.
SIZES = {"wide": (1280, 900, False), "narrow": (390, 844, True)}

_SIDEWAYS = """
const width = document.documentElement.clientWidth;
const over = document.documentElement.scrollWidth - width;
if (over <= 0) return null;
const wide = [...document.querySelectorAll('body *')].filter(
    one => one.getBoundingClientRect().right > width + 1
        && one.getClientRects().length && getComputedStyle(one).position !== 'fixed');
const last = wide[wide.length - 1];
return over + ' px: ' + (last ? last.tagName + '.' + last.className : '?');
"""
_UNREADABLE = """
return [...document.images].filter(one => one.complete && !one.naturalWidth).map(one => one.src);
"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing of each request."""


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a browser that left a page before all of it had come."""


@contextmanager
def served(site: Path) -> Iterator[str]:
    """Serve a folder on this machine, and give its address."""
    with _Server(("127.0.0.1", 0), partial(_Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@contextmanager
def browser() -> Iterator[Any]:
    """Give a browser that asks nothing of the network by itself."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = next(filter(None, map(shutil.which, NAMES)), "")
    server = shutil.which("chromedriver")
    if not options.binary_location or server is None:
        raise SystemExit("chromium and chromedriver are needed; --no-browser checks the rest")
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(server))
    try:
        yield driver
    finally:
        driver.quit()


def problems_in_browser(site: Path, pictures: Path | None = None) -> tuple[list[str], int]:
    """Return a line for each problem, and how many views of pages were looked at."""
    found: list[str] = []
    more = sorted(file.relative_to(site).as_posix() for file in site.glob("*.html"))
    more += sorted(
        file.relative_to(site).as_posix()
        for folder in ("gallery", "notebooks")
        for file in (site / folder).rglob("*.html")
    )
    wanted = list(dict.fromkeys([*PAGES, *more]))
    views = 0
    with served(site) as address, browser() as driver:
        for name, size in SIZES.items():
            _resize(driver, *size)
            for mode in ("light", "dark"):
                for page in wanted:
                    where = f"{page} ({name}, {mode})"
                    found += [f"{where}: {one}" for one in _view(driver, f"{address}/{page}", mode)]
                    views += 1
                    if pictures is not None:
                        shot = pictures / f"{page.replace('/', '_')[:-5]}-{name}-{mode}.png"
                        _keep(driver, shot)
        found += _search(driver, address)
    return found, views


def _resize(driver: Any, width: int, height: int, mobile: bool) -> None:  # noqa: FBT001
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def _view(driver: Any, address: str, mode: str) -> Iterator[str]:
    """Open a page and give what is wrong with it."""
    features = [{"name": "prefers-color-scheme", "value": mode}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    driver.get(address)
    shown = driver.execute_script("return document.documentElement.dataset.theme")
    if shown != mode:
        yield f"is shown {shown}"
    sideways = driver.execute_script(_SIDEWAYS)
    if sideways:
        yield f"scrolls sideways by {sideways}"
    yield from (f"cannot show {one}" for one in driver.execute_script(_UNREADABLE))
    yield from _complaints(driver)


def _complaints(driver: Any) -> Iterator[str]:
    """Give what the browser complains of; what a script merely tells is no problem."""
    for row in driver.get_log("browser"):
        if row["level"] in ("SEVERE", "WARNING"):
            yield f"console: {row['message']}"


def _search(driver: Any, address: str) -> Iterator[str]:
    """Search for a word that many pages have."""
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.wait import WebDriverWait

    driver.get(f"{address}/search.html?q=temperature")
    try:
        WebDriverWait(driver, 20).until(
            lambda _: driver.find_elements(By.CSS_SELECTOR, "#search-results li a")
        )
    except Exception:  # noqa: BLE001 - whatever the reason, it is one line
        yield "search.html: finds no page with temperature"
    yield from (f"search.html: {one}" for one in _complaints(driver))


def _keep(driver: Any, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
    file.write_bytes(base64.b64decode(shot["data"]))
