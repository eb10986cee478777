"""Write what shells complete, src/smallcal/cli/completion.json, from the verbs themselves.

Run it after a change of a verb's options, of the methods or of the metrics:

    python scripts/completion_table.py
"""

from __future__ import annotations

import json
from typing import Any

from smallcal.calibrators import plugins
from smallcal.calibrators.catalogue import ALIASES, METHODS
from smallcal.cli.app import Verbs
from smallcal.cli.complete import TABLE
from smallcal.cli.lazy import Verb
from smallcal.metrics import METRICS
from smallcal_lab.cli.study import Studies

#: What parameters take by name: a method or metric, several with commas, or one of a few words.
_NAMED = {
    "method": "method",
    "baseline": "method",
    "methods": "methods",
    "candidates": "methods",
    "metrics": "metrics",
    "loss": "metric",
    "metric": "metric",
    "verb": "verb",
    "rule": "choice sample|repeat|fold|holdout",
    "kind": "choice svg|png",
}


def main() -> None:
    """Write the table."""
    TABLE.write_text(text(), encoding="utf-8")


def text() -> str:
    """Return the table as JSON, one line for each thing, so that changes are easy to see."""
    rows = {
        section: ",\n".join(f"  {_json(key)}: {_json(value)}" for key, value in entries.items())
        for section, entries in document().items()
    }
    parts = (f' "{name}": {{\n{lines}\n }}' for name, lines in rows.items())
    return "{\n" + ",\n".join(parts) + "\n}\n"


def document() -> dict[str, dict[str, Any]]:
    """Return verbs with their one line of help and the name of their options, and the rest.

    The studies share one function, and so their options.
    """
    verbs = {**Verbs.verbs, **{f"study {name}": verb for name, verb in Studies.verbs.items()}}
    targets: dict[str, tuple[str, Verb]] = {}
    for name, verb in verbs.items():
        targets.setdefault(verb.target or name, (name, verb))
    others = plugins.offered(plugins.METHODS)
    own = {n: f"{row.title}: {row.summary}" for n, row in METHODS.items() if n not in others}
    return {
        "verbs": {
            name: [verb.help, targets[verb.target or name][0]] for name, verb in verbs.items()
        },
        "options": {
            f"{name} {option.name}": _row(option)
            for name, verb in targets.values()
            for option in verb.command(name.rpartition(" ")[2]).params
        },
        "methods": {**own, **{alias: f"the same as {name}" for alias, name in ALIASES.items()}},
        "metrics": {name: f"{row.title}: {row.summary}" for name, row in METRICS.items()},
    }


def _row(option: Any) -> dict[str, Any]:
    """Return what a shell needs to know of an option, or of an argument, which has no names."""
    takes = _NAMED.get(str(option.name), "file")
    if getattr(option, "is_flag", False):
        takes = "flag"
    elif "|" in (option.metavar or "") and option.metavar.islower():
        takes = f"choice {option.metavar}"
    return {
        "names": option.opts if option.param_type_name == "option" else [],
        "takes": takes,
        "many": bool(getattr(option, "multiple", False)) or option.nargs == -1,
        "help": option.help or "",
    }


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    main()
