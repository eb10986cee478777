"""What an exported Python file is made of, beside its arithmetic."""

from smallcal.data.masks import FEWEST, MAX_MAGNITUDE
from smallcal.data.score import SLACK

HEAD = '''"""Calibrated probabilities of {whose}: {method}, exported by {library}.

Needs Python 3.8 or later and nothing else. Do not edit: export again instead.

    import this_file
    this_file.calibrate({takes}{more})  # one row: {columns} -> {result}
{first}    this_file.calibrate_rows(rows{lists})

    python this_file.py < rows.csv > probabilities.csv

Artefact SHA-256: {sha256}
"""

{needs}import csv
import math
import sys

METHOD = {exact_method}
N_CLASSES = {n_classes}
N_FEATURES = {n_features}
CLASS_NAMES = {names}
'''

#: What the head of a calibrator of scores says beside.
FIRST = """\
    this_file.probability(score{more})  # of outcome 1; what the line below writes for each row
"""

#: What it says where predictions are kept.
OF_PREDICTION = """\
    this_file.confidence({takes}{more})  # probability that the model's own prediction is correct
"""

#: What it says of a decision.
DECIDES = """\
    this_file.{column}({takes}{more})  # whether a certified threshold accepts it; 1 or 0 below
"""

HELPERS = {
    "_at_top": '''
def _at_top(row):
    """Return 1 at the first of the largest numbers, 0 elsewhere."""
    result = [0.0] * len(row)
    result[row.index(max(row))] = 1.0
    return result
''',
    "_dot": """
def _dot(weights, row):
    return sum(a * b for a, b in zip(weights, row))
""",
}

CHECKED = """
def {name}(row):
    row = [float(x) for x in row]
    if len(row) != {length}:
        raise ValueError("a row must have %d {what}; got %d" % ({length}, len(row)))
    if not all({good} for x in row):
        raise ValueError("{what} must be {must}")
{more}    return row
"""
SUM_CHECK = """    if abs(sum(row) - 1) > 1e-3:
        raise ValueError("the probabilities of a row must sum to 1; got %g" % sum(row))
"""
OPTIONS_CHECK = f"""    if sum(x >= {-MAX_MAGNITUDE!r} for x in row) < {FEWEST}:
        raise ValueError("a row must have {FEWEST} or more finite logits")
"""
#: What each number must be: in Python, and in words.
GOOD = {
    # Of minus infinity the comparison holds, of NaN it does not.
    "logits": (
        f"x <= {MAX_MAGNITUDE!r}",
        f"finite and at most {MAX_MAGNITUDE:g} in size; minus infinity masks a class",
    ),
    "probabilities": ("-1e-6 <= x <= 1.001", "probabilities in [0, 1]"),
    "features": ("math.isfinite(x)", "finite"),
}

CHECKED_SCORE = """
def _checked(score):
    if hasattr(score, "__len__"):  # a row of one number
        if len(score) != 1:
            raise ValueError("a row must have 1 score; got %d" % len(score))
        score = score[0]
    score = float(score)
    if not {good}:
        raise ValueError("a score must be {must}; got %g" % score)
    return score
"""
#: By what scores are taken for; infinities are put at the end of the numbers.
GOOD_SCORE = {
    "number": ("score == score", "a number"),
    "probability": (f"{-SLACK!r} <= score <= {1 + SLACK!r}", "in [0, 1]"),
}

PUBLIC = '''
def calibrate({given}{more}):
    """Return the calibrated probabilities of one row."""
    return _calibrated({given}{inner})[0]
'''
PROBABILITY = '''
def probability(score{more}):
    """Return the calibrated probability of outcome 1."""
    return calibrate(score{more})[1]
'''
ROWS = '''
def calibrate_rows(rows):
    """Return the calibrated probabilities of each row."""
    return [calibrate(row) for row in rows]
'''
ROWS_WITH_MORE = '''
def calibrate_rows(rows, {lists}):
    """Return the calibrated probabilities of each row."""
    rows = list(rows)
{checks}    return [calibrate(rows[i], {each}) for i in range(len(rows))]
'''
SAME_LENGTH = """    {name} = list({name})
    if len(rows) != len({name}):
        raise ValueError("%d rows, but %d rows of {name}" % (len(rows), len({name})))
"""
GROUP_NAME = '''
def _group_name(group):
    """Return the name of a group; numbers are named by their digits."""
    if isinstance(group, float) and group.is_integer():
        group = int(group)
    return str(group)
'''
TEMPERATURE = '''
def temperature({given}{more}):
    """Return what the logits of a row are divided by."""
    return _calibrated({given}{inner})[1]
'''

CONFIDENCE = '''
def confidence({given}{more}):
    """Return the calibrated probability that the model's own prediction is correct."""
    return _calibrated({given}{inner})[2]
'''

ACCEPTED = '''
def {column}({given}{more}):
    """Return whether a row reaches the certified threshold.

{promise}
    """
    return bool(_calibrated({given}{inner})[{place}])
'''
CELLS = '''
def _cells(found):
    """Return what is written of a row: probabilities, and 1 or 0 for each decision."""
    return [repr(p) for p in found[0]{shown}] + [int(flag) for flag in found[3:]]
'''

MAIN = '''
def main():
    """Read rows of numbers as CSV, after a header or none; write their probabilities as CSV."""
    writer = csv.writer(sys.stdout, lineterminator="\\n")
    for number, cells in enumerate(csv.reader(sys.stdin), start=1):
        if not cells:
            continue
{last}        try:
            row = [float(cell) for cell in cells]
        except ValueError:
            if number == 1:
                continue
            sys.exit("line %d: not a row of numbers" % number)
        try:
            writer.writerow({cells})
        except ValueError as error:
            sys.exit("line %d: %s" % (number, error))


if __name__ == "__main__":
    main()
'''
