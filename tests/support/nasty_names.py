"""Names that would do harm in a page that does not escape them, and a report full of them."""

from __future__ import annotations

import re

import numpy as np

import smallcal as sc
from support.simulated import simulate

#: Each would set ``window.harmed`` or close what it stands in, in one kind of place.
NASTY = (
    "<script>window.harmed = 1</script>",
    '"onmouseover="window.harmed = 1" x="',
    "' onfocus='window.harmed = 1' autofocus='",
    "</title><script>window.harmed = 1</script>",
    "</script><script>window.harmed = 1</script>",
    "</style><img src=x onerror='window.harmed = 1'>",
    "<svg onload='window.harmed = 1'>",
    "javascript:window.harmed=1",
    "{{ 7 * 7 }}{% for %}",
    "]]><!-- -->",
    "&lt;b&gt;&amp;amp;",
    "$\\frac{1}{0}$ x\u202e\u2028y",
    "\x1b[2J\x1b]0;owned\x07red",
    "a\r\nsmallcal: error: forged\x9b31m\x7f",
    "\\input{/etc/passwd} 100 % & #1_a ~^ $x$ {b}",
    "![x](http://example.org/x.png) [a](http://example.org) # h `c` | d",
    "_hidden\tby\u2066matplotlib\ufeff",
)

#: What must stand raw in nothing that people are shown: controls, breaks, turned directions.
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff]")

#: Names of classes that a table could lose: what separates, quotes, breaks or pads its cells.
ODD_NAMES = {
    "line break": "c\nd",
    "carriage return": "c\rd",
    "both": "c\r\nd\n",
    "comma": "a,b",
    "tab": "a\tb",
    "quotes": "say \"hi\" 'there'",
    "only quotes": '""',
    "leading blank": "  a",
    "trailing blank": "a \t",
    "only blank": " ",
    "empty": "",
    "NUL inside": "a\0b",
    "dots": "a.b.c",
    "slash": "a/b",
    "semicolon": "a;b",
    "backslash": "a\\nb",
    "word": "logit_prob_x",
    "label": "label",
    "id": "id",
    "bracket": "[a]*",
    "hash": "#a",
    "equals": "=1+1",
    "unicode": "été ☃ 猫 😀",
    "combining": "e\u0301",
    "wide blank": "a\u3000",
    "line separator": "a\u2028b\x85c",
    "bidi": "a\u202eb",
    "escape": "\x1b[31mred",
    "BOM": "\ufeffa",
    "long": "long" * 1000,
    "upper": "İstanbul",
}


def nasty_report(**options):
    """Return a report whose title, command, class names, files and shifts are nasty."""
    names = NASTY
    cal, test = simulate(600, len(names), seed=1), simulate(800, len(names), seed=2)
    return sc.report(
        cal,
        test,
        methods=["ts-nll", "srts-bce", "default"],
        class_names=names,
        title=" ".join(names),
        command="smallcal report " + " ".join(names),
        shift={(name, name): tuple(np.array(part) for part in test) for name in names[:3]},
        n_boot=100,
        **options,
    )
