"""Where nobody looks at the punctuations between rows, they are left out; what comes out stays the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import narwhals as nw
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slackwater as sw
from slackwater.plan.node import walk
from slackwater.plan.nodes.ordering import Punctuate
from slackwater.plan.rewrites.last_punctuations import with_last_punctuations
from slackwater.plan.rewrites.optimizer import optimized_in_process
from slackwater.runners.in_process import graph

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from slackwater.plan.node import Node
    from slackwater.streams.stream import Stream


def _rows(times: Sequence[int] = (3, 1, 12, 2, 25), batch: int = 2) -> sw.DisorderedStream:
    table = pa.table({"at": times, "v": list(range(len(times)))})
    return sw.stream(pa.Table.from_batches(table.to_batches(batch)), time="at")


_LAST_ONLY: dict[str, Callable[[sw.DisorderedStream], list[Stream]]] = {
    "sort": lambda rows: [rows.sort(4)],
    "late rows are read, too": lambda rows: [(ordered := rows.sort(4)), ordered.late],
    "steps between": lambda rows: [rows.sort(4).where(nw.col("v") > 0).tumbling(10)],
    "aggregate": lambda rows: [rows.sort(4).hopping(10, 5).aggregate(n=sw.count())],
    "bands of rows": lambda rows: [*rows.in_bands(2, 9)],
    "map_windows": lambda rows: [rows.sort(4).tumbling(10).map_windows(lambda rows: rows.select(["v"]))],
}
_ALL: dict[str, Callable[[sw.DisorderedStream], list[Stream]]] = {
    "early": lambda rows: [rows.tumbling(10).group_by().aggregate_early(patience=4, n=sw.count())],
    "early beside a sort": lambda rows: [
        (ordered := rows.tumbling(10).sort(4)),
        ordered.group_by().aggregate_early(n=sw.count()),
    ],
}


def _checks(*streams: Stream) -> list[Punctuate]:
    return [
        one for one in walk(*optimized_in_process(*(stream.node for stream in streams))) if isinstance(one, Punctuate)
    ]


@pytest.mark.parametrize("name", _LAST_ONLY)
def test_only_the_last_punctuation_of_a_batch_is_emitted_to_steps_that_obey_no_other(name: str) -> None:
    """Whatever lies between, and however many read them."""
    assert [check.only_last for check in _checks(*_LAST_ONLY[name](_rows()))] == [True]


def test_who_distinguishes_punctuations_gets_all() -> None:
    """Early answers are emitted between punctuations."""
    assert [check.only_last for check in _checks(*_ALL["early"](_rows()))] == [False]


def _as_written_otherwise(*roots: Node) -> list[Node]:
    """The plan with every punctuation emitted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("slackwater.plan.rewrites.optimizer.with_last_punctuations", lambda *nodes: list(nodes))
        return optimized_in_process(*roots)


@pytest.mark.parametrize("name", [*_LAST_ONLY, *_ALL])
@settings(max_examples=25)
@given(times=st.lists(st.integers(0, 60), min_size=1, max_size=40), batch=st.integers(1, 7))
def test_the_same_comes_out(name: str, times: list[int], batch: int) -> None:
    """Of every output, in the same order, however rows are cut into batches."""
    make = {**_LAST_ONLY, **_ALL}[name]
    tables = []
    for plan in (optimized_in_process, _as_written_otherwise):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(graph, "optimized_in_process", plan)
            streams = make(_rows(times, batch))
            tables.append([(result.table, result.late) for result in sw.run_together(*streams)])
    assert tables[0] == tables[1]


def test_a_plan_without_a_check_stays_the_same() -> None:
    """The very same nodes."""
    node = _rows().where(nw.col("v") > 0).node
    assert with_last_punctuations(node) == [node]
