"""The options of a source, which Spark hands over as texts: those of another name or kind are refused."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from slackwater.errors import PlanError, message

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_SIZE: Final = re.compile(r"(?P<number>[0-9]+)\s*(?P<unit>[kmg]?)b?", re.IGNORECASE)
_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


@dataclass(frozen=True)
class GivenOptions:
    """Options as they were given, by names in any case."""

    source: str
    given: Mapping[str, str]

    def _found(self, name: str) -> str | None:
        return next((value for known, value in self.given.items() if known.lower() == name.lower()), None)

    def refuse_unknown(self, known: Iterable[str]) -> None:
        """Refuse what nobody here would look at."""
        in_any_case = {name.lower() for name in known}
        for name in self.given:
            if name.lower() not in in_any_case:
                facts = {"option": name, "there are": ", ".join(sorted(known))}
                raise PlanError(message(f"{self.source} has no option of this name", facts))

    def text(self, name: str) -> str | None:
        """A text; None if there is none."""
        return self._found(name)

    def required(self, name: str, hint: str) -> str:
        """A text that must be there."""
        found = self._found(name)
        if not found:
            raise PlanError(message(f"{self.source} needs the option {name}", {}, hint))
        return found

    def one_of(self, name: str, *choices: str) -> str:
        """One of some words, the first if there is none."""
        found = self._found(name) or choices[0]
        for choice in choices:
            if found.lower() == choice.lower():
                return choice
        raise self.refused(name, f"one of {', '.join(choices)}")

    def flag(self, name: str, *, default: bool = False) -> bool:
        """True or False."""
        return self.one_of(name, *(("true", "false") if default else ("false", "true"))) == "true"

    def whole(self, name: str, default: int | None = None) -> int | None:
        """A whole number above zero."""
        found = self._found(name)
        if found is None:
            return default
        if not found.isdecimal() or int(found) < 1:
            raise self.refused(name, "a whole number above zero")
        return int(found)

    def size(self, name: str) -> int | None:
        """A number of bytes, such as 1g."""
        found = self._found(name)
        if found is None:
            return None
        parts = _SIZE.fullmatch(found.strip())
        if parts is None or int(parts["number"]) < 1:
            raise self.refused(name, "a number of bytes, such as 134217728 or 128m")
        return int(parts["number"]) * _UNITS[parts["unit"].lower()]

    def instant(self, name: str) -> datetime | None:
        """A time with its zone; without one it is in UTC."""
        found = self._found(name)
        if found is None:
            return None
        try:
            when = datetime.fromisoformat(found)
        except ValueError:
            raise self.refused(name, "a time, such as 2026-01-31T12:00:00Z") from None
        return when if when.tzinfo is not None else when.replace(tzinfo=UTC)

    def refuse_both(self, one: str, other: str) -> None:
        """Refuse two options of which only one can count."""
        facts = {name: self._found(name) for name in (one, other)}
        if None not in facts.values():
            raise PlanError(message(f"{self.source} begins at one place", facts, "give one of these options"))

    def refused(self, name: str, wanted: str) -> PlanError:
        """What is raised for a value that cannot be read."""
        facts = {"option": name, "wanted": wanted, "got": repr(self._found(name))}
        return PlanError(message(f"{self.source} cannot read an option", facts))


def as_texts(options: Mapping[str, Any]) -> dict[str, str]:
    """Options as Spark hands them on.

    >>> as_texts({"ignoreDeletes": True, "startingTimestamp": datetime(2026, 1, 31, tzinfo=UTC), "password": None})
    {'ignoreDeletes': 'true', 'startingTimestamp': '2026-01-31T00:00:00+00:00'}
    """
    return {name: _as_text(value) for name, value in options.items() if value is not None}


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if isinstance(value, datetime) else str(value)
