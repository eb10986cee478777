"""Every table by name: ``TABLES`` is the only registry; a study names those it wants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from smallcal.studies.frame import Frame, as_shown
from smallcal.studies.study import Study
from smallcal.studies.tables import clean, diagnostics, heterogeneity, shift
from smallcal.studies.tables.table import Table

Maker = Callable[[Study, Frame], Table]
TABLES: Mapping[str, Maker] = MappingProxyType(
    {
        "means": clean.means,
        "differences": clean.differences,
        "wins": clean.wins,
        "seeds": clean.seeds,
        "shift-means": shift.shift_means,
        "severity": shift.by_severity,
        "tiers": shift.three_tiers,
        "occupancy": shift.occupancy,
        "controls": shift.controls,
        "heterogeneity": heterogeneity.heterogeneity,
        "selector": diagnostics.selector,
        "nested-k": diagnostics.nested_k,
        "oracle-k": diagnostics.oracle_k,
        "audit": diagnostics.audit,
        "signal-to-noise": diagnostics.signal_to_noise,
    }
)


def tables_of(study: Study, frame: Frame) -> tuple[Table, ...]:
    """Make the tables that a study asks for."""
    shown = as_shown(frame, study.budgets)
    made = [TABLES[name](study, shown) for name in study.tables]
    # A study that does not need shifted sets has no tables of them where there are none.
    return tuple(table for table in made if table.rows) or tuple(made[:1])
