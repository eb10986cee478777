"""How hard tests throw damaged files: SMALLCAL_FUZZ=20 throws twenty times as many."""

import os

from hypothesis import HealthCheck, settings

TIMES = int(os.environ.get("SMALLCAL_FUZZ", "1"))


def thrown(examples):
    """Settings for so many examples, the same ones each time unless there are more."""
    return settings(
        max_examples=examples * TIMES,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
