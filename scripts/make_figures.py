"""Draw the pictures of the docs into docs/figures: `make figures`.

One row of ``FIGURES`` per picture: its name, and a function that returns its figure. All of them
come from what ships with the package: the demo data, a world with known truth, and for studies a
collection of simulated models.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

import smallcal as sc
from method_chart import which_method
from simulated_collection import write_collection
from smallcal import plots
from smallcal.plots.style import figure_of
from smallcal_lab import plots as study_plots
from smallcal_lab.studies import STUDIES, Study, run
from smallcal_lab.studies.frame import Frame
from smallcal_lab.studies.simulate import Simulated, World

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOLDER = Path(__file__).parents[1] / "docs" / "figures"

#: Pages may be dark, the ink is not.
_PAPER = '<rect width="100%" height="100%" fill="#ffffff"/>'


@cache
def demo(*methods: str) -> dict[str, object]:
    """Return the demo's test probabilities by the true names of methods."""
    val, test = sc.load_demo("cal"), sc.load_demo("test")
    fitted = [_fit(name, val.logits, val.labels) for name in methods]
    return {cal.method_: cal.predict_proba(test.logits) for cal in fitted}


def _fit(name: str, logits: object, labels: object) -> sc.Calibrator:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        return sc.make(name).fit(logits, labels)


@cache
def world() -> tuple[Simulated, Simulated]:
    """Return a split to fit on and one to look at, of a model more over-confident where at risk."""
    known = World(n_classes=100, accuracy=0.75, temperature=1.5, structure=0.4)
    return known.draw(2_500), known.draw(20_000, split="test")


def reliability() -> Figure:
    """Before and after, in bins."""
    return figure_of(plots.reliability(sc.load_demo("test").labels, demo("none", "default")))


#: What the picture of before and after calls its methods.
CALLED = {
    "none": "uncalibrated",
    "ts-nll": "temperature scaling",
    "smallcal": "smallcal (default)",
}


def before_after() -> Figure:
    """One real model before and after, and what each way of calibrating it wins."""
    from matplotlib.figure import Figure

    labels = sc.load_demo("test").labels
    probs = {CALLED[name]: p for name, p in demo(*CALLED).items()}
    raw, *_, ours = probs
    figure = Figure(figsize=(10.4, 3.9), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.1])
    shown = {"before": probs[raw], "after": probs[ours]}
    plots.smooth_reliability(labels, shown, ax=left)
    plots.forest(sc.compare(labels, probs, baseline=raw, metrics=["nll"]), ax=right)
    return figure


def smooth_reliability() -> Figure:
    """Before and after, smoothed."""
    return figure_of(plots.smooth_reliability(sc.load_demo("test").labels, demo("none", "default")))


def confidence_histogram() -> Figure:
    """How confidences are spread before and after."""
    labels = sc.load_demo("test").labels
    return figure_of(plots.confidence_histogram(labels, demo("none", "default")))


def risk_groups() -> Figure:
    """Why one temperature is not enough: the paper's motivating figure."""
    from matplotlib.figure import Figure

    cal, test = world()
    srts = _fit("srts-bce", cal.logits, cal.labels)
    figure = Figure(figsize=(10.4, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    plots.matched_confidence(test.labels, test.logits, calibrator=srts, least=30, ax=left)
    plots.group_residuals(test.labels, test.logits, calibrator=srts, ax=right)
    return figure


def temperature_signal() -> Figure:
    """Which temperature samples get: by groups, by a curve, and by six statistics."""
    from matplotlib.figure import Figure

    val, test = sc.load_demo("cal"), sc.load_demo("test")
    figure = Figure(figsize=(13.2, 4.2), layout="constrained")
    names = ("srts-bce", "linear-risk", "signal-linear")
    for name, ax in zip(names, figure.subplots(1, 3), strict=True):
        plots.temperature_signal(_fit(name, val.logits, val.labels), test.logits, ax=ax)
    return figure


def risk_coverage() -> Figure:
    """Show what refusing the least confident gives."""
    return figure_of(plots.risk_coverage(sc.load_demo("test").labels, demo("none", "default")))


@cache
def payments() -> tuple[Any, dict[str, Any]]:
    """Return outcomes, and the raw and the calibrated probabilities of the scores in costs.md."""
    rng = np.random.default_rng(0)

    def drawn(n: int) -> tuple[Any, Any]:
        z = rng.normal(-1, 1, size=n)
        return 1 / (1 + np.exp(-3 * z)), rng.random(n) < 1 / (1 + np.exp(-z))

    cal = sc.Calibrator(input="score").fit(*drawn(400))
    scores, truth = drawn(3000)
    return truth, {"raw": scores, "calibrated": cal.predict_score(scores)}


def cost_curve() -> Figure:
    """Show what decisions by a threshold cost before and after."""
    costs = sc.Costs(miss=10, false_alarm=10, review=2)
    return figure_of(plots.cost_curve(*payments(), costs=costs))


def net_benefit() -> Figure:
    """Show what acting on a probability is worth before and after."""
    return figure_of(plots.net_benefit(*payments()))


def forest() -> Figure:
    """Methods against one temperature, with intervals."""
    names = ("tva-ts", "none", "ts-nll", "srts-bce", "hts-bce", "default")
    found = sc.compare(sc.load_demo("test").labels, demo(*names), metrics=["top_label_bce"])
    return figure_of(plots.forest(found))


@cache
def study_run(name: str) -> tuple[Study, Frame]:
    """Run a study on simulated models, and return it with its rows."""
    studied = STUDIES[name].with_options(n_boot=2_000, **ASKED[name])
    with TemporaryDirectory() as folder:
        collection = write_collection(Path(folder) / "data")
        return studied, run(studied, collection, Path(folder) / "run").frame


#: What is asked of each study instead of its own: pictures take seconds, not hours.
ASKED: dict[str, dict[str, Any]] = {
    "budget": {
        "methods": ("none", "srts-bce", "hts-bce", "default"),
        "budgets": (100, 250, 600, 0),
        "draws": 6,
    },
    "shift": {"methods": ("none", "srts-bce", "linear-risk", "default")},
    "heterogeneity": {"methods": ("none", "srts-bce")},
    "k-ablation": {},
    "within-margin": {"methods": ("margin-k3", "srts-bce")},
    "risk-score": {"methods": ("srts-bce",)},
    "risk-flow": {},
}


def budget_curve() -> Figure:
    """How methods do with few samples."""
    return figure_of(study_plots.budget_curve(study_run("budget")))


def severity_curve() -> Figure:
    """How methods do under shift, and where shifted samples go."""
    return figure_of(study_plots.severity_curve(study_run("shift")))


def corruption_gain() -> Figure:
    """Under which corruptions routing gains."""
    return figure_of(study_plots.corruption_gain(study_run("heterogeneity")))


def k_ablation() -> Figure:
    """How many groups are worth having."""
    return figure_of(study_plots.k_ablation(study_run("k-ablation")))


def group_temperatures() -> Figure:
    """How far apart the temperatures of groups are."""
    return figure_of(study_plots.group_temperatures(study_run("k-ablation")))


def within_margin() -> Figure:
    """Show what grouping does where margins are alike."""
    return figure_of(study_plots.within_margin(study_run("within-margin")))


def risk_density() -> Figure:
    """How the risk of right and of wrong predictions is spread."""
    return figure_of(study_plots.risk_density(study_run("risk-score")))


def risk_confidence() -> Figure:
    """Show what the risk adds to the confidence."""
    return figure_of(study_plots.risk_confidence(study_run("risk-score")))


def group_gaps() -> Figure:
    """Show what one temperature leaves in groups, over models and seeds."""
    return figure_of(study_plots.group_gaps(study_run("risk-score")))


def risk_flow() -> Figure:
    """Where samples go under shift."""
    return figure_of(study_plots.risk_flow(study_run("risk-flow")))


#: Name of each picture in docs/figures, and what draws it.
FIGURES: dict[str, Callable[[], Figure]] = {
    "before-after": before_after,
    "which-method": which_method,
    "reliability": reliability,
    "smooth-reliability": smooth_reliability,
    "confidence-histogram": confidence_histogram,
    "risk-groups": risk_groups,
    "temperature-signal": temperature_signal,
    "risk-coverage": risk_coverage,
    "cost-curve": cost_curve,
    "net-benefit": net_benefit,
    "forest": forest,
    "budget-curve": budget_curve,
    "severity-curve": severity_curve,
    "corruption-gain": corruption_gain,
    "k-ablation": k_ablation,
    "group-temperatures": group_temperatures,
    "within-margin": within_margin,
    "risk-density": risk_density,
    "risk-confidence": risk_confidence,
    "group-gaps": group_gaps,
    "risk-flow": risk_flow,
}


def svg_of(name: str) -> str:
    """Return a picture as SVG, on white."""
    text = plots.to_svg(FIGURES[name]())
    end = text.index(">") + 1
    return f"{text[:end]}\n {_PAPER}{text[end:]}"


def main(names: list[str]) -> None:
    """Write the pictures named, or all of them."""
    FOLDER.mkdir(exist_ok=True)
    for name in names or FIGURES:
        file = FOLDER / f"{name}.svg"
        file.write_text(svg_of(name), encoding="utf-8")
        print(f"{file.relative_to(FOLDER.parents[1])}: {file.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
