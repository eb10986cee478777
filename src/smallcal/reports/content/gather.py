"""Everything a report says, as one plain dictionary: the page, Markdown and JSON only show it.

Fractions are fractions (0.03 is 3 %), a value that does not exist is None, and nothing depends on
the time or the machine but the versions. The keys, in order:

``format``, ``version``
    ``"smallcal-report"`` and 1.
``title`` : str
``data`` : ``calibration`` and ``test``, each with ``source``, ``n``, ``n_classes``, ``n_errors``,
    ``accuracy``, ``sha256`` (of the arrays), ``file_sha256`` (or None); ``input`` and
    ``class_names`` (a list or None).
``settings`` : ``methods`` (as asked), ``keep_predictions``, ``n_boot``, ``level``, ``seed``.
``versions`` : of smallcal, python, numpy, scipy, scikit-learn.
``verdict`` : ``recommended`` and ``asked`` (its true name, and the one it was asked for by),
    ``basis`` ("default", fixed before the test samples were seen, or "test", chosen on them),
    ``reason`` (why that one), ``outcome`` ("raw", "better", "tie", "close", "mixed", "worse", or
    without resamples "unknown", against the uncalibrated model), ``headline`` (a sentence or two),
    ``changes`` (a list of ``metric``, ``called``, ``before``, ``after`` and ``difference``, each
    ``value``, ``low``, ``high``, ``verdict``, ``text``), ``threshold`` (``confidence``, ``before``
    and ``after``: ``n``, ``share``, ``n_wrong``, ``error_rate``, ``error_low``, ``error_high`` of
    the test samples above it; ``text``), ``rival`` (None, or ``method``, ``metric``, ``value``,
    ``low``, ``high``, ``text``: what is better than the default on these test samples),
    ``findings`` (a list of ``level`` "fine", "care" or "bad", and ``text``), ``ship`` (None, or
    ``language`` "sh" or "python", and ``text``: lines that put it to work), ``facts`` (sentences
    behind the verdict, and about the other methods).
``promise`` : what thresholds could be promised of the recommended method: ``method``,
    ``confidence``, ``n``, ``flattered`` ("same": calibration and test samples are, "chosen": the
    method was chosen on the test samples, or ""), ``rows``: a list of ``risk``, ``threshold`` (None
    where none qualifies), ``accepted``, ``errors``, ``bound``, ``coverage``, ``low``, ``high``,
    ``best``, ``text``; ``command`` (or None); ``calibrator`` (the file of a
    certified one, or None) and ``checked``, its thresholds on the test samples: a list of
    ``column``, ``promise``, ``risk``, ``confidence``, ``rule``, ``by``, ``same_rows``,
    ``without_group`` and ``rows``: a list of ``name``, ``threshold``, ``n``, ``accepted``,
    ``errors``, ``share``, ``low``, ``high``, ``rate``, ``rate_low``, ``rate_high``, ``verdict``
    ("kept", "above" within chance, "broken" beyond it, or "none" where no sample is accepted).
``methods`` : list of ``name``, ``asked``, ``summary``, ``n_parameters``, ``preserves_argmax``,
    ``deployable``, ``pooled_temperature``, ``accuracy_line`` (how many predictions it changes and
    what that does to accuracy, or ""), ``flags`` (a list of ``name``, ``groups``, ``meaning``).
``failures`` : method to reason.
``metrics`` : ``columns`` (a list of ``name``, ``summary``, ``better`` "lower", "higher" or "zero",
    ``percent``, ``floored``), and ``rows``: a list of ``method``, ``debiased_ece15``, ``points``
    (every metric there is, by name) and ``cells``: column name to ``value`` (of calibration errors
    in bins, without noise), ``plain`` (as measured), ``low``, ``high``, ``note`` (why there is no
    interval, or how else it was found), ``text``, ``interval_text``, and where it is floored
    ``floor`` and ``floor_high``, else None; ``note``: how to read the table.
``differences`` : list of tables, from the uncalibrated model and from ts-nll where it was fitted;
    each with ``baseline``, ``metrics`` (names) and ``rows``: a list of ``method`` and ``metrics``:
    name to ``value``, ``plain``, ``low``, ``high``, ``note``, ``win_rate`` and ``verdict``
    ("better", "worse" or "tie"; without resamples nothing, and no ends of intervals).
``figures`` : list of ``id``, ``title``, ``caption``, ``alt``, ``plot`` (a name in
    ``smallcal.plots``) and ``data`` (what its ``_data`` twin gave, as mappings and lists).
``explained`` : the recommended method: ``method``, ``words`` (what it does to logits),
    ``n_parameters``, ``temperature`` (of all samples, or None), ``accuracy_line``, ``score`` (what
    scores were taken for: ``kind``, ``mean``, ``scale``, ``low``, ``high``; None of logits);
    ``weights_of``, ``weights`` and ``class_effects`` as below.
``routing`` : list, for methods with more than one temperature: ``method``, ``signal``, ``map``,
    ``banded_by`` ("score", or "temperature" for thirds), ``bands`` (a list of ``group``, ``from``,
    ``to``, ``temperature``, ``calibration_share``, ``test_share``), ``pooled_temperature``,
    ``test_temperature`` (quantile to temperature), ``weights_of``,
    ``weights`` (a list of ``statistic``, ``weight``, ``share``, and ``factor`` on the temperature
    or None), ``intercept``, ``class_effects`` (None, or ``n``, ``sd``, ``low``, ``high``,
    ``strongest``: a list of ``class``, ``column``, ``factor``).
``classes`` : ``method`` and ``rows``, smallest p-values first: ``group`` (the class's name),
    ``column``, ``n`` (predicted so), ``n_true``, ``n_correct``, ``accuracy``, ``confidence``,
    ``gap``, ``low``, ``high``, ``p_value``, ``off`` (beyond chance, by Holm), and the same of the
    uncalibrated model: ``raw_gap``, ``raw_low``, ``raw_high``, ``raw_p_value``, ``raw_off``.
``groups`` : ``method``; ``tables``, each ``by`` and ``rows`` as those of classes but with
    ``ece15``, ``ece15_low``, ``ece15_high``, ``ece15_note``, ``ece15_differs`` in place of the
    columns; ``worst``: rows of both kinds that are off beyond chance, with ``by``.
``costs`` : None, or where costs were named: ``method``, ``given``, ``text`` and ``notes`` (the
    costs in words), ``by_costs`` (what the best decisions amount to), ``axis`` and ``threshold``
    (None where there is none), ``digits`` (of costs), ``promised`` (mean expected cost),
    ``reviewed`` (share of rows, or None), ``headline``, and ``rows``: ``rule``, ``label``,
    ``cost`` (``value``, ``plain``, ``low``, ``high``, ``note``) and ``saved`` (the same
    and ``verdict``: what the best decisions save against the rule, paired by sample; None of
    themselves).
``shift`` : None, or a list: ``kind``, ``severity``, ``source``, ``n``, ..., ``accuracy``,
    ``values`` (method to metric to ``value``, ``low``, ``high``), ``differences`` (metric to
    ``value``, ``low``, ``high``, ``verdict``: chosen minus raw), ``occupancy`` and
    ``calibration_occupancy`` (shares in each group), ``moved`` (total variation between them).
``reproduce`` : ``command`` (or None) and ``python``.
``artefacts`` : list of ``method``, ``file_name`` and ``document`` (what ``smallcal fit`` writes).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

from smallcal._version import versions
from smallcal.data.plain import plain
from smallcal.io.progress import Advance
from smallcal.io.threads import one_core_each
from smallcal.reports.content.costs import cost_content, cost_figures
from smallcal.reports.content.facts import facts
from smallcal.reports.content.figures import figure_specs
from smallcal.reports.content.groups import gap_tables
from smallcal.reports.content.measure import Fit, measure, result_tables
from smallcal.reports.content.promise import Certified, promised
from smallcal.reports.content.routing import bands_of, explained, routing
from smallcal.reports.content.shift import shift_rows
from smallcal.reports.content.ship import ship
from smallcal.reports.content.verdict import verdict
from smallcal.reports.samples import Samples
from smallcal.reports.settings import RAW, Settings

#: Letters of costs that are written out in Python.
_MOST_CODE = 200

FORMAT = "smallcal-report"
VERSION = 1


@one_core_each()  # also for the same digits on every machine
def gather(
    calibration: Samples,
    test: Samples,
    settings: Settings,
    *,
    shift: Mapping[tuple[str, str], Samples] | None = None,
    certified: Certified | None = None,
    advance: Advance = lambda steps: None,
    begin: Callable[[dict[str, Any]], object] = lambda figure: None,
) -> dict[str, Any]:
    """Fit, measure, and return everything the report says, ready for JSON.

    The samples must have been checked against each other: see :func:`smallcal.report`. ``begin``
    is told each figure as soon as it is there.
    """
    head, reproduce = _asked(calibration, test, settings, certified)
    columns = [str(column) for column in range(test.preds.n_classes)]
    class_names = head["data"]["class_names"] or columns
    many = settings.many
    # Numbers first, then the words that rest on them, then what lies behind them.
    measured = measure(
        settings.names,
        calibration,
        test,
        bootstrap=settings.bootstrap,
        keep_predictions=settings.keep_predictions,
        advance=advance,
    )
    tables = result_tables(measured)
    judged = verdict(measured, head["data"])
    fits, chosen = measured.fits, judged["recommended"]
    bands = bands_of(fits.values(), calibration, test)
    own = bands.get(chosen)
    shifted = []
    if shift:
        shown = own.shown if own else None
        pair = [fits[RAW], fits[chosen]]
        shifted = shift_rows(shift, pair, calibration, shown=shown, bootstrap=many, advance=advance)
    figures = []
    for figure in chain(
        figure_specs(measured, chosen, test, shifted=shifted, bootstrap=many),
        cost_figures(measured, chosen, test, settings),
    ):
        begin(figure)
        figures.append(figure)
    anatomy = [routing(name, entry, test, class_names) for name, entry in bands.items()]
    gaps = gap_tables(
        measured, chosen, class_names=class_names, bands=own, test=test.preds, bootstrap=many
    )
    judged["ship"] = None
    if judged["outcome"] not in ("raw", "worse"):
        judged["ship"] = ship(fits[chosen], calibration, test, settings)
    judged["facts"] = facts(measured, chosen)
    promise = promised(
        fits[chosen],
        calibration,
        test,
        settings,
        chosen_on_test=judged["basis"] == "test",
        certified=certified,
    )
    document = {
        **head,
        "verdict": judged,
        "promise": promise,
        **tables,
        "figures": figures,
        "explained": explained(fits[chosen], calibration, class_names),
        "routing": anatomy,
        **gaps,
        "costs": cost_content(measured, chosen, test, settings),
        "shift": shifted or None,
        "reproduce": reproduce,
        "artefacts": [
            {
                "method": name,
                "file_name": re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") + ".json",
                "document": _saved(fit, calibration),
            }
            for name, fit in fits.items()
            if fit.deployable
        ],
    }
    found: dict[str, Any] = plain(document)
    return found


def _saved(fit: Fit, calibration: Samples) -> dict[str, Any]:
    """Return what is saved of a fit, which takes the kind of numbers that the user has."""
    return replace(
        fit.fitted,
        input=calibration.input,
        class_names=calibration.class_names,
        score=calibration.preds.score,
        flags={**calibration.flags, **fit.fitted.flags},
    ).to_dict()


def _checked(certified: Certified | None) -> str:
    """Return the calibrator whose decisions are checked as Python takes it."""
    if certified is None:
        return ""
    return (
        f",\n                   calibrator={repr(certified.source) if certified.source else 'cal'}"
    )


def _costs(settings: Settings) -> str:
    """Return the costs as Python takes them, or their name where they are many numbers."""
    if settings.costs is None:
        return ""
    said = repr(settings.costs)
    return f",\n                   costs={f'sc.{said}' if len(said) <= _MOST_CODE else 'costs'}"


def _asked(
    calibration: Samples, test: Samples, settings: Settings, certified: Certified | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the document begins with, before anything is fitted, and its ``reproduce``."""
    names = ", ".join(repr(name) for name in settings.methods)
    score = calibration.input == "score"
    rows, labels = ("scores", "outcomes") if score else ("logits", "labels")
    kind = ' input="score",' if score else ""
    kept = " keep_predictions=True," if settings.keep_predictions else ""
    python = (
        "import smallcal as sc\n"
        f"report = sc.report((cal_{rows}, cal_{labels}), (test_{rows}, test_{labels}),{kind}\n"
        f"                   methods=[{names}],{kept}\n"
        f"                   n_boot={settings.n_boot}, level={settings.level:g}, "
        f"random_state={settings.seed}{_costs(settings)}{_checked(certified)})\n"
        'report.save("report.html")'
    )
    head = {
        "format": FORMAT,
        "version": VERSION,
        "title": settings.title or f"Calibration of {test.source}",
        "data": {
            "calibration": calibration.facts,
            "test": test.facts,
            "input": test.input,
            "class_names": test.class_names or calibration.class_names,
            "flags": list(calibration.flags),
        },
        "settings": {
            "methods": list(settings.methods),
            "keep_predictions": settings.keep_predictions,
            "n_boot": settings.n_boot,
            "level": settings.level,
            "seed": settings.seed,
        },
        "versions": versions(),
    }
    return head, {"command": settings.command, "python": python}
