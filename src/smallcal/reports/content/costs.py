"""What mistakes cost: best decisions of the recommended method, the uncalibrated, and others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from smallcal import plots
from smallcal.advice.cost_curve import cost_curves
from smallcal.advice.cost_table import CostTable
from smallcal.advice.costs import Costs
from smallcal.advice.expected_cost import RULES, ExpectedCost, expected_cost_of
from smallcal.reports.content.figures import BAND_BOOT, Spec, specs_of
from smallcal.reports.content.measure import Measured
from smallcal.reports.samples import Samples
from smallcal.reports.settings import RAW, Settings


def priced(costs: Costs, samples: Samples) -> CostTable:
    """Return what decisions on these samples cost.

    Classes that the costs name and the samples do not are taken in order.
    """
    score = samples.input == "score"
    names = None if score else samples.class_names
    return costs.table(samples.preds.n_classes, names, score=score)


def cost_content(
    measured: Measured, chosen: str, test: Samples, settings: Settings
) -> dict[str, Any] | None:
    """Return what the section says, or None where no costs were named."""
    if settings.costs is None:
        return None
    table = priced(settings.costs, test)
    raw = measured.fits[RAW].scored if _comparable(chosen, test) else None
    found = expected_cost_of(measured.fits[chosen].scored, raw, table, bootstrap=settings.bootstrap)
    own = {"rule": "own", "label": f"best decisions of {chosen}", "saved": None}
    others = [
        {
            "rule": name,
            "label": RULES[name].format(raw=measured.claim.raw),
            "cost": row.numbers,
            "saved": {**found.gains[name].numbers, "verdict": found.gains[name].verdict("higher")},
        }
        for name, row in found.others.items()
    ]
    return {
        "method": chosen,
        "given": settings.costs.to_dict(),
        "text": table.text,
        "notes": list(table.notes),
        "by_costs": table.rule,
        "axis": table.axis,
        "threshold": table.threshold,
        "digits": table.unit.digits,
        "promised": found.promised,
        "reviewed": found.reviewed if table.review is not None else None,
        "headline": _headline(found, table, measured, chosen),
        "rows": [{**own, "cost": found.cost.numbers}, *others],
    }


def _comparable(chosen: str, test: Samples) -> bool:
    """Whether the uncalibrated model's probabilities are others, and are probabilities."""
    scale = test.preds.score
    return chosen != RAW and (scale is None or scale.kind == "probability")


def _headline(found: ExpectedCost, table: CostTable, measured: Measured, chosen: str) -> str:
    """Say what the decisions cost, and what they save against the uncalibrated model's."""
    unit = table.unit
    said = f"Decided by {chosen}, a sample costs {unit.number(found.cost.point)} on average"
    if "raw" not in found.others:
        return f"{said}."
    before, gain = found.others["raw"], found.gains["raw"]
    said += f", by {measured.claim.raw} {unit.number(before.point)}"
    if not gain.n_boot:
        return f"{said}."
    ends = f"{100 * gain.level:g} % interval {unit.interval(*gain, signed=True)}"
    chance = "beyond chance" if gain.excludes_zero else "not beyond chance"
    return f"{said}: {unit.number(gain.point, signed=True)} saved ({ends}), {chance}."


def cost_figures(
    measured: Measured, chosen: str, test: Samples, settings: Settings
) -> Iterator[dict[str, Any]]:
    """Yield the figures of the section; bands need resamples."""
    if settings.costs is None or not settings.n_boot:
        return iter(())
    return specs_of(_figures(measured, chosen, test, settings))


def _figures(measured: Measured, chosen: str, test: Samples, settings: Settings) -> Iterator[Spec]:
    assert settings.costs is not None
    table = priced(settings.costs, test)
    names = [RAW, chosen] if _comparable(chosen, test) else [chosen]
    views = {name: measured.fits[name].scored for name in names}
    n_boot, level = min(settings.n_boot, BAND_BOOT), settings.level
    bands = f"bands are {100 * level:g} % intervals over resampled test samples, point by point"
    if table.threshold is not None:
        found = cost_curves(views, table, bootstrap=(n_boot, level, settings.seed))
        unit = table.unit
        said = [
            f"{name} {unit.number(row.best_cost)} there, and at the lowest "
            f"{unit.number(row.observed_cost)}"
            for name, row in found.items()
        ]
        yield (
            "cost-curve",
            "Cost against the threshold",
            "The dashed line is the threshold that the costs alone say is best; right "
            "probabilities cost least there. A star is the lowest point on these samples, chosen "
            f"on the labels that judge it; {bands}.",
            f"Mean cost per row against the threshold; best by the costs: {table.rule}. "
            f"{'; '.join(said)}.",
            "cost_curve",
            found,
        )
    if table.n_classes == 2:
        probas = {name: test.preds.measured(view.proba) for name, view in views.items()}
        curves = plots.net_benefit_data(
            test.preds.labels, probas, level=level, n_boot=n_boot, random_state=settings.seed
        )
        said = []
        for name, row in curves.items():
            useful = row.threshold[row.gain_low > 0]
            ends = " to ".join(f"{100 * t:.0f} %" for t in useful[[0, -1]]) if len(useful) else ""
            where = f"at {len(useful)} of {len(row.threshold)} thresholds, from {ends}"
            said.append(f"{name} {where if ends else 'at none'}")
        yield (
            "net-benefit",
            "Net benefit",
            "What acting from a threshold on is worth: hits less false alarms, these weighed by "
            "the odds of the threshold, as a share of all rows. A model that lies below acting on "
            f"all or on none is of no use at that threshold; {bands}.",
            "Net benefit against the threshold. Above acting on all and on none beyond chance: "
            f"{'; '.join(said)}.",
            "net_benefit",
            curves,
        )
