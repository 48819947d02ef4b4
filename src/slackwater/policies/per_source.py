"""A value for every source of a stream: one for all, with exceptions by name, or for named sources only."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from slackwater.errors import PlanError, message

if TYPE_CHECKING:
    from types import EllipsisType

SourceName: TypeAlias = Hashable
"""What the origin column holds for a source: a word, a number, null."""

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True)
class PerSource(Generic[T]):
    """What holds for each source; `default` is for all that are not named.

    >>> lengths = PerSource.read({"JFK": "2h", ...: "10m"})
    >>> lengths["JFK"], lengths["EWR"], lengths.names
    ('2h', '10m', ('JFK',))
    """

    default: T
    named: tuple[tuple[SourceName, T], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", dict(self.named))

    @classmethod
    def read(cls, given: T | Mapping[SourceName | EllipsisType, T], nothing: Any = None) -> PerSource[Any]:
        """Read what a user wrote: one value for all, or a mapping by name, with `...` for all others.

        >>> PerSource.read("5m")["anybody"], PerSource.read({"JFK": "2h"})["EWR"]
        ('5m', None)
        """
        if not isinstance(given, Mapping):
            return cls(given)
        if not given:
            hint = "name the sources, or give one value for all"
            raise PlanError(message("this mapping names no source", {"got": repr(given)}, hint))
        named = tuple((name, value) for name, value in given.items() if name is not ...)
        return cls(given.get(..., nothing), named)

    def __getitem__(self, name: SourceName) -> T:
        found: T = self._by_name.get(name, self.default)  # type: ignore[attr-defined]
        return found

    @property
    def names(self) -> tuple[SourceName, ...]:
        """The sources that are named."""
        return tuple(name for name, _ in self.named)

    @property
    def values(self) -> tuple[T, ...]:
        """The default, and what named sources have."""
        return (self.default, *(value for _, value in self.named))

    def map(self, change: Callable[[T], U]) -> PerSource[U]:
        """The same with every value changed.

        >>> PerSource(3, (("a", 4),)).map(lambda value: value + 1)["a"]
        5
        """
        return PerSource(change(self.default), tuple((name, change(value)) for name, value in self.named))

    def with_other(self, other: PerSource[T], put: Callable[[T, T], T]) -> PerSource[T]:
        """Both, put together source by source.

        >>> PerSource(1, (("a", 5),)).with_other(PerSource(3, (("b", 9),)), max).named
        (('a', 5), ('b', 9))
        """
        names = dict.fromkeys([*self.names, *other.names])
        named = tuple((name, put(self[name], other[name])) for name in names)
        return PerSource(put(self.default, other.default), named)
