"""What a type checker must not let pass: every line that ends in ``# wrong`` has one error."""

from __future__ import annotations

import smallcal as sc

cal = sc.load_demo(3)  # wrong
names: list[int] = sc.load_demo().class_names  # wrong
fitted = sc.TemperatureScaling().fit(cal.logits)  # wrong
total: str = sc.evaluate(cal.labels, cal.logits)  # wrong
other = sc.no_such_name  # wrong
