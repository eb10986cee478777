"""For services: load a saved calibrator and apply it, with NumPy alone.

from smallcal.runtime import load
probabilities = load("cal.json").predict_proba(logits)
"""

from smallcal.calibrators.fitted import FittedCalibrator, load

__all__ = ["FittedCalibrator", "load"]
