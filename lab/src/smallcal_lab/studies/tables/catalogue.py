"""Every table by name: ``TABLES`` is the only registry; a study names those it wants."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from smallcal_lab.studies.frame import CLEAN, Frame, as_shown
from smallcal_lab.studies.predictions import SHIFTED, Shelf
from smallcal_lab.studies.study import Study
from smallcal_lab.studies.tables import choices, clean, groups, samples, shift
from smallcal_lab.studies.tables.table import Table

#: Where tables are made, by functions of their names.
_PLACES = (
    (clean, "means differences wins seeds draws clusters"),
    (shift, "shift-means severity tiers occupancy controls heterogeneity sets harm"),
    (groups, "temperatures group-gaps flow within-margin ranking score-scale audit costs"),
    (choices, "selector regret nested-k oracle-k signal-to-noise on-off gate scope-map regimes"),
)

TABLES: Mapping[str, Callable[[Study, Frame], Table]] = {
    name: getattr(module, name.replace("-", "_"))
    for module, names in _PLACES
    for name in names.split()
}

#: Tables that are made of predictions: the sets that they are about, and how they are made.
PREDICTED: Mapping[str, tuple[str, Callable[[Study, Frame, Shelf], Table]]] = {
    "seed-samples": (CLEAN, samples.seed_samples),
    "samples": (CLEAN, samples.samples),
    "image-samples": (SHIFTED, samples.image_samples),
}


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
