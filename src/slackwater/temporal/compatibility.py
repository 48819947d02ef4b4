"""Checks whether an output can still follow its replicas, whatever they send next.

An output is compatible with its inputs when, for every way in which the inputs can go on and end up equivalent,
the output can go on to the same temporal table. LMerge must keep this true at every instant.

Paper: Chandramouli, Maier, Goldstein. Physically Independent Stream Merging. ICDE 2012, section III-B: conditions
C1, C2, C3 when payload and start are a key (case R3), and the condition on multisets (case R4). L is the output's
last punctuation, L_m that of input m. As there, the inputs are taken to be mutually consistent and to start
together. tests/temporal/test_compatibility.py compares both checkers with the definition, by exhaustive search.

One inequality differs from the print. C2 wants for a half frozen output event a half frozen input event with
L_m <= L; that refuses every output that lags behind its only input. The reason the paper gives (the output can
be adjusted to whatever the input changes to) and its own C3 call for L <= L_m, and so does the definition.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from slackwater.errors import Incompatible
from slackwater.progress.instants import format_instant
from slackwater.temporal.freeze import Freeze, freeze_of, frozen_as

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from slackwater.progress.instants import Instant
    from slackwater.temporal.table import Key, TemporalEvent, TemporalTable


@dataclass(frozen=True, slots=True)
class Violation:
    """A condition that does not hold, and the events that show it."""

    condition: str
    """Its name in the paper: C1, C2, C3 or R4."""

    reason: str
    """What is wrong, in words."""

    output_events: tuple[TemporalEvent, ...] = ()
    """The events of the output that are at fault, or that were found where others should be."""

    input_events: tuple[TemporalEvent, ...] = ()
    """The events of the inputs that they contradict."""

    def __str__(self) -> str:
        return f"{self.condition}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Sighting:
    """An event of an input, and what that input has fixed of it."""

    event: TemporalEvent
    complete_before: Instant

    @property
    def freeze(self) -> Freeze:
        """How much of the event its own input has fixed."""
        return freeze_of(self.event, self.complete_before)


_Sightings: TypeAlias = dict["Key", list[Sighting]]
"""For each payload and start, the events of the inputs that have them."""


def check_compatible(output: TemporalTable, inputs: Sequence[TemporalTable]) -> None:
    """Raise Incompatible for the first of C1, C2, C3 that does not hold; payload and start must be a key.

    >>> from slackwater.temporal.table import TemporalEvent, TemporalTable
    >>> replica = TemporalTable([TemporalEvent("A", 2, 16)], complete_before=14)
    >>> check_compatible(TemporalTable([TemporalEvent("A", 2)], complete_before=11), [replica])
    >>> print(first_violation(TemporalTable([], complete_before=11), [replica]))
    C3: half frozen event of an input is not half frozen in the output
    """
    _refuse(first_violation(output, inputs))


def check_compatible_multiset(output: TemporalTable, inputs: Sequence[TemporalTable]) -> None:
    """Raise Incompatible when an output that may hold equal events twice cannot follow its inputs any more."""
    _refuse(first_multiset_violation(output, inputs))


def first_violation(output: TemporalTable, inputs: Sequence[TemporalTable]) -> Violation | None:
    """Return the first of C1, C2, C3 that does not hold, events in order of start; None when all hold."""
    return next(violations(output, inputs), None)


def violations(output: TemporalTable, inputs: Sequence[TemporalTable]) -> Iterator[Violation]:
    """Go through every violation of C1, then of C2, then of C3. Cost: O(n log n), n = events of all tables."""
    if not inputs or not all(table.is_keyed() for table in inputs):
        raise ValueError("C1 to C3 are about one or more inputs in which payload and start are a key")
    sightings: _Sightings = {}
    for table in inputs:
        for event in table:
            sightings.setdefault(event.key, []).append(Sighting(event, table.complete_before))
    yield from _beyond_all_inputs(output, inputs)
    yield from _what_may_be_there(output, sightings)
    yield from _what_must_be_there(output, sightings)


def first_multiset_violation(output: TemporalTable, inputs: Sequence[TemporalTable]) -> Violation | None:
    """Return C1 or R4 if one does not hold, with the events; None when both hold.

    The paper states R4 for an output that keeps up with the input of the largest L_m: the same fully frozen
    events, and per payload and start equally many half frozen ones. An output that lags behind is held to the
    same, with that input seen as if it, too, were complete only before L.
    """
    if not inputs:
        raise ValueError("R4 is about one or more inputs")
    for violation in _beyond_all_inputs(output, inputs):
        return violation
    reference = max(inputs, key=lambda table: table.complete_before)
    fixed, fixed_there = (
        Counter(frozen_as(Freeze.FULLY_FROZEN, table, output.complete_before)) for table in (output, reference)
    )
    if fixed != fixed_there:
        reason = "the fully frozen events are not those of the input that is complete furthest"
        return Violation("R4", reason, tuple((fixed - fixed_there).elements()), tuple((fixed_there - fixed).elements()))
    open_ended, open_there = (
        tuple(frozen_as(Freeze.HALF_FROZEN, table, output.complete_before)) for table in (output, reference)
    )
    counts, counts_there = (Counter(event.key for event in events) for events in (open_ended, open_there))
    wrong = {key for key in counts | counts_there if counts[key] != counts_there[key]}
    if wrong:
        return Violation(
            "R4",
            "payload and start have another number of half frozen events than in the input that is complete furthest",
            tuple(event for event in open_ended if event.key in wrong),
            tuple(event for event in open_there if event.key in wrong),
        )
    return None


def _beyond_all_inputs(output: TemporalTable, inputs: Sequence[TemporalTable]) -> Iterator[Violation]:
    furthest = max(table.complete_before for table in inputs)
    if output.complete_before > furthest:
        complete, allowed = (format_instant(instant, calendar=False) for instant in (output.complete_before, furthest))
        yield Violation("C1", f"output is complete before {complete}, the inputs only before {allowed}")


def _what_may_be_there(output: TemporalTable, sightings: _Sightings) -> Iterator[Violation]:
    """C2: every output event that can no longer be removed is one that the inputs will have, too."""
    known: dict[Key, TemporalEvent] = {}
    for event in output:
        if event.key in known:
            yield Violation("C2", "output has two events of one payload and start", (known[event.key], event))
        known[event.key] = event
        there = sightings.get(event.key, [])
        freeze = freeze_of(event, output.complete_before)
        if freeze is Freeze.HALF_FROZEN and not any(_supports(seen, output.complete_before) for seen in there):
            yield _unsupported("half frozen event has no support that it could still be adjusted to", event, there)
        if freeze is Freeze.FULLY_FROZEN and not any(
            seen.freeze is Freeze.FULLY_FROZEN and seen.event == event for seen in there
        ):
            yield _unsupported("fully frozen event has no fully frozen support", event, there)


def _supports(seen: Sighting, complete_before: Instant) -> bool:
    """Whether a half frozen output event can follow this input event to every end it may still get."""
    if seen.freeze is Freeze.FULLY_FROZEN:
        return complete_before <= seen.event.end
    return seen.freeze is Freeze.HALF_FROZEN and complete_before <= seen.complete_before


def _unsupported(reason: str, event: TemporalEvent, there: list[Sighting]) -> Violation:
    return Violation("C2", reason, (event,), tuple(seen.event for seen in there))


def _what_must_be_there(output: TemporalTable, sightings: _Sightings) -> Iterator[Violation]:
    """C3: every input event that can no longer be removed is in the output, or can still be put there."""
    present: dict[Key, list[TemporalEvent]] = {}
    for event in output:
        present.setdefault(event.key, []).append(event)
    for key, there in sorted(sightings.items(), key=lambda item: item[0][1]):
        found = tuple(present.get(key, ()))
        fixed = dict.fromkeys(seen.event for seen in there if seen.freeze is Freeze.FULLY_FROZEN)
        half = [seen for seen in there if seen.freeze is Freeze.HALF_FROZEN]
        for event in fixed:
            if not _can_become(event, found, output.complete_before):
                reason = "fully frozen event of an input is not in the output and cannot be put there any more"
                yield Violation("C3", reason, found, (event,))
        if half and not fixed and not _can_follow(max(half, key=_progress), found, output.complete_before):
            reason = "half frozen event of an input is not half frozen in the output"
            yield Violation("C3", reason, found, tuple(seen.event for seen in half))


def _progress(seen: Sighting) -> Instant:
    return seen.complete_before


def _can_become(event: TemporalEvent, found: tuple[TemporalEvent, ...], complete_before: Instant) -> bool:
    """C3, case 1: whether the output can have exactly this event."""
    match freeze_of(event, complete_before):
        case Freeze.UNFROZEN:
            return True
        case Freeze.HALF_FROZEN:
            return _any_half_frozen(found, complete_before)
        case Freeze.FULLY_FROZEN:
            return event in found


def _can_follow(seen: Sighting, found: tuple[TemporalEvent, ...], complete_before: Instant) -> bool:
    """C3, case 2: whether the output can have this event with any end that its input may still give it."""
    if complete_before <= seen.event.start:
        return True
    return complete_before <= seen.complete_before and _any_half_frozen(found, complete_before)


def _any_half_frozen(found: tuple[TemporalEvent, ...], complete_before: Instant) -> bool:
    return any(True for _ in frozen_as(Freeze.HALF_FROZEN, found, complete_before))


def _refuse(violation: Violation | None) -> None:
    if violation is not None:
        raise Incompatible.because(
            violation.condition, violation.reason, violation.output_events, violation.input_events
        )
