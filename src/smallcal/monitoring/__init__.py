"""Drift: whether what a calibrator meets still is what it was fitted for.

- :mod:`~smallcal.monitoring.labelfree`: evidence that counts come from elsewhere
- :mod:`~smallcal.monitoring.labelled`: evidence that confidence and accuracy differ
- :mod:`~smallcal.monitoring.state`: what is kept between looks
- :mod:`~smallcal.monitoring.findings`: what a look found, in numbers, words and Prometheus' text
- :mod:`~smallcal.monitoring.watcher`: the monitor
"""

from smallcal.monitoring.findings import Report
from smallcal.monitoring.watcher import Monitor

__all__ = ["Monitor", "Report"]
