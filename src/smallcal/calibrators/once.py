"""A property that is computed when it is first asked for, and kept: without a lock.

``functools.cached_property`` holds a lock while it computes, before Python 3.12. A process that
forks while one of its threads computes leaves the lock held in the child for ever, and the child
hangs at its first prediction: servers that start their workers by forking do just that. Here two
threads may compute the same value twice, which does no harm: it is the same value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Value = TypeVar("Value")


class once(Generic[Value]):
    """Compute an attribute from its object at first use, and keep it in the object.

    Examples
    --------
    >>> class Circle:
    ...     radius = 2.0
    ...
    ...     @once
    ...     def area(self) -> float:
    ...         print("computed")
    ...         return 3.14 * self.radius**2
    >>> circle = Circle()
    >>> circle.area, circle.area
    computed
    (12.56, 12.56)
    """

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> once[Value]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...

    def __get__(self, instance: object | None, owner: type) -> once[Value] | Value:
        if instance is None:
            return self
        # What is in the object's own dictionary is found there the next time, before this.
        value = instance.__dict__[self._name] = self._compute(instance)
        return value
