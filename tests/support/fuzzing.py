"""How hard tests throw damaged files: SMALLCAL_FUZZ=20 throws twenty times as many.

SMALLCAL_FUZZ_SEED=1 throws others; without it they are the same ones each time.
"""

import os
import random

from hypothesis import HealthCheck, seed, settings

TIMES = int(os.environ.get("SMALLCAL_FUZZ", "1"))
SEED = int(os.environ.get("SMALLCAL_FUZZ_SEED", "0"))


def thrown(examples):
    """Settings for so many examples, the same ones each time unless there are more."""
    chosen = settings(
        max_examples=examples * TIMES,
        deadline=None,
        derandomize=not SEED,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    return (lambda test: seed(SEED)(chosen(test))) if SEED else chosen


def dice(name, number):
    """Give the randomness of one example; ``told`` says which it was."""
    return random.Random(told(name, number))


def told(name, number):
    """Say how to make an example again."""
    return f"SMALLCAL_FUZZ_SEED={SEED}, {name}, example {number}"
