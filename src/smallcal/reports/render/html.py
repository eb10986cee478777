"""The report as one HTML page that needs nothing else: no server, no font, no other file.

``sections`` puts numbers and words in order, ``svg`` draws the figures, and the files in
``templates`` give them their looks. Everything that is written into the page is escaped by the
templates, except what this module marks as safe: style sheet, script and figures.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from importlib.resources import files
from importlib.util import find_spec
from typing import Any

from smallcal.data.shown import visible
from smallcal.errors import missing_extra
from smallcal.reports.render import theme
from smallcal.reports.render.blocks import Figure
from smallcal.reports.render.sections import document_of
from smallcal.reports.render.svg import drawn


def render(content: Mapping[str, Any], draw: Callable[[Figure], str] = drawn) -> str:
    """Return the page of a report; the same content gives the same text.

    Parameters
    ----------
    content : mapping
        What ``Report.to_dict`` gives.
    draw : callable, optional
        Gives a figure as SVG for a page.

    Returns
    -------
    str
        A whole HTML document, to be written as UTF-8.
    """
    require_page()
    from jinja2 import Environment, FunctionLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FunctionLoader(_text),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        finalize=_finalized,
    )
    script = _text("report.js")
    return environment.get_template("report.html").render(
        policy=_policy(script),
        style=Markup(theme.stylesheet() + _text("report.css")),
        script=Markup(script),
        report=document_of(content),
        drawn=lambda figure: Markup(draw(figure)),
    )


def _finalized(value: Any) -> Any:
    """Spell out what a page must not hold; what is marked as safe was made by us."""
    return visible(value, keep="\n") if type(value) is str else value


def require_page() -> None:
    """Raise where a page cannot be drawn: better before everything is measured than after.

    Neither package is loaded: another process may draw.
    """
    for package in ("jinja2", "matplotlib"):
        try:
            found = find_spec(package)
        except ValueError:  # None in place of the module: as if it were not there
            found = None
        if found is None:
            raise missing_extra(package, "report", "writing an HTML report")


def _text(name: str) -> str:
    return (files("smallcal.reports.render") / "templates" / name).read_text(encoding="utf-8")


def _policy(script: str) -> str:
    """Forbid the page everything it does not need: of scripts, all but its own."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # Figures have style attributes, which only this word allows.
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
