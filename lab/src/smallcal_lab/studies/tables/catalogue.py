"""Every table by name: ``TABLES`` is the only registry; a study names those it wants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from smallcal_lab.studies.frame import CLEAN, Frame, as_shown
from smallcal_lab.studies.predictions import SHIFTED, Shelf
from smallcal_lab.studies.study import Study
from smallcal_lab.studies.tables import choices, clean, groups, samples, shift
from smallcal_lab.studies.tables.table import Table

Maker = Callable[[Study, Frame], Table]
PredictedMaker = Callable[[Study, Frame, Shelf], Table]

TABLES: Mapping[str, Maker] = MappingProxyType(
    {
        "means": clean.means,
        "differences": clean.differences,
        "wins": clean.wins,
        "seeds": clean.seeds,
        "draws": clean.draws,
        "clusters": clean.clusters,
        "shift-means": shift.shift_means,
        "severity": shift.by_severity,
        "tiers": shift.three_tiers,
        "occupancy": shift.occupancy,
        "controls": shift.controls,
        "heterogeneity": shift.heterogeneity,
        "selector": choices.selector,
        "regret": choices.regret,
        "nested-k": choices.nested_k,
        "oracle-k": choices.oracle_k,
        "audit": groups.audit,
        "signal-to-noise": choices.signal_to_noise,
        "temperatures": groups.temperatures,
        "group-gaps": groups.group_gaps,
        "flow": groups.flow,
        "within-margin": groups.within_margin,
        "ranking": groups.ranking,
        "score-scale": groups.score_scale,
        "costs": groups.costs,
        "on-off": choices.on_off,
        "gate": choices.gate,
        "scope-map": choices.scope_map,
        "regimes": choices.regimes,
        "sets": shift.sets,
        "harm": shift.harm,
    }
)

#: Tables that are made of predictions: the sets that they are about, and how they are made.
PREDICTED: Mapping[str, tuple[str, PredictedMaker]] = MappingProxyType(
    {
        "seed-samples": (CLEAN, samples.seed_samples),
        "samples": (CLEAN, samples.samples),
        "image-samples": (SHIFTED, samples.image_samples),
    }
)


def kept_sets(study: Study) -> frozenset[str]:
    """Return the sets whose predictions a study keeps: its tables need them, or it is set."""
    kept = frozenset(PREDICTED[name][0] for name in study.tables if name in PREDICTED)
    if kept:
        samples.require_metrics(study)
    return kept | frozenset(study.settings.get("kept", ()))


def tables_of(study: Study, frame: Frame, shelf: Shelf | None = None) -> tuple[Table, ...]:
    """Make the tables that a study asks for; those of predictions only where these were kept."""
    shown = as_shown(frame, study.budgets)
    made = []
    for name in study.tables:
        if name in TABLES:
            made.append(TABLES[name](study, shown))
        elif shelf is not None:
            made.append(PREDICTED[name][1](study, shown, shelf))
    # A study that does not need shifted sets has no tables of them where there are none.
    return tuple(table for table in made if table.rows) or tuple(made[:1])
