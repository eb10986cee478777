"""Do the paper's predictions come true in a known world? `python benchmarks/predictions.py`.

Models come from `smallcal_lab.studies.simulate.World`, so that losses are expectations over labels
and nothing but the calibration draw is chance. Prints the table of docs/lab/simulate.md;
tests/studies/test_simulate.py checks the same numbers against what the paper predicts.
"""

from __future__ import annotations

import sys
import warnings
from functools import cache

import numpy as np

import smallcal as sc
from smallcal.data.special import softmax
from smallcal.metrics import ece
from smallcal_lab.studies.simulate import World

#: Where the paper's effects are large: errors in every group, temperatures 0.9 to 2.5.
STRUCTURED = World(n_classes=20, accuracy=0.6, structure=0.5)
MILD = World(n_classes=20, accuracy=0.6, structure=0.25)
PLAIN = World(n_classes=20, accuracy=0.6, structure=0.0)
NOISY = World(n_classes=20, accuracy=0.6, structure=0.0, noise=0.5)
#: With as few errors as the paper's models make.
MANY = World(n_classes=30, accuracy=0.9, structure=0.5)


def fitted(name, rows, **options):
    with warnings.catch_warnings():
        # Groups without errors and maps too large for their samples are what some rows are about.
        warnings.simplefilter("ignore", sc.FitWarning)
        return sc.make(name, **options).fit(rows.logits, rows.labels)


def losses(world, n, name, *, draws, n_groups=None, metric="top_label_bce"):
    """Return a metric in points after each of several calibration draws.

    It is expected top-label log-loss, or the true ECE.
    """
    found = outcomes(world, n, name, draws=draws, n_groups=n_groups)
    return np.array([each[metric] for each in found])


@cache
def outcomes(world, n, name, *, draws, n_groups=None):
    """Return top-label log-loss and ECE in points, without the noise of labels, for each draw."""
    test = world.draw(5000, split="test")
    options = {} if n_groups is None else {"n_groups": n_groups, "min_group_size": 5}
    if name.startswith("smart"):
        options["epochs"] = 2000
    found = []
    for draw in range(1, draws + 1):
        proba = fitted(name, world.draw(n, draw=draw), **options).predict_proba(test.logits)
        bce, error = test.expected(proba)["top_label_bce"], test.true_ece(proba)
        found.append({"top_label_bce": 100 * bce, "ece15": 100 * error})
    return tuple(found)


def difference(world, n, name, against="tva-ts", *, draws, metric="top_label_bce", **options):
    """Return mean and standard error, over draws, of what a method adds to another's loss."""
    gap = losses(world, n, name, draws=draws, metric=metric, **options)
    gap = gap - losses(world, n, against, draws=draws, metric=metric)
    return gap.mean(), gap.std(ddof=1) / np.sqrt(draws)


@cache
def deployed(structure=0.3):
    """Return a world of 100 classes and the SRTS that was fitted on its clean samples."""
    world = World(structure=structure)
    return world, fitted("srts-bce", world.draw(5000))


def high_risk_share(severity):
    """Return the share of samples that deployed thresholds send to the riskiest group."""
    world, calibrator = deployed()
    rows = world.draw(5000, split="test", severity=severity)
    return float((calibrator.group(rows.logits) == 2).mean())


def requantised(structure, severity):
    """Return (top-label log-loss, ECE) of deployed thresholds and of thirds that are cut anew."""
    world, calibrator = deployed(structure)
    rows = world.draw(5000, split="test", severity=severity)
    risk = calibrator.risk(rows.logits)
    thirds = np.searchsorted(np.quantile(risk, [1 / 3, 2 / 3]), risk, side="right")
    assert np.bincount(thirds).max() - len(risk) / 3 <= 1
    kept = calibrator.predict_proba(rows.logits)
    recut = softmax(rows.logits / calibrator.temperatures_[thirds][:, None])
    return np.array(
        [
            (rows.expected(proba)["top_label_bce"], ece(rows.labels, proba))
            for proba in (kept, recut)
        ]
    )


def main():
    def shown(world, n, name, against="tva-ts", **options):
        mean, error = difference(world, n, name, against, **options)
        return f"{mean:+.2f} ± {error:.2f}"

    print("| prediction | found |")
    print("|---|---|")
    at = {"draws": 10}
    controls = [shown(STRUCTURED, 2000, f"{name}-k3", **at) for name in ("random", "shuffled")]
    print(
        f"| random and shuffled routing do not help | {controls[0]} and {controls[1]} at 2,000 "
        f"samples, where two parameters too many should cost (K - 1) / 2n = 0.05; three risk "
        f"groups {shown(STRUCTURED, 2000, 'srts-bce', **at)} |"
    )
    gains = [shown(world, 2000, "srts-bce", **at) for world in (PLAIN, MILD, STRUCTURED, NOISY)]
    print(
        f"| no gain if B = 0 | {gains[0]} with `structure=0`, {gains[1]} with 0.25, {gains[2]} "
        f"with 0.5; {gains[3]} with `noise=0.5` alone |"
    )
    groups = {
        n: ", ".join(shown(STRUCTURED, n, "srts-bce", draws=draws, n_groups=k) for k in (3, 10, 20))
        for n, draws in ((250, 12), (5000, 3))
    }
    print(
        f"| too many groups hurt if samples are few | 3, 10, 20 groups: {groups[250]} at 250 "
        f"samples; {groups[5000]} at 5,000 |"
    )
    smart = [
        shown(STRUCTURED, n, "smart-bce", "srts-bce", draws=draws)
        for n, draws in ((150, 14), (5000, 3))
    ]
    print(
        f"| capacity reversal | SMART (49 parameters) minus SRTS: {smart[0]} at 150 samples, "
        f"{smart[1]} at 5,000 |"
    )
    smart = [
        shown(MANY, n, "smart-bce", "srts-bce", draws=draws, metric="ece15")
        for n, draws in ((250, 20), (5000, 4))
    ]
    often = [
        shown(STRUCTURED, 250, "smart-bce", "srts-bce", draws=20, metric=metric)
        for metric in ("ece15", "top_label_bce")
    ]
    print(
        f"| the same in true ECE, as the paper has it | {smart[0]} at 250 samples, {smart[1]} at "
        f"5,000 (30 classes, 90 % accuracy); with 60 % accuracy {often[0]} at 250, where "
        f"top-label log-loss has {often[1]} |"
    )
    print(
        f"| high-risk share grows with severity | {100 * high_risk_share(0):.0f} % clean to "
        f"{100 * high_risk_share(5):.0f} % at severity 5 (default settings) |"
    )
    (kept_bce, kept_ece), (recut_bce, recut_ece) = 100 * requantised(0.3, 5)
    print(
        f"| new thresholds under shift hurt | thirds cut again at severity 5: ECE {kept_ece:.1f} "
        f"to {recut_ece:.1f} %, top-label log-loss {kept_bce:.0f} to {recut_bce:.0f} "
        "(default settings) |"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
