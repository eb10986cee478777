"""Every exception and warning that smallcal raises.

::

    SmallcalError
    ├── InputError (ValueError)          arrays, labels or options that cannot be used
    ├── FileError (ValueError)           a file that cannot be read or written
    ├── ArtefactError (ValueError)       a saved calibrator that cannot be used
    └── MissingExtraError (ImportError)  an optional package that is not installed

    FitWarning (UserWarning)             the fit succeeded, but its result needs attention
    GroupWarning (UserWarning)           rows of groups that a calibrator was not fitted on

Catch ``SmallcalError`` for everything that smallcal raises. The built-in ``ValueError`` and
``ImportError`` work too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import TypeVar

Self = TypeVar("Self", bound="SmallcalError")

#: The code of every error, and what it means: listed in docs/reference/errors.md.
CODES = {
    "smallcal-error": "Any other error of smallcal.",
    "invalid-input": "An array, a label or an option that cannot be used, of no kind below.",
    "invalid-file": "A file that cannot be read or written, of no kind below.",
    "invalid-artefact": "A saved calibrator that cannot be used, of no kind below.",
    "missing-extra": "An optional package is needed and not installed.",
    "no-labels": "Labels are needed and there are none.",
}

#: An option of the command line.
_OPTION = re.compile(r"(?<![\w-])--([a-z][a-z-]*)")

#: Letters that a slip of the finger adds or leaves out at most: n_groups is not min_group_size.
_SLIP = 4


class SmallcalError(Exception):
    """Base class of all errors that smallcal raises.

    Parameters
    ----------
    message : str
        What is wrong, and what to do about it where that is the same everywhere.
    code : str, optional
        A key of :data:`CODES`, which stays when the message is reworded.
    python, shell : str
        What to do, in the keywords of Python and in the options of the command line.

    Attributes
    ----------
    code : str
        The stable name of this kind of error; without one, that of the class.
    shell : str
        The text that the command line prints; ``str(error)`` is the one for Python.

    Examples
    --------
    >>> error = InputError(
    ...     "no labels: ", code="no-labels", python="pass y", shell="name them with --labels"
    ... )
    >>> str(error), error.shell, error.code
    ('no labels: pass y', 'no labels: name them with --labels', 'no-labels')
    """

    code = "smallcal-error"

    def __init__(
        self, message: object = "", *, code: str = "", python: str = "", shell: str = ""
    ) -> None:
        super().__init__(f"{message}{python}")
        self.code = code or type(self).code
        self.shell = f"{message}{shell or python}"

    @classmethod
    def with_options(cls: type[Self], text: str, *, code: str = "") -> Self:
        """Return an error whose text names options; in Python it names keywords.

        Examples
        --------
        >>> error = InputError.with_options("two of them; say --labels-key")
        >>> str(error), error.shell
        ('two of them; say labels_key', 'two of them; say --labels-key')
        """
        keywords = _OPTION.sub(lambda found: found[1].replace("-", "_"), text)
        return cls(code=code, python=keywords, shell=text)

    def about(self: Self, source: object) -> Self:
        """Return the same error with the name of its source in front."""
        return self._with(f"{source}: {self}", f"{source}: {self.shell}")

    def calling(self: Self, name: object, other: str) -> Self:
        """Return the same error with another name for a file."""
        return self._with(*(text.replace(str(name), other) for text in (str(self), self.shell)))

    def _with(self: Self, python: str, shell: str) -> Self:
        return type(self)(code=self.code, python=python, shell=shell)


class InputError(SmallcalError, ValueError):
    """Arrays, labels or options that cannot be used; the message says which and why."""

    code = "invalid-input"


class FileError(SmallcalError, ValueError):
    """A file that cannot be read or written; the message says why."""

    code = "invalid-file"


class ArtefactError(SmallcalError, ValueError):
    """A saved calibrator that is damaged, of an unknown version, or no calibrator at all."""

    code = "invalid-artefact"


class MissingExtraError(SmallcalError, ImportError):
    """An optional package is needed and not installed; the message says what to install."""

    code = "missing-extra"


class GroupWarning(UserWarning):
    """A calibrator with effects of groups was applied to groups that it was not fitted on."""


class FitWarning(UserWarning):
    """The fit succeeded, but its result needs attention; ``flags_`` has the details."""


def missing_extra(
    package: str, extra: str, purpose: str, of: str = "smallcal"
) -> MissingExtraError:
    """Build the one-line error for an optional package that is not installed.

    The extra is one of the package ``of``.

    Examples
    --------
    >>> str(missing_extra("pyarrow", "parquet", "reading .parquet files"))
    "reading .parquet files needs the package 'pyarrow': pip install 'smallcal[parquet]'"
    """
    return MissingExtraError(
        f"{purpose} needs the package '{package}': pip install '{of}[{extra}]'"
    )


@contextmanager
def needing(package: str, extra: str, purpose: str, of: str = "smallcal") -> Iterator[None]:
    """Say in one line what to install where an import in the block fails."""
    try:
        yield
    except ImportError:
        raise missing_extra(package, extra, purpose, of) from None


@contextmanager
def file_errors(what: str) -> Iterator[None]:
    """Say in one line what could not be done where the block meets an error of the system."""
    try:
        yield
    except OSError as error:
        raise FileError(f"{what}: {error.strerror or error}") from None


def missing_input(who: str, name: str) -> InputError:
    """Build the error for what a method needs beside the logits and was not given."""
    return InputError(
        f"{who} needs {name} as well as logits: ",
        python=f"pass {name}=...",
        shell=f"put an array called {name} into the file",
    )


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the question for a name that is unknown and close to a known one, or nothing.

    Examples
    --------
    >>> did_you_mean("srts_bec", ["none", "srts-bce"])
    "did you mean 'srts-bce'?"
    >>> did_you_mean("magic", ["none", "srts-bce"])
    ''
    """
    name = str(name).lower()
    of = {one.lower(): one for one in known if abs(len(one) - len(name)) <= _SLIP}
    close = get_close_matches(name, of, n=1)
    return f"did you mean {of[close[0]]!r}?" if close else ""


def choose(name: str, known: Iterable[str]) -> str:
    """Return what to do about an unknown name: the one that was meant, else all there are.

    Examples
    --------
    >>> choose("ecE51", ["ece15", "nll"]), choose("luck", ["ece15", "nll"])
    ("did you mean 'ece15'?", 'choose from ece15, nll')
    """
    known = list(known)
    return did_you_mean(name, known) or f"choose from {', '.join(known)}"


def missing_file(file: Path) -> str:
    """Return the question for a file that is not there and a name like its own in its folder."""
    with suppress(OSError):
        if not file.exists():
            there = {other.name: str(file.with_name(other.name)) for other in file.parent.iterdir()}
            close = get_close_matches(file.name, there, n=1)
            return f"; did you mean {there[close[0]]!r}?" if close else ""
    return ""
