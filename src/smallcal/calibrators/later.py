"""What a calibrator learns after its fit: applied to its probabilities, one after another.

A part that is added sets aside what it makes untrue, the decisions and perhaps the reference of
the monitor, and keeps it, so that taking the part away gives back the calibrator as it was.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from smallcal.calibrators.decision import Decision
from smallcal.calibrators.parts import Part, Rule, rule
from smallcal.calibrators.program import Value
from smallcal.calibrators.reference import Reference
from smallcal.data.checks import FloatArray
from smallcal.errors import InputError

if TYPE_CHECKING:
    from smallcal.calibrators.fitted import FittedCalibrator

AnyLater = TypeVar("AnyLater", bound="Later")

#: The rule of the field that every such part has.
ASIDE: Rule = rule("aside", "What stood in the file before this was added.")


class Later(Part):
    """Something learned after the fit: a frozen dataclass with a field ``aside``.

    Attributes
    ----------
    aside : dict
        The decisions and the reference that stood before, as plain data; see :func:`with_later`.
    """

    kinds: ClassVar[dict[str, Any]] = {}
    aside: Mapping[str, Any]

    @abstractmethod
    def apply(self, probabilities: FloatArray, *, claim: int | None) -> None:
        """Change the probabilities of some rows, in place.

        ``claim`` is the column that confidence is about, None where it is the predicted class.
        """

    @abstractmethod
    def program(self, probabilities: Value, *, claim: int | None) -> Value:
        """Write the changed probabilities down, for exporters."""

    @abstractmethod
    def preserves_argmax(self, claim: int | None) -> bool:
        """Whether the predicted class can never change."""

    @property
    def n_classes(self) -> int | None:
        """Classes it is for, where it has a number of each."""
        return None

    @classmethod
    def from_dict(cls: type[AnyLater], document: Mapping[str, Any]) -> AnyLater:
        """Rebuild a part from a document that the schema allows."""
        aside = document["aside"]
        rest = {name: value for name, value in document.items() if name != "aside"}
        made: AnyLater = super().from_dict(rest)
        return replace(made, aside=aside)  # type: ignore[type-var]


def with_later(
    fitted: FittedCalibrator, part: Later, *, reference: Reference | None = None
) -> FittedCalibrator:
    """Return the calibrator with something more that it learned; its decisions are set aside.

    They were tested with other probabilities. ``reference`` takes the place of the one that a
    monitor compares with, where given.
    """
    aside: dict[str, Any] = {}
    if fitted.decisions:
        aside["decisions"] = [each.to_dict() for each in fitted.decisions]
    if reference is not None and fitted.reference is not None:
        aside["reference"] = fitted.reference.to_dict()
    kept = fitted.reference if reference is None else reference
    added = replace(part, aside=aside)  # type: ignore[type-var]
    return replace(fitted, later=(*fitted.later, added), decisions=(), reference=kept)


def without_last(fitted: FittedCalibrator) -> FittedCalibrator:
    """Return the calibrator as it was before it learned the last thing."""
    if not fitted.later:
        raise InputError(
            "this calibrator learned nothing after its fit; there is nothing to undo",
            code="options-conflict",
        )
    *rest, last = fitted.later
    decisions = tuple(map(Decision.from_dict, last.aside.get("decisions", ())))
    before = last.aside.get("reference")
    reference = fitted.reference if before is None else Reference.from_dict(before)
    return replace(fitted, later=tuple(rest), decisions=decisions, reference=reference)
