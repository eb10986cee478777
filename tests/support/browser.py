"""A browser for tests of pages: chromium, where it is installed."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager

import pytest

#: Whether tests must have a browser; without one they are skipped otherwise.
REQUIRED = os.environ.get("SMALLCAL_BROWSER") == "required"

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")


@contextmanager
def chromium():
    """Give a browser that keeps its log; skip where there is none, or fail where there must be."""
    from selenium import webdriver

    program = next(filter(None, map(shutil.which, _NAMES)), None)
    server = shutil.which("chromedriver")
    if program is None or server is None:
        reason = "no chromium with chromedriver here: pages are not tested in a browser"
        if REQUIRED:
            pytest.fail(reason)
        pytest.skip(reason)
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in _FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    # With the path given, selenium looks for no driver elsewhere, and so downloads none.
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(server))
    try:
        yield started
    finally:
        started.quit()
