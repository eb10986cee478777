"""Modules that are nothing without an extra: where it is missing, their examples are not run."""

import importlib.util

collect_ignore = []
if importlib.util.find_spec("torch") is None:
    collect_ignore += [
        "smallcal/deploy/export/torch.py",
        "smallcal/deploy/export/torch_steps.py",
        "smallcal/deploy/adapters/torch_wrapped.py",
        "smallcal/vision/extraction",
        "smallcal/vision/models",
        "smallcal/vision/paper/measure.py",
        "smallcal/vision/training",
    ]
if importlib.util.find_spec("timm") is None:
    collect_ignore += [
        "smallcal/vision/models/opening.py",
        "smallcal/vision/training/training.py",
    ]
if importlib.util.find_spec("PIL") is None:
    collect_ignore += ["smallcal/vision"]
