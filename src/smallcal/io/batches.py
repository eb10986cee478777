"""What people save of a loop over batches, put together: lists of tensors, pairs or dicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from smallcal.errors import FileError

_PAIR = ("logits", "labels")


def tensors_of(content: Any, kind: type) -> Iterator[Any]:
    """Yield all tensors in nested lists, tuples and dicts."""
    if isinstance(content, kind):
        yield content
    elif isinstance(content, dict):
        for value in content.values():
            yield from tensors_of(value, kind)
    elif isinstance(content, list | tuple):
        for value in content:
            yield from tensors_of(value, kind)


def arrays_of(
    content: Any, kind: type, join: Callable[[list[Any]], Any], *, source: str
) -> Mapping[str, Any]:
    """Return the arrays of a file by name: batches are joined, a pair is logits and labels.

    ``kind`` is the type of a tensor and ``join`` puts several together.

    Examples
    --------
    >>> import numpy as np
    >>> batches = [(np.eye(3), np.arange(3)), (np.eye(3)[:1], np.array([2]))]
    >>> found = arrays_of(batches, np.ndarray, np.concatenate, source="a.pt")
    >>> found["logits"].shape, found["labels"].tolist()
    ((4, 3), [0, 1, 2, 2])
    """
    known = _Batches(kind, join, source)
    if isinstance(content, kind):
        return {"logits": content}
    if isinstance(content, dict):
        return {str(name): known.whole(value, str(name)) for name, value in content.items()}
    if isinstance(content, list | tuple) and content:
        return known.joined(content)
    raise known.refusal(type(content).__name__)


class _Batches:
    def __init__(self, kind: type, join: Callable[[list[Any]], Any], source: str) -> None:
        self._kind, self._join, self._source = kind, join, source

    def joined(self, content: Sequence[Any]) -> Mapping[str, Any]:
        """Return the arrays of a list."""
        if self._is_pair(content):
            return {name: self.whole(part, name) for name, part in zip(_PAIR, content, strict=True)}
        if all(isinstance(batch, self._kind) for batch in content):
            return {"logits": self.whole(content, "logits")}
        if all(self._is_pair(batch) for batch in content):
            parts = zip(*content, strict=True)
            return {
                name: self.whole(list(part), name) for name, part in zip(_PAIR, parts, strict=True)
            }
        if all(isinstance(batch, dict) for batch in content):
            return self._joined_dicts(content)
        kinds = sorted({type(batch).__name__ for batch in content})
        raise self.refusal(f"list of {' and '.join(kinds)}")

    def _joined_dicts(self, content: Sequence[Mapping[Any, Any]]) -> Mapping[str, Any]:
        odd = next((i for i, batch in enumerate(content) if batch.keys() != content[0].keys()), 0)
        if odd:
            names = [", ".join(map(str, content[i])) for i in (0, odd)]
            raise FileError(
                f"{self._source}: batch {odd} holds {names[1]}, but the first holds {names[0]}; "
                "all batches must have the same names",
                code="file-ragged",
            )
        return {
            str(name): self.whole([batch[name] for batch in content], str(name))
            for name in content[0]
        }

    def _is_pair(self, content: Any) -> bool:
        """Whether these are logits and their labels, in two tensors or two lists of them."""
        if not isinstance(content, list | tuple) or len(content) != 2:
            return False
        first, second = (self._width(part) for part in content)
        if first is None or second is None:
            return False
        return second == first - 1 or (first > 1 and second == 0)  # a batch of one row

    def _width(self, part: Any) -> int | None:
        """Return how many axes a tensor, or the tensors of a list, have."""
        if isinstance(part, list | tuple):
            part = part[0] if part else None
        return getattr(part, "ndim", None) if isinstance(part, self._kind) else None

    def whole(self, value: Any, name: str) -> Any:
        """Return batches as one array; what is none stays as it is."""
        if not isinstance(value, list | tuple) or not value:
            return value
        if not all(isinstance(batch, self._kind) for batch in value):
            return value
        batches: list[Any] = [batch if batch.ndim else batch.reshape(1) for batch in value]
        first = batches[0].shape[1:]
        odd = next((i for i, batch in enumerate(batches) if batch.shape[1:] != first), None)
        if odd is not None:
            raise FileError(
                f"{self._source}: batches of {name} differ in more than their number of rows: "
                f"the first has shape {tuple(batches[0].shape)}, batch {odd} has "
                f"{tuple(batches[odd].shape)}",
                code="file-ragged",
            )
        return self._join(batches)

    def refusal(self, what: str) -> FileError:
        """Build the error for a file that holds something else."""
        return FileError(
            f"{self._source} holds a {what}; save a dict of tensors with the names logits and "
            "labels, the tuple (logits, labels), or a list of such batches",
            code="file-type",
        )
