"""Whatever rows wait for, the same rows come out, in the same order, and the same are late; none comes earlier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.runners.in_process import measured_labels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from slackwater.operators.operator import Operator

    Planned = Callable[[Sequence[sw.OrderedStream]], sw.OrderedStream]

_ROWS = pa.schema({"at": pa.int64(), "k": pa.int64()})


def _joined(a: sw.OrderedStream, b: sw.OrderedStream) -> sw.OrderedStream:
    return a.join(b, on="k", within=3).select("k")


_PLANS: dict[str, Planned] = {
    "a chain": lambda s: _joined(_joined(s[0], s[1]).where(nw.col("k") > 0), s[2]).join(s[3], on="k", within=1),
    "a stream that is read twice": lambda s: _joined(_joined(s[0], s[1]), _joined(s[0], s[2])),
    "windows": lambda s: s[0].hopping(6, 2).sort().select("k").join(s[1].tumbling(2).select("k"), on="k"),
    "counts": lambda s: (
        _joined(s[0], s[1]).tumbling(4).group_by("k").aggregate(n=sw.count()).select("k").join(s[2].tumbling(4), on="k")
    ),
    "unions": lambda s: s[0].union(s[1]).union(s[2].union(s[3])),
    "a pattern": lambda s: _joined(s[0].followed_by(s[1], on="k", within=4).select("k"), s[2]),
}
_SHIFTED = {"windows", "counts"}
"""Plans in which a window is complete later than its source: there holds let rows go a window too early, at most."""

_GROW = {name: ("union",) if name == "unions" else ("join",) for name in _PLANS} | {
    "a pattern": ("join", "followed_by")
}
_RELEASES: dict[str, Callable[[str], sw.Release]] = {
    "operator": lambda _: sw.Release.by_operator(),
    "query": lambda _: sw.Release.by_query(),
    "memory": lambda plan: sw.Release.by_memory(growth=dict.fromkeys(_GROW[plan], 2.0)),
    "measured": lambda _: sw.Release.by_memory(),
}
_PUSHES = st.lists(
    st.tuples(st.integers(0, 3), st.lists(st.tuples(st.integers(0, 30), st.integers(0, 1)), max_size=5)), max_size=7
)


@pytest.fixture(autouse=True, scope="module")
def _few_rows_are_enough_to_measure() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measured_labels, "FEW_ROWS", 1)
        patch.setattr(measured_labels, "LAST_ROWS", 4)
        yield


class _Run:
    """A query whose sources are pushed to by hand; what comes out with each push stands by itself."""

    def __init__(self, plan: str, release: str, *, ordered: bool) -> None:
        self.sources = [sw.PushSource(_ROWS, name=f"s{number}") for number in range(4)]
        raw = [sw.stream(source, time="at") for source in self.sources]
        streams = [one.assume_ordered() if ordered else one.sort(patience=6) for one in raw]
        self.out: list[Any] = []
        self.late: list[Any] = []
        self.query = (
            _PLANS[plan](streams)
            .release(_RELEASES[release](plan))
            .open(
                lambda rows: self.out.extend(rows.to_pylist()),
                clock=sw.ManualClock(),
                on_late=None if ordered else lambda rows: self.late.extend(rows.to_pylist()),
            )
        )

    def push(self, number: int, rows: list[dict[str, int]]) -> list[Any]:
        """Push, work, and return all that has come out so far."""
        if rows:
            self.sources[number].push(rows)
        self.query.work()
        self._check()
        return list(self.out)

    def end(self) -> tuple[list[Any], list[Any]]:
        """All that came out, and all that was late."""
        self.query.close()
        return self.out, sorted(self.late, key=repr)

    def _check(self) -> None:
        operators: list[Operator[Any]] = [step.operator for step in self.query._runner._graph.steps]
        for operator in operators:
            operator.check()


@pytest.mark.parametrize("name", _PLANS)
@given(pushes=_PUSHES, ordered=st.booleans())
def test_the_same_rows_come_out_and_none_comes_earlier(name: str, pushes: list[Any], *, ordered: bool) -> None:
    """At every moment what has come out is what had come out by operator, or the beginning of it.

    Where no step holds back more than its source does, nothing comes later either: whoever emits a row needs all of
    the sources that its rows were held for.
    """
    runs = {release: _Run(name, release, ordered=ordered) for release in _RELEASES}
    reached = [0] * 4
    for number, rows in pushes:
        shown = [{"at": at, "k": k} for at, k in rows]
        if ordered:
            shown = sorted(({**row, "at": row["at"] + reached[number]} for row in shown), key=lambda row: row["at"])
            reached[number] = max([reached[number], *(row["at"] for row in shown)])
        out = {release: run.push(number, shown) for release, run in runs.items()}
        for release in _RELEASES:
            assert out[release] == out["operator"][: len(out[release])]
            assert name in _SHIFTED or len(out[release]) == len(out["operator"])
    ends = {release: run.end() for release, run in runs.items()}
    assert all(end == ends["operator"] for end in ends.values())
