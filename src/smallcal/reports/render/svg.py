"""The figures of the page: drawn, then made part of it with its colours, marks and text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from xml.etree import ElementTree

from smallcal.data.shown import visible
from smallcal.plots import style
from smallcal.plots.redraw import redraw
from smallcal.reports.render.blocks import Figure
from smallcal.reports.render.theme import LIGHT


def drawn(figure: Figure) -> str:
    """Draw a figure from what the report keeps of it, and return SVG for a page."""
    with plain_settings():
        picture = style.figure_of(redraw(figure.plot, figure.data))
        # Ids must differ between the figures of a page.
        prefix = f"{figure.id}-"
        svg = style.to_svg(picture, prefix=prefix)
    return inline_svg(svg, style.tips_of(picture, prefix=prefix), label=figure.alt)


@contextmanager
def plain_settings() -> Iterator[None]:
    """Draw as matplotlib does unless it is told otherwise, whatever the user has set."""
    import matplotlib

    # Neither a user's style file nor what else they have set may change the page. To set a backend,
    # which plays no part here, would import pyplot.
    plain: dict[Any, Any] = dict(matplotlib.rcParamsDefault)
    del plain["backend"]
    with matplotlib.rc_context(plain):
        yield


def inline_svg(
    svg: str, tips: Mapping[str, Sequence[str]], *, label: str, focus: bool = True
) -> str:
    """Return SVG for a page: colours as variables, and every mark with its text and a focus.

    Parameters
    ----------
    svg : str
        What ``plots.to_svg`` gives.
    tips : mapping of str to sequence of str
        What ``plots.tips_of`` gives: the texts of the marks in each group.
    label : str
        The figure in words, for those who do not see it.
    focus : bool
        Whether marks can be reached by keys, which takes the page's script.

    Examples
    --------
    >>> svg = '<svg xmlns="http://www.w3.org/2000/svg"><g id="a"><use x="1"/></g></svg>'
    >>> print(inline_svg(svg, {"a": ["<1 %"]}, label="One mark"))
    <svg role="group" aria-label="One mark"><g id="a"><use x="1" ... aria-label="&lt;1 %"
    tabindex="0"><title>&lt;1 %</title></use></g></svg>
    """
    root = ElementTree.fromstring(svg)
    for element in root.iter():
        _plain_names(element)
        if "style" in element.attrib:
            style = as_variables(element.attrib["style"])
            # The page's own font, not that of the machine that drew the figure.
            element.set("style", re.sub(r"\s*font-family:[^;]*;?", "", style))
    for parent in list(root.iter()):
        for child in [child for child in parent if child.tag in ("style", "metadata")]:
            # In a page its rules would reach beyond the figure; report.css has them instead.
            parent.remove(child)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    # An image may hold nothing to focus, so a figure with marks is a group of images.
    root.set("role", "group" if tips and focus else "img")
    root.set("aria-label", visible(label))
    _set_marks(root, tips, focus=focus)
    return ElementTree.tostring(root, encoding="unicode")


def _plain_names(element: ElementTree.Element) -> None:
    """Drop namespaces: inside HTML ``<svg>`` and ``href`` mean what they say."""
    element.tag = element.tag.rpartition("}")[2]
    for name in [name for name in element.attrib if "}" in name]:
        element.set(name.rpartition("}")[2], element.attrib.pop(name))


def _set_marks(
    root: ElementTree.Element, tips: Mapping[str, Sequence[str]], *, focus: bool
) -> None:
    groups = {element.get("id", ""): element for element in root.iter("g")}
    stop = "0"
    for gid, texts in tips.items():
        # Patches come with a group each, numbered at the end of its id: one series all the same.
        series = re.sub(r"(-\d+)+$", "", gid) if len(texts) == 1 else gid
        for mark, text in zip(_marks_of(groups[gid]), texts, strict=True):
            ElementTree.SubElement(mark, "title").text = text
            if not focus:
                continue
            mark.set("class", "mark")
            mark.set("data-series", series)
            mark.set("role", "img")
            mark.set("aria-label", text)
            # One stop for the Tab key in a figure; the script moves it with the arrow keys.
            mark.set("tabindex", stop)
            stop = "-1"


def _marks_of(group: ElementTree.Element) -> Iterator[ElementTree.Element]:
    for child in group:
        if child.tag in ("use", "path"):
            yield child
        elif child.tag != "defs":
            yield from _marks_of(child)


def as_variables(style: str) -> str:
    """Replace the colours of a style attribute by the page's variables.

    Examples
    --------
    >>> as_variables("fill: #0072B2; stroke: #ffffff")
    'fill: var(--c-0072b2); stroke: var(--paper)'
    """
    return re.sub(r"#[0-9a-fA-F]{6}\b", lambda found: _variable(found.group().lower()), style)


def _variable(colour: str) -> str:
    plain = {"#ffffff": "paper", "#000000": "ink"}
    name = plain.get(colour, f"c-{colour[1:]}")
    return f"var(--{name})" if name in LIGHT else colour
