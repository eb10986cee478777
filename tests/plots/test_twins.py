"""A plot and its twin take the same parameters, and tell of each."""

import inspect
import re

import pytest

from smallcal import plots
from smallcal.plots.twins import documented, draws

PAIRS = [name for name in plots.__all__ if f"{name}_data" in plots.__all__]


def described(function):
    """Return what a docstring says of each parameter."""
    (section,) = re.findall(r"\n\nParameters\n-+\n(.*?)(?:\n\n|$)", function.__doc__, re.DOTALL)
    entries = re.findall(r"^(\w+) : (.+(?:\n    .+)*)", section, re.MULTILINE)
    assert sum(text.count("\n") + 1 for _, text in entries) == section.count("\n") + 1
    return dict(entries)


@pytest.mark.parametrize("name", PAIRS)
def test_a_plot_takes_what_its_twin_takes_and_axes(name):
    drawn, data = (inspect.signature(getattr(plots, key)) for key in (name, f"{name}_data"))
    *shared, last = drawn.parameters.values()
    assert shared == list(data.parameters.values())
    assert (last.name, last.kind, last.default) == ("ax", last.KEYWORD_ONLY, None)
    assert (last.annotation, drawn.return_annotation) == ("Axes | None", "Axes")


@pytest.mark.parametrize("name", PAIRS)
def test_both_tell_of_each_parameter_in_the_same_words(name):
    drawn, data = getattr(plots, name), getattr(plots, f"{name}_data")
    for function in (drawn, data):
        assert list(described(function)) == list(inspect.signature(function).parameters)
        assert re.search(r"\n\nReturns\n-------\n\S", function.__doc__)
        assert ">>> " in function.__doc__
    told = described(drawn)
    assert "savefig" in told.pop("ax")
    assert told == described(data)
    assert ("Raises" in drawn.__doc__) == ("Raises" in data.__doc__)


def test_every_plot_has_a_twin():
    assert len(PAIRS) == 11


def test_what_a_plot_says_itself_comes_before_what_all_plots_say():
    def total_data(probs, *, level=0.9) -> float:
        """Return what :func:`total` draws.

        Parameters
        ----------
        level : float
            Of the sum.

        Raises
        ------
        InputError
            If there is none.

        Examples
        --------
        >>> total_data([])
        """

    @draws(total_data)
    def total(ax, found):
        """Draw the sum.

        In two lines.
        """

    assert total.__doc__ == (
        "Draw the sum.\n\nIn two lines.\n\n"
        "Parameters\n----------\n"
        "probs : array-like of shape (n, C), or mapping of name to such\n    Class probabilities.\n"
        "level : float\n    Of the sum.\n"
        "ax : Axes, optional\n    Where to draw; a new figure of its own otherwise, saved by "
        "``ax.figure.savefig``.\n\n"
        "Returns\n-------\nAxes\n\n"
        "Raises\n------\nInputError\n    If there is none."
    )
    assert total_data.__doc__.startswith("Return what :func:`total` draws.\n\nParameters\n------")
    assert total_data.__doc__.endswith("is none.\n\nExamples\n--------\n>>> total_data([])")


def test_where_docstrings_are_left_out_they_stay_out():
    def bare(probs):
        return probs

    assert documented(bare)(3) == 3
    assert bare.__doc__ is None
