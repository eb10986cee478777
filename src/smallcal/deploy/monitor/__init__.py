"""Drift: whether what a calibrator meets still is what it was fitted for.

- :mod:`~smallcal.deploy.monitor.label_free`: evidence that counts come from elsewhere
- :mod:`~smallcal.deploy.monitor.labelled`: evidence that confidence and accuracy differ
- :mod:`~smallcal.deploy.monitor.state`: what is kept between looks
- :mod:`~smallcal.deploy.monitor.report`: what a look found, in numbers, words and Prometheus' text
- :mod:`~smallcal.deploy.monitor.monitor`: the monitor
"""

from smallcal.deploy.monitor.monitor import Monitor
from smallcal.deploy.monitor.report import Report

__all__ = ["Monitor", "Report"]
