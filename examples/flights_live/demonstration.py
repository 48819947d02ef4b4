"""Flights published live by two collectors that fail, counted by a query that is killed: every flight exactly once.

    python examples/flights_live/demonstration.py [--days 31] [--days-per-second 0.7] [--folder demo-output]

The flights that left New York in 2013 are events at their departure, and are heard of when they have landed. Two
collectors publish what they hear to a NATS JetStream server, at many times the speed of the real thing. A query on
Spark merges them, puts flights in order as far as that is proven, and counts departures per hour and carrier at three
patiences, into Delta tables. Meanwhile one collector goes quiet, catches up and dies, the clock of the other jumps
ahead by two days, and the query is killed. In the end each flight is looked for. Then Spark's own watermarks get the
same feed.

Everything is on the loopback and in one folder, and no process is left behind.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
from datetime import timedelta
from pathlib import Path
from textwrap import wrap

import pyarrow.parquet as pq
from broker import nats_server, recorded
from comparison import proof_of
from flight_list import BEGIN, landed_flights
from live_part import LivePart
from live_query import PATIENCES
from mishaps import Mishaps
from outcomes import closed_by_all, missing_by_day, outcomes, prepare
from processes import processes
from recording import write_feed
from report import lines_of_outcomes, lines_of_proof, notes_of, sections
from run_tables import opened
from story import Story, show

_MESSAGES_A_DAY = 47
"""Times the days: so many messages has a micro-batch, that a run of any length has about thirty."""


def main() -> None:
    """Do what the command line says; fail if a flight is missing."""
    parser = argparse.ArgumentParser(prog="demonstration.py", description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=int, default=31, help="how many days of flights")
    parser.add_argument("--days-per-second", type=float, default=0.7, help="how fast the feed runs")
    parser.add_argument("--folder", type=Path, default=Path("demo-output"), help="emptied in the beginning")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # so that whatever was started is ended, too
    try:
        holds = demonstrate(given.folder.resolve(), given.days, given.days_per_second)
    except KeyboardInterrupt:
        sys.exit("\ninterrupted: the server and all processes are gone")
    if not holds:
        sys.exit(1)


def demonstrate(folder: Path, days: int, days_per_second: float) -> bool:
    """Run all of it, and say whether each flight was there."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    story, mishaps, messages = Story(), Mishaps.in_days(days), max(1_000, _MESSAGES_A_DAY * days)
    flights = landed_flights(days)
    pq.write_table(flights, folder / "flights.parquet")
    print(f"{len(flights):,} flights of {days} days, published live, {days_per_second:g} of these days in a second")
    with nats_server(folder / "nats") as server, processes(folder / "logs") as started:
        profile = LivePart(server, folder, days, days_per_second, messages, started, story).run()
        feed = recorded(server)
        micro_batches = write_feed(feed, folder)
        with opened(folder) as base:
            proof = proof_of(base, folder, mishaps.end)
            story.tell(mishaps.end, "compared with the list of flights, which went no way at all:")
            show(*lines_of_proof(proof))
            words = f"{len(feed):,} messages, in {micro_batches} micro-batches"
            story.tell(mishaps.end, f"Spark's own watermarks get the same {words}")
            started.finish(started.start("native_query.py", folder, *PATIENCES, log="native.log"))
            closed = closed_by_all(proof.complete_before, mishaps.end)
            prepare(base, folder, PATIENCES, closed)
            found, missing = outcomes(base, PATIENCES), missing_by_day(base, PATIENCES)
    hours = (mishaps.end - BEGIN) / micro_batches / timedelta(hours=1)
    notes = notes_of(closed, hours, profile)
    print()
    show(*lines_of_outcomes(found), *(line for note in notes for line in wrap(note, 112)))
    page = folder / "report.html"
    title = f"Flights of two collectors that fail, {BEGIN:%B %Y}"
    profile.write_html(page, title=title, more=sections(proof, found, missing, story.told, notes))
    print(f"\nThe report, which opens without a network: {page}")
    return proof.holds


if __name__ == "__main__":
    main()
