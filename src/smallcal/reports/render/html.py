"""The report as one HTML page that needs nothing else: no server, no font, no other file.

``sections`` puts numbers and words in order, ``svg`` draws the figures, and the files in
``templates`` give them their looks. Everything that is written into the page is escaped by the
templates, except what this module marks as safe: style sheet, script and figures.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from importlib import import_module
from importlib.resources import files
from typing import Any

from smallcal.data.shown import visible
from smallcal.errors import missing_extra
from smallcal.reports.render import theme
from smallcal.reports.render.sections import document_of
from smallcal.reports.render.svg import drawn


def render(content: Mapping[str, Any]) -> str:
    """Return the page of a report; the same content gives the same text.

    Parameters
    ----------
    content : mapping
        What ``Report.to_dict`` gives.

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
        drawn=lambda figure: Markup(drawn(figure)),
    )


def _finalized(value: Any) -> Any:
    """Spell out what a page must not hold; what is marked as safe was made by us."""
    return visible(value, keep="\n") if type(value) is str else value


def require_page() -> None:
    """Raise where a page cannot be drawn: better before everything is measured than after."""
    for package in ("jinja2", "matplotlib"):
        try:
            import_module(package)
        except ImportError:
            raise missing_extra(package, "report", "writing an HTML report") from None


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
