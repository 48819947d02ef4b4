"""What somebody asks of a query while it runs, as records: small texts, numbered, that say one thing each.

    {"format": 1, "number": 3, "action": "pause", "source": "orders"}
    {"format": 1, "number": 4, "action": "patience", "step": "punctuate#1", "patience": "10s"}
    {"format": 1, "number": 5, "action": "flush"}

What a query can be asked, its plan says (`Controllable`): whoever writes a record looks there first, so that what
cannot be is refused with one clear message. What only the running query knows, such as which sources have come, is
looked at when a record is read. One that cannot be applied then is left alone.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa

from slackwater.errors import PlanError, SlackwaterError, message
from slackwater.events.schema import TimeColumn
from slackwater.events.written_times import as_instant
from slackwater.progress.instants import as_duration, format_duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slackwater.events.written_times import Moment

FORMAT: Final = 1
"""The form of records."""

Length: TypeAlias = str | int | timedelta
"""A patience as users write it: "10s" or a timedelta on calendar time, else a whole number."""

_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "pause": ("source",),
    "resume": ("source",),
    "retire": ("source",),
    "patience": ("step", "patience"),
    "flush": (),
    "attach": ("replica", "complete_from"),
    "detach": ("replica",),
}
"""What can be asked, and what each of them says besides."""

OF_SOURCES: Final = frozenset({"pause", "resume", "retire"})
"""What is asked of a source."""

OF_REPLICAS: Final = frozenset({"attach", "detach"})
"""What is asked of a replica."""


@dataclass(frozen=True)
class ControlRecord:
    """One thing that is asked.

    >>> record = ControlRecord(3, "patience", {"step": "punctuate#1", "patience": "10s"})
    >>> print(record)
    patience step=punctuate#1 patience=10s
    >>> ControlRecord.of_text(record.as_text()) == record
    True
    """

    number: int
    """Its place among all: records of one micro-batch are applied in this order."""

    action: str
    says: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return " ".join([self.action, *(f"{word}={value}" for word, value in self.says.items())])

    def __getitem__(self, word: str) -> Any:
        return self.says[word]

    def numbered(self, number: int) -> ControlRecord:
        """The same, in another place."""
        return replace(self, number=number)

    def as_text(self) -> str:
        """As it is written."""
        return json.dumps({"format": FORMAT, "number": self.number, "action": self.action, **self.says})

    @classmethod
    def of_text(cls, text: str) -> ControlRecord:
        """Read what somebody wrote; refuse what is no record."""
        try:
            found = json.loads(text)
            form, number, action = (found.pop(word) for word in ("format", "number", "action"))
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise _unreadable(text, f"{type(error).__name__}: {error}") from error
        if form != FORMAT:
            raise _unreadable(text, f"format {form}, and this library reads {FORMAT}")
        if type(number) is not int or number < 1:
            raise _unreadable(text, f"its number is {number!r}")
        if action not in _WORDS:
            raise _unreadable(text, f"nobody can be asked to {action!r}; there are {', '.join(_WORDS)}")
        if found.keys() != set(_WORDS[action]):
            raise _unreadable(text, f"{action} says {', '.join(_WORDS[action]) or 'nothing'}")
        return cls(number, action, found)


def _unreadable(text: str, cause: str) -> PlanError:
    facts = {"record": text if len(text) < _SHOWN else f"{text[:_SHOWN]}...", "cause": cause}
    return PlanError(message("this is no control record", facts))


_SHOWN: Final = 200


@dataclass(frozen=True)
class PatienceOf:
    """A step with a patience."""

    calendar: bool
    ticks: int = 1
    """Where late rows are moved: patiences are whole ticks of the time column."""

    fixed: str = ""
    """Why its patience cannot be another; empty if it can."""


@dataclass(frozen=True)
class ReplicaOf:
    """A replica of a merge."""

    calendar: bool
    fixed: str = ""
    """Why it takes part for good, or cannot be distinguished; empty if it can come and go."""


@dataclass(frozen=True)
class Controllable:
    """What a query can be asked, by its plan."""

    sources: Mapping[str, str] = field(default_factory=dict)
    """Its streams by name, and why each of them is waited for in any case; empty where it can be paused."""

    origins: bool = False
    """Whether there are other sources, which a column of rows names, or bounds."""

    steps: Mapping[str, PatienceOf] = field(default_factory=dict)
    """The steps that decide which rows are late."""

    fixed: str = ""
    """Why it cannot be flushed; empty if it can."""

    replicas: Mapping[str, ReplicaOf] = field(default_factory=dict)
    """The replicas of merges, by the names of their streams."""

    @classmethod
    def stored(cls, notes: Mapping[str, Any]) -> Controllable:
        """As a checkpoint has it."""
        steps = {name: PatienceOf(**about) for name, about in notes.get("steps", {}).items()}
        replicas = {name: ReplicaOf(**about) for name, about in notes.get("replicas", {}).items()}
        known = {name: value for name, value in notes.items() if name in cls.__dataclass_fields__}
        return cls(**{**known, "steps": steps, "replicas": replicas})

    def notes(self) -> dict[str, Any]:
        """The same in plain values."""
        return asdict(self)

    # ---- what may be asked -------------------------------------------------------------------------------------------

    def about_source(self, action: str, source: str) -> ControlRecord:
        """Ask something of a source, if there may be one of that name."""
        if not isinstance(source, str) or not source:
            hint = "write its name: that of a stream, or as the column of origins has it"
            raise PlanError(message("a source is called by its name", {"got": repr(source)}, hint))
        because = self.sources.get(source)
        if because:
            raise PlanError(message(f"this source cannot be asked to {action}", {"source": source, "because": because}))
        if because is None and not self.origins:
            facts, hint = {"source": source, "there are": ", ".join(self.sources)}, "sw.stream(..., name=...) names one"
            raise PlanError(message("this query has no such source", facts, hint))
        return ControlRecord(0, action, {"source": source})

    def about_patience(self, patience: Length, step: str | None) -> ControlRecord:
        """Ask for another patience of a step, or of the only one that has one."""
        found = self.steps.get(step) if step is not None else None
        if step is None:
            step = self._only_step()
            found = self.steps[step]
        if found is None:
            facts, hint = {"step": step, "there are": ", ".join(self.steps)}, "why() and explain() have their names"
            raise PlanError(message("no step of that name has a patience", facts, hint))
        if found.fixed:
            facts = {"step": step, "because": found.fixed}
            raise PlanError(message("the patience of this step cannot be changed while the query runs", facts))
        length = as_duration(patience, calendar=found.calendar)
        if length % found.ticks:
            facts = {"step": step, "patience": str(patience), "ticks of the time column": format_duration(found.ticks)}
            hint = "late rows are moved to it: choose whole ticks"
            raise PlanError(message("the patience is finer than the time column", facts, hint))
        written = format_duration(length) if found.calendar else length
        return ControlRecord(0, "patience", {"step": step, "patience": written})

    def _only_step(self) -> str:
        can = [step for step, about in self.steps.items() if not about.fixed]
        if len(can) == 1:
            return can[0]
        if not can:
            because = {step: about.fixed for step, about in self.steps.items()}
            raise PlanError(message("no step of this query has a patience that can be changed", because))
        facts, hint = {"there are": ", ".join(can)}, f'name one: patience("10s", step={can[0]!r})'
        raise PlanError(message("several steps have a patience", facts, hint))

    def about_flush(self) -> ControlRecord:
        """Ask for all that is held."""
        if self.fixed:
            raise PlanError(message("this query cannot be flushed while it runs", {"because": self.fixed}))
        return ControlRecord(0, "flush")

    def about_attaching(self, replica: str, complete_from: Moment) -> ControlRecord:
        """Ask to listen to a replica, which is complete from a time on."""
        calendar = self._replica("attach", replica).calendar
        column = TimeColumn("complete_from", pa.timestamp("us", "UTC") if calendar else pa.int64())
        instant = as_instant(complete_from, column, "complete_from")
        return ControlRecord(0, "attach", {"replica": replica, "complete_from": instant})

    def about_detaching(self, replica: str) -> ControlRecord:
        """Ask to listen to a replica no longer."""
        self._replica("detach", replica)
        return ControlRecord(0, "detach", {"replica": replica})

    def _replica(self, action: str, replica: str) -> ReplicaOf:
        found = self.replicas.get(replica)
        if found is None:
            facts = {"replica": replica, "there are": ", ".join(self.replicas) or "none"}
            hint = "replicas are called by the names of their streams: sw.stream(..., name=...)"
            raise PlanError(message("this query has no such replica", facts, hint))
        if found.fixed:
            facts = {"replica": replica, "because": found.fixed}
            raise PlanError(message(f"this replica cannot be asked to {action}", facts))
        return found

    def require(self, record: ControlRecord) -> None:
        """Refuse a record that its writer should have been refused, as it is read."""
        if record.action in OF_SOURCES:
            self.about_source(record.action, record["source"])
        elif record.action == "patience":
            self.about_patience(record["patience"], record["step"])
        elif record.action == "flush":
            self.about_flush()
        elif record.action in OF_REPLICAS:
            self._replica(record.action, record["replica"])
            if not isinstance(record.says.get("complete_from", 0), int):
                facts = {"complete_from": record["complete_from"]}
                raise PlanError(message("complete_from is a whole number: microseconds, or a sequence number", facts))


def cause_of(refusal: SlackwaterError) -> str:
    """A refusal in one line.

    >>> cause_of(PlanError(message("no such source", {"source": "x"}, "look again")))
    'no such source: source x; look again'
    """
    headline, *rest = str(refusal).splitlines()
    return ": ".join([headline, "; ".join(" ".join(line.split()).removeprefix("hint: ") for line in rest)]).rstrip(": ")
