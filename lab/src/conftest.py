"""Modules that are nothing without an extra: where it is missing, their examples are not run."""

import importlib.util

collect_ignore = []
if importlib.util.find_spec("torch") is None:
    collect_ignore += [
        "smallcal_lab/vision/extraction",
        "smallcal_lab/vision/models",
        "smallcal_lab/vision/paper/measure.py",
        "smallcal_lab/vision/training",
    ]
if importlib.util.find_spec("timm") is None:
    collect_ignore += [
        "smallcal_lab/vision/models/opening.py",
        "smallcal_lab/vision/training/training.py",
    ]
if importlib.util.find_spec("PIL") is None:
    collect_ignore += ["smallcal_lab/vision"]
