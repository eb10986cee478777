"""Every exception and warning smallcal raises, as one family.

::

    SmallcalError
    ├── InputError (ValueError)          arrays, labels or options that cannot be used
    ├── FileError (ValueError)           a file that cannot be read or written as asked
    ├── ArtefactError (ValueError)       a saved calibrator that must not be trusted
    └── MissingExtraError (ImportError)  an optional package that is not installed

    FitWarning (UserWarning)             the fit succeeded, but part of it rests on thin evidence

A caller who wants "anything smallcal objects to" catches ``SmallcalError``; a caller who
thinks in builtins catches ``ValueError`` or ``ImportError`` and is served as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class SmallcalError(Exception):
    """Base of everything smallcal raises on purpose."""


class InputError(SmallcalError, ValueError):
    """Arrays, labels or options that cannot be used; the message says which and why."""


class FileError(SmallcalError, ValueError):
    """A file that cannot be read or written in the way it was asked for."""


class ArtefactError(SmallcalError, ValueError):
    """A saved calibrator that is damaged, foreign or from an unknown version."""


class MissingExtraError(SmallcalError, ImportError):
    """An optional package is needed and not installed; the message says what to install."""


class FitWarning(UserWarning):
    """A fit that succeeded but rests on thin evidence; ``flags_`` has the details."""


def missing_extra(package: str, extra: str, purpose: str) -> MissingExtraError:
    """Build the one-line error for an optional package that is not installed.

    Examples
    --------
    >>> str(missing_extra("pyarrow", "parquet", "reading .parquet files"))
    "reading .parquet files needs the package 'pyarrow': pip install 'smallcal[parquet]'"
    """
    return MissingExtraError(
        f"{purpose} needs the package '{package}': pip install 'smallcal[{extra}]'"
    )


@contextmanager
def needing(package: str, extra: str, purpose: str) -> Iterator[None]:
    """Say in one line what to install where an import in the block fails."""
    try:
        yield
    except ImportError:
        raise missing_extra(package, extra, purpose) from None


@contextmanager
def file_errors(what: str) -> Iterator[None]:
    """Say in one line what could not be done where the block meets an error of the system."""
    try:
        yield
    except OSError as error:
        raise FileError(f"{what}: {error.strerror or error}") from None
