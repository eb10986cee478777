"""Adapt a calibrator to classes that are more or less frequent where the model runs."""

from smallcal.deploy.adapt.estimate import adapt as adapt
from smallcal.deploy.adapt.result import Adaptation as Adaptation
