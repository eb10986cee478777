"""Links in the repository's Markdown that also work on the site.

A link to a file outside ``docs`` leads to the repository's web page, or to the page of the site
that shows the file. ``{repository-page} CHANGELOG.md`` shows a file of the root as a page.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

#: Files of the root that are pages of the site, and where.
PAGES = {
    "CHANGELOG.md": "docs/changelog.md",
    "CONTRIBUTING.md": "docs/contributing/index.md",
    "README.md": "docs/index.md",
}

_LINK = re.compile(r"(?<=\]\()(?!\w+:|#|<)([^)\s#]+)")
_FENCE = re.compile(r"^(`{3,}|~{3,}).*?^\1`*~*\s*$", re.MULTILINE | re.DOTALL)


def on_the_site(text: str, file: str, page: str, url: str, root: Path) -> str:
    """Return Markdown whose relative links lead somewhere on the site, or to the repository.

    Parameters
    ----------
    text : str
        The Markdown.
    file, page : str
        The file it is from, which links are relative to, and the file that shows it; both from the
        root of the repository.
    url : str
        Address of the repository.
    root : Path
        The repository.

    Examples
    --------
    >>> url = "https://example.org/it"
    >>> on_the_site("[a](/nowhere) [b](#c)", "README.md", "docs/d.md", url, Path())
    '[a](/nowhere) [b](#c)'
    """

    def led(found: re.Match[str]) -> str:
        return _target(found[1], file, page, url, root)

    parts, last = [], 0
    for fence in _FENCE.finditer(text):
        parts += [_LINK.sub(led, text[last : fence.start()]), fence[0]]
        last = fence.end()
    return "".join([*parts, _LINK.sub(led, text[last:])])


def _target(link: str, file: str, page: str, url: str, root: Path) -> str:
    path = posixpath.normpath(posixpath.join(posixpath.dirname(file), link))
    shown = PAGES.get(path, path)
    if not (root / path).exists():  # left as it is, for Sphinx to complain of
        return link
    if shown.startswith("docs/") and not (root / path).is_dir():
        return posixpath.relpath(shown, posixpath.dirname(page))
    kind = "tree" if (root / path).is_dir() else "blob"
    return f"{url}/{kind}/main/{path}"


class RepositoryPage(SphinxDirective):
    """The text of a file in the root of the repository; nothing where there is no such file."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the nodes of the file's Markdown."""
        file = Path(self.config.repository_root, self.arguments[0])
        self.env.note_dependency(str(file))
        if not file.exists():
            return []
        page = posixpath.join("docs", self.env.docname + ".md")
        text = on_the_site(
            file.read_text("utf-8"), file.name, page, self.config.repository_url, file.parent
        )
        if self.state.document.next_node(nodes.title):  # the page has a title of its own
            text = re.sub(r"\A# .*\n", "", text)
        parent = nodes.Element()
        self.state.nested_parse(
            StringList(text.splitlines(), str(file)), 0, parent, match_titles=True
        )
        return parent.children


def _read(app: Sphinx, docname: str, source: list[str]) -> None:
    """Mend the links of a page of ours before it is parsed."""
    file = Path(app.env.doc2path(docname))
    if file.suffix == ".md":
        page = posixpath.join("docs", docname + ".md")
        root = Path(app.config.repository_root)
        source[0] = on_the_site(source[0], page, page, app.config.repository_url, root)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive, and look at each page as it is read."""
    app.add_config_value("repository_url", "", "env", str)
    app.add_config_value("repository_root", "", "env", str)
    app.add_directive("repository-page", RepositoryPage)
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
