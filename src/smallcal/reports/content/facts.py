"""What else was found, as plain sentences: behind the verdict, and about the other methods."""

from __future__ import annotations

from collections.abc import Iterator

from smallcal.data.claims import Claim
from smallcal.metrics import METRICS
from smallcal.metrics.units import PERCENT
from smallcal.reports.content.measure import CLASSIC, Measured
from smallcal.reports.content.verdict import beyond_chance, changed
from smallcal.reports.content.words import changes, listed, with_interval
from smallcal.reports.settings import RAW


def facts(measured: Measured, chosen: str) -> list[str]:
    """Return every sentence, those about the chosen method first."""
    boot = measured.result.n_boot
    return [
        *(_noise(measured, chosen) if boot else []),
        *(_against(measured, chosen) if boot else []),
        *(_others(measured, chosen) if boot else []),
        *_fits(measured, chosen),
        _intervals(measured),
    ]


def _noise(measured: Measured, chosen: str) -> Iterator[str]:
    """Yield the calibration errors beside what noise alone would show."""
    gap, claim = measured.value(RAW, "confidence_gap"), measured.claim
    told = with_interval("confidence_gap", gap, signed=True)
    its = "its accuracy" if measured.kind == "logits" else f"the {claim.accuracy}"
    yield f"Mean {claim.confidence} of {claim.raw} minus {its}: {told}."
    for name in dict.fromkeys([RAW, chosen]):
        floor, value = measured.floors[name]["ece15"], measured.value(name, "ece15")
        said = "more than noise" if value.plain > floor.high else "no more than noise"
        yield (
            f"The ECE of {_called(name, claim)}, {with_interval('ece15', value)}, is {said}: a "
            f"perfectly calibrated model with these {claim.confidences} would show "
            f"{PERCENT.value(floor.mean)} on average and stay below {PERCENT.value(floor.high)} in "
            f"{100 * floor.level:g} of 100 test sets."
        )


def _called(name: str, claim: Claim) -> str:
    return claim.raw if name == RAW else name


def _against(measured: Measured, chosen: str) -> Iterator[str]:
    """Yield what the chosen method changes, against the uncalibrated model and the classic."""
    if chosen == RAW:
        return
    yield _compared(measured, chosen, RAW, measured.claim.raw)
    if CLASSIC in measured.fits and chosen != CLASSIC:
        yield _compared(measured, chosen, CLASSIC, f"temperature scaling ({CLASSIC})")


def _compared(measured: Measured, method: str, baseline: str, called: str) -> str:
    """Return what differs from another method: changes first, ties after."""
    rows = {metric: measured.difference(method, baseline, metric) for metric in measured.told}
    parts = []
    for word, said in (("better", "better"), ("worse", "worse"), ("tie", "tied within chance")):
        named = {metric: row for metric, row in rows.items() if row.verdict == word}
        if named:
            parts.append(f"{said} in {changes(named)}")
    return f"Against {called}, {method} is {'; '.join(parts)}."


def _others(measured: Measured, chosen: str) -> Iterator[str]:
    """Yield how the other methods differ, from the chosen one and from the uncalibrated model."""
    names = [name for name in measured.fits if name not in (chosen, RAW)]
    rows = {(n, m): measured.difference(n, chosen, m) for n in names for m in measured.told}
    found, claim = beyond_chance(rows, measured.result.level), measured.claim
    better = [
        f"{name} in {METRICS[metric].title} ({with_interval(metric, row.row, signed=True)})"
        for (name, metric), row in found.items()
        if row.verdict == "better"
    ]
    if better:
        yield f"Better than {_called(chosen, claim)} on these test samples: {listed(better)}."
    elif names:
        yield (
            f"No other method here is better than {_called(chosen, claim)} in "
            f"{listed(list(measured.told))} after Holm's correction for the {len(rows)} "
            "comparisons."
        )
    for name in names:
        own = {m: measured.difference(name, RAW, m) for m in measured.compared}
        told = beyond_chance(own, measured.result.level)
        worse = {m: row for m, row in told.items() if row.verdict == "worse"}
        if worse:
            yield f"{name} is worse than {claim.raw} in {changes(worse)}."


def _fits(measured: Measured, chosen: str) -> Iterator[str]:
    """Yield what the fits of the other methods say of themselves."""
    for name, fit in measured.fits.items():
        if name == chosen:
            continue
        for flag, where in fit.fitted.flags.items():
            groups = f" (group {', '.join(map(str, where))})" if where else ""
            yield f"{name}{groups}, {flag}: {fit.fitted.flag_text(flag)}."
        if measured.kind == "logits" and not fit.fitted.preserves_argmax:
            count = changed(measured, fit)
            yield f"{name} may change the predicted class: it did for {count:,} test samples."
    for name, reason in measured.failures.items():
        yield f"{name} could not be fitted: {reason}"


def _intervals(measured: Measured) -> str:
    if not measured.result.n_boot:
        return "Nothing was resampled (n_boot 0): values have no intervals and no noise floors."
    count = (len(measured.fits) - 1) * len(measured.compared)
    share = 100 * (1 - measured.result.level)
    return (
        "Intervals resample the test samples with the fits kept as they are. Each of the "
        f"{count} differences from {measured.claim.raw} in the tables has its own "
        f"{100 * measured.result.level:g} % interval: about {share:g} in 100 would miss zero by "
        "chance alone. What the verdict calls better, worse or beyond chance is so after Holm's "
        "correction for the comparisons it makes."
    )
