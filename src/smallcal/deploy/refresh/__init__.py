"""New labelled rows update a calibrator that is in use."""

from smallcal.deploy.refresh.changes import Refreshed as Refreshed
from smallcal.deploy.refresh.refresh import refresh as refresh
