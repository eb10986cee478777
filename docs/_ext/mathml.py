"""Formulas become MathML when the site is built: readers' browsers load no script for them."""

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging

LOG = logging.getLogger(__name__)
#: What the converter does not know, though TeX does.
_ARG = re.compile(r"\\arg(?![A-Za-z])")
#: A command that came through as it was typed, or a mark of columns outside a table.
_UNKNOWN = re.compile(r">(\\[A-Za-z]+|&)<")


def mathml(latex: str, *, block: bool = False) -> str:
    r"""Return a formula as MathML.

    Parameters
    ----------
    latex : str
        The formula, without dollars.
    block : bool, default False
        Whether it stands alone on its line.

    Raises
    ------
    ValueError
        For a command that the converter does not know: it would be shown as it was typed.

    Examples
    --------
    >>> mathml("T").partition("><")[2]
    'mrow><mi>T</mi></mrow></math>'
    >>> mathml(r"\nosuchthing x")
    Traceback (most recent call last):
    ...
    ValueError: \nosuchthing x: no MathML for \nosuchthing
    """
    found = convert(_ARG.sub(r"\\operatorname{arg}", latex), display="block" if block else "inline")
    unknown = _UNKNOWN.search(found)
    if unknown:
        raise ValueError(f"{latex}: no MathML for {unknown[1]}")
    return str(found)


def _write(self: Any, node: nodes.Node, *, block: bool) -> None:
    try:
        found = mathml(node.astext(), block=block)
    except Exception as error:  # noqa: BLE001 - whatever the converter raises, the page is named
        LOG.warning("formula: %s", error, location=node, type="mathml")
        found = ""
    if block:
        self.body.append(f'<div class="math">{found}</div>')
    else:
        self.body.append(found)
    raise nodes.SkipNode


def _visit_inline(self: Any, node: nodes.Node) -> None:
    _write(self, node, block=False)


def _visit_block(self: Any, node: nodes.Node) -> None:
    _write(self, node, block=True)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer that ``html_math_renderer = "mathml"`` names."""
    app.add_html_math_renderer("mathml", (_visit_inline, None), (_visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
