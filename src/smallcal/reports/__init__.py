"""What was measured, on what, and what it means: one document as a page, Markdown or JSON.

``content.gather`` turns samples into one plain dictionary, and everything else reads that:
``render.sections`` puts it in order, ``render.markdown`` and ``render.html`` write that down, and
``conditions`` says whether what must not hold does.

>>> import smallcal as sc
>>> found = sc.report(sc.load_demo("cal"), sc.load_demo("test"), methods=["ts-nll"], n_boot=100)
>>> found.recommended
'ts-nll'
"""

from typing import TYPE_CHECKING

from smallcal._lazy import attach

if TYPE_CHECKING:
    from smallcal.reports.document import Report as Report
    from smallcal.reports.document import report as report

# Loaded when first used: a process that only draws figures needs no more than figures.
else:  # checkers know the names above, and no others
    __getattr__, __dir__, __all__ = attach(__name__, {"document": ["Report", "report"]})
