"""Labels: Figures 5 and 6, links from selectivities, and what labels must be."""

from __future__ import annotations

from fractions import Fraction
from itertools import count
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from slackwater.testing.oracles.heartbeats.labels import Step, heartbeats_of_steps, labels, memory_links

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypothesis.strategies import DrawFn

_ALL = frozenset({"S1", "S2", "S3"})


def _figure_5(selectivity: int | Fraction) -> Step:
    return Step("O2", (Step("O1", ("S1", "S2"), selectivity), "S3"))


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


@st.composite
def plans(draw: DrawFn, most: int = 6) -> Step:
    """Trees of some operators; each reads a stream of its own, and other operators."""
    size = draw(st.integers(1, most))
    parents = [draw(st.integers(0, child - 1)) for child in range(1, size)]
    drawn = st.sampled_from([Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4)])
    selectivities = draw(st.lists(drawn, min_size=size, max_size=size))

    def step(number: int) -> Step:
        children = [child for child, parent in enumerate(parents, 1) if parent == number]
        return Step(f"O{number}", (f"S{number}", *map(step, children)), selectivities[number])

    return step(0)


def _parents(step: Step) -> Iterator[tuple[str, str]]:
    for child in step.steps():
        yield child.name, step.name
        yield from _parents(child)


def test_figure_5_without_links_each_operator_has_its_own_streams() -> None:
    """Section 7.2: the first may run ahead of the third stream."""
    found = labels(_figure_5(3), {})
    assert found == {"O1": _set("S1 S2"), "O2": _ALL}
    assert heartbeats_of_steps(found, {"S1": 90, "S2": 80, "S3": 7}) == {"O1": 80, "O2": 7}


def test_figure_5_with_a_proliferative_first_operator_is_the_query_level() -> None:
    """Section 7.4: there is a memory link from O1 to O2, so both have the label of the query."""
    plan = _figure_5(3)
    assert memory_links(plan) == {"O1": "O2"}
    found = labels(plan, memory_links(plan))
    assert found == {"O1": _ALL, "O2": _ALL}
    assert heartbeats_of_steps(found, {"S1": 90, "S2": 80, "S3": 7}) == {"O1": 7, "O2": 7}


def test_figure_5_with_a_selective_first_operator_is_the_operator_level() -> None:
    """As many rows out as in are no more rows."""
    for selectivity in (1, Fraction(1, 2)):
        assert memory_links(_figure_5(selectivity)) == {}


def test_section_7_3_the_link_goes_no_further_than_to_the_end_of_proliferation() -> None:
    """4 by O1, halved twice by O2 and O3: from there on the rows are no more than O1 took in."""
    first = Step("O1", ("S1",), 4)
    third = Step("O3", (Step("O2", (first, "S2"), Fraction(1, 2)), "S3"), Fraction(1, 2))
    plan = Step("O5", (Step("O4", (third, "S4"), 7), "S5"), 7)
    assert memory_links(plan) == {"O1": "O3", "O4": "O5"}
    assert labels(plan, memory_links(plan)) == {
        **dict.fromkeys(["O1", "O2", "O3"], _set("S1 S2 S3")),
        **dict.fromkeys(["O4", "O5"], _set("S1 S2 S3 S4 S5")),
    }


def test_figure_6_a_link_past_an_operator_ties_it_to_its_parent() -> None:
    """The link from O1 to O3 leaves the subtree of O2, so O2 has the label of O3, and O1 that of O2."""
    plan = Step("O3", (Step("O2", (Step("O1", ("S1",)), "S2")), "S3"))
    assert labels(plan, {"O1": "O3"}) == dict.fromkeys(["O1", "O2", "O3"], _ALL)
    assert labels(plan, {"O1": "O2"}) == {"O1": _set("S1 S2"), "O2": _set("S1 S2"), "O3": _ALL}


@given(plans())
def test_labels_are_the_least_that_hold_the_own_streams_and_are_equal_along_links(plan: Step) -> None:
    """Section 7.4, as a fixed point from below: all operators from O to A use what A uses, and A at least its own."""
    links = memory_links(plan)
    parents = dict(_parents(plan))
    least = {step.name: step.streams() for step in plan.subtree()}
    for _ in least:
        for lower, upper in links.items():
            path = [lower]
            while path[-1] != upper:
                path.append(parents[path[-1]])
            least.update(dict.fromkeys(path, frozenset().union(*(least[name] for name in path))))
    assert labels(plan, links) == least


@given(plans())
def test_links_of_all_to_the_root_are_the_query_level(plan: Step) -> None:
    """Section 7.1: one heartbeat for the query."""
    to_root = {step.name: plan.name for step in plan.subtree() if step is not plan}
    assert set(labels(plan, to_root).values()) == {plan.streams()}


@given(plans())
def test_between_a_step_and_its_link_rows_do_not_become_fewer_before_the_end(plan: Step) -> None:
    """The link is the lowest that does: every shorter chain proliferates; and only those that do have one."""
    links, parents = memory_links(plan), dict(_parents(plan))
    selectivity = {step.name: 0 if step is plan else step.selectivity for step in plan.subtree()}
    for name, first in selectivity.items():
        if first <= 1:
            assert name not in links
            continue
        rows, at = Fraction(first), name
        for _ in count():
            at = parents[at]
            rows *= Fraction(selectivity[at])
            if rows <= 1:
                break
        assert links[name] == at
