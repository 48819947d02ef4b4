"""Random plans and random data for them: the same seed makes the same plan, whatever its streams read.

A plan is written anew for each way to run it: over sources that are pushed to in process, over streaming frames, over
frames that end. It is not imported, but run by runpy: what workers of Spark are sent must not refer to a module that
they cannot find.

    case = Case(17)
    case.planned(streams)   the streams that are asked for, made of those that are read
    case.cuts               the rows of each source, cut to files
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import narwhals as nw
import pyarrow as pa
import pyarrow.compute as pc

import slackwater as sw

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Outputs: TypeAlias = Sequence[sw.DisorderedStream | sw.OrderedStream]
    Length: TypeAlias = int | timedelta

SHARDS: Final = (1, 3, 8)
SOURCES: Final = 2
_GREATEST_DELAY: Final = 15
_PATIENT: Final = 16
"""No row is late for this: replicas of which one has lost rows contradict each other."""

_AGREEMENTS: Final = (
    *(sw.Agreement.first(), sw.Agreement.quorum_of(1.0), sw.Agreement.leading(), sw.Agreement.newest()),
    *(sw.Agreement.fullest(), sw.Agreement.half_frozen().revising(sw.Revise.ALWAYS)),
)
"""Those that let events go out before they are sure."""

_PAYLOAD: Final = {"k": pa.string(), "x": pa.float64(), "n": pa.int64()}


# ---- rows ------------------------------------------------------------------------------------------------------------


def cut_unevenly(table: pa.Table, rng: Random, cuts: int) -> list[pa.Table]:
    """Cut rows at random, often to none or one."""
    edges = [rng.randint(0, table.num_rows)]
    while len(edges) < cuts - 1:
        edges.append(rng.choice([rng.randint(0, table.num_rows), edges[-1], min(edges[-1] + 1, table.num_rows)]))
    return [table.slice(a, b - a) for a, b in pairwise([0, *sorted(edges), table.num_rows])]


@dataclass(frozen=True)
class Times:
    """What a step of time is: a sequence number, or a length of calendar time, and where times begin."""

    first: Any
    unit: Any

    @property
    def calendar(self) -> bool:
        """Whether they are those of a calendar."""
        return isinstance(self.first, datetime)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return pa.schema({"at": pa.timestamp("us", "UTC") if self.calendar else pa.int64(), **_PAYLOAD})

    def length(self, steps: int) -> Length:
        """So many steps, as users write them."""
        length: Length = steps * self.unit
        return length

    def rows(self, steps: Sequence[tuple[int, dict[str, Any]]]) -> pa.Table:
        """Rows that happen after so many steps, in the order given."""
        return pa.Table.from_pylist(
            [{"at": self.first + self.length(step), **payload} for step, payload in steps], self.schema
        )


ALL_TIMES: Final = (
    Times(0, 1),
    Times(-20, 1),
    Times(2**53, 3),
    Times(datetime(2026, 3, 29, 0, 59, 30, tzinfo=UTC), timedelta(seconds=1)),
    Times(datetime(1969, 12, 31, 23, 0, tzinfo=UTC), timedelta(minutes=2)),
    Times(datetime(2026, 11, 16, tzinfo=UTC), timedelta(microseconds=1)),
)
"""Sequence numbers below zero, and beyond what a float can hold; a change of summer time, before 1970, microseconds."""


def _happened(rng: Random, rows: int, *, all_come_out: bool) -> list[tuple[int, dict[str, Any]]]:
    """What happens, in order: ties, keys and numbers that are missing, zeros of both signs, NaNs, and repetitions.

    It may end with a row that is so much later than all others that these come out.
    """
    step, made = 0, []
    for _ in range(rows):
        step += rng.choice([0, 0, 1, 2])
        k, x = rng.choice(["a", "b", "c", "ä\n'", "", None]), rng.choice([0.0, -0.0, 1.5, -2.5, float("nan"), None])
        n = rng.choice([-3, -2, -1, 0, 1, 2, 3, None])
        made += [(step, {"k": k, "x": x, "n": n})] * rng.choice([1, 1, 1, 1, 2])
    if all_come_out:
        made.append((step + 50, {"k": "last", "x": 0.5, "n": 1}))
    return made


def _arrived(rng: Random, happened: Sequence[tuple[int, Any]]) -> list[tuple[int, Any]]:
    """The same in an order of arrival: most at once, some later than what happens after them."""
    return sorted(happened, key=lambda one: one[0] + rng.choice([0, 0, 0, 3, 9, _GREATEST_DELAY]))


# ---- plans -----------------------------------------------------------------------------------------------------------


def _doubled(rows: pa.RecordBatch) -> pa.RecordBatch:
    """A user's function over rows."""
    return pa.record_batch({"k": rows["k"], "x": rows["x"], "n": pc.multiply(rows["n"], 2)})


def _has_key(rows: pa.RecordBatch) -> pa.Array:
    """A user's predicate."""
    return pc.is_valid(rows["k"])


def _spread(rows: pa.RecordBatch) -> pa.RecordBatch:
    """A user's function over a window, to which the order of its rows means nothing."""
    values = [n for n in rows["n"].to_pylist() if n is not None]
    return pa.record_batch({
        "rows": pa.array([rows.num_rows], pa.int64()),
        "spread": pa.array([max(values) - min(values) if values else None], pa.int64()),
    })  # fmt: skip


class Planner:
    """Writes one plan: with the same random numbers the same one. Steps are drawn where they can stand.

    `kept` is what becomes of late rows that are diverted: a plan that has one output drops them.
    """

    def __init__(self, rng: Random, times: Times, kept: sw.Late, every: sw.Every | None) -> None:
        self._rng, self._length, self._kept, self._every = rng, times.length, kept, every

    # ---- parts of plans

    def _late(self, *others: sw.Late) -> sw.Late:
        late = self._rng.choice([None, None, sw.Late.drop(), sw.Late.adjust(), *others])
        return self._kept if late is None else late

    def _row_steps(self, stream: Any) -> Any:
        """Some steps that treat each row by itself, and leave the columns what they were."""
        steps: list[Callable[[Any], Any]] = [
            lambda s: s.where(nw.col("n") % 3 > 0),
            lambda s: s.where((nw.col("x") < 1) | nw.col("k").is_null()),
            lambda s: s.where(_has_key),
            lambda s: s.select("x", "n", k=nw.col("k").fill_null("none")),
            lambda s: s.select("k", "x", n=nw.col("n") * 7 - 3),
            lambda s: s.map_batches(_doubled),
        ]
        for step in self._rng.sample(steps, self._rng.choice([0, 1, 1, 2])):
            stream = step(stream)
        return stream.select("k", "x", "n")

    def _sorted(self, stream: sw.DisorderedStream) -> sw.OrderedStream:
        patience = self._length(self._rng.choice([0, 1, 3, 7]))
        return stream.sort(patience=patience, every=self._every, late=self._late())

    def _sorted_patiently(self, stream: sw.DisorderedStream) -> sw.OrderedStream:
        late = self._late(sw.Late.raise_error())
        return stream.sort(patience=self._length(_PATIENT), every=self._every, late=late)

    def _ordered(self, stream: sw.DisorderedStream) -> sw.OrderedStream:
        return self._row_steps(self._sorted(self._row_steps(stream)))

    def _windowed(self, stream: Any, *kinds: str) -> Any:
        match self._rng.choice(kinds or ("tumbling", "hopping", "gaps", "sliding")):
            case "tumbling":
                return stream.tumbling(self._length(self._rng.choice([3, 5])), self._length(self._rng.choice([0, 1])))
            case "hopping":
                return stream.hopping(self._length(8), self._length(self._rng.choice([3, 4])))
            case "gaps":
                return stream.hopping(self._length(3), self._length(5))
        return stream.sliding(self._length(4))

    def _aggregates(self) -> dict[str, Any]:
        functions = {
            "rows": sw.count(), "known": sw.count("x"), "sum": sw.sum("n"), "exact": sw.sum("x"), "least": sw.min("k"),
            "most": sw.max("x"), "mean": sw.mean("n"), "different": sw.count_distinct("x"), "top": sw.top_k("n", 2),
        }  # fmt: skip
        return {name: functions[name] for name in self._rng.sample(sorted(functions), self._rng.randint(1, 4))}

    def _keys(self) -> list[str]:
        return self._rng.choice([[], ["k"], ["k"], ["k"], ["k", "n"]])

    def _summed(self, stream: Any) -> sw.OrderedStream:
        return stream.group_by(*self._keys()).aggregate(**self._aggregates())

    def _patiences(self) -> list[Length]:
        return [self._length(steps) for steps in self._rng.choice([(1, 4), (0, 9), (0, 2, 7), (1, 3, 40)])]

    # ---- plans

    def rows_in_order(self, one: sw.DisorderedStream, _: sw.DisorderedStream) -> Outputs:
        """A sort."""
        return [self._ordered(one)]

    def refusals(self, one: sw.DisorderedStream, _: sw.DisorderedStream) -> Outputs:
        """A sort that stops the query at the first late row, if there is one."""
        patience = self._length(self._rng.choice([3, 10, _PATIENT]))
        return [self._row_steps(one).sort(patience=patience, every=self._every, late=sw.Late.raise_error())]

    def windows(self, one: sw.DisorderedStream, _: sw.DisorderedStream) -> Outputs:
        """Aggregates of windows of any kind."""
        return [self._summed(self._windowed(self._ordered(one)))]

    def windows_first(self, one: sw.DisorderedStream, _: sw.DisorderedStream) -> Outputs:
        """Windows that are assigned before rows are in order."""
        windowed = self._windowed(self._row_steps(one), "tumbling", "sliding")
        return [self._summed(self._sorted(windowed))]

    def windows_of_windows(self, one: sw.DisorderedStream, _: sw.DisorderedStream) -> Outputs:
        """Aggregates of aggregates, by fewer keys."""
        small = self._ordered(one).tumbling(self._length(4)).group_by("k", "n").aggregate(rows=sw.count())
        return [small.tumbling(self._length(8)).group_by("k").aggregate(sum=sw.sum("rows"), most=sw.max("n"))]

    def functions_over_windows(self, one: sw.DisorderedStream, _: sw.DisorderedStream) -> Outputs:
        """A user's function instead of an aggregate."""
        return [self._ordered(one).tumbling(self._length(5)).map_windows(_spread)]

    def rows_and_counts(self, one: sw.DisorderedStream, _: sw.DisorderedStream) -> Outputs:
        """Two outputs of one sort."""
        ordered = self._ordered(one)
        return [ordered, self._summed(self._windowed(ordered))]

    def unions(self, one: sw.DisorderedStream, other: sw.DisorderedStream) -> Outputs:
        """Two sources, alone or summed up."""
        together = sw.union(self._ordered(one), self._ordered(other))
        return [self._row_steps(together) if self._rng.random() < 0.3 else self._summed(self._windowed(together))]

    def joins(self, one: sw.DisorderedStream, other: sw.DisorderedStream) -> Outputs:
        """Pairs that are close, or last at the same time."""
        left = self._ordered(one).select("k", "n")
        right = self._ordered(other).select("k", right="x")
        if self._rng.random() < 0.5:
            return [left.join(right, on="k", within=self._length(3))]
        left, right = (self._windowed(side, "tumbling", "sliding").select("k", name) for side, name in
                       ((left, "n"), (right, "right")))  # fmt: skip
        return [left.join(right, on="k")]

    def successions(self, one: sw.DisorderedStream, other: sw.DisorderedStream) -> Outputs:
        """An event and the next of another stream."""
        then = self._ordered(other).select("k", then="x")
        return [self._ordered(one).select("k", "n").followed_by(then, on="k", within=self._length(4))]

    def events_once(self, one: sw.DisorderedStream, other: sw.DisorderedStream) -> Outputs:
        """One row of each event, of one source or of two, by keys of all types."""
        on = self._rng.choice([["k"], ["k"], ["x"], ["n", "k"], ["x", "n", "k"]])
        within, keep = self._length(self._rng.choice([0, 2, 5, 60])), self._rng.choice(["first", "last"])
        if self._rng.random() < 0.5:
            together = sw.union(self._ordered(one), self._ordered(other))
            return [self._row_steps(together.deduplicate(on, within=within, keep=keep))]
        patience, late = self._length(self._rng.choice([0, 3, 7])), self._late()
        once = self._row_steps(one).deduplicate(
            on, within=within, keep=keep, patience=patience, every=self._every, late=late
        )
        return [once if self._rng.random() < 0.5 else self._summed(self._windowed(once))]

    def values_of_keys(self, one: sw.DisorderedStream, other: sw.DisorderedStream) -> Outputs:
        """Updates by key, of one source or of two, with deletions or without; settled."""
        key, deleted = self._rng.choice([["k"], ["x"], ["n", "k"]]), self._rng.choice([None, "gone"])
        marked = [side.select("k", "x", "n", gone=nw.col("n") > 1) for side in (one, other)]
        if self._rng.random() < 0.5:
            updates = sw.union(*(self._sorted(side) for side in marked))
            return [sw.upserts(updates, key=key, deleted=deleted).settle()]
        patience, late = self._length(self._rng.choice([0, 3, 7])), self._late()
        return [
            sw.upserts(marked[0], key=key, deleted=deleted, patience=patience, every=self._every, late=late).settle()
        ]

    def joins_with_itself(self, one: sw.DisorderedStream, _: sw.DisorderedStream) -> Outputs:
        """One source that is read twice: by one sort, or by two."""
        left = self._ordered(one)
        right = left if self._rng.random() < 0.5 else self._ordered(one)
        pairs = left.select("k", "n").join(right.select("k", right="n"), on="k", within=self._length(1))
        return [pairs.where(nw.col("n") != nw.col("right"))]

    def bands_of_aggregates(self, one: sw.DisorderedStream, _: sw.DisorderedStream) -> Outputs:
        """Partial results that go from band to band."""
        grouped = self._windowed(self._row_steps(one), "tumbling", "hopping").group_by(*self._keys())
        return list(grouped.in_bands(*self._patiences(), every=self._every, late=self._late(), **self._aggregates()))

    def bands_of_events(self, one: sw.DisorderedStream, _: sw.DisorderedStream) -> Outputs:
        """Rows for each patience."""
        bands = self._row_steps(one).in_bands(*self._patiences(), every=self._every, late=self._late())
        return [band if self._rng.random() < 0.5 else self._row_steps(band) for band in bands]

    def bands_of_a_query(self, one: sw.DisorderedStream, _: sw.DisorderedStream) -> Outputs:
        """A user's query for each part, and how two parts are put together."""
        return list(
            self._row_steps(one).in_bands(
                *self._patiences(),
                every=self._every,
                late=self._late(),
                partial=lambda part: part.tumbling(self._length(5)).group_by("k").aggregate(rows=sw.count()),
                merge=lambda parts: parts.group_by("k").aggregate(rows=sw.sum("rows")),
            )
        )

    def replicas(self, one: sw.DisorderedStream, other: sw.DisorderedStream) -> Outputs:
        """Rows that two sources send."""
        return [sw.merge_replicas(*(self._sorted_patiently(side.select("k", "x", "n")) for side in (one, other)))]

    def contradictions(self, one: sw.DisorderedStream, other: sw.DisorderedStream) -> Outputs:
        """Rows that one of two sources sends, and the other does not."""
        replicas = [self._sorted_patiently(side.select("n", "k")) for side in (one, other)]
        return [sw.compare_replicas(*replicas, whole=self._rng.random() < 0.5)]

    def replicas_of_aggregates(self, one: sw.DisorderedStream, other: sw.DisorderedStream) -> Outputs:
        """Events with a key."""
        keys, aggregates = self._keys(), self._aggregates()
        window = self._rng.choice(["tumbling", "hopping"])
        windowed = [
            side.tumbling(self._length(5)) if window == "tumbling" else side.hopping(self._length(8), self._length(4))
            for side in map(self._sorted_patiently, (one, other))
        ]
        return [sw.merge_replicas(*(side.group_by(*keys).aggregate(**aggregates) for side in windowed))]

    def revised_replicas(self, one: sw.DisorderedStream, other: sw.DisorderedStream) -> Outputs:
        """Events that go out before they are sure, and are revised; settled."""
        replicas = [self._sorted_patiently(side.select("k", "n")) for side in (one, other)]
        return [sw.merge_replicas(*replicas, agreement=self._rng.choice(_AGREEMENTS)).settle()]

    def early_answers(self, one: sw.DisorderedStream, other: sw.DisorderedStream) -> Outputs:
        """Answers that are revised, of one source or of two that send the same; settled."""
        aggregates, late, alone = self._aggregates(), self._late(), self._rng.random() < 0.5
        patience = self._length(3 if alone else _PATIENT)
        early = [
            side.tumbling(self._length(5))
            .group_by("k")
            .aggregate_early(patience, every=self._every, late=late, **aggregates)
            for side in (one, other)
        ]
        return [(early[0] if alone else sw.merge_replicas(*early, agreement=self._rng.choice(_AGREEMENTS))).settle()]


SHAPES: Final = (
    *("rows_in_order", "windows", "unions", "joins", "bands_of_aggregates", "replicas", "windows_first", "successions"),
    *("bands_of_events", "replicas_of_aggregates", "rows_and_counts", "revised_replicas", "windows_of_windows"),
    *("joins_with_itself", "bands_of_a_query", "early_answers", "functions_over_windows", "contradictions", "refusals"),
)
"""The plans, by their names; seeds take them in turn."""

ADDED: Final = {28: "events_once", 26: "values_of_keys"}
_ADDED_EVERY: Final = 29
"""Plans that were added later take seeds by this remainder, so that all others stay what they were."""

_GIVE_THE_SAME: Final = ("replicas", "replicas_of_aggregates", "revised_replicas", "early_answers")
_GIVE_NEARLY_THE_SAME: Final = ("contradictions",)


@dataclass(frozen=True)
class Case:
    """What a seed makes."""

    seed: int

    @property
    def shape(self) -> str:
        """What kind of plan it is."""
        return ADDED.get(self.seed % _ADDED_EVERY) or SHAPES[self.seed % len(SHAPES)]

    @cached_property
    def times(self) -> Times:
        """The times of its rows."""
        return Random(f"{self.seed} times").choice(ALL_TIMES)

    @cached_property
    def shards(self) -> int:
        """How many shards are asked for; a plan that needs all rows in one place has one."""
        return Random(f"{self.seed} shards").choice(SHARDS)

    @cached_property
    def whole(self) -> list[pa.Table]:
        """All rows of each source, in their order of arrival."""
        rng = Random(f"{self.seed} rows")
        all_come_out = self.shape in _GIVE_THE_SAME or rng.random() < 0.5
        happened = [_happened(rng, rng.randint(30, 80), all_come_out=all_come_out) for _ in range(SOURCES)]
        if self.shape in (*_GIVE_THE_SAME, *_GIVE_NEARLY_THE_SAME):
            happened = [happened[0]] * SOURCES
        if self.shape in _GIVE_NEARLY_THE_SAME:
            happened = [[one for one in sent if rng.random() < 0.9] for sent in happened]
        return [self.times.rows(_arrived(rng, one)) for one in happened]

    @cached_property
    def cuts(self) -> list[list[pa.Table]]:
        """The rows of each source in files; all have the same number of files."""
        rng = Random(f"{self.seed} cuts")
        files = rng.choice([3, 3, 4])
        return [cut_unevenly(table, rng, files) for table in self.whole]

    def is_read_by_arrow(self, source: int) -> bool:
        """Whether the files of a source are read by the runner itself, and not as a frame of Spark."""
        return Random(f"{self.seed} reader of {source}").random() < 0.5

    @property
    def leaves_the_cadence_out(self) -> bool:
        """Whether the plan on Spark leaves it to the runner when to punctuate."""
        return Random(f"{self.seed} cadence").random() < 0.5

    def planned(
        self, streams: list[sw.DisorderedStream], *, one_output: bool = False, every: sw.Every | None = None
    ) -> Outputs:
        """Write the plan over streams; where it has to do with one output, late rows are dropped."""
        kept = sw.Late.drop() if one_output else sw.Late.divert()
        planner = Planner(Random(f"{self.seed} plan"), self.times, kept, every)
        outputs: Outputs = getattr(planner, self.shape)(*streams)
        return [outputs[self.seed % len(outputs)]] if one_output else outputs
