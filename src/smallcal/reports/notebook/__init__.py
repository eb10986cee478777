"""What notebooks show of estimators and results: small tables, and pictures of what was found.

Each kind of result has a function here that turns it into parts of a page; :func:`view` finds the
function, and puts the parts into a box that follows the notebook's colours. Nothing is fitted or
measured again, nothing comes from a network, and there is no script. Without matplotlib there are
the tables alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

from smallcal.reports.notebook.markup import Safe, box

#: The class of a result, and the function that shows it: names alone, for a calibrator in a
#: service must not load the studies' statistics.
VIEWS: Mapping[str, str] = MappingProxyType(
    {
        "smallcal.calibrators.fitted.FittedCalibrator": "calibrators.fitted_view",
        "smallcal.calibrators.base.BaseCalibrator": "calibrators.estimator_view",
        "smallcal.deploy.adapters.sklearn.CalibratedModel": "calibrators.model_view",
        "smallcal.statistics.evaluation.Evaluation": "measured.evaluation_view",
        "smallcal.statistics.compare.Comparison": "measured.comparison_view",
        "smallcal.advice.plan_words.Plan": "advised.plan_view",
        "smallcal.advice.select.Selection": "advised.selection_view",
        "smallcal.advice.audit_findings.Audit": "audited.audit_view",
        "smallcal.advice.certify_words.Certification": "certified.certification_view",
        "smallcal.deploy.monitor.monitor.Monitor": "watched.monitor_view",
        "smallcal.deploy.monitor.report.Report": "watched.report_view",
        "smallcal.reports.document.Report": "reported.report_view",
    }
)


def view(result: object) -> str | None:
    """Return what a notebook shows of a result; None where nothing says how.

    Examples
    --------
    >>> import smallcal as sc
    >>> val = sc.load_demo("cal")
    >>> shown = view(sc.TemperatureScaling().fit(val.logits, val.labels))
    >>> shown.startswith('<div class="smallcal-nb">'), "<script" in shown
    (True, False)
    """
    for kind in type(result).__mro__:
        place = VIEWS.get(f"{kind.__module__}.{kind.__qualname__}")
        if place is not None:
            module, _, name = place.partition(".")
            shows: Callable[[Any], Iterable[Safe] | None]
            shows = getattr(import_module(f"{__name__}.{module}"), name)
            parts = shows(result)
            return None if parts is None else box(parts)
    return None
