"""The report: made from samples, kept as a dictionary, written as a page, Markdown or JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smallcal.advice.costs import Costs
from smallcal.calibrators.catalogue import seed_of
from smallcal.calibrators.fitted import FittedCalibrator, load
from smallcal.calibrators.holder import fitted_of
from smallcal.data.in_notebook import InNotebook
from smallcal.data.shown import in_json
from smallcal.errors import InputError
from smallcal.io.atomic import atomic_path, is_special
from smallcal.reports import conditions
from smallcal.reports.content.costs import priced
from smallcal.reports.content.gather import gather
from smallcal.reports.content.promise import Certified
from smallcal.reports.render import html, markdown
from smallcal.reports.render.blocks import Figure
from smallcal.reports.render.drawer import Drawer
from smallcal.reports.render.svg import drawn
from smallcal.reports.samples import Samples, require_pair, require_same_model, samples_of
from smallcal.reports.settings import DEFAULT_BOOT, Settings, usual_methods

if TYPE_CHECKING:
    from smallcal.calibrators.base import BaseCalibrator

#: What a file's suffix means.
FORMATS = {".html": "html", ".htm": "html", ".md": "md", ".json": "json"}


@dataclass(frozen=True, eq=False)
class Report(InNotebook):
    """What was measured, on what, and what it means.

    Attributes
    ----------
    content : dict
        Everything the report says; ``smallcal.reports.content.gather`` lists the keys.
    draw : callable
        Gives a figure of the page as SVG.
    saved : list of str
        Where it was written so far, in order.
    """

    content: Mapping[str, Any]
    draw: Callable[[Figure], str] = drawn
    saved: list[str] = field(default_factory=list, init=False, repr=False)

    @property
    def recommended(self) -> str:
        """The true name of the method to use; ``none`` is the uncalibrated model."""
        name: str = self.content["verdict"]["recommended"]
        return name

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        return dict(self.content)

    def to_json(self) -> str:
        """Return the report as JSON."""
        text = json.dumps(self.content, indent=2, ensure_ascii=False, allow_nan=False)
        return in_json(text) + "\n"

    def to_markdown(self) -> str:
        """Return the report as Markdown."""
        return markdown.render(self.content)

    def to_html(self) -> str:
        """Return the report as one page that needs nothing else; asks for the extra ``report``."""
        return html.render(self.content, self.draw)

    def text(self, format: str) -> str:
        """Return the report as "html", "md" or "json"."""
        writers = {"html": self.to_html, "md": self.to_markdown, "json": self.to_json}
        if format not in writers:
            raise InputError(
                f"format must be one of {', '.join(writers)}; got {format!r}", code="unknown-choice"
            )
        return writers[format]()

    def save(self, path: str | os.PathLike[str], *, format: str | None = None) -> None:
        """Write the report, whole or not at all; the suffix says as what."""
        text = self.text(format_of(path) if format is None else format)
        with atomic_path(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
        self.saved.append(os.fspath(path))

    def check(self, condition: str) -> dict[str, Any]:
        """Return whether a condition that must not hold does, and why.

        Parameters
        ----------
        condition : str
            Such as ``ece15>0.03``, of the recommended method, or ``ts-nll:ece15>3%``.

        Returns
        -------
        dict
            ``condition``, ``method``, ``metric``, ``value``, ``failed`` and ``reason``.
        """
        return conditions.check(condition, self.content)


def format_of(path: str | os.PathLike[str]) -> str:
    """Return what a file's suffix asks for.

    Examples
    --------
    >>> format_of("report.md")
    'md'
    """
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS and is_special(path):  # as on a terminal
        return "md"
    if suffix not in FORMATS:
        raise InputError(
            f"cannot tell what to write as {path}: end the name in {', '.join(FORMATS)}",
            code="file-type",
        )
    return FORMATS[suffix]


def report(
    calibration: object,
    test: object,
    *,
    methods: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
    shift: Mapping[Any, object] | None = None,
    calibrator: BaseCalibrator | FittedCalibrator | str | os.PathLike[str] | None = None,
    n_boot: int = DEFAULT_BOOT,
    level: float = 0.95,
    input: str | None = None,
    random_state: int = 0,
    costs: Costs | None = None,
    keep_predictions: bool = False,
    title: str | None = None,
    command: str | None = None,
    verb_options: Mapping[str, Sequence[str]] | None = None,
    advance: Callable[[int], object] = lambda steps: None,
    drawer: Drawer | None = None,
) -> Report:
    """Fit several methods, measure them, and say in words which one to use and why.

    Parameters
    ----------
    calibration, test : pair of arrays, Predictions or path
        Logits and labels to fit on, and to measure on; or scores and outcomes.
    methods : sequence of str
        Names in :func:`smallcal.methods`; the uncalibrated model is always among them. By default
        ``DEFAULT_METHODS``, of scores the maps of one number.
    class_names : sequence of str, optional
    shift : mapping of (kind, severity) to samples, optional
        Test samples of the same model under other conditions.
    calibrator : fitted estimator, FittedCalibrator or path, optional
        One with a certified threshold, which is checked on the test samples; without, the report
        says what thresholds the recommended method could promise.
    n_boot : int
        Resamples of the test samples, at least 100; 0 leaves intervals, noise floors and every
        "beyond chance" out.
    level : float
        Of all intervals.
    input : {"logits", "probabilities", "score"}, optional
        What the numbers are; what a file's own names say, else logits.
    random_state : int
    costs : Costs, optional
        What decisions cost: a section says what the best ones cost on the test samples.
    keep_predictions : bool
        If True, methods that may change predictions keep the model's; see
        :class:`smallcal.Calibrator`.
    title : str, optional
    command : str, optional
        The command that makes this report again, to be shown in it.
    verb_options : mapping of str to sequence of str, optional
        Options of ``smallcal fit`` and ``smallcal apply``, by verb, that read the same files as
        they were read here; shown in the lines that put the recommended method to work.
    advance : callable, optional
        Told how many steps were done.
    drawer : Drawer, optional
        Draws the figures of the page while others are measured; closed after the page is written.

    Returns
    -------
    Report

    Examples
    --------
    >>> import smallcal as sc
    >>> found = sc.report(sc.load_demo("cal"), sc.load_demo("test"), methods=["tva-ts"], n_boot=100)
    >>> found.content["verdict"]["outcome"]
    'better'
    >>> found.check("ece15>5%")["failed"], found.check("none:ece15>5%")["failed"]
    (False, True)
    """
    seed = seed_of(random_state)
    source = os.fspath(calibrator) if isinstance(calibrator, str | os.PathLike) else ""
    fitted = None
    if calibrator is not None:
        held = load(source) if source else calibrator
        fitted = fitted_of(held, "calibrator must be a fitted one, or its file")
        input = fitted.input if input is None and fitted.input != "logits" else input

    def checked(given: object, role: str, like: Samples | None = None) -> Samples:
        return samples_of(given, role=role, input=input, class_names=class_names, like=like)

    cal = checked(calibration, "calibration")
    settings = Settings(
        methods=usual_methods(cal.input) if methods is None else methods,
        n_boot=n_boot,
        level=level,
        seed=seed,
        title=title,
        command=command,
        verb_options=_as_read(input, seed) if verb_options is None else verb_options,
        input=cal.input,
        costs=costs,
        keep_predictions=keep_predictions,
    )
    if costs is not None:
        priced(costs, cal)  # raises where they are not for these classes
    held_out = checked(test, "test", cal)
    require_pair(cal, held_out)
    shifted = {}
    for key, given in (shift or {}).items():
        condition = _condition(key)
        shifted[condition] = checked(given, " ".join(filter(None, condition)), cal)
        require_same_model(shifted[condition], cal)
    certified = None
    if fitted is not None:
        certified = _certified(fitted, source, cal, lambda like: checked(test, "test", like))
    content = gather(
        cal,
        held_out,
        settings,
        shift=shifted,
        certified=certified,
        advance=advance,
        begin=(lambda figure: None) if drawer is None else drawer.begin,
    )
    return Report(content) if drawer is None else Report(content, drawer.drawn)


def _certified(
    fitted: FittedCalibrator, source: str, calibration: Samples, read: Callable[[Samples], Samples]
) -> Certified:
    """Return a calibrator, and the test samples as it takes them: its classes, its scores."""
    if (fitted.input, fitted.n_classes) != (calibration.input, calibration.preds.n_classes):
        raise InputError(
            f"{source or 'the calibrator'} takes {fitted.input} of {fitted.n_classes:,} classes, "
            f"the samples are {calibration.input} of {calibration.preds.n_classes:,}",
            code="input-differs",
        )
    preds = replace(calibration.preds, score=fitted.score)
    like = replace(calibration, preds=preds, class_names=fitted.class_names)
    test = read(like)
    if test.preds.score != fitted.score:
        raise InputError(
            "the test scores were standardised by others than the calibrator's; give them as "
            "arrays, or as a file",
            code="input-differs",
        )
    return Certified(fitted=fitted, test=test, source=source)


def _as_read(input: str | None, seed: int) -> dict[str, list[str]]:
    """Return what the verbs must be told of the samples and the seed."""
    kind = [] if input is None else ["--input", input]
    return {"fit": [*kind, *(["--seed", str(seed)] if seed else [])], "apply": kind}


def _condition(key: object) -> tuple[str, str]:
    """Return the kind and the severity that a key of ``shift`` names."""
    if isinstance(key, str):
        return key, ""
    if isinstance(key, tuple) and len(key) == 2:
        return str(key[0]), str(key[1])
    raise InputError(
        f"shift must map (kind, severity) to samples; got the key {key!r}", code="option-type"
    )
