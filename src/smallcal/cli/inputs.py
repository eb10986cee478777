"""Turn the files that were named into checked arrays, naming the file at fault."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smallcal import io
from smallcal.advice.copies import copies_note
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.cli import choices, terminal
from smallcal.data.checks import as_probabilities, as_scores
from smallcal.data.groups import group_names
from smallcal.data.predictions import FloatArray, IntArray, Predictions
from smallcal.data.score import ScoreScale
from smallcal.data.shapes import one_hot_codes
from smallcal.data.special import softmax
from smallcal.deploy.decided_rows import Known, Rows, decided, rows_of
from smallcal.errors import InputError, SmallcalError
from smallcal.io import Choice, Loaded
from smallcal.statistics.agreement import Agreement

#: What a reader is told as it was chosen.
_READ_AS_CHOSEN = ("input", "columns", "logits_key", "group", "per", "class_names", "known")


@contextmanager
def naming(source: str) -> Iterator[None]:
    """Put the name of the file in front of what is wrong with its arrays."""
    try:
        yield
    except InputError as error:
        raise error.about(source) from error


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the options say of the data: what verbs that read files have in common."""

    labels: str | None = None
    input: str | None = None
    class_names: str | None = None
    columns: str | None = None
    logits_key: str | None = None
    labels_key: str | None = None
    score: str | None = None
    outcome: str | None = None
    group: str | None = None
    per: str | None = None

    def __post_init__(self) -> None:
        for one, other in (("score", "logits_key"), ("outcome", "labels_key")):
            if getattr(self, one) is not None and getattr(self, other) is not None:
                raise InputError(
                    f"--{one} and --{other.replace('_', '-')} say the same; keep one",
                    code="options-conflict",
                )
        if self.scored and self.input not in (None, "score"):
            raise InputError(
                f"--score and --outcome are for --input score, not {self.input}",
                code="options-conflict",
            )

    @property
    def scored(self) -> bool:
        """Whether fields of a score, or of its outcome, are named."""
        return self.score is not None or self.outcome is not None

    @property
    def kind(self) -> str | None:
        """What the numbers are said to be."""
        return "score" if self.scored else self.input

    def kind_for(self, calibrator: FittedCalibrator | None) -> str | None:
        """Return what the numbers are: what the calibrator takes, where nothing is said.

        Of a calibrator of logits the file may still say that it holds something else.
        """
        if self.kind is None and calibrator is not None and calibrator.input != "logits":
            return calibrator.input
        return self.kind

    @property
    def truth(self) -> str | None:
        """The field of labels or outcomes, in DATA or in their own file."""
        return self.labels_key if self.outcome is None else self.outcome

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Asked:
        """Return what the parameters of a verb, its ``locals()``, say of the data."""
        return cls(**{each.name: given[each.name] for each in fields(cls) if each.name in given})

    def words(self) -> list[str]:
        """Return the same as options of the command line."""
        said = {
            f"--{each.name.replace('_', '-')}": getattr(self, each.name) for each in fields(self)
        }
        return [word for name, value in said.items() if value for word in (name, value)]

    def choice(self, calibrator: FittedCalibrator | None = None) -> Choice:
        """Return what to take of a file."""
        names, columns = self.class_names, self.columns
        return Choice(
            input=self.kind_for(calibrator),
            columns=() if columns is None else choices.words(columns, "--columns"),
            logits_key=self.logits_key if self.score is None else self.score,
            labels_key=self.truth if self.labels is None else None,
            group=self.group,
            per=self.per,
            class_names=None if names is None else io.read_names(names),
            known=None if calibrator is None else calibrator.class_names,
        )


#: Nothing asked: a file as it is.
_AS_IT_IS = Asked()


def load(
    data: str,
    asked: Asked = _AS_IT_IS,
    calibrator: FittedCalibrator | None = None,
    *,
    as_written: bool = False,
    quiet: bool = False,
) -> Loaded:
    """Read a data file, its columns in the order of the calibrator's classes; notes are said.

    With ``as_written`` columns stand as in the file, and rows without a label stay.
    """
    choice = asked.choice(calibrator)
    loaded = io.read(
        data,
        labels=asked.labels,
        labels_key=asked.truth,
        keep_ignored=as_written,
        **{name: getattr(choice, name) for name in _READ_AS_CHOSEN},
    )
    if not as_written:
        loaded = loaded.in_order_of(choice.known)
    terminal.note(*(() if quiet else loaded.notes))
    if calibrator is None and asked.kind is None and loaded.input == "logits":
        with naming(loaded.source):
            as_scores(loaded.logits)  # refuses what looks like probabilities
    return loaded


def clusters(
    loaded: Loaded, asked: Asked, cluster: str | None, calibrator: FittedCalibrator | None = None
) -> NDArray[np.str_] | None:
    """Return the cluster of each row of a file, by the column or array that is named."""
    if cluster is None or cluster == asked.group:
        return None if cluster is None else loaded.groups
    try:
        found = load(loaded.source, replace(asked, group=cluster), calibrator, quiet=True)
    except SmallcalError as error:
        raise error.calling("--group", "--cluster") from error
    return found.groups


def note_copies(source: str, labels: IntArray, proba: FloatArray) -> None:
    """Say that samples are copies of one another, where nobody named clusters."""
    if note := copies_note(labels, np.column_stack([1 - proba, proba][proba.ndim - 1 :])):
        terminal.note(f"{source}: {note}")


def in_pieces(
    data: str, fitted: FittedCalibrator | None, asked: Asked = _AS_IT_IS
) -> tuple[Path, str | None] | None:
    """Return file and split of data that can be read in pieces, or None.

    A control's scores depend on the whole batch, features are in the same file, and of groups it
    is said how many rows are unknown: such calibrators are not applied in pieces.
    """
    file, prefix = io.split_path(data)
    rowwise = fitted is None or (fitted.signal.rowwise and not fitted.signal.needs)
    rowwise = rowwise and (fitted is None or fitted.groups is None)
    split = prefix and file.suffix.lower() == ".npy"
    if not rowwise or split or not io.is_source(file, input=asked.kind_for(fitted)):
        return None
    return file, prefix


def load_pair(
    cal_data: str, test_data: str | None, asked: Asked, *, verb: str
) -> tuple[Loaded, Loaded]:
    """Read the samples to fit on and those to measure on, which may share a file."""
    if test_data is None:
        found = io.splits(cal_data)
        first = next((name for name in io.CALIBRATION_SPLITS if name in found), None)
        if first is None or "test" not in found:
            raise InputError(
                f"{cal_data} does not contain two splits (val or cal, and test); name the test "
                f"file: smallcal {verb} CAL_DATA TEST_DATA",
                code="file-column",
            )
        cal_data, test_data = f"{cal_data}:{first}", f"{cal_data}:test"
    elif test_data == cal_data:
        terminal.note("fitted and measured on the same samples, so every result is too good")
    cal = load(cal_data, asked)
    test = in_order(load(test_data, asked), cal)
    if cal.input != test.input:
        raise InputError(
            f"{cal_data} holds {cal.input} and {test_data} holds {test.input}; use one kind",
            code="input-differs",
        )
    return cal, test


def in_order(loaded: Loaded, like: Loaded) -> Loaded:
    """Return samples with their columns in the order of others, where both name them."""
    found = loaded.in_order_of(like.class_names)
    terminal.note(*found.notes[len(loaded.notes) :])
    return found


def require_agreement(checked: Predictions, source: str, *, force: bool) -> Predictions:
    """Stop where the labels cannot be those of the predictions, unless that is wanted.

    A score may fall where successes rise: what it predicts is not known before the fit.
    """
    if checked.score is not None:
        return checked
    counts = Agreement(checked.n_classes).add(checked.labels, checked.predicted)
    judge_agreement(counts, source, checked.class_names, force=force)
    return checked


def judge_agreement(
    counts: Agreement, source: str, names: Sequence[str] | None, *, force: bool
) -> None:
    """Stop, or note, where fewer predictions are right than chance allows."""
    verdict = counts.verdict(names)
    if not verdict.text:
        return
    text = (
        f"{source}: {verdict.text}: are the labels those of these rows, and the columns in the "
        "order of the classes?"
    )
    if verdict.stop and not force:
        raise InputError(f"{text} use --force to continue", code="labels-implausible")
    terminal.note(text)


def predictions(loaded: Loaded, score: ScoreScale | None = None) -> Predictions:
    """Check logits and labels; scores are taken for what others were, where that is said."""
    if loaded.labels is None:
        if loaded.input == "score":
            raise InputError(
                f"{loaded.source} has no outcomes; put an array called outcomes into it, or name "
                "its field with --outcome or its file with --labels",
                code="no-labels",
            )
        raise InputError(
            f"{loaded.source} has no labels; put an array called labels into it or name their "
            "file with --labels",
            code="no-labels",
        )
    with naming(loaded.source):
        return Predictions.of(
            loaded.logits,
            loaded.labels,
            input=loaded.input,
            class_names=loaded.class_names,
            score=score,
            name=loaded.input,
        )


def grouped_if(cal: Loaded, asked: Asked) -> Loaded:
    """Return the samples to fit on with their groups where those were asked for."""
    note_groups(cal, asked)
    return cal if asked.group is not None else replace(cal, groups=None)


def note_groups(loaded: Loaded, asked: Asked) -> None:
    """Say that a file has groups, where nobody asked for them."""
    if loaded.groups is not None and asked.group is None:
        terminal.note(
            f"{loaded.source} names {terminal.count(len(group_names(loaded.groups)), 'group')}; "
            "use --group to fit an effect for each"
        )


class Seen(NamedTuple):
    """Labels and probabilities, and the rows as a calibrator has them, where there is one.

    Probabilities of a score are those of outcome 1, one per row.
    """

    labels: IntArray
    proba: FloatArray
    rows: Rows | None = None


def probabilities(
    loaded: Loaded, calibrator: FittedCalibrator | None = None, *, force: bool = False
) -> Seen:
    """Return checked labels and probabilities: calibrated, or the model's own."""
    if calibrator is not None:
        require_same_input(calibrator, loaded.input, loaded.source)
    scale = None if calibrator is None else calibrator.score
    checked = predictions(named(loaded, calibrator), scale)
    require_agreement(checked, loaded.source, force=force)
    if calibrator is not None:
        rows = calibrated(calibrator, loaded)
        return Seen(checked.labels, checked.measured(rows.adjusted(calibrator)), rows)
    if checked.score is not None and checked.score.kind != "probability":
        raise InputError(
            f"{loaded.source} holds scores that are not probabilities, so calibration cannot be "
            "measured. Fit a calibrator and pass it with --calibrator",
            code="input-differs",
        )
    return Seen(checked.labels, uncalibrated(loaded, checked))


def uncalibrated(loaded: Loaded, checked: Predictions) -> FloatArray:
    """Return the model's own probabilities; those that a file holds as they are.

    Their logarithms would make ties of what differs in the last digit, and change predictions.
    """
    if loaded.input == "probabilities":
        return as_probabilities(loaded.logits, name=loaded.input)
    return checked.measured(softmax(checked.logits))


def label_column(labels: NDArray[Any], loaded: Loaded) -> NDArray[Any]:
    """Return labels as one column, to be written along; one-hot ones become column numbers."""
    if labels.ndim < 2 or labels.shape[1] < 2:
        return labels
    with naming(loaded.source):
        return one_hot_codes(labels, n=len(loaded.logits), n_classes=loaded.logits.shape[1])


def named(loaded: Loaded, calibrator: FittedCalibrator | None) -> Loaded:
    """Let labels be names that the calibrator knows, where the file names no classes."""
    if calibrator is None or loaded.class_names is not None:
        return loaded
    return replace(loaded, class_names=calibrator.class_names)


def calibrated(calibrator: FittedCalibrator, loaded: Loaded) -> Rows:
    """Apply a calibrator to a file's scores."""
    require_same_input(calibrator, loaded.input, loaded.source)
    groups = None if calibrator.groups is None else loaded.groups
    with naming(loaded.source), terminal.noted_warnings(loaded.source):
        return rows_of(calibrator, loaded.logits, features=loaded.features, groups=groups)


def decisions(calibrator: FittedCalibrator, loaded: Loaded, rows: Rows) -> dict[str, NDArray[Any]]:
    """Return what a calibrator's decisions say of a file's rows, by the name of each column."""
    with naming(loaded.source), terminal.noted_warnings(loaded.source):
        known = Known(loaded.logits, loaded.features, loaded.groups)
        return decided(calibrator, rows, known)


def require_same_input(calibrator: FittedCalibrator, input: str, source: str) -> None:
    """Raise when a calibrator of logits meets probabilities, or the reverse."""
    if calibrator.input != input:
        raise InputError(
            f"{source} holds {input}, but this calibrator was fitted on {calibrator.input}; "
            f"say --input {calibrator.input} if the file's names are wrong",
            code="input-differs",
        )
