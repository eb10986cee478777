"""Calibrators of other packages behind our interface, so that ``smallcal compare`` ranks them.

Each is fitted with its package's own code and defaults, on float64, and is imported only when
it is asked for. What we add is the least that makes it answer at all on small splits: a row that
is not finite, or all zeros, becomes the model's own softmax; calibrators of one class against the
rest leave a class alone that has no sample, or every sample; a peer that raises gives way to one
temperature for all. Packages print, warn and set NumPy's error state; none of it reaches the
caller. They draw no random numbers, so a fit depends on the split alone.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from types import MappingProxyType, ModuleType
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from smallcal.calibrators.maps.base import MapFit, ProbabilityMap, Split, recipe
from smallcal.calibrators.maps.temperature import scalar_fallback
from smallcal.calibrators.softmax import keep_argmax
from smallcal.data.masks import filled
from smallcal.data.predictions import FloatArray
from smallcal.data.special import softmax
from smallcal.errors import InputError, missing_extra

#: From float64 logits (m, C) to probabilities (m, C).
Predict: TypeAlias = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class PeerMap(ProbabilityMap):
    """A calibrator fitted by another package; ``count`` are its fitted scalars, or its levels."""

    name: str
    predict: Predict
    count: int
    mixes: ClassVar[bool] = True
    kind: ClassVar[str] = "peer"
    words: ClassVar[str] = "handed to another package"
    saved: ClassVar[bool] = False

    @property
    def n_parameters(self) -> int:
        """Number of fitted scalars."""
        return self.count

    @property
    def preserves_argmax(self) -> bool:
        """Whether the predicted class can never change."""
        return PEERS[self.name].preserves_argmax

    def probabilities(self, logits: FloatArray, scores: FloatArray, /) -> FloatArray:
        """Return probabilities (m, C), float64; the scores are not used."""
        logits = np.ascontiguousarray(logits, dtype=np.float64)
        with _silenced():
            result = np.array(self.predict(logits), dtype=np.float64)
        unusable = ~(np.isfinite(result) & (result >= 0)).all(axis=1) | ~result.any(axis=1)
        result[unusable] = softmax(logits[unusable])
        result /= result.sum(axis=1, keepdims=True)
        if self.preserves_argmax:
            keep_argmax(result, logits.argmax(axis=1))
        return result


class Peer(NamedTuple):
    """How to fit one peer; ``fit`` returns what predicts, and the number of its parameters."""

    module: str
    fit: Callable[[ModuleType, Split], tuple[Predict, int]]
    preserves_argmax: bool = False


@recipe("peer", keeps_argmax=False, saved=False)
def fit_peer(split: Split, *, peer: str = "probmetrics:svs") -> MapFit:
    """Fit a calibrator of another package, by its name in ``PEERS``."""
    if peer not in PEERS:
        raise InputError(f"unknown peer {peer!r}; choose from {', '.join(PEERS)}")
    row, preds = PEERS[peer], split.preds
    if preds.weight is not None:
        raise InputError(f"the peer {peer!r} cannot weigh samples; fit it without weights")
    try:
        with _silenced():
            module = import_module(row.module)
    except ImportError as error:
        # A package may be there and lack one of its own: probmetrics installs without numba.
        package = (error.name or row.module).partition(".")[0].replace("_", "-")
        raise missing_extra(package, "peers", f"the peer {peer!r}", "smallcal-lab") from error
    try:
        with _silenced():
            result = PeerMap(peer, *row.fit(module, split))
        result.probabilities(_wide(split), split.scores)  # a peer that cannot predict fails here
    except Exception:  # noqa: BLE001 - whatever another package raises, the comparison goes on
        return scalar_fallback(split)
    return MapFit(result, (preds.n,))


@contextlib.contextmanager
def _silenced() -> Iterator[None]:
    """Keep warnings, prints and log records of a peer from the caller, and undo its settings."""
    logging_level = logging.root.manager.disable
    with (
        warnings.catch_warnings(),
        np.errstate(all="ignore"),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(logging_level)


def _wide(split: Split) -> FloatArray:
    return np.ascontiguousarray(filled(split.preds.logits), dtype=np.float64)


def _fit_probmetrics(method: str, module: ModuleType, split: Split) -> tuple[Predict, int]:
    """Fit ``get_calibrator(method)`` on logits, through its torch interface.

    ``ts-mix`` uses the logits. For ``svs`` and ``sms`` the package turns them to float64
    probabilities, scales those by ``ts-mix``, and goes on with their float32 logarithms.
    """
    labels = import_module("torch").as_tensor(split.preds.labels)
    calibrator = module.get_calibrator(method)
    calibrator.fit_torch(_as_torch_logits(_wide(split)), labels)
    n = split.preds.n_classes
    # A temperature each; beside it per class a scale and an intercept, or a matrix and intercepts.
    # The share of the uniform in ts-mix is 1 / (n + 1), not fitted.
    sizes = {"ts-mix": 1, "svs": 1 + 2 * n, "sms": 1 + n * (n + 1)}
    return partial(_by_probmetrics, calibrator), sizes[method]


def _by_probmetrics(calibrator: Any, logits: FloatArray) -> FloatArray:
    predicted = calibrator.predict_proba_torch(_as_torch_logits(logits))
    return np.asarray(predicted.get_probs().detach().numpy())


def _as_torch_logits(logits: FloatArray) -> Any:
    tensor = import_module("torch").as_tensor(logits)
    return import_module("probmetrics.distributions").CategoricalLogits(tensor)


def _fit_venn_abers(module: ModuleType, split: Split) -> tuple[Predict, int]:
    """Fit the package's binary ``VennAbers`` per class; of two classes only the second is fitted.

    One-vs-one, its default, would take 4,950 fits for 100 classes. The distinct lower and upper
    probabilities are counted, as the levels are for isotonic.
    """
    own, labels = softmax(_wide(split)), split.preds.labels
    counts = np.bincount(labels, minlength=own.shape[1])
    seen = np.flatnonzero((counts > 0) & (counts < len(labels)))
    models: dict[int, Any] = {}
    for label in seen[seen == 1] if own.shape[1] == 2 else seen:
        models[int(label)] = model = module.VennAbers()
        model.fit(_two_columns(own[:, label]), labels == label)
    steps = [step for model in models.values() for step in (model.p0, model.p1)]
    return partial(_by_venn_abers, models), sum(len(np.unique(step[:, 1])) for step in steps)


def _by_venn_abers(models: Mapping[int, Any], logits: FloatArray) -> FloatArray:
    result = softmax(logits)
    for label, model in models.items():
        probabilities, _ = model.predict_proba(_two_columns(result[:, label]))
        result[:, label] = np.clip(probabilities[:, 1], 0, 1)
    if result.shape[1] == 2 and models:
        result[:, 0] = 1 - result[:, 1]
    return result


def _two_columns(scores: FloatArray) -> FloatArray:
    return np.column_stack((1 - scores, scores))


#: Every peer by its name.
PEERS: Mapping[str, Peer] = MappingProxyType(
    {
        **{
            f"probmetrics:{method}": Peer(
                "probmetrics.calibrators", partial(_fit_probmetrics, method), method == "ts-mix"
            )
            for method in ("svs", "sms", "ts-mix")
        },
        "venn-abers:classwise": Peer("venn_abers.venn_abers", _fit_venn_abers),
    }
)
