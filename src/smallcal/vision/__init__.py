"""From images to logits: what comes before a calibration.

Names are loaded when first used, since some need packages of the extra ``smallcal[vision]``.
"""

from typing import TYPE_CHECKING

from smallcal._lazy import attach

if TYPE_CHECKING:
    from smallcal.vision.corruptions import CORRUPTIONS as CORRUPTIONS
    from smallcal.vision.corruptions import STANDARD as STANDARD
    from smallcal.vision.corruptions import corrupt as corrupt

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "corruptions": ["CORRUPTIONS", "STANDARD", "corrupt"],
    },
)
