"""Every table by name: ``TABLES`` is the only registry; a study names those it wants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from smallcal.studies.frame import Frame
from smallcal.studies.study import Study
from smallcal.studies.tables.clean import differences, means, seeds, wins
from smallcal.studies.tables.diagnostics import audit, nested_k, oracle_k, selector, signal_to_noise
from smallcal.studies.tables.shift import (
    by_severity,
    controls,
    heterogeneity,
    occupancy,
    shift_means,
    three_tiers,
)
from smallcal.studies.tables.table import Table

Maker = Callable[[Study, Frame], Table]
TABLES: Mapping[str, Maker] = MappingProxyType(
    {
        "means": means,
        "differences": differences,
        "wins": wins,
        "seeds": seeds,
        "shift-means": shift_means,
        "severity": by_severity,
        "tiers": three_tiers,
        "occupancy": occupancy,
        "controls": controls,
        "heterogeneity": heterogeneity,
        "selector": selector,
        "nested-k": nested_k,
        "oracle-k": oracle_k,
        "audit": audit,
        "signal-to-noise": signal_to_noise,
    }
)


def tables_of(study: Study, frame: Frame) -> tuple[Table, ...]:
    """Make the tables that a study asks for."""
    made = [TABLES[name](study, frame) for name in study.tables]
    # A study that does not need shifted sets has no tables of them where there are none.
    return tuple(table for table in made if table.rows) or tuple(made[:1])
