"""Control records in shards: what is asked behind the rows of a micro-batch does what it does in process."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from without_spark import in_process, in_shards, shard_plan

import slackwater as sw
from slackwater.runners.control_records import ControlRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from without_spark import Planned, Round

_ROWS = pa.schema({"at": pa.int64(), "k": pa.string(), "who": pa.string(), "landed": pa.int64()})
_BATCH = sw.Every.batch()
_ROUNDS = 14
_SEEDS = 3
_ORIGINS = "abc"


def _sorted(one: sw.DisorderedStream, patience: int) -> sw.OrderedStream:
    return one.sort(patience=patience, every=_BATCH)


def _two(streams: Sequence[sw.DisorderedStream]) -> list[sw.OrderedStream]:
    return [_sorted(one, 4 + 3 * number) for number, one in enumerate(streams)]


def _three_in_two_outputs(streams: list[sw.DisorderedStream]) -> list[Any]:
    first, second, third = _two(streams)
    return [sw.union(first, second), second.select("k").join(third.select("k"), on="k", within=5)]


def _counts(streams: list[sw.DisorderedStream]) -> list[Any]:
    (one,) = streams
    return [one.tumbling(6).sort(patience=3, every=_BATCH).group_by("k").aggregate(n=sw.count())]


def _joined(streams: list[sw.DisorderedStream]) -> list[Any]:
    one, other = _two(streams)
    return [one.select("k").join(other.select("k"), on="k", within=5)]


def _hopping(streams: list[sw.DisorderedStream]) -> list[Any]:
    (one,) = streams
    return [_sorted(one, 3).hopping(12, 4).group_by("k").aggregate(n=sw.count())]


def _early(streams: list[sw.DisorderedStream]) -> list[Any]:
    (one,) = streams
    return [one.tumbling(6).group_by("k").aggregate_early(4, every=_BATCH, n=sw.count()).settle()]


def _windows_of_windows(streams: list[sw.DisorderedStream]) -> list[Any]:
    (one,) = streams
    counts = one.tumbling(6).sort(patience=4, every=_BATCH).group_by("k", "who").aggregate(n=sw.count())
    return [counts.tumbling(15).group_by("k").aggregate(n=sw.sum("n"))]


def _last_of_each(streams: list[sw.DisorderedStream]) -> list[Any]:
    (one,) = streams
    last = one.deduplicate("k", within=7, keep="last", patience=4, every=_BATCH)
    return [last.tumbling(6).group_by("k").aggregate(n=sw.count())]


def _bands(streams: list[sw.DisorderedStream]) -> list[Any]:
    (one,) = streams
    return list(one.tumbling(6).group_by("k").in_bands(3, 9, every=_BATCH, n=sw.count()))


_BY_PATIENCE: dict[str, tuple[Planned, int]] = {
    "sort": (_two, 1),
    "union": (lambda streams: [sw.union(*_two(streams))], 2),
    "join": (_joined, 2),
    "hopping windows": (_hopping, 1),
    "the last of each key": (_last_of_each, 1),
    "three streams, two outputs": (_three_in_two_outputs, 3),
    "windows": (_counts, 1),
    "answers at once": (_early, 1),
    "windows of windows": (_windows_of_windows, 1),
    "bands": (_bands, 1),
}
_BOUNDS = (sw.Bounds.in_order() & sw.Bounds.uniform(9)).only(*_ORIGINS)
_BY_BOUNDS: dict[str, tuple[Planned, int]] = {
    "bounds": (lambda streams: [streams[0].sort(bounds=_BOUNDS)], 1),
    "bounds, of newcomers too": (lambda streams: [streams[0].sort(bounds=sw.Bounds.in_order())], 1),
    "bounds that are learnt": (
        lambda streams: [streams[0].sort(patience=20, bounds=sw.Bounds.estimated(loss=0.05))],
        1,
    ),
    "by origin": (lambda streams: [streams[0].sort_within_origins(bounds=_BOUNDS)], 1),
    "groups by origin": (
        lambda streams: [
            streams[0].tumbling(6).sort_within_origins(bounds=_BOUNDS).group_by("who").aggregate(n=sw.count())
        ],
        1,
    ),
}


def _merged(streams: list[sw.DisorderedStream]) -> list[Any]:
    return [sw.merge_replicas(*(_sorted(one, 20 + number) for number, one in enumerate(streams)), attachable=True)]


def _merged_with_standby(streams: list[sw.DisorderedStream]) -> list[Any]:
    one, other, waiting = (_sorted(each, 20 + number).select("k") for number, each in enumerate(streams))
    merged = sw.merge_replicas(one, other, waiting, standby=[waiting])
    return [merged.settle().tumbling(6).group_by("k").aggregate(n=sw.count())]


class _Script:
    """What happens, round by round: which rows come, and what is asked behind them."""

    def __init__(self, seed: int, sources: int, names: Sequence[str], *, patience: bool) -> None:
        self.rng = Random(seed)
        self.left_out: set[str] = set()
        self._newest = 0
        self._numbers = iter(range(1, 1_000))
        self._names = names
        self._patience = patience
        rounds = [self._round(sources) for _ in range(_ROUNDS)]
        self.cuts = [[turn[number] for turn, _ in rounds] for number in range(sources)]
        self.asked = [asked for _, asked in rounds]

    def _round(self, sources: int) -> tuple[list[pa.Table], list[ControlRecord]]:
        """Streams that are left out send by themselves, where they send: in process streams are read in turn."""
        names = [f"source {number}" for number in range(sources)]
        sending = {name for name in names if name not in self.left_out}
        if self.rng.random() < 0.3 and (left_out := sorted(self.left_out.intersection(names))):
            sending = {self.rng.choice(left_out)}
        self._newest += self.rng.randint(0, 12)
        tables = [self._rows(self.rng.randint(0, 9) if name in sending else 0) for name in names]
        return tables, [self._record() for _ in range(self.rng.choice([0, 0, 1, 1, 2]))]

    def _rows(self, count: int) -> pa.Table:
        rng = self.rng
        rows = [
            {
                "at": max(self._newest - rng.choice([0, 1, 2, 5, 20]), 0),
                "k": rng.choice("xy"),
                "who": rng.choice(_ORIGINS),
                "landed": self._newest,
            }
            for _ in range(count)
        ]
        return pa.Table.from_pylist(rows, schema=_ROWS)

    def _record(self) -> ControlRecord:
        number, rng = next(self._numbers), self.rng
        what = rng.choice(["pause", "pause", "retire", "resume", "resume", "patience", "flush"])
        if what == "flush":
            return ControlRecord(number, "flush")
        if what == "patience":
            step = "punctuate#1" if self._patience else "punctuate#9"
            return ControlRecord(number, what, {"step": step, "patience": rng.randint(0, 20)})
        source = rng.choice([*self._names, "nobody"])
        (self.left_out.discard if what == "resume" else self.left_out.add)(source)
        return ControlRecord(number, what, {"source": source})


def _same(rounds: Iterable[Round]) -> list[dict[str, list[str]]]:
    return [{output: sorted(map(str, rows)) for output, rows in given.items()} for given in rounds]


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("name", _BY_PATIENCE)
def test_streams_with_a_patience(name: str, shards: int) -> None:
    """Streams that are left out, other patiences and flushes give round by round what they give in process."""
    planned, sources = _BY_PATIENCE[name]
    names = [f"source {number}" for number in range(sources)]
    _assert_same(planned, sources, shards, names, patience=name != "bands")


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.filterwarnings("ignore:when all is silent:UserWarning")
@pytest.mark.parametrize("name", _BY_BOUNDS)
def test_streams_with_bounds(name: str, shards: int) -> None:
    """Origins that are left out, too; a column says when rows arrived."""
    planned, sources = _BY_BOUNDS[name]
    names = [*_ORIGINS, "source 0"]
    _assert_same(planned, sources, shards, names, patience=False, origin="who", arrived="landed")


def _assert_same(
    planned: Planned, sources: int, shards: int, names: Sequence[str], *, patience: bool, **columns: Any
) -> None:
    changed = False
    plan = shard_plan(planned, [_ROWS] * sources, shards, **columns)
    for seed in range(_SEEDS):
        script = _Script(seed, sources, names, patience=patience)
        expected = _same(in_process(planned, script.cuts, script.asked, **columns))
        found = in_shards(plan, script.cuts, Random(seed), store=seed % 2 == 0, asked=script.asked)
        assert _same(found) == expected, seed
        changed |= expected != _same(in_process(planned, script.cuts, **columns))
    assert changed, "what is asked decides something"


def _attending(seed: int, replicas: int, *, standby: bool) -> tuple[list[list[pa.Table]], list[list[ControlRecord]]]:
    """Rounds of replicas that have the same events, each in its own cuts, and come and go.

    What a replica has sent while it was detached is lost: it is complete from the newest event on.
    """
    rng = Random(seed)
    cuts: list[list[pa.Table]] = [[] for _ in range(replicas)]
    asked: list[list[ControlRecord]] = []
    attached = set(range(replicas)) - ({replicas - 1} if standby else set())
    newest, number, behind = 0, 0, [[] for _ in range(replicas)]  # type: ignore[var-annotated]
    for _ in range(_ROUNDS):
        events = [
            {"at": newest + rng.randint(0, 3), "k": rng.choice("xy"), "who": "a", "landed": 0}
            for _ in range(rng.randint(0, 6))
        ]
        newest += rng.randint(0, 6)
        for replica in range(replicas):
            behind[replica] += rng.sample(events, len(events))
            keep = rng.randint(0, 2)
            now, behind[replica] = (
                behind[replica][: len(behind[replica]) - keep],
                behind[replica][-keep:] if keep else [],
            )
            cuts[replica].append(pa.Table.from_pylist(now, schema=_ROWS))
        records = []
        if rng.random() < 0.5:
            number += 1
            replica = rng.randrange(replicas)
            says: dict[str, Any] = {"replica": f"source {replica}"}
            if replica in attached and len(attached) > 1:
                attached.remove(replica)
                records.append(ControlRecord(number, "detach", says))
            elif replica not in attached:
                attached.add(replica)
                says["complete_from"] = newest + rng.choice([3, 9])
                records.append(ControlRecord(number, "attach", says))
        asked.append(records)
    return cuts, asked


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize(("planned", "replicas"), [(_merged, 2), (_merged_with_standby, 3)])
def test_replicas_come_and_go(planned: Planned, replicas: int, shards: int) -> None:
    """The rows of one that is detached are read, and dropped; attached, it joins when the others have come so far."""
    changed = False
    plan = shard_plan(planned, [_ROWS] * replicas, shards)
    for seed in range(_SEEDS):
        cuts, asked = _attending(seed, replicas, standby=replicas == 3)
        expected = _same(in_process(planned, cuts, asked))
        found = in_shards(plan, cuts, Random(seed), store=seed % 2 == 0, asked=asked)
        assert _same(found) == expected, seed
        changed |= expected != _same(in_process(planned, cuts))
    assert changed, "what is asked decides something"


def test_a_record_that_comes_twice_changes_nothing() -> None:
    """Whoever put a copy of it into the folder; what is no record is noted, and changes nothing either."""
    rows = [pa.Table.from_pylist([{"at": at, "k": "x", "who": "a", "landed": 0}], schema=_ROWS) for at in (5, 9, 30)]
    flush = ControlRecord(1, "flush")
    plan = shard_plan(_two, [_ROWS], 1)
    once = _same(in_shards(plan, [rows], Random(0), store=True, asked=[[flush], [], []]))
    assert _same(in_shards(plan, [rows], Random(0), store=True, asked=[[flush], [flush], [flush]])) == once
    again = [[flush], [ControlRecord(2, "flush")], []]
    assert _same(in_shards(plan, [rows], Random(0), store=True, asked=again)) != once
