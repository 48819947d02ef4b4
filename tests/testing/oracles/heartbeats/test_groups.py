"""Groups of sources: the paper's example, and heartbeats that are right for every member."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.testing.oracles.heartbeats.figure_2 import figure_2
from slackwater.testing.oracles.heartbeats.groups import essential, grouped, in_groups, joined, strongest
from slackwater.testing.oracles.heartbeats.simulate import arrivals_of
from slackwater.testing.oracles.heartbeats.strategies import simulations, skews, systems
from slackwater.testing.oracles.heartbeats.system import Skew, System
from slackwater.testing.oracles.heartbeats.systems import repeating, sensors

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

    from slackwater.testing.oracles.heartbeats.simulate import Sent

_PAIRS = [Skew(1, 2), Skew(3, 1)]


@st.composite
def _groups(draw: DrawFn, sources: int) -> list[list[int]]:
    """Any partition, its groups in any order."""
    of_source = draw(st.lists(st.integers(0, sources - 1), min_size=sources, max_size=sources))
    groups = [[j for j in range(sources) if of_source[j] == number] for number in range(sources)]
    return draw(st.permutations([group for group in groups if group]))


def test_section_5_2_redundant_bounds_are_added() -> None:
    """The paper's example: with (1, 2) and (3, 1), the strongest after 2 ticks is (2, 2)."""
    assert strongest(_PAIRS, 3) == (Skew(1, 2), Skew(2, 2), Skew(3, 1))
    assert strongest(_PAIRS, 4) == (Skew(1, 2), Skew(2, 2), Skew(3, 1), Skew(4, 1))


def test_section_5_2_the_weaker_bound_of_each_wait_is_taken() -> None:
    """Where one has none, none is left."""
    assert joined(strongest(_PAIRS, 3), strongest([Skew(0, 3), Skew(2, 1)], 3)) == (Skew(1, 3), Skew(2, 2), Skew(3, 1))


def test_bounds_that_count_rows_do_not_survive() -> None:
    """Unless they wait for none."""
    assert grouped(repeating(3), [[0]]) == System((0,), {(0, 0): (Skew(0, 1),)})


def test_sensors_of_a_kind_make_a_group() -> None:
    """The greatest difference within the group is that of two; the latency is that of the slowest."""
    fleet = grouped(sensors([2, 3, 1], latency=[0, 4, 9]), [[0, 1], [2]])
    assert fleet == System(
        (4, 9), {(0, 0): (Skew(0, 6),), (0, 1): (Skew(0, 5),), (1, 0): (Skew(0, 5),), (1, 1): (Skew(0, 2),)}
    )


@pytest.mark.parametrize("groups", [[[0]], [[0, 1], [1]], [[0, 1], []], [[0, 2], [1]]])
def test_groups_that_are_no_partition_are_refused(groups: list[list[int]]) -> None:
    """Each source is in one group."""
    with pytest.raises(ValueError, match="in one group"):
        grouped(sensors([2, 3], [0, 0]), groups)


@given(st.data(), simulations(systems()))
def test_the_heartbeat_of_a_group_is_never_above_that_of_a_member(
    data: st.DataObject, drawn: tuple[System, list[Sent]]
) -> None:
    """So it is right where theirs are."""
    system, sent = drawn
    groups = data.draw(_groups(len(system.sources)))
    arrivals = arrivals_of(sent)
    until = arrivals[-1][0] + 6
    of_groups = figure_2(grouped(system, groups), in_groups(arrivals, groups), until)
    for beats, members in zip(of_groups, figure_2(system, arrivals, until), strict=True):
        assert all(beat <= members[j] for beat, group in zip(beats, groups, strict=True) for j in group)


@given(simulations(systems(by_rows=False)))
def test_groups_of_one_change_nothing(drawn: tuple[System, list[Sent]]) -> None:
    """Redundant bounds set no heartbeat earlier."""
    system, sent = drawn
    arrivals = arrivals_of(sent)
    alone = grouped(system, [[j] for j in system.sources])
    assert figure_2(alone, arrivals, arrivals[-1][0] + 6) == figure_2(system, arrivals, arrivals[-1][0] + 6)


@given(systems(by_rows=False, most_latency=0), st.integers(0, 5))
def test_the_bounds_of_a_group_are_no_weaker_than_they_must_be(system: System, tick: int) -> None:
    """The heartbeat after one row of a group is that of the worst member after a row of the worst member."""
    (of_group,) = figure_2(grouped(system, [list(system.sources)]), [(0, 0, 50)], tick)[tick]
    assert of_group == min(beat for i in system.sources for beat in figure_2(system, [(0, i, 50)], tick)[tick])


@given(st.lists(skews(by_rows=False)), st.integers(4, 6))
def test_essential_bounds_are_as_strong_as_all(entry: list[Skew], longest: int) -> None:
    """And there is one for each difference at most."""
    assert strongest(essential(entry), longest) == strongest(entry, longest)
    assert len({skew.delta for skew in essential(entry)}) == len(essential(entry))
