"""Freeze a small collection: `python scripts/freeze_collection.py [--logits]`.

Writes src/smallcal/studies/reproduce/frozen: simulated logits (only with --logits, for they
should never change), reference values, and the checksum of every file. `smallcal study reproduce
--frozen` then checks smallcal against values that smallcal did not compute: the calibrators and
metrics below are the plain formulas, with SciPy and scikit-learn.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, logsumexp, softmax
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.preprocessing import StandardScaler

Array = NDArray[Any]
FOLDER = Path(__file__).parents[1] / "src" / "smallcal" / "studies" / "reproduce" / "frozen"

DATASET, N_CLASSES, N_CAL, N_TEST, N_ELSEWHERE = "simulated20", 20, 400, 800, 400
SEEDS = (0, 1)
#: What smallcal.studies.simulate.World is told, for each backbone: so inaccurate that every third
#: of every draw has errors, for without one a temperature has no optimum and nothing to agree on.
BACKBONES = {
    "structured": {"accuracy": 0.55, "temperature": 1.5, "structure": 0.4},
    "plain": {"accuracy": 0.6, "temperature": 0.6, "structure": 0.0},
}
SHIFTED, KIND, SEVERITIES, ELSEWHERE = "structured", "weakening", (1, 3, 5), "elsewhere"
BUDGET, DRAWS = 200, 3

#: What is checked: methods, metrics with unit and decimals, sets.
METHODS = ("none", "ts-nll", "tva-ts", "margin-k3", "srts-bce")
METRICS = {
    "ece15": ("percent", 4),
    "accuracy": ("percent", 4),
    "nll": ("nats", 6),
    "brier": ("fraction", 6),
    "top_label_bce": ("nats", 6),
}
SETS = {
    "clean": ["test"],
    "corrupted": [f"{KIND}{severity}" for severity in SEVERITIES],
    "corrupted-s3-s5": [f"{KIND}3", f"{KIND}5"],
    ELSEWHERE: [ELSEWHERE],
}


@dataclass(frozen=True)
class Split:
    """Logits and labels."""

    logits: Array
    labels: Array

    def take(self, rows: Array) -> Split:
        """Return some rows."""
        return Split(self.logits[rows], self.labels[rows])


# --- logits ---------------------------------------------------------------------------------


def write_logits(folder: Path) -> None:
    """Draw the logits from a world with known truth and keep them as float16."""
    from smallcal.studies.simulate import World

    for backbone, options in BACKBONES.items():
        for seed in SEEDS:
            world = World(n_classes=N_CLASSES, seed=seed, **options)
            splits = {"cal": world.draw(N_CAL), "test": world.draw(N_TEST, split="test")}
            if backbone == SHIFTED:
                for severity in SEVERITIES:
                    drawn = world.draw(N_TEST, split="test", severity=severity)
                    splits[f"{KIND}{severity}"] = drawn
                splits[ELSEWHERE] = world.draw(N_ELSEWHERE, split=ELSEWHERE, severity=2)
            arrays: dict[str, Array] = {}
            for name, drawn in splits.items():
                arrays[f"{name}_logits"] = drawn.logits.astype(np.float16)
                arrays[f"{name}_labels"] = drawn.labels.astype(np.uint8)
            np.savez_compressed(folder / f"{backbone}-seed{seed}.npz", **arrays)


def read_logits(folder: Path, backbone: str, seed: int) -> dict[str, Split]:
    """Return the splits of one model by name."""
    with np.load(folder / f"{backbone}-seed{seed}.npz") as arrays:
        names = [name.removesuffix("_logits") for name in arrays.files if name.endswith("_logits")]
        return {
            name: Split(
                arrays[f"{name}_logits"].astype(np.float64),
                arrays[f"{name}_labels"].astype(np.int64),
            )
            for name in names
        }


def description() -> str:
    """Return collection.toml."""
    lines = ['name = "frozen"']
    for backbone in BACKBONES:
        for seed in SEEDS:
            file = f"{backbone}-seed{seed}.npz"
            lines += [
                "",
                "[[cell]]",
                f'dataset = "{DATASET}"',
                f'backbone = "{backbone}"',
                f"seed = {seed}",
                f'calibration = "{file}:cal"',
                f'test = "{file}:test"',
            ]
            if backbone == SHIFTED:
                for severity in SEVERITIES:
                    lines += _shift(KIND, severity, f"{file}:{KIND}{severity}", "true")
                lines += _shift(ELSEWHERE, 0, f"{file}:{ELSEWHERE}", "false")
    return "\n".join(lines) + "\n"


def _shift(kind: str, severity: int, file: str, paired: str) -> list[str]:
    return [
        "",
        "[[cell.shift]]",
        f'kind = "{kind}"',
        f"severity = {severity}",
        f'file = "{file}"',
        f"paired = {paired}",
    ]


# --- calibrators: each returns what logits are divided by --------------------------------------

Temperature = Callable[[Array], Array]


def fitted(method: str, cal: Split, seed: int) -> Temperature:
    """Fit a method in the plainest way."""
    if method == "none":
        return lambda z: np.ones(len(z))
    if method in ("ts-nll", "tva-ts"):
        found = scalar(cal, nll if method == "ts-nll" else top_bce)
        return lambda z: np.full(len(z), found)
    if method == "margin-k3":
        return grouped(cal, margin(cal.logits), margin)
    held_out, score = risk(cal, seed)
    return grouped(cal, held_out, score)


def scalar(cal: Split, loss: Callable[[Array, Array], float]) -> float:
    """Return the one temperature that minimises a loss."""
    found = minimize_scalar(
        lambda t: loss(cal.logits / t, cal.labels),
        bounds=(0.05, 20),
        method="bounded",
        options={"xatol": 1e-10, "maxiter": 500},
    )
    return float(found.x)


def grouped(cal: Split, scores: Array, score: Temperature) -> Temperature:
    """Return three temperatures, by tertiles of a score; a thin group gets the pooled one."""
    cuts = np.quantile(scores, [1 / 3, 2 / 3])
    groups = np.searchsorted(cuts, scores, side="right")
    pooled = scalar(cal, top_bce)
    wrong = cal.logits.argmax(axis=1) != cal.labels
    assert all(wrong[groups == g].any() for g in range(3)), "a group without errors"
    found = np.array(
        [
            scalar(cal.take(groups == g), top_bce) if (groups == g).sum() >= 50 else pooled
            for g in range(3)
        ]
    )
    return lambda z: found[np.searchsorted(cuts, score(z), side="right")]


def margin(z: Array) -> Array:
    """Return the gap between the two highest logits."""
    ordered = np.sort(z, axis=1)
    return ordered[:, -1] - ordered[:, -2]


def statistics(z: Array) -> Array:
    """Return the six statistics that the router sees."""
    p = softmax(z, axis=1)
    ordered = np.sort(p, axis=1)
    entropy = -(p * np.log(np.maximum(p, 1e-12))).sum(axis=1)
    columns = (
        *(ordered[:, -1], margin(z), ordered[:, -1] - ordered[:, -2]),
        *(entropy, np.linalg.norm(z, axis=1), z.max(axis=1)),
    )
    return np.column_stack(columns)


def risk(cal: Split, seed: int) -> tuple[Array, Temperature]:
    """Return out-of-fold chances of being wrong, and the score for other samples."""
    scaler = StandardScaler().fit(statistics(cal.logits))
    x = scaler.transform(statistics(cal.logits))
    wrong = (cal.logits.argmax(axis=1) != cal.labels).astype(int)
    held_out = np.empty(len(x))
    for train, rest in StratifiedKFold(5, shuffle=True, random_state=seed).split(x, wrong):
        held_out[rest] = _logistic(x[train], wrong[train]).predict_proba(x[rest])[:, 1]
    final = _logistic(x, wrong)
    return held_out, lambda z: final.predict_proba(scaler.transform(statistics(z)))[:, 1]


def _logistic(x: Array, target: Array) -> LogisticRegression:
    return LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000).fit(x, target)


# --- metrics of logits ------------------------------------------------------------------------


def nll(z: Array, y: Array) -> float:
    """Return the mean negative log-likelihood."""
    return float(-log_softmax(z, axis=1)[np.arange(len(y)), y].mean())


def top_bce(z: Array, y: Array) -> float:
    """Return the cross-entropy of confidence and being right."""
    top = z.argmax(axis=1)
    others = z.copy()
    others[np.arange(len(z)), top] = -np.inf
    odds = logsumexp(others, axis=1) - z.max(axis=1)
    log_right = -np.log1p(np.exp(odds))
    return float(-np.where(top == y, log_right, odds + log_right).mean())


def brier(z: Array, y: Array) -> float:
    """Return the mean squared distance from the true class, summed over classes."""
    return float(((softmax(z, axis=1) - np.eye(z.shape[1])[y]) ** 2).sum(axis=1).mean())


def accuracy(z: Array, y: Array) -> float:
    """Return the share of right predictions."""
    return float((z.argmax(axis=1) == y).mean())


def ece15(z: Array, y: Array) -> float:
    """Return the gap between confidence and accuracy in 15 bins of equal width."""
    confidence, right = softmax(z, axis=1).max(axis=1), z.argmax(axis=1) == y
    bins = np.minimum((confidence * 15).astype(int), 14)
    gaps = [
        (bins == b).mean() * abs(confidence[bins == b].mean() - right[bins == b].mean())
        for b in range(15)
        if (bins == b).any()
    ]
    return float(sum(gaps))


FORMULAS = {
    "ece15": ece15,
    "accuracy": accuracy,
    "nll": nll,
    "brier": brier,
    "top_label_bce": top_bce,
}


# --- reference values -------------------------------------------------------------------------


def drawn(cal: Split, seed: int, budget: int, draw: int) -> Split:
    """Return one draw of the calibration split; the whole split as it is."""
    if budget == len(cal.labels):
        return cal
    state = seed * 10**6 + budget * 10**3 + draw
    rows, _ = train_test_split(
        np.arange(len(cal.labels)), train_size=budget, stratify=cal.labels, random_state=state
    )
    return cal.take(np.sort(rows))


def measured(folder: Path, backbone: str, budget: int, method: str) -> dict[str, list[Any]]:
    """Return, for each set, metrics of every seed: means over draws and parts of the set."""
    found: dict[str, list[Any]] = {}
    draws = 1 if budget == N_CAL else DRAWS
    for seed in SEEDS:
        splits = read_logits(folder, backbone, seed)
        per_draw: dict[str, list[list[float]]] = {}
        for draw in range(draws):
            temperature = fitted(method, drawn(splits["cal"], seed, budget, draw), seed)
            for name, parts in SETS.items():
                if all(part in splits for part in parts):
                    rows = [_scores(splits[part], temperature) for part in parts]
                    per_draw.setdefault(name, []).append(list(np.mean(rows, axis=0)))
        for name, rows in per_draw.items():
            found.setdefault(name, []).append(np.array(rows))
    return found


def _scores(split: Split, temperature: Temperature) -> list[float]:
    scaled = split.logits / temperature(split.logits)[:, None]
    return [FORMULAS[metric](scaled, split.labels) for metric in METRICS]


def values(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the entries of reference.json."""
    for backbone in BACKBONES:
        for budget in (N_CAL, BUDGET):
            results = {name: measured(folder, backbone, budget, name) for name in METHODS}
            about = {"dataset": DATASET, "backbone": backbone, "seeds": len(SEEDS)}
            about |= {"budget": budget} | ({"draws": DRAWS} if budget == BUDGET else {})
            for method, sets in results.items():
                for name, seeds in sets.items():
                    yield from _entries({**about, "method": method, "set": name}, np.array(seeds))
            yield from _compared(about, results)
        splits = read_logits(folder, backbone, 0)
        yield {
            **{"table": "temperatures", "dataset": DATASET, "backbone": backbone, "seeds": 1},
            **{"budget": N_CAL, "method": "tva-ts", "set": "clean", "metric": None},
            **{"paper_metric": "temperature", "unit": "temperature", "decimals": 4},
            "value": round(scalar(splits["cal"], top_bce), 4),
        }


def _entries(about: dict[str, Any], seeds: Array) -> Iterator[dict[str, Any]]:
    """Yield a value for each metric; ``seeds`` is seed x draw x metric."""
    if about["set"] != "clean" and about["budget"] != N_CAL:
        return
    for number, (metric, (unit, decimals)) in enumerate(METRICS.items()):
        scale = 100 if unit == "percent" else 1
        means = scale * seeds[:, :, number].mean(axis=1)
        yield {
            **{"table": "shifted" if about["set"] != "clean" else "clean", **about},
            **{"metric": metric, "unit": unit, "decimals": decimals},
            **{"value": round(means.mean(), decimals), "spread": round(means.std(), decimals)},
        }


def _compared(about: dict[str, Any], results: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what the router gains over one temperature, and how often."""
    ours, theirs = (
        100 * np.array(results[name]["clean"])[:, :, 0] for name in ("srts-bce", "tva-ts")
    )
    pair = {**about, "method": "srts-bce", "against": "tva-ts", "set": "clean", "metric": "ece15"}
    gap = round(float((ours.mean(axis=1) - theirs.mean(axis=1)).mean()), 4)
    yield {"table": "gains", **pair, "unit": "percent", "kind": "difference"} | {
        "decimals": 4,
        "value": gap,
    }
    if about["budget"] == BUDGET:
        share = round(100 * float((ours < theirs).mean()), 2)
        yield {"table": "gains", **pair, "unit": "percent", "kind": "win-share", "value": share}


def reference_text(folder: Path) -> str:
    """Return reference.json: one entry a line."""
    head = {
        "version": 1,
        "source": "plain formulas on the frozen collection, by scripts/freeze_collection.py",
        "defaults": {"kind": "value", "decimals": 2, "spread": None},
        "tolerances": {"deterministic": 0.011, "smart-bce": 0.15, "cifar100c": 0.05},
        "shifts": {DATASET: {"kinds": [KIND], "severities": list(SEVERITIES)}},
    }
    lines = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in values(folder))
    return json.dumps(head, indent=1)[:-2] + f',\n "values": [\n{lines}\n]}}\n'


def checksums(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every data file."""
    files = sorted(f for f in folder.iterdir() if f.suffix in (".npz", ".toml", ".json"))
    return {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in files
        if file.name != "checksums.json"
    }


def main() -> None:
    """Write the folder."""
    parser = argparse.ArgumentParser(description="freeze a small collection")
    parser.add_argument("--logits", action="store_true", help="draw the logits anew as well")
    if parser.parse_args().logits:
        write_logits(FOLDER)
    (FOLDER / "collection.toml").write_text(description(), encoding="utf-8")
    (FOLDER / "reference.json").write_text(reference_text(FOLDER), encoding="utf-8")
    text = json.dumps(checksums(FOLDER), indent=1) + "\n"
    (FOLDER / "checksums.json").write_text(text, encoding="utf-8")
    size = sum(file.stat().st_size for file in FOLDER.iterdir() if file.is_file())
    print(f"{FOLDER}: {size / 1024:.0f} KB")


if __name__ == "__main__":
    main()
