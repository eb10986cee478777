"""Modules that are nothing without an extra: where it is missing, their examples are not run."""

import importlib.util

collect_ignore = []
if importlib.util.find_spec("torch") is None:
    collect_ignore += [
        "smallcal/deploy/export/torch.py",
        "smallcal/deploy/export/torch_steps.py",
        "smallcal/deploy/adapters/torch_wrapped.py",
    ]
