"""Metrics of logits as their definitions have them (the paper's appendix on metrics)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import log_softmax, softmax
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from freeze.logits import Array


def odds_of_error(z: Array) -> Array:
    """Return log((1 - c) / c) of each confidence c, which tells apart what rounds to 1."""
    others = z.copy()
    others[np.arange(len(z)), z.argmax(axis=1)] = -np.inf
    second = others.max(axis=1)
    rest = np.exp(others - second[:, None]).sum(axis=1)
    return second + np.log(rest) - z.max(axis=1)


def confidence(z: Array) -> Array:
    """Return the highest probability."""
    return softmax(z, axis=1).max(axis=1)


def wrongs(z: Array, y: Array) -> Array:
    """Return which predictions are wrong."""
    return z.argmax(axis=1) != y


def nll_losses(z: Array, y: Array) -> Array:
    """Return each sample's negative log-likelihood."""
    return -log_softmax(z, axis=1)[np.arange(len(y)), y]


def bce_losses(z: Array, y: Array) -> Array:
    """Return each sample's cross-entropy of confidence and being right."""
    odds = odds_of_error(z)
    return np.logaddexp(0, odds) - wrongs(z, y) * odds


def nll(z: Array, y: Array) -> float:
    """Return the mean negative log-likelihood; no probability counts as less than 1e-12."""
    return float(np.minimum(nll_losses(z, y), -np.log(1e-12)).mean())


def top_label_bce(z: Array, y: Array) -> float:
    """Return the mean cross-entropy of confidence and being right, with the same floor."""
    return float(np.minimum(bce_losses(z, y), -np.log(1e-12)).mean())


def brier(z: Array, y: Array) -> float:
    """Return the mean squared distance from the true class, summed over classes."""
    return float(((softmax(z, axis=1) - np.eye(z.shape[1])[y]) ** 2).sum(axis=1).mean())


def accuracy(z: Array, y: Array) -> float:
    """Return the share of right predictions."""
    return float(1 - wrongs(z, y).mean())


def bins15(p: Array) -> Array:
    """Return the bin of equal width, the last one closed at 1."""
    return np.minimum((p * 15).astype(int), 14)


def _binned(p: Array, hit: Array) -> float:
    bins = bins15(p)
    gaps = [abs((p - hit)[bins == b].sum()) for b in np.unique(bins)]
    return float(sum(gaps)) / len(p)


def ece15(z: Array, y: Array) -> float:
    """Return the gap between confidence and accuracy in 15 bins of equal width."""
    return _binned(confidence(z), 1.0 - wrongs(z, y))


def adaece15(z: Array, y: Array) -> float:
    """Return the same in 15 bins of equally many samples."""
    order = np.argsort(confidence(z), kind="stable")
    residual = (confidence(z) - (1 - wrongs(z, y)))[order]
    return float(sum(abs(part.sum()) for part in np.array_split(residual, 15))) / len(y)


def cwece15(z: Array, y: Array) -> float:
    """Return the mean over classes of each column's error in 15 bins."""
    p = softmax(z, axis=1)
    return float(np.mean([_binned(p[:, c], (y == c).astype(float)) for c in range(p.shape[1])]))


def smece(z: Array, y: Array) -> float:
    """Return the smooth calibration error as its authors' package computes it (relplot 1.0.3)."""
    c, right = confidence(z), 1.0 - wrongs(z, y)
    low, high = 0.0, 1.0
    for _ in range(10):
        middle = (low + high) / 2
        if middle < 0.001 or middle < _smoothed(c, c - right, middle):
            low = middle
        else:
            high = middle
    return _smoothed(c, c - right, high)


def _smoothed(c: Array, residual: Array, width: float) -> float:
    """Return the error at one width: both sums on a grid, smoothed, mirrored at the ends."""
    nodes = max(2000, round(20 / width)) // 2 + 1
    grid = np.linspace(0, 1, nodes)
    kernel = norm.pdf(np.linspace(-0.5, 0.5, nodes), scale=width)
    at = np.linspace(0, 1, max(round(10 / width), 200))
    smooth = []
    for mass in (residual, np.ones(len(c))):
        place = c * (nodes - 1)
        left = np.minimum(place.astype(int), nodes - 2)
        spread = np.bincount(left, mass * (1 - (place - left)), nodes)
        spread += np.bincount(left + 1, mass * (place - left), nodes)
        mirrored = np.pad(spread, (nodes - 1, nodes - 1), mode="reflect")
        whole = np.convolve(mirrored, kernel, mode="same")[nodes - 1 : 2 * nodes - 1]
        smooth.append(np.interp(at, grid, whole))
    density = smooth[1] + 1e-4
    return float((np.abs(smooth[0] / density) * density).sum() / density.sum())


def auroc(z: Array, y: Array) -> float:
    """Return the chance that a right prediction is more confident than a wrong one."""
    return float(roc_auc_score(wrongs(z, y), odds_of_error(z)))


def risks(z: Array, y: Array) -> Array:
    """Return the error rate among the k most confident, for each k."""
    order = np.argsort(odds_of_error(z), kind="stable")
    return np.cumsum(wrongs(z, y)[order]) / np.arange(1, len(y) + 1)


def aurc(z: Array, y: Array) -> float:
    """Return the mean of these error rates."""
    return float(risks(z, y).mean())


def eaurc(z: Array, y: Array) -> float:
    """Return it above what it would be if all right predictions came first."""
    best = np.sort(wrongs(z, y))
    return aurc(z, y) - float((np.cumsum(best) / np.arange(1, len(y) + 1)).mean())


def _at(threshold: float) -> dict[str, Callable[[Array, Array], float]]:
    """Return what is kept at a confidence, how wrong it is, and how wrong it says it is."""

    def kept(z: Array, y: Array) -> tuple[Array, Array]:
        stay = confidence(z) >= threshold
        assert stay.any(), "nothing is as confident as that"
        return stay, wrongs(z, y)[stay]

    def gap(z: Array, y: Array) -> float:
        stay, wrong = kept(z, y)
        return float(confidence(z)[stay].mean() - (1 - wrong.mean()))

    name = f"{100 * threshold:g}"
    return {
        f"coverage_at{name}": lambda z, y: float((confidence(z) >= threshold).mean()),
        f"risk_at{name}": lambda z, y: float(kept(z, y)[1].mean()),
        f"gap_at{name}": gap,
    }


def matched(z: Array, y: Array, n: int) -> tuple[float, float]:
    """Return error rate, and confidence minus accuracy, of the n most confident."""
    order = np.argsort(odds_of_error(z), kind="stable")[:n]
    risk = float(wrongs(z, y)[order].mean())
    return risk, float(confidence(z)[order].mean()) - (1 - risk)


def _selective(coverage: float) -> Callable[[Array, Array], float]:
    return lambda z, y: float(risks(z, y)[round(coverage * len(y)) - 1])


def _confident_errors(threshold: float) -> Callable[[Array, Array], float]:
    return lambda z, y: float((confidence(z)[wrongs(z, y)] >= threshold).mean())


def _confident_and_wrong(z: Array, y: Array) -> float:
    """Return the share of all samples that are wrong at 90 %, as the paper's tables by NLL have."""
    return float((wrongs(z, y) & (confidence(z) >= 0.9)).mean())


#: Every metric of one method on one set.
FORMULAS: dict[str, Callable[[Array, Array], float]] = {
    **{f.__name__: f for f in (ece15, adaece15, smece, cwece15, accuracy)},
    **{f.__name__: f for f in (nll, top_label_bce, brier, auroc, aurc, eaurc)},
    **{f"hcfp{t}": _confident_errors(t / 100) for t in (90, 95)},
    "hcfp90_of_all": _confident_and_wrong,
    **{f"selective_risk{t}": _selective(t / 100) for t in (80, 90, 95)},
    **{name: f for t in (0.8, 0.9, 0.95) for name, f in _at(t).items()},
}
