"""Other people's models, calibrated where they live.

Names are loaded when first used, since each needs a package of its own.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smallcal.adapters.torch_calibrated import CalibratedTorchModel as CalibratedTorchModel
    from smallcal.adapters.torch_model import calibrate as calibrate
    from smallcal.adapters.torch_model import collect_logits as collect_logits

_HOME = {
    "CalibratedTorchModel": "torch_calibrated",
    "calibrate": "torch_model",
    "collect_logits": "torch_model",
}

__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'smallcal.adapters' has no attribute {name!r}")
    value = getattr(import_module(f"smallcal.adapters.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
