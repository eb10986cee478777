"""One of everything that a notebook shows, with names that would do harm if they could."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression

import smallcal as sc
from support.nasty_names import NASTY, nasty_report
from support.simulated import simulate

#: Names that a table has to hold: long ones, signs beyond the usual plane, the other direction.
ODD = ("long" * 1000, "snow ☃ 😀 猫", "שלום עולם", "مرحبا (1)", " ")
NAMES = (*NASTY, *ODD)


def nasty_results():
    """Return results by a name of their own, every one with nasty names where it has names."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        warnings.simplefilter("ignore", sc.GroupWarning)
        return {**_estimators(), **_measured(), **_advised(), **_deployed()}


def _split(seed):
    return simulate(600, len(NAMES), seed=seed)


def _groups(n):
    # An empty or blank name is no group.
    named = [name for name in NAMES if name.strip()]
    return np.array(named, dtype=object)[np.arange(n) % len(named)]


def _estimators():
    z, y = _split(1)
    groups = _groups(len(y))
    # So that groups differ, and have effects to show.
    odd = np.array([str(group) in NASTY[:3] for group in groups])
    skewed = np.where(odd, (y + 1) % len(NAMES), y)
    marks, passed = [1, 2, 3, 4, 5] * 20, [0, 0, 1, 0, 1] * 20
    model = LogisticRegression().fit(z, np.array(NAMES, dtype=object)[y].astype(str))
    labels = np.array(NAMES)[y]
    named = {"class_names": NAMES}
    return {
        "not fitted": sc.SRTS(**named),
        "identity": sc.Identity(**named).fit(z, y),
        "temperature": sc.TemperatureScaling(**named).fit(z, y),
        "srts": sc.SRTS(**named).fit(z, y),
        "few samples": sc.SRTS(**named).fit(z[:60], y[:60]),
        "default": sc.Calibrator(**named).fit(z, y),
        "kept": sc.Calibrator(keep_predictions=True, **named).fit(z, y),
        "groups": sc.TemperatureScaling(**named).fit(z, skewed, groups=groups),
        "score": sc.Calibrator(input="score").fit(marks, passed),
        "model": sc.CalibratedModel(model, cv="prefit").fit(z, labels),
    }


def _measured():
    z, y = _split(2)
    p = sc.Identity().fit(z, y).predict_proba(z)
    flat = np.full_like(p, 1 / len(NAMES))
    sharper = [p**k / (p**k).sum(1, keepdims=True) for k in (0.5, 2)]
    probas = dict(zip(NAMES[:4], [p, flat, *sharper], strict=True))
    few = {"metrics": ["accuracy", "ece15", "nll"], "n_boot": 50}
    return {
        "evaluate": sc.evaluate(y, p),
        "evaluate score": sc.evaluate(y % 2, p[:, 0]),
        "evaluate ci": sc.evaluate(y, p, ci=True, **few),
        "evaluate by": sc.evaluate(y, p, by=_groups(len(y)).astype(str), **few),
        "compare": sc.compare(y, probas, **few),
        "compare points": sc.compare(y, probas, n_boot=0),
    }


def _advised():
    z, y = _split(3)
    cal = sc.TemperatureScaling(class_names=NAMES).fit(z[:300], y[:300])
    rest = (z[300:], y[300:])
    groups = _groups(300)
    recipes = ["none", "ts-nll", "tva-ts", ("srts-bce", {"n_groups": 2})]
    candidates = dict(zip(NAMES[:4], recipes, strict=True))
    return {
        "plan": sc.plan(z[:150], y[:150], method="tva-ts", draws=5, target={"ece15": 0.02}),
        "plan default": sc.plan(z[:150], y[:150], sizes=[100, 400], draws=5),
        "audit": sc.audit(z, y, method="srts-bce", n_refits=4, n_null=0, groups=_groups(600)),
        "audit default": sc.audit(z[:200], y[:200], n_refits=4, n_null=0),
        "select": sc.select(z, y, candidates=candidates, n_repeats=1, n_folds=2),
        "certify": sc.certify(cal, *rest, risk=[0.7, 0.0001]),
        "certify class": sc.certify(cal, *rest, risk=0.95, confidence=0.5, by="class"),
        "certify group": sc.certify(
            cal, *rest, risk=0.95, confidence=0.5, by="group", groups=groups
        ),
    }


def _deployed():
    z, y = _split(4)
    cal = sc.SRTS(class_names=NAMES).fit(z[:300], y[:300])
    certified = sc.certify(cal, z[300:], y[300:], risk=0.9, confidence=0.5, by="class").calibrator
    watched, fresh = sc.Monitor(certified), sc.Monitor(cal)
    watched.update(z, y)
    return {
        "fitted": certified,
        "monitor": watched,
        "monitor empty": fresh,
        "drifted": sc.Monitor(cal).update(0.3 * z),
        "report": nasty_report(),
    }
