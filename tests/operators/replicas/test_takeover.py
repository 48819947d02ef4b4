"""Who leads among replicas that a column distinguishes, and at which row another takes over."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slackwater.operators.replicas.takeover import NOBODY, ReplicaRows, first_due, is_due, leaders_among
from slackwater.progress.instants import BEGINNING, FOREVER

_TIMES = st.one_of(st.integers(0, 30), st.sampled_from([BEGINNING + 1, FOREVER - 1]))


def _first_due_by_definition(
    rows: list[tuple[str, int]], leaders: set[str], known: dict[str, tuple[int, int]], patience: int
) -> int:
    """Row by row: how far each replica has come, and how far it was when it first came without the leaders."""
    reached = {name: high_water for name, (high_water, _) in known.items()}
    alone_from = {name: alone for name, (_, alone) in known.items()}
    for place, (name, at) in enumerate(rows):
        if name in leaders:
            alone_from = dict.fromkeys(alone_from, BEGINNING)
            continue
        reached[name] = max(reached[name], at)
        alone_from[name] = reached[name] if alone_from[name] == BEGINNING else alone_from[name]
        if reached[name] - alone_from[name] > 2 * patience:
            return place
    return NOBODY


@given(
    names=st.lists(st.sampled_from("lmab"), max_size=25),
    times=st.lists(_TIMES, min_size=25, max_size=25),
    known=st.booleans(),
    alone_from=st.sampled_from([BEGINNING, 15, 20]),
    patience=st.sampled_from([0, 1, 3, 10, FOREVER // 2, FOREVER]),
)
def test_a_replica_takes_over_at_the_row_that_the_definition_says(
    names: list[str], times: list[int], known: bool, alone_from: int, patience: int
) -> None:
    """Whatever the interleaving, for replicas that appear and for those that were known."""
    rows = list(zip(names, times, strict=False))
    before = {name: (20, alone_from) if known else (BEGINNING, BEGINNING) for name in "ab" if name in names}
    waiting = [
        ReplicaRows(
            np.array([place for place, (who, _) in enumerate(rows) if who == name], dtype=np.int64),
            np.array([at for who, at in rows if who == name], dtype=np.int64),
            *before[name],
        )
        for name in before
    ]
    leading = np.array([place for place, (who, _) in enumerate(rows) if who in "lm"], dtype=np.int64)
    expected = _first_due_by_definition(rows, {"l", "m"}, before, patience)
    assert first_due(waiting, leading, patience) == expected


@given(names=st.text("lab", min_size=1, max_size=20), cut=st.integers(0, 20))
def test_what_is_remembered_between_batches_is_what_one_batch_would_have_known(names: str, cut: int) -> None:
    """Times rise, so that the place of a row is its time."""

    def after(first: int, stop: int, high_water: int, alone_from: int) -> int:
        own = np.array([place for place in range(first, stop) if names[place] == "a"], dtype=np.int64)
        leading = np.array([place for place in range(first, stop) if names[place] == "l"], dtype=np.int64)
        return ReplicaRows(own, own, high_water, alone_from).alone_from_after(leading)

    cut = min(cut, len(names))
    high_water = max((place for place in range(cut) if names[place] == "a"), default=BEGINNING)
    in_two = after(cut, len(names), high_water, after(0, cut, BEGINNING, BEGINNING))
    assert in_two == after(0, len(names), BEGINNING, BEGINNING)
    last = names.rfind("l")
    alone = [place for place in range(last + 1, len(names)) if names[place] == "a"]
    assert in_two == (alone[0] if alone else BEGINNING)


@given(st.lists(st.tuples(st.one_of(st.just(BEGINNING), _TIMES), st.one_of(st.just(BEGINNING), _TIMES)), max_size=6))
def test_leaders_bring_others_to_lead_until_none_is_left_whom_they_could(replicas: list[tuple[int, int]]) -> None:
    """By definition: again and again, until nothing changes."""
    leaders = {port for port, (complete_from, _) in enumerate(replicas) if complete_from == BEGINNING}
    while True:
        reached = max((replicas[port][1] for port in leaders), default=BEGINNING)
        more = {port for port, (complete_from, _) in enumerate(replicas) if complete_from < reached} - leaders
        if not more:
            break
        leaders |= more
    assert leaders_among([one for one, _ in replicas], [complete for _, complete in replicas]) == sorted(leaders)


def test_a_leader_must_have_guaranteed_a_tick_more_than_another_sends_everything_from() -> None:
    """At that very time an event right before it may still hold the output back, in the shard that has it."""
    assert leaders_among([BEGINNING, 10], [10, 50]) == [0]
    assert leaders_among([BEGINNING, 10], [11, 50]) == [0, 1]


def test_it_is_due_more_than_two_patiences_after() -> None:
    """Not at two; and any two times can be compared."""
    assert [is_due(0, reached, 5) for reached in (10, 11)] == [False, True]
    assert is_due(BEGINNING + 1, FOREVER, FOREVER // 2)
