"""The four axes of a method, the methods they make, and the estimators.

Estimators are scikit-learn's, and loading that takes longer than a fit: these names load it when
they are first used.
"""

from typing import TYPE_CHECKING

from smallcal._lazy import attach

if TYPE_CHECKING:
    from smallcal.calibrators.estimators import estimator_of as estimator_of
    from smallcal.calibrators.estimators import make as make
else:  # checkers know the names above, and no others
    __getattr__, __dir__, __all__ = attach(__name__, {"estimators": ["estimator_of", "make"]})
