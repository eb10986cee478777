"""Spellings that nobody should read, each with what to write in its place.

The right forms are those of :mod:`smallcal` itself: the titles of metrics and methods, and the
terms of docs/glossary.md. Patterns are regular expressions, for prose and not for code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

#: One metric or method under several names: what is wrong, and its one name.
SPELLINGS = {
    r"ECE-?15|ECE_15|Ece|ECE \(15 bins\)": "ECE",
    r"E\.C\.E\.|expected calibration error \(ece\)": "ECE",
    r"AdaECE|Ada-ECE|ACE|equal-mass ECE": "adaptive ECE",
    r"cwECE|CW-ECE|class-wise ECE|classwise-ECE": "classwise ECE",
    r"SmECE|smooth-ECE|sm-ECE|SMECE": "smECE",
    r"(?<!\()NLL(?!\))|logloss|log loss|Log loss|LogLoss|log-Loss": "log-loss",
    r"neg\. log[- ]likelihood|negative loglikelihood|neg-log-likelihood": "log-loss",
    r"TopBCE|Top-BCE|top-BCE|TopLabelBCE|top-label BCE|Top-label BCE": "top-label log-loss",
    r"top-label cross-entropy|top label log-loss|top-label-BCE": "top-label log-loss",
    r"Brier Score|brier score|Brier-score|brier loss|Brier loss": "Brier score",
    r"AUC of correctness|auROC|AUC-ROC|AU-ROC": "AUROC",
    r"E-AURC|eAURC|EAURC": "excess AURC",
    r"temp\. scaling|(?<!Signal-Routed )Temperature Scaling|temp-scaling": "temperature scaling",
    r"SRTS BCE|srts-BCE|SRTS_BCE|Srts": "SRTS-BCE",
    r"Platt Scaling|platt scaling|Platt's scaling": "Platt scaling",
    r"Vector Scaling": "vector scaling",
    r"Matrix Scaling": "matrix scaling",
    r"Dirichlet Calibration|dirichlet calibration": "Dirichlet calibration",
    r"Beta Calibration": "beta calibration",
    r"Isotonic Regression": "isotonic regression",
    r"Histogram Binning": "histogram binning",
    r"venn-abers prediction|Venn–Abers|Venn Abers": "Venn-Abers",
    r"meta-cal\b(?!`)|MetaCal": "Meta-Cal",
    r"over-confiden(t|ce)": "overconfident, overconfidence",
    r"under-confiden(t|ce)": "underconfident, underconfidence",
    r"held out samples|hold-out samples|holdout samples|samples held out": "held-out samples",
    r"out of fold samples|out-of-folds": "out-of-fold",
    r"crossvalidat(ed|ion)|cross validation": "cross-validation",
    r"mis-calibrat(ed|ion)": "miscalibrated, miscalibration",
    r"softmaxed": "after the softmax",
}

#: Phrases of our own for what the field has a word for, and that word.
PHRASES = {
    r"any budget, no thought": "any sample size, no tuning",
    r"without a model in it": "without a learned risk model",
    r"notices? when data move": "detects many, not all, shifts",
    r"(some|they) are kin\b": "are closely related",
    r"know no doubt": "would have zero width",
    r"vouch for each other": "leak across folds",
    r"foretell": "predict",
    r"goes on (there|from there)\b|what was stopped goes on": "resumes",
    r"flatters? (it|every|the)\b|so they flatter": "is too good",
    r"how far to trust its numbers": "how stable it is",
    r"how much confidence is too much": "the data cannot show overconfidence",
    r"any extreme temperature fits": "the data does not determine the temperature",
    r"nothing rests on thin evidence": "the evidence is sufficient",
    r"no thought\b": "no tuning",
    r"drawn towards one another": "with shrinkage towards a common value",
    r"temperature of (its|their) own": "a separate temperature",
    r"as often as one likes": "as often as you like",
    r"[Pp]rint JSON for machines": "Print JSON",
    r"[Ww]ho gives what": "expected results",
    r"too timid": "underconfident",
    r"too sure\b": "overconfident",
    r"handed over": "passed on for review",
    r"\bdearer\b": "more expensive",
    r"chance not ruled out": "possibly by chance",
    r"left the model alone": "kept the raw model",
    r"[Ss]eed of the folds and draws": "random seed",
    r"honest bookkeeping": "say what was measured",
    r"the whole story": "the full report",
}

_RULES = [
    (re.compile(rf"(?<![\w`-])(?:{wrong})(?![\w`-])"), right)
    for wrong, right in {**SPELLINGS, **PHRASES}.items()
]


@dataclass(frozen=True)
class Hit:
    """A spelling that should not be there."""

    where: str
    line: int
    word: str
    right: str

    def __str__(self) -> str:
        return f"{self.where}:{self.line}: {self.word!r}; write {self.right!r}"


def hits(text: str, where: str) -> Iterator[Hit]:
    """Yield what a text should spell in another way; a phrase may be broken between lines."""
    for pattern, right in _RULES:
        for found in pattern.finditer(_one_line(text)):
            line = text.count("\n", 0, found.start()) + 1
            yield Hit(where, line, found.group(), right)


def prose(page: str) -> str:
    """Return a Markdown page without code, formulas, links' addresses and quotes, line for line."""
    blank = _same_lines
    page = re.sub(
        r"(?ms)^( *)(`{3,}|~{3,})(?!\{(note|tip|warning|important))[^\n]*\n.*?^\1\2[ ]*$",
        blank,
        page,
    )
    page = re.sub(r"(?s)<!--.*?-->", blank, page)
    page = re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", blank, page, flags=re.DOTALL)
    page = re.sub(r"\$\$.+?\$\$|\$[^$\n]+\$", blank, page, flags=re.DOTALL)
    page = re.sub(r"\]\([^)\s]*\)|https?://\S+", blank, page)
    return re.sub(r"(?m)^(>>>|\.\.\.) .*$", blank, page)


def _same_lines(found: re.Match[str]) -> str:
    """Return as many characters that say nothing, line breaks kept."""
    return re.sub(r"[^\n]", " ", found.group())


def _one_line(text: str) -> str:
    """Return the text with a space for each line break, so that places stay."""
    return text.replace("\n", " ")
