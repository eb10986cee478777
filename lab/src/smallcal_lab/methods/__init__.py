"""Methods that exist to be compared: curves, networks, controls, and those of other packages.

Importing it tells smallcal of every signal and map here; ``METHODS`` is the entry point.
"""

from smallcal_lab.methods import curves, heads, partitions, peers, signals
from smallcal_lab.methods.rows import METHODS

__all__ = ["METHODS", "curves", "heads", "partitions", "peers", "signals"]
