"""A recording that is measured slice by slice, wherever the slices are: each by itself, given what came before it.

A slice holds all rows that arrived from one instant up to another. Rows of one instant come in order of time, as nobody
knows a better one. What came before is a few numbers: the newest time of all rows, and of each source. With these every
row is compared with all before it, as if all rows were in one place; only how many rows are how late is kept in buckets
(`log_buckets.py`). What slices find is put together in any order.

Inversions, their distance, and interleaved runs are counted within slices alone: of several slices they are the least
that there can be.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.disorder.profile import DisorderProfile
from slackwater.kernels.progress.recorded_rows import greatest_skews, lateness_within_sources, longest_silences
from slackwater.profiling.log_buckets import Buckets, bucket_of, bucket_of_signed
from slackwater.profiling.series import class_of
from slackwater.progress.instants import BEGINNING, FOREVER, Instant
from slackwater.progress.saturating import difference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Column = NDArray[np.int64]

ROWS: Final = pa.schema({"at": pa.int64(), "came": pa.int64(), "who": pa.string()})
"""Rows of a slice, in any order: their times, when they came, and from where."""

SOURCES_BEFORE: Final = pa.schema({"who": pa.string(), "newest": pa.int64(), "last": pa.int64()})
"""What came before from each source that has rows in a slice: the newest time, and when the last one came."""


class What(IntEnum):
    """What is counted in buckets."""

    LATENESS = 0
    WITHIN = 1
    DELAY = 2
    AHEAD = 3
    """How far rows are ahead of their arrival; 0 for all others."""

    SOUND = 4
    """Lateness where rows of wrong clocks are left out, in the stretches of the whole; so are the next ones."""

    FIRST = 5
    """In the stretches of the first part."""

    REST = 6
    SPAN = 7


@dataclass(frozen=True)
class Questions:
    """What is asked of every slice."""

    wrong: tuple[str | None, ...]
    """Sources whose clocks are wrong."""

    stretches: tuple[int, ...]
    """Where stretches of the whole begin, of sound rows by their numbers."""

    first_stretches: tuple[int, ...]
    seen: int
    """How many rows the first part has."""

    spans: tuple[int, ...]
    heat: tuple[str | None, ...]
    skew: tuple[str | None, ...]
    by_source: bool
    """Whether rows say from where they are."""

    comparable: bool
    """Whether times and arrivals can be compared."""


@dataclass(frozen=True)
class Before:
    """What came before a slice, and what comes behind it."""

    newest: Instant = BEGINNING
    newest_sound: Instant = BEGINNING
    sound_rows: int = 0
    next_came: Instant | None = None
    """When the next sound row comes."""

    newest_of: tuple[Instant, ...] = ()
    """The newest time of each source that is asked for skew."""


@dataclass(frozen=True)
class Found:
    """What slices have found: tables that may be put together, a row for each thing that was counted."""

    cells: pa.Table
    """How many rows are in a bucket, and the greatest length of it: `what`, `part`, `bucket`."""

    sources: pa.Table
    heat: pa.Table
    skew: pa.Table
    spans: pa.Table
    runs: pa.Table
    """One row for each slice: its first and last time, and the measures of disorder of its rows."""

    @classmethod
    def tables(cls) -> int:
        """How many there are."""
        return len(cls.__dataclass_fields__)

    def has(self, what: What) -> bool:
        """Whether it was counted."""
        return bool(pc.any(pc.equal(self.cells["what"], what.value)).as_py())

    def written(self) -> list[bytes]:
        """Each table as bytes."""
        return [_written(getattr(self, name)) for name in self.__dataclass_fields__]

    @classmethod
    def read(cls, several: Sequence[Sequence[bytes]]) -> Found:
        """Put together what slices wrote."""
        tables = [
            pa.concat_tables([pa.ipc.open_stream(one).read_all() for one in ones])
            for ones in zip(*several, strict=True)
        ]
        cells, sources, heat, skew, spans, runs = tables
        return cls(
            _together(cells, ["what", "part", "bucket"], rows="sum", greatest="max"),
            _together(sources, ["who"], late="sum", within="max", behind="max", silence="max"),
            _together(heat, ["who", "class"], rows="sum"),
            _together(skew, ["ahead", "behind"], by="max"),
            _together(spans, ["span"], first_came="min", silence="max"),
            runs,
        )

    def buckets(self, what: What) -> dict[int, Buckets]:
        """The lengths of each part."""
        cells = self.cells.filter(pc.equal(self.cells["what"], what.value)).sort_by(
            [("part", "ascending"), ("bucket", "ascending")]
        )
        part, bucket, rows, greatest = (cells[name].to_numpy() for name in ("part", "bucket", "rows", "greatest"))
        greatest = greatest.view(np.int64) if what is What.DELAY else greatest
        parts, begins = np.unique(part, return_index=True)
        ends = [*begins[1:], len(part)]
        return {
            int(one): Buckets(bucket[begin:end], rows[begin:end], greatest[begin:end])
            for one, begin, end in zip(parts.tolist(), begins, ends, strict=True)
        }

    def all_of(self, what: What) -> Buckets:
        """The lengths of all parts together."""
        cells = self.cells.filter(pc.equal(self.cells["what"], what.value)).group_by("bucket")
        together = cells.aggregate([("rows", "sum"), ("greatest", "max")]).sort_by("bucket")
        numbers, counts, greatest = (together[name].to_numpy() for name in ("bucket", "rows_sum", "greatest_max"))
        return Buckets(numbers, counts, greatest.view(np.int64) if what is What.DELAY else greatest)


def look_at_slice(number: int, rows: pa.Table, before: Before, sources: pa.Table, asked: Questions) -> Found:
    """Measure the rows of a slice. Cost: O(n log n) for its rows."""
    times, came = (rows[name].to_numpy() for name in ("at", "came"))
    order = np.lexsort((times, came))
    times, came = times[order], came[order]
    names = pa.concat_arrays([*rows["who"].chunks, *sources["who"].chunks, pa.array([], pa.string())])
    encoded = names.dictionary_encode(null_encoding="encode")
    numbers = encoded.indices.to_numpy().astype(np.int64)
    who, known = encoded.dictionary.to_pylist(), numbers[len(order) :]
    codes = numbers[: len(order)][order]
    late = _late(times, before.newest)
    sound = ~np.isin(codes, [number for number, name in enumerate(who) if name in asked.wrong and asked.by_source])
    sound_times, sound_came, sound_codes = times[sound], came[sound], codes[sound]
    sound_late = (
        late if sound.all() and before.newest == before.newest_sound else _late(sound_times, before.newest_sound)
    )
    ranks = before.sound_rows + np.arange(len(sound_times))
    spans = _part(ranks, asked.spans)
    cells = [
        _cells(What.LATENESS, late),
        _cells(What.SOUND, sound_late, _part(ranks, asked.stretches)),
        _cells(What.FIRST, sound_late[ranks < asked.seen], _part(ranks[ranks < asked.seen], asked.first_stretches)),
        _cells(What.REST, sound_late[ranks >= asked.seen]),
        _cells(What.SPAN, sound_late, spans),
    ]
    if asked.comparable:
        delays = difference(came, times)
        cells.append(_cells(What.DELAY, delays))
        cells.append(_cells(What.AHEAD, np.where(delays < 0, -np.maximum(delays, -FOREVER), 0).view(np.uint64)))
    by_source, heat, skew = (schema.empty_table() for schema in (_SOURCES, _HEAT, _SKEW))
    if asked.by_source:
        newest, last = np.full((2, len(who)), BEGINNING)
        newest[known], last[known] = sources["newest"].to_numpy(), sources["last"].to_numpy()
        own = np.empty(len(times), dtype=np.uint64)
        lateness_within_sources(codes, times, newest, own)
        cells.append(_cells(What.WITHIN, own))
        silence = np.zeros(len(who), dtype=np.int64)
        longest_silences(codes, came, last, silence)
        by_source = _by_source(who, codes, late, own, silence)
        heat = _heat(who, codes, late, asked.heat)
        skew = _skew(who, sound_codes, sound_times, before, asked.skew)
    return Found(
        pa.concat_tables(cells),
        by_source,
        heat,
        skew,
        _spans(spans, sound_came, before.next_came),
        _runs(number, times),
    )


def _late(times: Column, before: Instant) -> NDArray[np.uint64]:
    newest = np.maximum(np.maximum.accumulate(times), before) if len(times) else times
    return newest.view(np.uint64) - times.view(np.uint64)


def _part(ranks: Column, begins: tuple[int, ...]) -> Column:
    """In which part each row is, by its number."""
    return np.searchsorted(np.array(begins, dtype=np.int64), ranks, side="right") - 1


def _cells(what: What, lengths: Column | NDArray[np.uint64], part: Column | None = None) -> pa.Table:
    signed = lengths.dtype == np.int64
    buckets = bucket_of_signed(lengths.view(np.int64)) if signed else bucket_of(lengths.view(np.uint64))
    part = np.zeros(len(lengths), dtype=np.int64) if part is None else part
    table = pa.table({"part": part, "bucket": buckets, "length": lengths.view(np.uint64)})
    found = table.group_by(["part", "bucket"]).aggregate([("length", "count"), ("length", "max")])
    found = found.select(["part", "bucket", "length_count", "length_max"]).rename_columns(
        ["part", "bucket", "rows", "greatest"]
    )
    return found.add_column(0, "what", pa.array(np.full(found.num_rows, what.value)))


# Schemas, as an empty table would load pandas already when it is made.
_LENGTHS_OF_SOURCES: Final = {"late": pa.int64(), "within": pa.uint64(), "behind": pa.uint64(), "silence": pa.int64()}
_SOURCES: Final = pa.schema({"who": pa.string()} | _LENGTHS_OF_SOURCES)
_HEAT: Final = pa.schema({"who": pa.string(), "class": pa.int64(), "rows": pa.int64()})
_SKEW: Final = pa.schema(dict.fromkeys(("ahead", "behind", "by"), pa.int64()))


def _by_source(
    who: list[str | None], codes: Column, late: NDArray[np.uint64], own: NDArray[np.uint64], silence: Column
) -> pa.Table:
    table = pa.table({"code": codes, "late": (late > 0).astype(np.int64), "within": own, "behind": late})
    found = table.group_by("code").aggregate([("late", "sum"), ("within", "max"), ("behind", "max")])
    its = found["code"].to_numpy()
    return pa.table(
        {
            "who": pa.array([who[code] for code in its.tolist()], pa.string()),
            "late": found["late_sum"],
            "within": found["within_max"],
            "behind": found["behind_max"],
            "silence": silence[its],
        }
    )


def _together(table: pa.Table, keys: list[str], **wanted: str) -> pa.Table:
    """One row for each key, with all others summed up under their own names."""
    found = table.group_by(keys).aggregate(list(wanted.items()))
    return found.select([*keys, *(f"{name}_{how}" for name, how in wanted.items())]).rename_columns([*keys, *wanted])


def _heat(who: list[str | None], codes: Column, late: NDArray[np.uint64], asked: tuple[str | None, ...]) -> pa.Table:
    chosen = np.isin(codes, [number for number, name in enumerate(who) if name in asked])
    table = pa.table({"code": codes[chosen], "class": class_of(late[chosen])})
    found = table.group_by(["code", "class"]).aggregate([([], "count_all")])
    names = pa.array([who[code] for code in found["code"].to_pylist()], pa.string())
    return pa.table({"who": names, "class": found["class"], "rows": found["count_all"]})


def _skew(
    who: list[str | None], codes: Column, times: Column, before: Before, asked: tuple[str | None, ...]
) -> pa.Table:
    place = {name: number for number, name in enumerate(asked)}
    numbers = np.array([place.get(name, -1) for name in who], dtype=np.int64)
    by = np.zeros((len(asked), len(asked)), dtype=np.int64)
    greatest_skews(numbers[codes], times, np.array(before.newest_of, dtype=np.int64), by)
    ahead, behind = np.indices(by.shape)
    return pa.table({"ahead": ahead.ravel(), "behind": behind.ravel(), "by": by.ravel()})


def _spans(spans: Column, came: Column, next_came: Instant | None) -> pa.Table:
    """When the first row of a span came, and the longest pause behind one of its rows."""
    following = [] if not len(came) else [came[-1] if next_came is None else next_came]
    pauses = np.append(came[1:], following).astype(np.int64) - came
    table = pa.table({"span": spans, "first_came": came, "silence": pauses})
    found = table.group_by("span").aggregate([("first_came", "min"), ("silence", "max")])
    return found.rename_columns(["span", "first_came", "silence"])


def _runs(number: int, times: Column) -> pa.Table:
    found = DisorderProfile.of(times)
    counted = {name: [getattr(found, name)] for name in ("events", "runs", "inversions", "distance", "interleaved")}
    return pa.table({"number": [number], "first": times[:1], "last": times[-1:], **counted})


def _written(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
