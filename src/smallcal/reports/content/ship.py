"""The lines that put the recommended method to work."""

from __future__ import annotations

from typing import Any

from smallcal.advice.recommend import default_of
from smallcal.data.shown import command
from smallcal.reports.content.measure import Fit
from smallcal.reports.samples import Samples
from smallcal.reports.settings import Settings


def ship(fit: Fit, calibration: Samples, test: Samples, settings: Settings) -> dict[str, Any]:
    """Return lines to paste: a shell's where the samples came from files, else Python.

    Returns
    -------
    dict
        ``language`` ("sh" or "python") and ``text``.
    """
    default = fit.name == default_of(calibration.preds.kind)
    if not calibration.file:
        return {"language": "python", "text": _python(fit, calibration, settings, default=default)}
    extra = {verb: list(given) for verb, given in settings.verb_options.items()}
    method = [] if default else ["--method", fit.name]
    method += ["--keep-predictions"] if fit.fitted.keep_predictions else []
    new = test.file or "new.npy"
    # A .npy file holds one array: decisions go to a table.
    output = "decisions.csv" if "--cost" in extra.get("apply", []) else "probabilities.npy"
    lines = [
        ["fit", calibration.file, *method, *extra.get("fit", []), "-o", "cal.json"],
        ["apply", "cal.json", new, *extra.get("apply", []), "-o", output],
    ]
    text = "\n".join(command(["smallcal", *words]) for words in lines)
    return {"language": "sh", "text": text}


def _python(fit: Fit, calibration: Samples, settings: Settings, *, default: bool) -> str:
    options = [] if default else [f"method={fit.name!r}"]
    options += [f"input={calibration.input!r}"] if calibration.input != "logits" else []
    options += ["keep_predictions=True"] if fit.fitted.keep_predictions else []
    options += [f"random_state={settings.seed}"] if settings.seed else []
    rows = "scores, outcomes" if calibration.input == "score" else "cal_logits, cal_labels"
    features = ", features=cal_features" if "features" in fit.fitted.signal.needs else ""
    return (
        "import smallcal as sc\n"
        f"cal = sc.Calibrator({', '.join(options)}).fit({rows}{features})\n"
        'cal.save("cal.json")  # then: smallcal apply cal.json new.npy -o probabilities.npy'
    )
