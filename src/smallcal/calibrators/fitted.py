"""A fitted calibrator: logits in, calibrated probabilities out. NumPy only.

This is the one place where a fitted map meets logits: the estimators call it, and a service that
must not install scikit-learn reaches it through :mod:`smallcal.runtime`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from smallcal._version import __version__
from smallcal.calibrators import artefact
from smallcal.calibrators.decision import Decision, accepted
from smallcal.calibrators.discipline import Discipline, explained
from smallcal.calibrators.given import Given, checked, coded, slices
from smallcal.calibrators.group_effects import GroupEffects
from smallcal.calibrators.later import Later
from smallcal.calibrators.maps import FittedMap, ProbabilityMap, TemperatureMap
from smallcal.calibrators.maps.multinomial import MultinomialMap
from smallcal.calibrators.one_number import applied, of_one_number
from smallcal.calibrators.parts import frozen, plain_fields
from smallcal.calibrators.prediction_set import predicted_sets
from smallcal.calibrators.rebuilt import parts_of
from smallcal.calibrators.reference import Reference, Watched, watch
from smallcal.calibrators.signals import FittedSignal, NoSignal, RowBlock, Rows, row_blocks
from smallcal.calibrators.softmax import (
    WRITABLE,
    keep_argmax,
    put_first,
    scaled_softmax,
)
from smallcal.calibrators.soundness import require_sound
from smallcal.data.checks import BoolArray, FloatArray, IntArray, as_labels, as_scores
from smallcal.data.in_notebook import InNotebook
from smallcal.data.masks import checked_logits
from smallcal.data.names import by_name
from smallcal.data.predictions import Predictions
from smallcal.data.score import ScoreScale
from smallcal.errors import ArtefactError, InputError
from smallcal.io.documents import shortened

#: Logits that are calibrated at once: few enough for a processor's cache.
_BLOCK_BYTES = 2**19

#: With fewer samples than this for each parameter, a fit says so.
SAMPLES_PER_PARAMETER = 10


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedCalibrator(InNotebook):
    """A fitted calibrator: numbers only, JSON by construction.

    Attributes
    ----------
    method, objective : str
    options : dict
        Options of the signal and the map it was fitted with.
    signal : FittedSignal
        Scores a row.
    map : FittedMap
        Turns the score into a temperature.
    keep_predictions : bool
        Whether ``predict`` stays the model's own prediction where the map prefers another class.
    discipline : Discipline
    pooled_temperature : float
        What one temperature for all samples would be.
    n_parameters : int
        Fitted scalars: those of the map and those of the signal.
    input : {"logits", "probabilities", "score"}
    score : ScoreScale or None
        What one number per row was taken for, where it takes those. Then outcome 1 is what is
        claimed of every row.
    n_classes : int
    class_names : tuple of str, or None
    groups : GroupEffects or None
        What the confidence is shifted by in each group that the user named.
    group_counts : tuple of int
        Calibration samples in each group that the signal makes.
    flags : dict
        What to know about the fit; see ``smallcal.calibrators.discipline.FLAGS``.
    data : dict
        Size and fingerprint of the calibration split.
    fit_metrics : dict
        Losses on the calibration split before and after, and how many predictions changed.
    reference : Reference or None
        Counts of the calibration split, for a monitor.
    later : tuple of Later
        What was learned after the fit, applied one after another, last of all.
    decisions : tuple of Decision
        Rules with a guarantee; probabilities do not depend on them.
    """

    method: str
    objective: str
    options: Mapping[str, Any] = field(default_factory=dict)
    signal: FittedSignal
    map: FittedMap
    keep_predictions: bool = False
    discipline: Discipline = field(default_factory=Discipline)
    pooled_temperature: float
    n_parameters: int = field(init=False)
    input: str = "logits"
    score: ScoreScale | None = None
    n_classes: int
    class_names: tuple[str, ...] | None = None
    groups: GroupEffects | None = None
    group_counts: tuple[int, ...]
    flags: Mapping[str, list[int]] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    fit_metrics: Mapping[str, Any] = field(default_factory=dict)
    reference: Reference | None = None
    later: tuple[Later, ...] = ()
    decisions: tuple[Decision, ...] = ()

    def __post_init__(self) -> None:
        shifted = 0 if self.groups is None else self.groups.n_parameters
        n_parameters = self.map.n_parameters + self.signal.n_parameters + shifted
        object.__setattr__(self, "n_parameters", n_parameters)

    @property
    def has_few_samples(self) -> bool:
        """Whether the split has fewer than ten samples for each parameter that no prior holds."""
        return self._n_free > float(self.data["n"]) / SAMPLES_PER_PARAMETER

    @property
    def _n_free(self) -> int:
        """Parameters that no prior holds."""
        held = 0 if self.groups is None else self.groups.n_parameters
        return self.n_parameters - held - self.map.n_held

    def flag_text(self, name: str) -> str:
        """Return what a flag means, with the numbers of this fit."""
        n, free = self.data.get("n", 0), self._n_free
        few = {"n": n, "free": free, "needed": SAMPLES_PER_PARAMETER * free}
        if self.groups is not None:
            few["without"] = n - sum(self.groups.counts)
        if absent := self.flags.get("absent_classes"):
            names = self.class_names or range(self.n_classes)
            few["absent"] = [names[each] for each in absent]
        return explained(name, {**self.fit_metrics, **few})

    @property
    def preserves_argmax(self) -> bool:
        """Whether the predicted class can never change."""
        if self.keep_predictions and self.score is None:
            return True
        shifted = self.claim is not None and self.groups is not None and self.groups.sigma > 0
        kept = all(part.preserves_argmax(self.claim) for part in self.later)
        return self.map.preserves_argmax and not shifted and kept

    @property
    def deployable(self) -> bool:
        """Whether it can be applied where labels are unknown, and saved."""
        return self.map.saved and self.signal.saved

    def scores(
        self, logits: object, *, features: object = None, labels: object = None
    ) -> FloatArray:
        """Return the routing score of each row."""
        return self.routed(checked(self, logits, features, labels))

    def temperature(
        self, logits: object, *, features: object = None, labels: object = None
    ) -> FloatArray:
        """Return the temperature of each row; logits are divided by it."""
        if isinstance(self.map, MultinomialMap):
            return self.map.temperature(checked(self, logits, None, None).logits)
        if not isinstance(self.map, TemperatureMap):
            raise InputError(
                f"{self.method} does not divide logits by a temperature (its map is "
                f"{self.map.kind!r})",
                code="method-unsuitable",
            )
        return self.map(self.scores(logits, features=features, labels=labels))

    def group(self, logits: object, *, features: object = None, labels: object = None) -> IntArray:
        """Return the group of each row, counted from 0 at the lowest score."""
        return self.map.groups(self.scores(logits, features=features, labels=labels))

    def predict_proba(
        self,
        logits: object,
        *,
        features: object = None,
        labels: object = None,
        groups: object = None,
        out: FloatArray | None = None,
    ) -> FloatArray:
        """Return calibrated probabilities; with ``keep_predictions`` their argmax is the model's.

        Where the map prefers another class than the model, ``keep_predictions`` exchanges the
        probabilities of the two. :meth:`confidence` does not.

        Parameters
        ----------
        logits : array-like of shape (n, C); a frame's columns are taken by name
        features : array-like of shape (n, d), optional
            For calibrators that were fitted with features.
        labels : array-like of shape (n,), optional
            For the diagnostics that read the answer.
        groups : array-like of shape (n,), optional
            The group of each row, for calibrators that were fitted with groups. One that the fit
            has not seen gets no effect, and a ``GroupWarning`` says how many rows those are.
        out : ndarray of shape (n, C), optional
            Where to write, for instance a memory map when the result does not fit in memory.

        Returns
        -------
        ndarray of shape (n, C)
            float64, or float32 where the logits have that or float16; each row sums to 1.
        """
        given = checked(self, logits, features, labels)
        codes = coded(self.groups, groups, len(given.logits))
        proba = self.calibrate(given._replace(groups=codes), out=out)
        return self.with_predictions(proba, given.logits)

    def confidence(
        self,
        logits: object,
        *,
        predictions: object = None,
        features: object = None,
        groups: object = None,
    ) -> FloatArray:
        """Return the probability that each prediction is correct.

        Parameters
        ----------
        logits : array-like of shape (n, C)
        predictions : array-like of shape (n,), optional
            Labels to be judged; without them those of ``predict``.
        features, groups
            As in :meth:`predict_proba`.
        """
        given = checked(self, logits, features, None)
        codes = coded(self.groups, groups, len(given.logits))
        proba = self.calibrate(given._replace(groups=codes))
        if predictions is None:
            return self.claims(proba, given.logits)[0]
        n, n_classes = given.logits.shape
        names = self.class_names
        labels = as_labels(
            predictions, n=n, n_classes=n_classes, class_names=names, name="predictions"
        )
        return proba[np.arange(n), labels]

    def predicted(self, proba: FloatArray, logits: FloatArray) -> IntArray:
        """Return the predicted classes: the model's own with ``keep_predictions``."""
        kept = self.keep_predictions and self.score is None
        return np.asarray((logits if kept else proba).argmax(axis=1), dtype=np.int64)

    def with_predictions(self, proba: FloatArray, logits: FloatArray) -> FloatArray:
        """Make the predicted class of each row its most probable one, in place."""
        if self.keep_predictions and self.score is None:
            put_first(proba, self.predicted(proba, logits))
        return proba

    def on(self, preds: Predictions) -> FloatArray:
        """Return probabilities of checked samples as metrics take them; unknown groups pass."""
        labels = preds.labels if "labels" in self.signal.needs else None
        given = checked(replace(self, input="logits"), preds.logits, preds.features, labels)
        named = preds.group_labels
        if self.groups is not None and named is not None:
            given = given._replace(groups=self.groups.codes(named))
        return preds.measured(self.with_predictions(self.calibrate(given), given.logits))

    def predict_score(self, scores: object, *, groups: object = None) -> FloatArray:
        """Return the probability of outcome 1 of each score, in float64.

        Examples
        --------
        >>> import smallcal as sc
        >>> cal = sc.Calibrator(method="none", input="score")
        >>> cal.fit([0.1, 0.9] * 10, [0, 1] * 10).fitted_.predict_score([0.5]).tolist()
        [0.5]
        """
        if self.input != "score":
            raise InputError(
                f"this calibrator takes {self.input}, not one number per row", code="array-shape"
            )
        more = self.groups or self.keep_predictions or self.later
        plain = not more and groups is None
        direct = of_one_number(self.map, self.signal) if plain else None
        if direct is None or self.score is None:
            return self.predict_proba(scores, groups=groups)[:, 1]
        return applied(direct, self.score, scores)

    def accept(
        self,
        logits: object,
        *,
        risk: float | None = None,
        features: object = None,
        groups: object = None,
    ) -> BoolArray:
        """Return which rows a certified threshold accepts; ``risk`` says which, of several."""
        return accepted(self, logits, risk=risk, features=features, groups=groups)

    def predict_set(
        self, logits: object, *, alpha: float | None = None, **known: object
    ) -> BoolArray:
        """Return which classes are in the set of each row; ``alpha`` says which, of several.

        ``features`` and ``groups`` are as in :meth:`predict_proba`.
        """
        return predicted_sets(self, logits, alpha=alpha, **known)

    def predict_interval(self, logits: object) -> FloatArray:
        """Return p0 and p1 of each row, shape (n, 2), of Venn-Abers calibrators."""
        if self.later:
            raise InputError(
                "what was learned after the fit has no interval", code="method-unsuitable"
            )
        if self.groups is not None and self.groups.sigma:
            raise InputError(
                "effects of groups have no interval; fit venn-abers without groups",
                code="method-unsuitable",
            )
        given = checked(self, logits, None, None).logits.astype(np.float64)
        return self.map.interval(given[:, -1] - given[:, 0])

    def claims(self, proba: FloatArray, logits: FloatArray) -> tuple[FloatArray, IntArray]:
        """Return each row's confidence, and the class or outcome that it is the confidence in.

        ``proba`` are those of :meth:`calibrate`.
        """
        if self.score is not None:
            return proba[:, 1], np.ones(len(proba), dtype=np.int64)
        predicted = self.predicted(proba, logits)
        return proba[np.arange(len(proba)), predicted], predicted

    def calibrate(self, given: Given, *, out: FloatArray | None = None) -> FloatArray:
        """Return calibrated probabilities of checked rows, whatever class the model predicts."""
        array = given.logits
        result = np.empty(array.shape, array.dtype.newbyteorder("=")) if out is None else out
        if result.shape != array.shape or result.dtype not in WRITABLE:
            raise InputError(
                f"out must have shape {array.shape} and type float32 or float64 in this machine's "
                f"byte order; got {result.shape}, {result.dtype}",
                code="array-shape",
            )
        self._fill(given, result)
        self._shift(result, given.groups)
        return result

    def _fill(self, given: Given, result: FloatArray) -> None:
        """Write all probabilities by NumPy, before the effects of groups."""
        if isinstance(self.map, MultinomialMap):
            for rows in slices(*given.logits.shape, size=_BLOCK_BYTES):
                wide = given.logits[rows].astype(np.float64)
                logits, _ = checked_logits(wide, name="logits", first_row=rows.start)
                result[rows] = self.map.of_options(logits, logits[:, 0])
            return
        # A control's scores depend on the whole batch, so they cannot be made block by block.
        batch = None if self.signal.rowwise else self.routed(given)
        for block in row_blocks(given.logits):
            scores = self._block_scores(given, block) if batch is None else batch[block.rows]
            self._write(block, scores, result[block.rows])

    def _shift(self, result: FloatArray, groups: IntArray | None) -> None:
        """Give the probabilities the effects of groups, and what was learned after the fit."""
        grouped = self.groups is not None and groups is not None
        for rows in slices(len(result), self.n_classes) if grouped or self.later else ():
            if self.groups is not None and groups is not None:
                self.groups.shift(result[rows], groups[rows], claim=self.claim)
            for part in self.later:
                part.apply(result[rows], claim=self.claim)

    @property
    def claim(self) -> int | None:
        """The column whose confidence groups shift; None where it is the predicted class."""
        return None if self.score is None else 1

    def watch(self, logits: object, *, features: object = None) -> Watched:
        """Return what a monitor watches of each row."""
        return watch(self, logits, features)

    def _write(self, block: RowBlock, scores: FloatArray, out: FloatArray) -> None:
        """Write the probabilities of a block."""
        if isinstance(self.map, ProbabilityMap):
            logits = np.array(block.logits, dtype=np.float64, order="C")
            out[...] = self.map.of_options(logits, scores)
            if self.map.preserves_argmax:
                keep_argmax(out, block.top_index)
            return
        assert isinstance(self.map, TemperatureMap)
        scaled_softmax(block, self.map(scores), out=out)

    def to_dict(self) -> dict[str, Any]:
        """Return the artefact: plain data, ready for JSON."""
        library = f"smallcal {__version__}"
        known = {"format": artefact.FORMAT, "version": artefact.VERSION, "library": library}
        found = plain_fields(self)
        # Not even named where there are none: earlier releases then read what they can apply.
        for name in ("score", "groups", "later", "decisions"):
            if not found[name]:
                del found[name]
        return known | found

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], *, source: str) -> FittedCalibrator:
        """Rebuild a calibrator from a document that the module ``artefact`` has checked."""
        try:
            made = parts_of(document)
            others = {each.name for each in fields(cls) if each.init} - set(made)
            fitted = cls(**made, **{name: frozen(document[name]) for name in others})
            require_sound(fitted, n_parameters=document["n_parameters"])
        except ValueError as error:
            why = shortened(str(error))  # it may quote numbers, and there may be many
            raise ArtefactError(
                f"{source} is not a valid calibrator: {why}", code="artefact-damaged"
            ) from None
        return fitted

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the artefact, whole or not at all."""
        if not self.deployable:
            why = "its numbers live in another package"
            if self.signal.needs:
                why = "it reads the labels of what it predicts"
            raise InputError(
                f"{self.method} is for comparison only and cannot be saved: {why}",
                code="method-unsuitable",
            )
        require_sound(self)  # what is saved can be loaded
        artefact.write(self.to_dict(), path)

    def logits_of(self, given: object) -> FloatArray:
        """Return what the calibrator takes as logits, checked but for NaN and infinity."""
        if self.input == "score" and self.score is not None:
            return self.score.columns(given)
        array = as_scores(given, input=self.input, name=self.input)
        return by_name(array, given, self.class_names)

    def routed(self, given: Given) -> FloatArray:
        """Return the routing scores of rows that are checked already."""
        if not self.signal.rowwise:
            rows = Rows(given.logits, features=given.features, labels=given.labels)
            return self.signal.scores(rows)
        return np.concatenate(
            [self._block_scores(given, block) for block in row_blocks(given.logits)]
        )

    def _block_scores(self, given: Given, block: RowBlock) -> FloatArray:
        if isinstance(self.signal, NoSignal):
            return np.zeros(len(block.top))
        return self.signal.scores(given.rows(block))


def load(path: str | os.PathLike[str]) -> FittedCalibrator:
    """Load a saved calibrator, checking everything before it is used.

    Examples
    --------
    >>> import tempfile, smallcal
    >>> path = tempfile.mkdtemp() + "/cal.json"
    >>> smallcal.Identity().fit([[2.0, 0.0]] * 10, [0] * 10).save(path)
    >>> load(path).predict_proba([[0.0, 0.0]]).tolist()
    [[0.5, 0.5]]
    """
    return FittedCalibrator.from_dict(artefact.read(path), source=str(path))
