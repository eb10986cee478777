"""The record of an audit, with its findings and verdict in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from smallcal.advice.recommend import Recommendation
from smallcal.advice.refits import Band, Spread
from smallcal.advice.signal_to_noise import SignalToNoise
from smallcal.calibrators.discipline import NOTES
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.data.claims import CLAIMS
from smallcal.data.in_notebook import InNotebook
from smallcal.data.plain import plain_fields
from smallcal.data.shown import visible
from smallcal.metrics import METRICS
from smallcal.metrics.units import PERCENT, X100

Level = Literal["fine", "care", "bad"]

#: Refits that must agree before an order is called one.
_AGREEMENT = 0.9

#: Quartiles further apart than this factor, or from here, make a temperature volatile.
_VOLATILE = 1.3

#: With fewer errors than this, or fewer right predictions, the audit says so.
_FEW = 20

#: Rank correlation with refits below which an order of temperatures is noise.
_RANKED = 0.5

#: Groups that are named in a sentence.
_SHOWN_GROUPS = 5
#: A share of samples in a group that moves by more than this is told.
_MOVED = 0.1

#: Standard deviation of a confidence over refits, on average, that is worth a warning.
_WOBBLE = 0.03


@dataclass(frozen=True)
class Finding:
    """A sentence, and how much it matters: "fine", "care" or "bad"."""

    level: Level
    text: str


@dataclass(frozen=True)
class Audit(InNotebook):
    """What an audit found. Shares are fractions of the refits.

    Attributes
    ----------
    method : str
        The true name of what was audited.
    n, n_errors, n_classes, n_parameters : int
        Errors are wrong predictions; of scores, outcomes 0.
    resampling : str
        How samples were drawn for refits, in words.
    n_refits, n_failed : int
        Refits that were made, and those among them that could not be fitted.
    pooled_temperature : Spread
    banded_by : str
        "groups"; "temperature", where bands are thirds of the samples by temperature; or "" where
        there is no temperature.
    bands : tuple of Band
    thresholds : tuple of Spread
        Scores at which groups begin.
    quantiles : dict of str to Spread
        Quantiles over samples of a temperature that is not constant in groups.
    occupancy : dict of str to tuple of float
        Share of samples in each band, for each other file.
    flags : dict of str to float
        Share of refits that raised each flag.
    shares : dict of str to float
        ``saturated``: a temperature at a bound; ``risk_ordered``: error rates in order from band
        to band; ``rising``, ``falling``: temperatures strictly so from group to group;
        ``same_order``: groups ranked by temperature as in the audited calibrator; ``beats_raw``:
        lower top-label log-loss than the uncalibrated model on the samples left out.
    rank_correlation : Spread or None
        Of a regressed temperature with the audited one, over the same samples.
    confidence_sd : dict of str to float
        ``mean`` and ``p95`` over samples of the standard deviation of the calibrated confidence
        over refits.
    held_out : dict of str to Spread
        Metrics on the samples that a resample left out; ``raw_...`` is the uncalibrated model's
        on the same ones. ``point`` is measured on all samples, those fitted on included.
        ``ece15_floor`` is the ECE that a perfectly calibrated model would show on so many samples.
    signals : SignalToNoise or None
    groups : tuple of dict
        For each group that was named: the fields of ``smallcal.statistics.gaps.Gap`` out of
        fold, ``off`` and ``raw_off`` (beyond chance, by Holm), and its ``effect``.
    recommendation : Recommendation or None
        What to use for these samples, whatever was audited.
    findings : tuple of Finding
    verdict : str
    input : {"logits", "score"}
        What rows hold.
    """

    method: str
    n: int
    n_errors: int
    n_classes: int
    n_parameters: int
    resampling: str
    n_refits: int
    n_failed: int
    pooled_temperature: Spread
    banded_by: str
    bands: tuple[Band, ...]
    thresholds: tuple[Spread, ...]
    quantiles: dict[str, Spread]
    occupancy: dict[str, tuple[float, ...]]
    flags: dict[str, float]
    shares: dict[str, float]
    rank_correlation: Spread | None
    confidence_sd: dict[str, float]
    held_out: dict[str, Spread]
    signals: SignalToNoise | None
    groups: tuple[dict[str, Any], ...] = ()
    recommendation: Recommendation | None = None
    findings: tuple[Finding, ...] = ()
    verdict: str = ""
    input: str = "logits"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        return plain_fields(self)


def findings_of(
    audit: Audit, fitted: FittedCalibrator, *, foreign: bool = False
) -> tuple[Finding, ...]:
    """Return what an audit amounts to, a sentence each."""
    found = [*_errors(audit), *_flags(audit, fitted)]
    for part in (_refits, _order, _volatility, _held_out, _occupancy, _groups):
        found += part(audit)
    if foreign:
        text = "This calibrator was fitted on other samples; refits use the ones given here."
        found.insert(0, Finding("care", text))
    if audit.signals is not None:
        found.append(Finding("fine", audit.signals.verdict()))
    return tuple(found)


def verdict_of(findings: Sequence[Finding]) -> str:
    """Return all findings in one line.

    Examples
    --------
    >>> verdict_of([Finding("fine", "Refits agree."), Finding("care", "Few errors.")])
    'Usable with care: one finding asks for it.'
    """
    bad = [finding for finding in findings if finding.level == "bad"]
    care = [finding for finding in findings if finding.level == "care"]
    if bad:
        return f"Do not rely on it: {bad[0].text[:1].lower()}{bad[0].text[1:]}"
    if care:
        asks = "one finding asks" if len(care) == 1 else f"{len(care)} findings ask"
        return f"Usable with care: {asks} for it."
    return "Sound: refits agree, and the evidence is sufficient."


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _errors(audit: Audit) -> Iterator[Finding]:
    """Yield whether there are errors, and right predictions, to learn from."""
    rarer, claim = min(audit.n_errors, audit.n - audit.n_errors), CLAIMS[audit.input]
    kind = claim.wrong if rarer == audit.n_errors else claim.right
    if not rarer:
        text = f"No {claim.row} is {kind}: these samples cannot determine the confidence."
        yield Finding("bad", text)
    elif rarer < _FEW:
        yield Finding(
            "care",
            f"Only {rarer} of {audit.n:,} {claim.rows} are {kind}: all results depend on them.",
        )


def _flags(audit: Audit, fitted: FittedCalibrator) -> Iterator[Finding]:
    """Yield what the audited fit itself was flagged for."""
    for name, groups in fitted.flags.items():
        if name != "unidentified":
            where = f" (group {', '.join(map(str, groups))})" if groups else ""
            level: Level = "fine" if name in NOTES else "care"
            yield Finding(level, f"Flag {name}{where}: {fitted.flag_text(name)}.")
        elif len(audit.bands) > 1:  # of all samples it is said already
            for group in groups:
                what = "no errors" if not audit.bands[group].errors else "nothing but errors"
                text = f"Group {group} has {what}: its temperature is not identified by the data."
                yield Finding("care", text)


def _refits(audit: Audit) -> Iterator[Finding]:
    """Yield what went wrong in refits."""
    if audit.n_failed:
        level: Level = "bad" if audit.n_failed > audit.n_refits / 2 else "care"
        yield Finding(level, f"{audit.n_failed} of {audit.n_refits} refits could not be fitted.")
    claim = CLAIMS[audit.input]
    told = {
        "unidentified": f"a group held only {claim.right} or only {claim.wrong} {claim.rows}",
        "fallback": "a group was too small for a separate temperature",
        "no_router": "there were too few errors to fit a risk model",
        "scalar_fallback": "the map fell back to one temperature",
    }
    for name, what in told.items():
        if audit.flags.get(name):
            yield Finding("care", f"In {_percent(audit.flags[name])} of refits {what}.")
    if audit.shares.get("saturated"):
        share = _percent(audit.shares["saturated"])
        yield Finding("care", f"In {share} of refits a temperature lay at a bound of its range.")


def _order(audit: Audit) -> Iterator[Finding]:
    """Yield whether bands differ in the way they are meant to."""
    share = audit.shares.get("risk_ordered")
    if share is not None and audit.banded_by == "groups":  # temperatures need not follow risk
        less = "they hardly separate low-risk from high-risk predictions"
        yield _agreement("Error rates of the groups are in order", share, less)
    share = audit.shares.get("same_order")
    if share is not None and len({band.temperature.point for band in audit.bands}) > 1:
        less = "treat differences between groups as noise"
        yield _agreement("The order of temperatures held", share, less)
    rank = audit.rank_correlation
    if rank is not None:
        agreed = rank.low >= _RANKED
        text = (
            f"Which samples get the higher temperatures is "
            f"{'much the same' if agreed else 'mostly noise'} from refit to refit: rank "
            f"correlation {rank.median:.2f}, a quarter of them below {rank.low:.2f}."
        )
        yield Finding("fine" if agreed else "care", text)


def _agreement(text: str, share: float, less: str) -> Finding:
    told = f"{text} in {_percent(share)} of refits"
    agreed = share >= _AGREEMENT
    return Finding("fine", f"{told}.") if agreed else Finding("care", f"{told}: {less}.")


def _volatile(t: Spread) -> bool:
    elsewhere = t.point > _VOLATILE * t.high or t.low > _VOLATILE * t.point
    return t.high > _VOLATILE * t.low or elsewhere


def _volatility(audit: Audit) -> Iterator[Finding]:
    """Yield which temperatures and confidences move too much to be believed."""
    name = "group" if audit.banded_by == "groups" else "third"
    moving = [
        f"{f'of {name} {i} ' if len(audit.bands) > 1 else ''}outside "
        f"{band.temperature.low:.2f} to {band.temperature.high:.2f} (here "
        f"{band.temperature.point:.2f})"
        for i, band in enumerate(audit.bands)
        if _volatile(band.temperature)
    ]
    if moving:
        text = f"Volatile: half of the refits put the temperature {', '.join(moving)}."
        yield Finding("care", text)
    mean, high = audit.confidence_sd["mean"], audit.confidence_sd["p95"]
    text = (
        f"Refitting moves a sample's {CLAIMS[audit.input].confidence} by {PERCENT.size(mean)} "
        f"(standard deviation, mean over samples), and by more than "
        f"{PERCENT.size(high)} for one in twenty."
    )
    yield Finding("care" if mean > _WOBBLE else "fine", text)


def _held_out(audit: Audit) -> Iterator[Finding]:
    """Yield whether samples that a refit did not see were better off."""
    share = audit.shares.get("beats_raw")
    if share is None or not audit.n_parameters:
        return
    own, raw = (audit.held_out[key].mean for key in ("top_label_bce", "raw_top_label_bce"))
    claim = CLAIMS[audit.input]
    loss = METRICS[claim.loss].title
    text = (
        f"On held-out samples, {loss} was below {claim.raw}'s in {_percent(share)} of refits "
        f"({X100.number(own)} against {X100.value(raw)} on average)"
    )
    if 1 - share >= _AGREEMENT:
        yield Finding("bad", f"{text}: calibration does harm.")
    elif share < 0.5:
        yield Finding("care", f"{text}: {claim.raw} is as good.")
    else:
        yield Finding("fine" if share >= _AGREEMENT else "care", f"{text}.")


def _occupancy(audit: Audit) -> Iterator[Finding]:
    """Yield where other samples fall into other groups than these."""
    name = "group" if audit.banded_by == "groups" else "third"
    for source, shares in audit.occupancy.items():
        if len(shares) < 2:
            continue
        here = [band.share for band in audit.bands]
        moved = max(range(len(shares)), key=lambda i: shares[i] - here[i])
        far = shares[moved] - here[moved] > _MOVED
        text = f"{source}: {_percent(shares[moved])} of samples fall into {name} {moved}"
        more = f", against {_percent(here[moved])} here"
        yield Finding("care" if far else "fine", f"{text}{more}.")


def _groups(audit: Audit) -> Iterator[Finding]:
    """Yield in how many named groups confidence is off, before and after."""
    if not audit.groups:
        return
    n = len(audit.groups)
    before, off = ([row["group"] for row in audit.groups if row[key]] for key in ("raw_off", "off"))
    said = f"beyond chance in {len(before):,} of {n:,} groups before, in {len(off):,} after"
    named = f": {', '.join(visible(name) for name in off[:_SHOWN_GROUPS])}" if off else ""
    more = ", ..." if len(off) > _SHOWN_GROUPS else ""
    yield Finding("care" if off else "fine", f"Confidence is miscalibrated {said}{named}{more}.")
