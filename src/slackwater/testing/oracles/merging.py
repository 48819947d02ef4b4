"""LMerge as the papers write it: algorithms R0 to R4, element by element, in plain Python.

Slow and obvious: what the operators in operators/replicas are compared with, and what the benchmark calls pure Python.
A punctuation that is passed on comes last in what it gives.

Papers: Chandramouli, Maier, Goldstein. Physically Independent Stream Merging. ICDE 2012, section IV, and the technical
report of the same title, sections IV-A to IV-E, whose line numbers are given.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

from slackwater.events.elements import Adjust, Insert, Punctuate
from slackwater.progress.instants import BEGINNING

if TYPE_CHECKING:
    from slackwater.events.elements import Element
    from slackwater.progress.instants import Instant
    from slackwater.temporal.table import Key

Stream: TypeAlias = int
"""The number of an input."""


class LogicalMerge(ABC):
    """One algorithm, fed one element at a time."""

    def __init__(self, inputs: int) -> None:
        self.inputs = inputs
        self.max_stable = BEGINNING

    def take(self, stream: Stream, element: Element) -> list[Element]:
        """Take an element of an input; return what goes out."""
        match element:
            case Insert():
                return self.insert(stream, element)
            case Adjust():
                return self.adjust(stream, element)
            case Punctuate(t):
                if t <= self.max_stable:
                    return []
                before = self.stable(stream, t)
                self.max_stable = t
                return [*before, element]

    @abstractmethod
    def insert(self, stream: Stream, event: Insert) -> list[Element]:
        """Take an insert."""

    def adjust(self, stream: Stream, event: Adjust) -> list[Element]:
        """Take an adjust; the ordered cases have none."""
        raise ValueError(f"input {stream}: {event} is not supported")

    def stable(self, stream: Stream, t: Instant) -> list[Element]:  # noqa: ARG002 - the ordered cases need nothing
        """Return what must be emitted before a punctuation is passed on."""
        return []


class R0(LogicalMerge):
    """Strictly increasing."""

    def __init__(self, inputs: int) -> None:
        super().__init__(inputs)
        self.max_vs = BEGINNING

    def insert(self, stream: Stream, event: Insert) -> list[Element]:  # noqa: ARG002 - whoever it is
        """Lines 2 to 5."""
        if event.start <= self.max_vs:
            return []
        self.max_vs = event.start
        return [event]


class R1(R0):
    """Not decreasing, ties in the same order."""

    def __init__(self, inputs: int) -> None:
        super().__init__(inputs)
        self.same_vs_count = [0] * inputs

    def insert(self, stream: Stream, event: Insert) -> list[Element]:
        """Lines 3 to 10."""
        if event.start < self.max_vs:
            return []
        if event.start > self.max_vs:
            self.same_vs_count = [0] * self.inputs
            self.max_vs = event.start
        is_new = max(self.same_vs_count) == self.same_vs_count[stream]
        self.same_vs_count[stream] += 1
        return [event] if is_new else []


class R2(R0):
    """Not decreasing, ties in any order, start and payload a key."""

    def __init__(self, inputs: int) -> None:
        super().__init__(inputs)
        self.seen: set[Key] = set()

    def insert(self, stream: Stream, event: Insert) -> list[Element]:  # noqa: ARG002 - whoever it is
        """Lines 3 to 10."""
        if event.start < self.max_vs:
            return []
        if event.start > self.max_vs:
            self.seen.clear()
            self.max_vs = event.start
        key = (event.payload, event.start)
        if key in self.seen:
            return []
        self.seen.add(key)
        return [event]


class R3(LogicalMerge):
    """Disordered and revised, start and payload a key."""

    def __init__(self, inputs: int) -> None:
        super().__init__(inputs)
        self.in_ends: dict[Key, dict[Stream, Instant]] = {}
        self.out_end: dict[Key, Instant] = {}

    def insert(self, stream: Stream, event: Insert) -> list[Element]:
        """Lines 3 to 10."""
        key = (event.payload, event.start)
        out: list[Element] = []
        if key not in self.in_ends:
            if event.start < self.max_stable:
                return []
            self.in_ends[key] = {}
            self.out_end[key] = event.end
            out = [event]
        self.in_ends[key][stream] = event.end
        return out

    def adjust(self, stream: Stream, event: Adjust) -> list[Element]:
        """Lines 11 to 14."""
        key = (event.payload, event.start)
        if key in self.in_ends:
            self.in_ends[key][stream] = event.end
        return []

    def stable(self, stream: Stream, t: Instant) -> list[Element]:
        """Lines 15 to 27."""
        out: list[Element] = []
        for payload, start in sorted(
            (key for key in self.in_ends if key[1] < t), key=lambda key: (key[1], str(key[0]))
        ):
            key = (payload, start)
            in_end, out_end = self.in_ends[key].get(stream, start), self.out_end[key]
            if in_end != out_end and (in_end < t or out_end < t):
                out.append(Adjust(payload, start, out_end, in_end))
                self.out_end[key] = in_end
            if in_end < t:
                del self.in_ends[key], self.out_end[key]
        return out


class R4(LogicalMerge):
    """Disordered and revised, the same event any number of times."""

    def __init__(self, inputs: int) -> None:
        super().__init__(inputs)
        self.in_ends: dict[Key, list[Counter[Instant]]] = {}
        self.out_ends: dict[Key, Counter[Instant]] = {}

    def insert(self, stream: Stream, event: Insert) -> list[Element]:
        """Lines 3 to 11."""
        key = (event.payload, event.start)
        if key not in self.in_ends:
            if event.start < self.max_stable:
                return []
            self.in_ends[key] = [Counter() for _ in range(self.inputs)]
            self.out_ends[key] = Counter()
        self.in_ends[key][stream][event.end] += 1
        if event.start >= self.max_stable and self.in_ends[key][stream].total() > self.out_ends[key].total():
            self.out_ends[key][event.end] += 1
            return [event]
        return []

    def adjust(self, stream: Stream, event: Adjust) -> list[Element]:
        """Lines 12 to 15; an adjust to its start removes an event."""
        key = (event.payload, event.start)
        if key in self.in_ends:
            ends = self.in_ends[key][stream]
            ends[event.prior_end] -= 1
            ends[event.end] += event.end > event.start
            self.in_ends[key][stream] = +ends
        return []

    def stable(self, stream: Stream, t: Instant) -> list[Element]:
        """Lines 16 to 28."""
        out: list[Element] = []
        for payload, start in sorted(
            (key for key in self.in_ends if key[1] < t), key=lambda key: (key[1], str(key[0]))
        ):
            key = (payload, start)
            ins = self.in_ends[key][stream]
            if start >= self.max_stable:
                out += self.adjust_output_count(key, ins)
            out += self.adjust_output(key, ins, t)
            if max(ins, default=start) < t:
                del self.in_ends[key], self.out_ends[key]
        return out

    def adjust_output_count(self, key: Key, ins: Counter[Instant]) -> list[Element]:
        """Make as many events go out as come in: remove those that no input event matches first, insert what lacks."""
        (payload, start), outs = key, self.out_ends[key]
        out: list[Element] = []
        for end in sorted((outs - ins).elements()):
            if outs.total() > ins.total():
                outs[end] -= 1
                out.append(Adjust(payload, start, end, start))
        for end in sorted((ins - outs).elements()):
            if outs.total() < ins.total():
                outs[end] += 1
                out.append(Insert(payload, start, end))
        self.out_ends[key] = +outs
        return out

    def adjust_output(self, key: Key, ins: Counter[Instant], t: Instant) -> list[Element]:
        """Make the output agree on every end that is frozen: surplus ends become those that lack, wherever both may."""
        (payload, start), outs = key, self.out_ends[key]
        surplus, lacking = sorted((outs - ins).elements()), sorted((ins - outs).elements())
        out: list[Element] = []
        # What freezes is settled first, on both sides; what does not is paired only as far as that needs it.
        while surplus and lacking and (surplus[0] < t or lacking[0] < t):
            old = surplus.pop(0) if surplus[0] < t else surplus.pop()
            new = lacking.pop(0) if lacking[0] < t else lacking.pop()
            outs[old] -= 1
            outs[new] += 1
            out.append(Adjust(payload, start, old, new))
        self.out_ends[key] = +outs
        return out
