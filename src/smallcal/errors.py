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

#: The code of every error, and what it means; docs/reference/errors.md lists them.
CODES = {
    # files
    "file-missing": "There is no such file, folder or run.",
    "file-access": "The system refuses to read or write a file.",
    "file-exists": "The output is there already, and is not to be replaced.",
    "file-overwrites-input": "The output is one of the inputs.",
    "file-write": "The output cannot be written: it is a folder or device, or its type is unknown.",
    "file-busy": "Another process is at work on the file.",
    "file-changed": "The file changed while it was read.",
    "file-type": "The file is of a type, or has contents, that cannot be used here.",
    "file-damaged": "The file is damaged, cut short or empty.",
    "file-objects": "The file holds Python objects, or names of outside files: never loaded.",
    "file-too-large": "The file needs more memory than is free or allowed.",
    "file-column": "A named column, array, split or output is not in the file.",
    "file-ambiguous": "Several columns, arrays or splits could be meant; name one.",
    "file-header": "The first line of a table is not what it should be.",
    "file-ragged": "Rows, batches or files of one data set have different columns or lengths.",
    "file-value": "A value in the file is missing or of the wrong kind.",
    # logits, probabilities and scores
    "array-unreadable": "A value cannot be read as an array.",
    "array-type": "An array does not hold numbers, or not those that are needed.",
    "array-shape": "An array has the wrong shape.",
    "arguments-swapped": "Logits and labels seem to be in each other's place.",
    "empty": "There are no rows, no columns or no names.",
    "not-finite": "Numbers are NaN or infinite, or too large.",
    "rows-differ": "Arrays or files that belong together have different numbers of rows.",
    "columns-differ": "The classes are not as many as those of the calibrator or the other file.",
    "too-few-samples": "There are too few samples for what was asked.",
    "too-few-options": "A row has fewer than two options, or more than the calibrator.",
    "logits-constant": "All logits of each row are equal: no class is preferred.",
    "probabilities-as-logits": "Probabilities were given where logits are expected.",
    "probabilities-range": "Probabilities lie outside [0, 1].",
    "probabilities-sum": "Probabilities of a row do not sum to 1.",
    "scores-range": "Scores lie outside [0, 1], and those of the fit did not.",
    "input-differs": "Logits, probabilities or scores were given where the other was fitted.",
    # labels and what goes with samples
    "no-labels": "Labels are needed and there are none.",
    "labels-out-of-range": "Labels name columns that do not exist.",
    "labels-not-integers": "Labels are not whole numbers.",
    "labels-are-names": "Labels are names, and which column is which class is not known.",
    "labels-unknown": "Labels are not among the classes, or not among the options of their row.",
    "labels-not-one-per-row": "Labels are one-hot or multilabel; each row needs one class.",
    "labels-one-class": "All labels are of one class.",
    "labels-implausible": "Predictions are hardly ever right: labels or columns seem out of order.",
    "outcomes-not-binary": "Outcomes of scores are not 0 and 1.",
    "class-names-invalid": "Class names repeat, or are not those of the columns.",
    "weights-invalid": "Weights are negative, not finite or all zero.",
    "groups-invalid": "Groups of samples cannot be used.",
    "groups-missing": "The group of each row is needed.",
    "clusters-invalid": "Clusters of samples cannot be used.",
    "features-missing": "Features are needed, or have the wrong shape.",
    "costs-invalid": "Costs of mistakes cannot be used.",
    "rates-invalid": "Frequencies of classes cannot be used.",
    "rows-of-the-fit": "The rows are those of the fit, or should be and are not.",
    "rows-counted-twice": "Rows would count twice.",
    # options and methods
    "usage": "The words of a command cannot be understood; -h helps.",
    "unknown-choice": "A name or value is not among those that are possible.",
    "option-range": "A number is outside the range of its option.",
    "option-type": "The value of an option is of the wrong type.",
    "option-format": "The text of an option cannot be read.",
    "option-missing": "An option is needed.",
    "options-conflict": "Options exclude each other, or one does not apply.",
    "method-unknown": "There is no method of that name.",
    "method-unsuitable": "The method cannot do what was asked.",
    "metric-unknown": "There is no metric of that name, or it was not measured.",
    "condition-invalid": "A condition such as ece15>3% cannot be read.",
    "not-fitted": "The calibrator or model was not fitted.",
    "no-decision": "The calibrator has no certified threshold or prediction sets.",
    "no-interval": "The number has no interval.",
    "model-output": "The model cannot be called, or gives no logits.",
    "plugin-unusable": "A package offers a method or command that cannot be loaded.",
    "reference-invalid": "A reference to a publication cannot be read.",
    # calibrators and runs
    "artefact-version": "A saved calibrator or state is of a version that cannot be read.",
    "artefact-damaged": "A saved calibrator or state is not valid.",
    "artefact-outdated": "A saved calibrator lacks what later versions keep; fit again.",
    "run-differs": "A folder holds another run.",
    "workers-unusable": "Workers cannot be reached, or have another version.",
    # any other
    "missing-extra": "An optional package is needed and not installed.",
    "invalid-input": "Any other array, label or option that cannot be used.",
    "invalid-file": "Any other file that cannot be read or written.",
    "invalid-artefact": "Any other saved calibrator that cannot be used.",
    "smallcal-error": "Any other error of smallcal.",
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
        A key of ``CODES``, which stays when the message is reworded.
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
        raise FileError(f"{what}: {error.strerror or error}", code=code_of(error)) from None


def code_of(error: OSError) -> str:
    """Return the code of what the system says of a file."""
    return "file-missing" if isinstance(error, FileNotFoundError) else "file-access"


def missing_input(who: str, name: str) -> InputError:
    """Build the error for what a method needs beside the logits and was not given."""
    return InputError(
        f"{who} needs {name} as well as logits: ",
        python=f"pass {name}=...",
        shell=f"put an array called {name} into the file",
        code="features-missing",
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
