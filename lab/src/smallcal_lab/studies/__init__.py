"""Studies: the paper's experiments on one's own logits, as one command each.

A :class:`~smallcal_lab.studies.collection.Collection` is a folder of logits; a
:class:`~smallcal_lab.studies.study.Study` says what is fitted and measured; the engine runs it,
resumes it, and makes its tables.
"""

from smallcal_lab.studies.catalogue import STUDIES, study_named
from smallcal_lab.studies.check import Problem, check_collection
from smallcal_lab.studies.collection import Cell, Collection, load_collection
from smallcal_lab.studies.engine import Outcome, run
from smallcal_lab.studies.importers import import_calarena, import_folder
from smallcal_lab.studies.study import Study

__all__ = [
    "STUDIES",
    "Cell",
    "Collection",
    "Outcome",
    "Problem",
    "Study",
    "check_collection",
    "import_calarena",
    "import_folder",
    "load_collection",
    "run",
    "study_named",
]
