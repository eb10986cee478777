"""The parts of a saved calibrator, rebuilt from a document that was checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from smallcal.calibrators.decision import Decision
from smallcal.calibrators.discipline import Discipline
from smallcal.calibrators.group_effects import GroupEffects
from smallcal.calibrators.later import Later
from smallcal.calibrators.maps import FittedMap
from smallcal.calibrators.parts import frozen
from smallcal.calibrators.reference import Reference
from smallcal.calibrators.signals import FittedSignal
from smallcal.data.score import ScoreScale


def parts_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a calibrator that are more than plain data."""
    counts = document.get("reference")
    score, shifted = document.get("score"), document.get("groups")
    return {
        "signal": FittedSignal.from_dict(document["signal"]),
        "map": FittedMap.from_dict(document["map"]),
        "groups": GroupEffects.from_dict(shifted) if shifted else None,
        "discipline": Discipline(**frozen(document["discipline"])),
        "pooled_temperature": float(document["pooled_temperature"]),
        "flags": document["flags"],
        "reference": Reference.from_dict(counts) if counts else None,
        "score": ScoreScale.from_dict(score) if score else None,
        "later": tuple(map(Later.from_dict, document.get("later", ()))),
        "decisions": tuple(map(Decision.from_dict, document.get("decisions", ()))),
    }
