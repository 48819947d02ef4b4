"""When each agreement lets an element go out, and why: against definitions written from the paper, element by element.

Paper: Chandramouli, Maier, Goldstein. Physically Independent Stream Merging. ICDE 2012, section V-A: the choices at
locations 1 (which revisions go out) and 2 (when an insert does) of algorithm R3.
"""

from __future__ import annotations

from math import ceil
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.events.elements import Adjust, Insert, Punctuate, batch_of, elements_of
from slackwater.operators.replicas.multiset import MergeMultiset
from slackwater.operators.replicas.revised_with_key import MergeRevisedWithKey
from slackwater.policies.agreement import Agreement, Emit, Revise
from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.testing.merging_cases import keyed_tables
from slackwater.testing.presentations import Presentation, present

if TYPE_CHECKING:
    from slackwater.events.elements import Element
    from slackwater.temporal.table import Key, TemporalTable

PAYLOAD = pa.schema({"k": pa.string(), "v": pa.int64()})
NO_ROWS = pa.RecordBatch.from_pylist([], PAYLOAD)
_REVISED = Presentation(disorder=5, early_values=0.5, removed_extras=0.3, punctuations=0.3)


class _Definition:
    """Algorithm R3 with the policies of section V-A in the places where the paper says they may differ."""

    def __init__(self, inputs: int, agreement: Agreement) -> None:
        self.agreement = agreement
        self.ins: list[dict[Key, int]] = [{} for _ in range(inputs)]
        self.out: dict[Key, int] = {}
        self.done: set[Key] = set()
        self.stable = [BEGINNING] * inputs
        self.newest = [BEGINNING] * inputs
        self.max_stable = self.guaranteed = BEGINNING

    def foremost(self, by: list[int]) -> int:
        """The stream that is first by something, of equals the one with the least number."""
        return by.index(max(by))

    def unfrozen(self, stream: int) -> int:
        """How many elements of a stream are not frozen."""
        return len(self.ins[stream])

    def lets_insert(self, stream: int, key: Key) -> bool:
        """Location 2: whether an insert is reflected at once."""
        match self.agreement.emit:
            case Emit.BY_QUORUM:
                tellers = sum(key in ends for ends in self.ins)
                return tellers >= max(1, ceil(self.agreement.quorum * len(self.ins)))
            case Emit.LEADING:
                return stream == self.foremost(self.stable)
            case Emit.NEWEST:
                return stream == self.foremost(self.newest)
            case Emit.FULLEST:
                return stream == self.foremost([self.unfrozen(one) for one in range(len(self.ins))])
            case _:
                return False

    def lets_revise(self, stream: int) -> bool:
        """Location 1: whether a change is reflected before it freezes."""
        revise = self.agreement.revise
        return revise is Revise.ALWAYS or (revise is Revise.LEADING and stream == self.foremost(self.stable))

    def take(self, stream: int, element: Element) -> list[Element]:
        """Take an element of an input; return what goes out."""
        if isinstance(element, Punctuate):
            self.stable[stream] = max(self.stable[stream], element.complete_before)
            return self.freeze(stream, element.complete_before)
        key, start = (element.payload, element.start), element.start
        known = any(key in ends for ends in self.ins) or key in self.out
        if key in self.done or (not known and (isinstance(element, Adjust) or start < self.max_stable)):
            return []
        if isinstance(element, Adjust) and element.end == start:
            self.ins[stream].pop(key, None)
        else:
            self.ins[stream][key] = element.end
        self.newest[stream] = max(self.newest[stream], start)
        if key in self.out:
            return self.revised(stream, key) if self.lets_revise(stream) else []
        if key in self.ins[stream] and start >= self.max_stable and self.lets_insert(stream, key):
            self.out[key] = element.end
            return [Insert(element.payload, start, element.end)]
        return []

    def revised(self, stream: int, key: Key) -> list[Element]:
        """What says that an event has another end now, as far as guarantees allow."""
        (payload, start), emitted = key, self.out[key]
        end = self.ins[stream].get(key, start)
        if end == emitted or min(end, emitted) < self.guaranteed:
            return []
        self.out[key] = end
        if end == start:
            del self.out[key]
        return [Adjust(payload, start, emitted, end)]

    def freeze(self, stream: int, t: int) -> list[Element]:
        """What must go out before a punctuation may, and the punctuation, if it says more."""
        if t <= self.max_stable:
            return []
        emitted: list[Element] = []
        complete = t
        for key in {key for ends in (*self.ins, self.out) for key in ends}:
            payload, start = key
            if start >= t:
                continue
            given = self.ins[stream].get(key)
            end = start if given is None else given
            frozen = end < t or t == FOREVER
            if key not in self.out and given is not None and (frozen or self.agreement.emit is not Emit.FROZEN):
                emitted.append(Insert(payload, start, end))
                self.out[key] = end
            elif key in self.out and end != self.out[key] and (end < t or self.out[key] < t):
                emitted.append(Adjust(payload, start, self.out[key], end))
                self.out[key] = end
            if frozen:
                self.forget(key)
            elif key not in self.out:
                complete = min(complete, start)
        self.max_stable = t
        if complete > self.guaranteed:
            self.guaranteed = complete
            emitted.append(Punctuate(complete))
        return emitted

    def forget(self, key: Key) -> None:
        """Be done with an event."""
        for ends in (*self.ins, self.out):
            ends.pop(key, None)
        self.done.add(key)


_SENDS = [
    Agreement.first(),
    Agreement.quorum_of(0.4),
    Agreement.quorum_of(0.5),
    Agreement.quorum_of(1),
    Agreement.leading(),
    Agreement.newest(),
    Agreement.fullest(),
    Agreement.half_frozen(),
    Agreement.frozen(),
]


@pytest.mark.parametrize("revise", Revise, ids=lambda one: one.name)
@pytest.mark.parametrize("send", _SENDS, ids=lambda one: f"{one.emit.name}-{one.quorum}")
@settings(max_examples=25)  # for each of many agreements
@given(table=keyed_tables(), seed=st.integers(0, 10**6), replicas=st.integers(2, 4))
def test_every_element_goes_out_when_the_definition_says(
    send: Agreement, revise: Revise, table: TemporalTable, seed: int, replicas: int
) -> None:
    """Not only the final table: what goes out after each element of each replica."""
    agreement, rng = send.revising(revise), Random(seed)
    if agreement.emit is Emit.FROZEN and revise is not Revise.WHEN_FROZEN:
        return  # there is nothing to revise
    merge: Any = MergeRevisedWithKey(replicas, NO_ROWS, agreement=agreement)
    definition = _Definition(replicas, agreement)
    left = [present(table, seed + port, _REVISED) for port in range(replicas)]
    while any(left):
        port = rng.choice([port for port, stream in enumerate(left) if stream])
        element = left[port].pop(0)
        emission = merge.on_batch(port, batch_of([element], PAYLOAD))
        got = [one for batch in emission.batches for one in elements_of(batch)]
        assert sorted(map(str, got)) == sorted(map(str, definition.take(port, element))), (port, element)


def _emitted(merge: Any, port: int, *elements: Element) -> list[Element]:
    return [one for batch in merge.on_batch(port, batch_of(elements, PAYLOAD)).batches for one in elements_of(batch)]


_A, _B, _C, _D = ((word, 1) for word in "abcd")


@pytest.mark.parametrize("operator", [MergeRevisedWithKey, MergeMultiset])
def test_a_quorum_of_half_of_four_is_two(operator: Any) -> None:
    """Not one, and not three."""
    merge = operator(4, NO_ROWS, agreement=Agreement.quorum_of(0.5))
    assert _emitted(merge, 0, Insert(_A, 5, 9)) == []
    assert _emitted(merge, 3, Insert(_A, 5, 9)) == [Insert(_A, 5, 9)]
    assert _emitted(merge, 1, Insert(_A, 5, 9)) == []


@pytest.mark.parametrize("operator", [MergeRevisedWithKey, MergeMultiset])
def test_the_leading_newest_and_fullest_replicas_are_three_different_ones(operator: Any) -> None:
    """The first has come furthest, the second has come to the latest event, the third sends most: each is believed."""
    for chosen, believed in ((Agreement.leading(), 0), (Agreement.newest(), 1), (Agreement.fullest(), 2)):
        merge = operator(3, NO_ROWS, agreement=chosen)
        _emitted(merge, 0, Punctuate(4))
        _emitted(merge, 1, Insert(_A, 50, 60))
        _emitted(merge, 2, *(Insert((f"many {n}", 1), 20, 30) for n in range(4)))
        for port in range(3):
            event = Insert((f"new {port}", 1), 10, 15)
            assert _emitted(merge, port, event) == ([event] if port == believed else []), (chosen, port)


@pytest.mark.parametrize("operator", [MergeRevisedWithKey, MergeMultiset])
def test_who_follows_the_leader_readjusts_when_the_leader_changes(operator: Any) -> None:
    """Revisions of the leader go out at once, those of others do not; who leads now may revise what another had."""
    merge = operator(2, NO_ROWS, agreement=Agreement.first().revising(Revise.LEADING))
    _emitted(merge, 0, Punctuate(2))
    assert _emitted(merge, 0, Insert(_A, 5, 20)) == [Insert(_A, 5, 20)]
    assert _emitted(merge, 1, Insert(_A, 5, 15)) == []
    assert _emitted(merge, 0, Adjust(_A, 5, 20, 18)) == [Adjust(_A, 5, 20, 18)]
    assert _emitted(merge, 1, Adjust(_A, 5, 15, 14)) == []
    _emitted(merge, 1, Punctuate(4))
    assert _emitted(merge, 1, Adjust(_A, 5, 14, 12)) == [Adjust(_A, 5, 18, 12)]
    assert _emitted(merge, 0, Adjust(_A, 5, 18, 17)) == []
