"""Let torchvision's GPU build be imported beside a CPU build of torch.

It comes without its compiled operators then, and its own Python code asks for two of them (for
detection, which nothing here uses) while it is imported. Where builds match, nothing is done.
Tests import this module; programs that they start find it by ``PYTHONPATH``.
"""

import importlib.util
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path

_OPERATORS = ("nms", "qnms")
_KEPT = []


class _BeforeTorchvision(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "torchvision":
            sys.meta_path.remove(self)
            if _builds_differ():
                _define()
        return None  # found by those that find everything else


def _builds_differ():
    import torch

    spec = importlib.util.find_spec("torchvision")
    if spec is None or spec.origin is None:
        return False
    said = (Path(spec.origin).parent / "version.py").read_text(encoding="utf-8")
    return torch.version.cuda is None and "+cu" in said


def _define():
    import torch

    if hasattr(torch.ops.torchvision, _OPERATORS[0]):
        return  # this module was loaded twice, by name and by PYTHONPATH
    library = torch.library.Library("torchvision", "DEF")
    for name in _OPERATORS:
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _KEPT.append(library)  # operators go with their library


sys.meta_path.insert(0, _BeforeTorchvision())
