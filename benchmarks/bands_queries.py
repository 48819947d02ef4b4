"""What is asked of disordered streams for figure 10 and Table II, and the ways to answer it.

Four queries over tumbling windows are asked of a disordered stream by
    advanced     in_bands(p0, p1, p2, **aggregates): three answers in one pass, partial results go from band to band
    basic        in_bands(p0, p1, p2) and the query on each of its three streams: events go from band to band
    band i       in_bands(p_i, **aggregates) alone: one answer, in the best way there is; band 2 is the full one
    MinLatency   sort(p0) and the query: one early answer, in the paper's way
    MidLatency   sort(p1) and the query
    MaxLatency   sort(p2) and the query: one full answer, late
Paper: Chandramouli, Goldstein, Li. Impatience Is a Virtue. ICDE 2018, section VI-D.

The times of the generated streams count events. Here they become dates. The paper's server log has events 13.6 million
places late that still come within the hour, so it has some 4,000 events per second; ours gets these. The phones'
uploads come at random, which makes 20 % of the events come within 3.5 hours and 92 % within a day, if 14 events come
per second; in the paper it was 10 minutes for the first. Windows are a minute and an hour long: 240,000 and 50,000
events, enough for 1,000 groups to be sums of something, and not so many that their open window outweighs the bands.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

import disordered
import slackwater as sw
from as_written import as_written

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    Columns = Mapping[str, NDArray[Any]]

T = TypeVar("T")

EVERY = sw.Every.rows(10_000)
"""The paper's punctuation frequency."""

TIME = {"at": pa.timestamp("us")}
"""Times are dates."""

_DROP = sw.Late.drop()


@dataclass(frozen=True)
class Setting:
    """A stream, the patiences it is asked with, and the length of its windows."""

    name: str
    times: Callable[[int], NDArray[np.int64]]
    patiences: tuple[str, str, str]
    window: str
    every: sw.Every = EVERY


@dataclass(frozen=True)
class Asked:
    """A query: what is computed for how many groups."""

    groups: int
    keys: tuple[str, ...]
    aggregates: Mapping[str, Any]


QUERIES = {
    "Q1": Asked(100, (), {"n": sw.count()}),
    "Q2": Asked(100, ("group",), {"n": sw.count()}),
    "Q3": Asked(1_000, ("group",), {"n": sw.count()}),
    "Q4": Asked(100, ("group",), {"top": sw.top_k("a", 5)}),
}
"""The paper's four queries: a count; counts of 100 and of 1,000 groups; the five largest values in each of 100."""


def _cloud(events: int) -> NDArray[np.int64]:
    """Stretches of two million events, with a failure of a whole site in each, so that 2 % are late for a second."""
    stretch = 2_000_000
    parts = [disordered.cloud_like(stretch, seed) + seed * stretch for seed in range(max(1, events // stretch))]
    return np.concatenate(parts) * 250


def _android(events: int) -> NDArray[np.int64]:
    """A part of a longer stream, which has reached its usual lateness when the part begins."""
    before = 1_700_000
    times: NDArray[np.int64] = disordered.android_like(events + 2 * before)[before : before + events]
    return times * 72_000


def _synthetic(events: int) -> NDArray[np.int64]:
    return disordered.synthetic(events, percent=30, spread=64) * 1_000


def _flights(events: int) -> NDArray[np.int64]:  # noqa: ARG001 - there are as many as there are
    return disordered.flights()[0]


MEASURED = (
    Setting("cloud_like", _cloud, ("1s", "1m", "1h"), "1m"),
    Setting("android_like", _android, ("3h30m", "12h", "1d"), "1h"),
)
"""The streams of figure 10."""

COUNTED = (
    Setting("s30_64", _synthetic, ("50ms", "100ms", "200ms"), "1s", sw.Every.rows(10)),
    Setting("flights", _flights, ("1h", "3h", "6h"), "1h", sw.Every.time("1m")),
)
"""Streams of which only the completeness is told. 10,000 flights take eleven days, so they are punctuated by time."""


# ---- the methods ---------------------------------------------------------------------------------------------------


def _advanced(events: sw.DisorderedStream, setting: Setting, query: Asked) -> list[sw.OrderedStream]:
    grouped = events.group_by(*query.keys)
    return list(grouped.in_bands(*setting.patiences, every=setting.every, late=_DROP, **query.aggregates))


def _basic(events: sw.DisorderedStream, setting: Setting, query: Asked) -> list[sw.OrderedStream]:
    bands = events.in_bands(*setting.patiences, every=setting.every, late=_DROP)
    return [band.group_by(*query.keys).aggregate(**query.aggregates) for band in bands]


def _one_latency(band: int, events: sw.DisorderedStream, setting: Setting, query: Asked) -> list[sw.OrderedStream]:
    ordered = events.sort(setting.patiences[band], every=setting.every, late=_DROP)
    return [ordered.group_by(*query.keys).aggregate(**query.aggregates)]


def _one_band(band: int, events: sw.DisorderedStream, setting: Setting, query: Asked) -> list[sw.OrderedStream]:
    grouped = events.group_by(*query.keys)
    return list(grouped.in_bands(setting.patiences[band], every=setting.every, late=_DROP, **query.aggregates))


METHODS: dict[str, Callable[[sw.DisorderedStream, Setting, Asked], list[sw.OrderedStream]]] = {
    "advanced": _advanced,
    "basic": _basic,
    **{f"band {band}": partial(_one_band, band) for band in range(3)},
    "MinLatency": partial(_one_latency, 0),
    "MidLatency": partial(_one_latency, 1),
    "MaxLatency": partial(_one_latency, 2),
}
"""From windowed events to the streams that are run together."""


SINGLE = {0: ("band 0", "MinLatency"), 1: ("band 1", "MidLatency"), 2: ("band 2", "MaxLatency")}
"""The methods that give one answer, by its patience: the faster of the two is the best single answer."""


def streams_of(method: str, source: Any, setting: Setting, query: Asked) -> list[sw.OrderedStream]:
    """What is run together to answer a query by a method."""
    return METHODS[method](sw.stream(source, time="at").tumbling(setting.window), setting, query)


def answered(method: str, work: Callable[[], T]) -> T:
    """Do what runs a method's streams. Those of the paper sort, though our plans leave a sort out that nobody needs."""
    return as_written("without_needless_sorts", work) if method.endswith("Latency") else work()


def columns_of(setting: Setting, events: int) -> dict[str, NDArray[Any]]:
    """The columns of a stream: its times, and the paper's payload."""
    times = setting.times(events)[:events]
    return {"at": times, **disordered.payload(len(times), groups=1_000)}


def grouped(columns: Columns, query: Asked) -> dict[str, NDArray[Any]]:
    """The columns with as many groups as the query has."""
    return {**columns, "group": columns["group"] % np.int32(query.groups)}


def table_of(columns: Columns) -> pa.Table:
    """The columns as a table in memory, without a copy."""
    return pa.table({name: pa.array(column).view(TIME.get(name, pa.int32())) for name, column in columns.items()})
