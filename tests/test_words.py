"""No phrase of our own where the field has a word, in anything that people read."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

#: What a reader outside would stumble over, and the field's word.
PHRASES = {
    r"any budget, no thought": "any sample size, no tuning",
    r"without a model in it": "without a learned risk model",
    r"notices? when data move": "detects many, not all, shifts",
    r"(some|they) are kin": "are closely related",
    r"know no doubt": "would have zero width",
    r"vouch for each other": "leak across folds",
    r"foretell": "predict",
    r"flatters? (it|every|the)|so they flatter": "is too good",
    r"how far to trust its numbers": "how stable it is",
    r"how much confidence is too much": "the data cannot show overconfidence",
    r"any extreme temperature fits": "the data do not determine the temperature",
    r"nothing rests on thin evidence": "the evidence is sufficient",
    r"no thought": "no tuning",
    r"drawn towards one another": "with shrinkage towards a common value",
    r"as often as one likes": "as often as you like",
    r"JSON for machines": "JSON",
    r"who gives what": "expected results",
    r"too (timid|sure)": "underconfident, overconfident",
    r"handed over": "passed on for review",
    r"dearer": "more expensive",
    r"chance not ruled out": "possibly by chance",
    r"left the model alone": "kept the uncalibrated model",
    r"honest bookkeeping": "what was measured",
    r"the whole story": "the full report",
    r"top-?label BCE|TopBCE|logloss|log loss": "top-label log-loss, log-loss",
}
RULE = re.compile("|".join(rf"(?<![\w-])(?:{one})(?![\w-])" for one in PHRASES), re.IGNORECASE)

FILES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")),
    *(path for path in (ROOT / "docs").rglob("*.md") if "generated" not in path.as_posix()),
    *(ROOT / "src").rglob("*.py"),
    *(ROOT / "lab" / "src").rglob("*.py"),
]


def texts(path):
    """Yield what a file says to people: a page without its code, the strings of a module."""
    if path.suffix == ".md":
        yield re.sub(r"(?s)```.*?```|`[^`\n]*`|\]\([^)\s]*\)", " ", path.read_text("utf-8"))
        return
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.value


@pytest.mark.parametrize("folder", sorted({path.parent for path in FILES}), ids=str)
def test_no_phrase_of_our_own(folder):
    found = [
        f"{path.relative_to(ROOT)}: {hit.group()!r}"
        for path in FILES
        if path.parent == folder
        for text in texts(path)
        for hit in RULE.finditer(" ".join(text.split()))
    ]
    assert not found, "\n".join(found)


def test_a_phrase_is_found():
    assert RULE.search("It foretells nothing") is None
    assert RULE.search("we foretell it").group() == "foretell"
