"""SRTS-BCE written the straightforward way, from the paper's Algorithm 1.

scikit-learn's logistic regression, SciPy's bounded search over log-sum-exp, no shortcuts. The
tests check the package against it; the benchmark measures what the shortcuts are worth.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, logsumexp
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

CLIP = 1e-12


def six_statistics(z):
    """Max prob, logit margin, prob margin, entropy, norm, top logit."""
    log_p = log_softmax(z, axis=1)
    p = np.exp(log_p)
    sorted_z, sorted_p = np.sort(z, axis=1), np.sort(p, axis=1)
    return np.column_stack(
        [
            sorted_p[:, -1],
            sorted_z[:, -1] - sorted_z[:, -2],
            sorted_p[:, -1] - sorted_p[:, -2],
            -(p * np.log(np.maximum(p, CLIP))).sum(axis=1),
            np.linalg.norm(z, axis=1),
            sorted_z[:, -1],
        ]
    )


def bce_temperature(z, right):
    """Bounded minimisation of the clipped top-label log-loss over T in [0.05, 20]."""

    def loss(t):
        scaled = z / t
        log_c = scaled.max(axis=1) - logsumexp(scaled, axis=1)
        c = np.clip(np.exp(log_c), CLIP, 1 - CLIP)
        return -np.where(right, np.log(c), np.log1p(-c)).mean()

    options = {"xatol": 1e-8, "maxiter": 500}
    return minimize_scalar(loss, bounds=(0.05, 20), method="bounded", options=options).x


class ReferenceSRTS:
    """Fit and apply, as plainly as the paper states it."""

    def __init__(self, n_groups=3, seed=0, min_group=50, tol=1e-4):
        self.n_groups = n_groups
        self.seed = seed
        self.min_group = min_group
        self.tol = tol  # scikit-learn's default; the minimum itself needs a smaller one

    def fit(self, z, y):
        """Fit router, thresholds and temperatures."""
        z = np.asarray(z, dtype=np.float64)
        wrong = z.argmax(axis=1) != y
        stats = six_statistics(z)
        self.mean, self.scale = stats.mean(axis=0), stats.std(axis=0)
        self.scale[self.scale < 1e-12] = 1
        x = (stats - self.mean) / self.scale
        oof = np.empty(len(z))
        folds = StratifiedKFold(5, shuffle=True, random_state=self.seed)
        for train, test in folds.split(x, wrong):
            model = LogisticRegression(tol=self.tol, max_iter=1000).fit(x[train], wrong[train])
            oof[test] = model.predict_proba(x[test])[:, 1]
        self.thresholds = np.quantile(oof, np.arange(1, self.n_groups) / self.n_groups)
        group = np.searchsorted(self.thresholds, oof, side="right")
        self.pooled = bce_temperature(z, ~wrong)
        self.temperatures = np.array(
            [
                bce_temperature(z[group == g], ~wrong[group == g])
                if (group == g).sum() >= self.min_group
                else self.pooled
                for g in range(self.n_groups)
            ]
        )
        self.router = LogisticRegression(tol=self.tol, max_iter=1000).fit(x, wrong)
        return self

    def predict_proba(self, z):
        """Route, scale, softmax."""
        z = np.asarray(z, dtype=np.float64)
        x = (six_statistics(z) - self.mean) / self.scale
        risk = self.router.predict_proba(x)[:, 1]
        t = self.temperatures[np.searchsorted(self.thresholds, risk, side="right")]
        return np.exp(log_softmax(z / t[:, None], axis=1))
