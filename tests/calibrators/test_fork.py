"""A server that forks while its threads predict: no child waits for a lock that nobody lets go."""

from __future__ import annotations

import functools
import os
import signal
import threading
import time

import numpy as np
import pytest

import smallcal as sc
from smallcal.calibrators.base import BaseCalibrator
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.maps import FittedMap
from smallcal.calibrators.program import Row
from smallcal.calibrators.signals import FittedSignal, Rows
from support.simulated import simulate

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="only POSIX systems fork")

FORKS = 100
#: Seconds that a child may take; it needs milliseconds.
PATIENCE = 20
#: A method for each kind of signal and map that is applied.
METHODS = (
    "smallcal",
    "srts-bce",
    "tva-ts",
    "signal-linear",
    "confidence-k3",
    "spline-risk",
    "hts-nll",
)


def loaded(name):
    """Return a calibrator as a server has it: of its file, and never asked before."""
    fitted = sc.make(name).fit(*simulate(400, 5)).fitted_
    return FittedCalibrator.from_dict(fitted.to_dict(), source="this test")


def answered(function):
    """Whether a child of this process comes back from a function in time."""
    child = os.fork()
    if not child:
        try:
            function()
            os._exit(0)
        except BaseException:  # noqa: BLE001 - a child must never go on as the test
            os._exit(1)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # that it has threads
def test_children_that_are_forked_while_threads_predict_predict_too():
    calibrators = [loaded(name) for name in METHODS]
    z = simulate(40, 5, seed=1)[0]
    wanted = [each.predict_proba(z) for each in calibrators]
    over = threading.Event()

    def load():
        while not over.is_set():
            for each in calibrators:
                each.predict_proba(z)

    def child():
        for each, proba in zip(calibrators, wanted, strict=True):
            np.testing.assert_array_equal(each.predict_proba(z), proba)

    threads = [threading.Thread(target=load, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        hung = sum(not answered(child) for _ in range(FORKS))
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert hung == 0


def test_nothing_in_the_way_of_a_prediction_holds_a_lock():
    """What would hold one is a cached property before Python 3.12, in any part there is."""

    def below(kind):
        return {kind}.union(*map(below, kind.__subclasses__()))

    kinds = {FittedCalibrator, Rows, Row, *below(BaseCalibrator)}
    kinds |= below(FittedMap) | below(FittedSignal)
    held = [
        f"{kind.__name__}.{name}"
        for kind in kinds
        for name, value in vars(kind).items()
        if isinstance(value, functools.cached_property)
    ]
    assert held == []
