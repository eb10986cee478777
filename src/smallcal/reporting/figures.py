"""The figures of the page, drawn from what the report keeps of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from smallcal.reporting.blocks import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Content = Mapping[str, Any]


def figures_of(specs: Iterable[Content]) -> list[Figure]:
    """Draw each figure that the content describes."""
    return []
