"""The chart that says which method to use when, drawn by `make figures`.

Questions have rounded corners, answers are filled. One row of ``BOXES`` per box: what it says and
which row it stands in; ``ARROWS`` join them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from smallcal.plots.style import INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_QUESTION, _ANSWER, _LINE = "#ffffff", "#e3eef6", "#5b6770"


@dataclass(frozen=True)
class Box:
    """A question, or an answer."""

    text: str
    row: int
    answer: bool = False
    right: bool = False
    height: float = 0.82

    @property
    def x(self) -> float:
        """Where its centre is."""
        return 7.9 if self.right else 1.75

    @property
    def y(self) -> float:
        """Where its centre is."""
        return 4.6 - 1.65 * self.row

    @property
    def width(self) -> float:
        """How wide it is."""
        return 4.6 if self.right else 3.1


def _answer(text: str, row: int, *, right: bool = True) -> Box:
    return Box(text, row, answer=True, right=right)


BOXES = {
    "have": Box("What does your model give\nfor each item?", 0),
    "score": _answer('Calibrator(input="score")\nmaps one number to a probability', 0),
    "simple": Box("Must it be one\ntemperature?", 1),
    "scalar": _answer('"ts-nll"\ntemperature scaling', 1),
    "keep": Box("Must predictions stay\nthe model's own?", 2),
    "kept": _answer("Calibrator(keep_predictions=True)\ntheir calibrated confidence", 2),
    "default": _answer("Calibrator()\nthe default", 3, right=False),
    "paper": _answer("SRTS(), from 1,000 labels on\nthe paper's method, to compare with", 3),
}

#: From, to, and what is said on the way.
ARROWS = [
    ("have", "score", "one number"),
    ("have", "simple", "logits or probabilities\nof classes"),
    ("simple", "scalar", "yes"),
    ("simple", "keep", "no"),
    ("keep", "kept", "yes"),
    ("keep", "default", "no"),
    ("default", "paper", "researchers"),
]


def _draw_box(ax: Axes, box: Box) -> None:
    from matplotlib.patches import FancyBboxPatch

    corner = (box.x - box.width / 2, box.y - box.height / 2)
    shape = "round,pad=0,rounding_size=0.08" if box.answer else "round,pad=0,rounding_size=0.4"
    face = _ANSWER if box.answer else _QUESTION
    ax.add_patch(
        FancyBboxPatch(corner, box.width, box.height, boxstyle=shape, fc=face, ec=_LINE, lw=1.1)
    )
    first, _, rest = box.text.partition("\n")
    if box.answer:
        ax.text(box.x, box.y + 0.16, first, ha="center", va="center", color=INK, weight="bold")
        ax.text(box.x, box.y - 0.18, rest, ha="center", va="center", color=INK, size=9)
    else:
        ax.text(box.x, box.y, box.text, ha="center", va="center", color=INK)


def _draw_arrow(ax: Axes, start: Box, end: Box, said: str) -> None:
    style = {"arrowstyle": "-|>", "color": _LINE, "lw": 1.1, "shrinkA": 0, "shrinkB": 0}
    if start.y == end.y:
        head, tail = (end.x - end.width / 2, end.y), (start.x + start.width / 2, start.y)
        place = {"x": (head[0] + tail[0]) / 2, "y": start.y + 0.1, "ha": "center", "va": "bottom"}
    else:
        head, tail = (end.x, end.y + end.height / 2), (start.x, start.y - start.height / 2)
        place = {"x": start.x + 0.12, "y": (head[1] + tail[1]) / 2, "ha": "left", "va": "center"}
    ax.annotate("", xy=head, xytext=tail, arrowprops=style)
    ax.text(s=said, color=_LINE, size=9, **place)


def which_method() -> Figure:
    """Which method to use, as questions with one answer each."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.2, 4.7), layout="constrained")
    ax = figure.add_subplot()
    ax.set(xlim=(0.1, 10.3), ylim=(-0.85, 5.1))
    ax.set_axis_off()
    for start, end, said in ARROWS:
        _draw_arrow(ax, BOXES[start], BOXES[end], said)
    for box in BOXES.values():
        _draw_box(ax, box)
    return figure
