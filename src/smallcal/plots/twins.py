"""A plot is two functions: one draws, and its twin ``..._data`` returns what is drawn.

Both take the same parameters, and many plots take the same ones. What these mean stands here. A
docstring in a plot's file tells what is special there, and :func:`draws` adds the rest, so that
``help`` of either function tells everything. The signature stands in the twin alone.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, overload

from smallcal.plots.style import SIZE, axes_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Function = TypeVar("Function", bound=Callable[..., Any])
Found = TypeVar("Found")
Given = ParamSpec("Given")
Size = tuple[float, float]

_SHARED = """
y_true : array-like of shape (n,)
    Column of the true class.
probs : array-like of shape (n, C), or mapping of name to such
    Class probabilities.
logits : array-like of shape (n, C)
    What the calibrator is applied to.
calibrator : fitted estimator with groups, such as ``sc.SRTS``
features : array-like of shape (n, d), optional
    For calibrators that were fitted with features.
bins : int
    How many, of equal width.
level : float
    Of the intervals: how often they should hold the truth.
n_boot : int
    Resamples for the intervals.
random_state : int
    The same number gives the same resamples.
run : path, Frame, Outcome, mapping of columns, or (Study, Frame)
    A run's folder, ``outcome.frame``, columns by name, or rows with their study.
metric : str, optional
    The study's first that was measured unless it is given.
baseline : str, optional
    The method that differences are taken from; the study's own unless it is given.
where : mapping, optional
    Column to a value or a list of values: only these rows. A budget of 0 is the whole split.
ax : Axes, optional
    Where to draw; a new figure of its own otherwise, saved by ``ax.figure.savefig``.
"""


class Plot(Protocol[Given]):
    """A plot: it takes what its twin takes, and ``ax``.

    Python's types cannot say "these parameters and one more by name": in a call with ``ax`` the
    others are not checked.
    """

    #: The twin, and what draws its data.
    data: Callable[..., Any]
    redraw: Callable[[Any, Axes | None], Axes]

    @overload
    def __call__(self, *args: Given.args, **kwargs: Given.kwargs) -> Axes: ...
    @overload
    def __call__(self, *args: Any, ax: Axes | None, **kwargs: Any) -> Axes: ...


def draws(
    data: Callable[Given, Found], *, size: Size | Callable[[Found], Size] = SIZE
) -> Callable[[Callable[[Axes, Found], None]], Plot[Given]]:
    """Make a plot of a function that draws on axes what a twin found.

    The plot takes the twin's parameters and ``ax``; without that a figure of this size in inches
    is made. The docstrings of both are completed: each parameter is described as in the docstring
    of either, or else as in all plots. What the twin raises, the plot raises too.

    Examples
    --------
    >>> def total_data(probs) -> float:
    ...     '''Return what :func:`total` draws.'''
    >>> @draws(total_data)
    ... def total(ax, found):
    ...     '''Draw the sum of all.'''
    >>> total.__doc__.splitlines()[5]
    '    Class probabilities.'
    """

    def complete(draw: Callable[[Axes, Found], None]) -> Plot[Given]:
        def redraw(found: Found, ax: Axes | None) -> Axes:
            ax = axes_or_new(ax, size=size(found) if callable(size) else size)
            draw(ax, found)
            return ax

        @wraps(draw)
        def plot(*args: Any, ax: Axes | None = None, **kwargs: Any) -> Axes:
            return redraw(data(*args, **kwargs), ax)

        made: Any = plot
        made.data, made.redraw, made.__signature__ = data, redraw, _with_axes(data)
        made.__annotations__ = {**data.__annotations__, "ax": "Axes | None", "return": "Axes"}
        twin, own = _sections(data), _sections(draw)
        parameters = twin.get("Parameters", "") + "\n" + own.get("Parameters", "")
        _write(data, {**twin, "Parameters": parameters})
        raised = {title: text for title, text in twin.items() if title == "Raises"}
        found: Plot[Given] = _write(made, {**raised, **own, "Parameters": parameters})
        return found

    return complete


def _with_axes(data: Callable[..., object]) -> inspect.Signature:
    """Return the signature of a plot: that of its twin, and ``ax``."""
    given = inspect.signature(data)
    ax = inspect.Parameter(
        "ax", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="Axes | None"
    )
    return given.replace(parameters=[*given.parameters.values(), ax], return_annotation="Axes")


def documented(function: Function) -> Function:
    """Add to a docstring what parameters mean that many plots take."""
    return _write(function, _sections(function))


def _sections(function: Callable[..., object]) -> dict[str, str]:
    """Return the parts of a docstring by their headings; what stands before them has none."""
    first, *rest = re.split(r"^(\w+)\n--+\n", inspect.getdoc(function) or "", flags=re.MULTILINE)
    parts = {title: text.strip() for title, text in zip(rest[::2], rest[1::2], strict=True)}
    return {"": first.strip(), **parts}


def _write(function: Function, sections: dict[str, str]) -> Function:
    """Put a docstring together, with every parameter in the order of the signature."""
    if function.__doc__ is None:  # python -OO has none
        return function
    signature = inspect.signature(function)
    first, special = sections.pop(""), sections.pop("Parameters", "")
    meaning = _entries(_SHARED) | _entries(special)
    parameters = "\n".join(meaning[name] for name in signature.parameters)
    sections = {"Parameters": parameters, "Returns": signature.return_annotation} | sections
    told = [f"{title}\n{'-' * len(title)}\n{text}" for title, text in sections.items()]
    function.__doc__ = "\n\n".join([first, *told])
    return function


def _entries(text: str) -> dict[str, str]:
    """Return the entries of a section by the names that they begin with."""
    entries = re.split(r"\n(?=\S)", text.strip())
    return {entry.partition(" : ")[0]: entry for entry in entries}
