"""The examples of a page, run as a reader would type them."""

import doctest
import warnings

import smallcal as sc


def run_page(page, **names):
    """Return how many examples there were and how many failed.

    A fit may say something of its split, as it does to readers: that is no failure.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        return doctest.testfile(
            str(page),
            module_relative=False,
            optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE,
            **names,
        )
