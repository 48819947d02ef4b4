"""Which rows a merge of replicas that only insert leaves out, and why: by plain lists, one element at a time."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, TypeAlias

from slackwater.events.elements import Insert, Punctuate
from slackwater.operators.replicas.diverted_rows import CONTRADICTED, PASSED_OVER
from slackwater.progress.instants import BEGINNING

if TYPE_CHECKING:
    from slackwater.events.elements import Element
    from slackwater.progress.instants import Instant

Row: TypeAlias = tuple[Insert, int, str]
"""An event that was left out, the replica whose row it is, and the reason."""


class OrderedLeftOut:
    """Of ordered replicas: a row before the newest time, or before a punctuation, is passed over.

    So is one at the newest time where each time has one row; else it is new or a duplicate.
    """

    def __init__(self, *, strictly: bool) -> None:
        self.strictly = strictly
        self.newest = self.punctuated = BEGINNING

    def take(self, replica: int, element: Element) -> list[Row]:
        """Take an element of a replica; return what is left out now."""
        if isinstance(element, Punctuate):
            self.punctuated = max(self.punctuated, element.complete_before)
            return []
        assert isinstance(element, Insert)
        over = element.start < max(self.newest, self.punctuated) or (self.strictly and element.start == self.newest)
        self.newest = max(self.newest, element.start)
        return [(element, replica, PASSED_OVER)] if over else []


class FrozenLeftOut:
    """Of disordered replicas, where an event is settled once a punctuation has passed its start.

    The output has of it what the replica has whose punctuation that was; what another has more often is contradicted,
    for the first that has it most often. A row that comes later is passed over.
    """

    def __init__(self) -> None:
        self.settled = BEGINNING
        self.waiting: dict[tuple[Instant, Any], dict[int, list[Insert]]] = defaultdict(lambda: defaultdict(list))

    def take(self, replica: int, element: Element) -> list[Row]:
        """Take an element of a replica; return what is left out now."""
        if isinstance(element, Punctuate):
            return self._settle(replica, element.complete_before)
        assert isinstance(element, Insert)
        if element.start < self.settled:
            return [(element, replica, PASSED_OVER)]
        self.waiting[element.start, element.payload][replica].append(element)
        return []

    def _settle(self, leader: int, bound: Instant) -> list[Row]:
        left_out: list[Row] = []
        for key in [key for key in self.waiting if key[0] < bound]:
            sent = self.waiting.pop(key)
            holder = min(sent, key=lambda replica: (-len(sent[replica]), replica))
            surplus = sorted((Counter(sent[holder]) - Counter(sent.get(leader, []))).elements(), key=lambda e: e.end)
            more = len(sent[holder]) - len(sent.get(leader, []))
            left_out += [(event, holder, CONTRADICTED) for event in surplus[: max(more, 0)]]
        self.settled = max(self.settled, bound)
        return left_out
