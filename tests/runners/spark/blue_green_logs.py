"""What three versions of one query answer, micro-batch by micro-batch, and the merge of it, both without Spark.

Versions differ in patience, in the order and number of rows in a micro-batch, in whether they answer early, and in
where they begin. What they answer is the same, but for the windows before the one from which on the later one has all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import narwhals as nw
import pyarrow as pa
from without_spark import Segments, all_outputs, in_process, packed_at

import slackwater as sw
from slackwater.runners.spark.input.pack import packs_of
from slackwater.runners.spark.planning.shard_keys import shard_keys
from slackwater.runners.spark.planning.shard_plan import ShardPlan
from slackwater.runners.spark.shard.arrivals import Arrivals
from slackwater.runners.spark.shard.shard import Shard

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

ROWS: Final = pa.schema({"at": pa.int64(), "k": pa.string(), "v": pa.int64()})
"""The columns of what is counted."""

ANSWERS: Final = pa.schema(
    {"window_start": pa.int64(), "window_end": pa.int64(), "k": pa.string(), "n": pa.int64(), "total": pa.int64()}
)
"""The columns of what is answered."""

LOG: Final = ANSWERS.append(pa.field("replica", pa.string()))
"""The same, and whose answer it is."""

WINDOW: Final = 10
_DISORDER, _END = 18, 100_000
_SUMS: Final[dict[str, Any]] = {"n": sw.count(), "total": sw.sum("v")}
_BATCH: Final = sw.Every.batch()


class Log(NamedTuple):
    """What versions wrote, by name, and what all of them should answer, in order."""

    written: dict[str, list[pa.Table]]
    expected: list[dict[str, Any]]


def rows_in_files(rng: Random, files: int) -> list[pa.Table]:
    """Files of rows that are out of order; the last one has a row of far later, so that all before it is complete."""
    made = []
    for number in range(files):
        at = [max(20 * number + rng.randrange(20) - rng.choice([0, 0, rng.randint(0, _DISORDER)]), 0) for _ in range(9)]
        rows = [{"at": one, "k": rng.choice("abc"), "v": rng.randrange(100)} for one in at]
        made.append(pa.Table.from_pylist(rows, ROWS))
    return [*made, pa.Table.from_pylist([{"at": _END, "k": "a", "v": 0}], ROWS)]


def logs(rng: Random, *, files: int = 8, filtered: bool = True) -> Log:
    """Blue and yellow from the first file on, green from a later one on; it may forget to say from when it has all."""
    read = rows_in_files(rng, files)
    begin = rng.randint(1, files - 3)
    complete_from = complete_from_after(read[:begin]) if filtered else 0

    def green(streams: list[sw.DisorderedStream]) -> Any:
        rows = streams[0].where(nw.col("at") >= complete_from).tumbling(WINDOW).group_by("k")
        return [rows.aggregate_early(30, every=_BATCH, **_SUMS).settle()]

    def in_order(patience: int) -> Callable[[list[sw.DisorderedStream]], Any]:
        return lambda streams: [
            streams[0].tumbling(WINDOW).sort(patience, every=_BATCH).group_by("k").aggregate(**_SUMS)
        ]

    everything = sorted(
        (row for table in read[:-1] for row in table.to_pylist()), key=lambda row: row["at"] + rng.randint(0, _DISORDER)
    )
    edges = sorted(rng.sample(range(1, len(everything)), 4))
    in_another_order = [
        pa.Table.from_pylist(everything[a:b], ROWS) for a, b in zip([0, *edges], [*edges, len(everything)], strict=True)
    ]
    written = {
        "blue": _written("blue", in_order(20), read),
        "green": _written("green", green, _in_groups(read[begin:], rng)),
        "yellow": _written("yellow", in_order(25), [*in_another_order, read[-1]]),
    }
    return Log(written, answers_of(everything))


def complete_from_after(read: Sequence[pa.Table]) -> int:
    """The first window of which no row was in some files: who begins behind them has all of it."""
    newest = max(row["at"] for table in read for row in table.to_pylist())
    return int(newest // WINDOW + 1) * WINDOW


def _written(name: str, planned: Callable[[list[sw.DisorderedStream]], Any], files: Sequence[pa.Table]) -> list[Any]:
    """The answers of each micro-batch that has any; not what a flush would give, which live queries never do."""
    *rounds, _ = in_process(planned, [files])
    answers = [[{**row, "replica": name} for row in outputs["main 0"]] for outputs in rounds]
    assert not any(rows for outputs in rounds for output, rows in outputs.items() if output != "main 0")
    return [pa.Table.from_pylist(rows, LOG) for rows in answers if rows]


def _in_groups(files: Sequence[pa.Table], rng: Random) -> list[pa.Table]:
    """Several files in one micro-batch now and then."""
    groups: list[list[pa.Table]] = [[files[0]]]
    for file in files[1:]:
        groups[-1:] = [[*groups[-1], file]] if rng.random() < 0.4 else [groups[-1], [file]]
    return [pa.concat_tables(group) for group in groups]


def answers_of(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each window and key once, counted by hand."""
    found: dict[tuple[int, str], list[int]] = {}
    for row in rows:
        found.setdefault((row["at"] // WINDOW * WINDOW, row["k"]), []).append(row["v"])
    return [
        {"window_start": start, "window_end": start + WINDOW, "k": k, "n": len(values), "total": sum(values)}
        for (start, k), values in sorted(found.items())
    ]


@dataclass
class Merge:
    """The merge of the recipe, in shards that are stored and read after every micro-batch."""

    shards: int
    patience: int = 1_000
    bounds: sw.Bounds = field(default_factory=lambda: sw.Bounds.in_order(strictly=True))

    def __post_init__(self) -> None:
        log = sw.stream(sw.PushSource(LOG, name="log"), time="window_start", until="window_end")
        merged = log.merge_replicas("replica", self.patience, bounds=self.bounds)
        self._plan = ShardPlan.of({name: one.node for name, one in all_outputs([merged]).items()}, self.shards)
        self._made = {key: Shard(self._plan) for key in shard_keys(self._plan.shards)}
        (self._pack,) = packs_of(self._plan, chunk_rows=3)
        self._now = 0

    def take(self, written: Sequence[pa.Table]) -> list[dict[str, Any]]:
        """Merge what versions have written since the last time; return what goes out, in order of time."""
        rows = pa.concat_tables([LOG.empty_table(), *written])
        if not rows.num_rows:
            return []
        self._now += 1_000_000
        arrivals = {key: Arrivals() for key in self._made}
        for packed in packed_at(self._now, self._pack, rows):
            arrivals[packed.shard].add(packed)
        given: dict[str, list[Any]] = {output: [] for output in self._plan.outputs}
        for key, shard in self._made.items():
            for output, batch in shard.on_micro_batch(arrivals[key]):
                given[output] += batch.to_pylist()
            self._made[key] = Shard(self._plan, Segments().stored(shard))
        (main, *late) = given.values()
        assert not any(late), late
        return sorted(main, key=lambda row: (row["window_start"], row["k"]))

    @property
    def standing(self) -> tuple[int, int, int]:
        """How many replicas there are, how many of them wait, and how many have taken over."""
        (found,) = {shard.replicas() for shard in self._made.values()}
        return found
