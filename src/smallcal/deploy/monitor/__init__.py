"""Watch a deployed calibrator for drift, and for confidence that no longer matches accuracy.

- :mod:`~smallcal.deploy.monitor.label_free`: evidence of drift, without labels
- :mod:`~smallcal.deploy.monitor.labelled`: evidence that confidence and accuracy differ
- :mod:`~smallcal.deploy.monitor.promises`: evidence that decisions err more than they promise
- :mod:`~smallcal.deploy.monitor.class_shift`: whether frequencies of classes explain a drift
- :mod:`~smallcal.deploy.monitor.state`: what is kept between looks
- :mod:`~smallcal.deploy.monitor.report`: what it found, in numbers and words
- :mod:`~smallcal.deploy.monitor.prometheus`: the same in Prometheus' text
- :mod:`~smallcal.deploy.monitor.monitor`: the monitor
"""

from smallcal.deploy.monitor.monitor import Monitor
from smallcal.deploy.monitor.report import Report

__all__ = ["Monitor", "Report"]
