"""Calibrate models of other packages in place: scikit-learn, torch, CalArena.

Names are loaded when first used, since each needs a package of its own.
"""

from typing import TYPE_CHECKING

from smallcal._lazy import attach

if TYPE_CHECKING:
    from smallcal.deploy.adapters.torch import calibrate as calibrate
    from smallcal.deploy.adapters.torch_batches import collect_logits as collect_logits
    from smallcal.deploy.adapters.torch_wrapped import CalibratedTorchModel as CalibratedTorchModel
else:  # checkers know the names above, and no others
    __getattr__, __dir__, __all__ = attach(
        __name__,
        {
            "torch": ["calibrate"],
            "torch_batches": ["collect_logits"],
            "torch_wrapped": ["CalibratedTorchModel"],
        },
    )
