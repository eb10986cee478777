"""What every fitted map can do."""

from __future__ import annotations

from typing import ClassVar, Protocol

from smallcal.data import FloatArray, IntArray


class FittedMap(Protocol):
    """Turns scores into temperatures; JSON by construction (every field is plain data)."""

    kind: ClassVar[str]

    @property
    def n_parameters(self) -> int:
        """Number of fitted scalars."""
        ...

    @property
    def temperatures(self) -> tuple[float, ...]:
        """The fitted temperatures."""
        ...

    def groups(self, scores: FloatArray, /) -> IntArray:
        """Return the group of each row."""
        ...

    def __call__(self, scores: FloatArray, /) -> FloatArray:
        """Return the temperature of each row."""
        ...
