"""Log-loss of CalibratedModel and of scikit-learn's CalibratedClassifierCV, on data it ships."""

import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

import numpy as np
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

import smallcal as sc

DATA = {"digits": load_digits, "cancer": load_breast_cancer}
MODELS = {
    "naive Bayes": GaussianNB(),
    "forest": RandomForestClassifier(30, random_state=0),
    "15 neighbours": KNeighborsClassifier(15),
}
WAYS = {
    "raw": lambda model: model,
    "sigmoid": lambda model: CalibratedClassifierCV(model, method="sigmoid"),
    "temperature": lambda model: CalibratedClassifierCV(model, method="temperature"),
    "temperature, one": lambda model: CalibratedClassifierCV(
        model, method="temperature", ensemble=False
    ),
    "`ts-nll`": lambda model: sc.CalibratedModel(model, method="ts-nll"),
    "`default`": lambda model: sc.CalibratedModel(model),
}
SPLITS = 3


def measured(way, model, load):
    losses = []
    X, y = load(return_X_y=True)
    for seed in range(SPLITS):
        parts = train_test_split(X, y, test_size=0.5, random_state=seed, stratify=y)
        fitted = WAYS[way](clone(model)).fit(parts[0], parts[2])
        losses.append(log_loss(parts[3], fitted.predict_proba(parts[1])))
    return float(np.mean(losses))


def main():
    warnings.simplefilter("ignore")
    print(f"| log-loss, mean of {SPLITS} splits | {' | '.join(WAYS)} |")
    print("|---" * (len(WAYS) + 1) + "|")
    for data, load in DATA.items():
        for name, model in MODELS.items():
            row = [measured(way, model, load) for way in WAYS]
            cells = [f"{value:.3f}" for value in row]
            print(f"| {data}, {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
