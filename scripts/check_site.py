"""Check the built site: ``make docs-check``.

    python scripts/check_site.py site [--screenshots FOLDER]

Every link, anchor and picture inside the site is there; no page loads anything from elsewhere; and
in Chromium the main pages have no error and no sideways scrolling, at two widths, light and dark.
One line for each problem, and exit code 1 if there is one.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: Attributes by which a tag makes the browser load something.
_LOADS = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"), ("source", "src"),
          ("video", "src"), ("audio", "src"), ("object", "data"), ("embed", "src")}  # fmt: skip
#: A style that loads a file from another host.
_ELSEWHERE = re.compile(r"url\(\s*[\"']?(?:https?:)?//")
#: Kinds of <link> that load nothing.
_SAYS = {"canonical", "next", "prev", "search", "index", "author", "license"}


class Page(HTMLParser):
    """What a page links to, what it loads, and the places in it.

    Attributes
    ----------
    links, loads : list of str
        Addresses as they are written.
    places : set of str
        Every ``id``, and every ``name`` of an anchor.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag links to, loads and is called."""
        given = {name: value or "" for name, value in attrs}
        self.places |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "link" and set(given.get("rel", "").split()) & _SAYS:
            return
        self.loads += [given[name] for name in given if (tag, name) in _LOADS]


def problems_of_files(site: Path) -> Iterator[str]:
    """Give a line for each link that leads nowhere and each thing loaded from elsewhere."""
    pages = {
        file.resolve(): Page(file.read_text(encoding="utf-8"))
        for file in sorted(site.rglob("*.html"))
        if "_static" not in file.relative_to(site).parts
    }
    if not pages:
        yield f"{site}: no page"
    for file, page in pages.items():
        name = file.relative_to(site.resolve())
        yield from (f"{name}: {wrong}" for wrong in _problems_of(page, file, pages))
    for file in sorted(site.rglob("*.css")):
        if _ELSEWHERE.search(file.read_text(encoding="utf-8")):
            yield f"{file.relative_to(site)}: loads from elsewhere"


def _problems_of(page: Page, file: Path, pages: dict[Path, Page]) -> Iterator[str]:
    yield from (f"loads {address}" for address in page.loads if _is_elsewhere(address))
    for address in dict.fromkeys(page.links + page.loads):
        wrong = None if _is_elsewhere(address) else _missing(address, file, pages)
        if wrong:
            yield wrong


def _is_elsewhere(address: str) -> bool:
    parts = urlsplit(address)
    return parts.scheme in ("http", "https", "mailto") or bool(parts.netloc)


def _missing(address: str, file: Path, pages: dict[Path, Page]) -> str | None:
    """Return what is wrong with an address inside the site."""
    parts = urlsplit(address)
    if parts.scheme in ("data", "javascript"):
        return None
    target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
    target = target / "index.html" if target.is_dir() else target
    if not target.exists():
        return f"{address} leads nowhere"
    place = unquote(parts.fragment)
    if place and target in pages and place not in pages[target].places:
        return f"{address} names no place of that page"
    return None


def main(args: list[str] | None = None) -> int:
    """Check the site, say what is wrong, and return the exit code."""
    parser = argparse.ArgumentParser(description="Check the built site.")
    parser.add_argument("site", type=Path)
    parser.add_argument("--screenshots", type=Path, help="keep a picture of every view here")
    parser.add_argument("--no-browser", action="store_true", help="links and pictures only")
    asked = parser.parse_args(args)
    found = list(problems_of_files(asked.site))
    views = 0
    if not asked.no_browser:
        from check_site_browser import problems_in_browser

        seen, views = problems_in_browser(asked.site, asked.screenshots)
        found += seen
    for line in found:
        print(line)
    pages = len(list(asked.site.rglob("*.html")))
    print(f"{pages} pages, {views} views in Chromium: {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
