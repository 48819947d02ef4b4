"""The query: two collectors merged, in order by what is proven, counted at three patiences, into Delta tables.

    python live_query.py SERVER FOLDER MESSAGES

It is a process of its own, so that it can be killed; started again, it goes on from its checkpoint. A micro-batch has
so many messages at most. It runs until its input ends, and then takes what the feed still has.
"""

from __future__ import annotations

import json
import select
import sys
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from broker import STREAM, SUBJECT
from hearing import BLUE, GREEN, NEVER_LATER
from spark_session import quiet_session

import slackwater as sw

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCES = ("1h", "6h", "2d")
"""For answers soon, fuller ones, and final ones. No final one takes two days: it is proven before that."""

COLUMNS = "number bigint, flight string, carrier string, dest string, departed timestamp, heard timestamp"
"""Of a message; the source adds the subject, which names the collector."""

SUBJECTS = (f"{SUBJECT}.{BLUE}", f"{SUBJECT}.{GREEN}")
SAY_EVERY = 4.0
"""Seconds."""


def once(flights: sw.OrderedStream) -> sw.OrderedStream:
    """Each flight once, whoever has sent it."""
    return flights.deduplicate(on=["carrier", "number"], within="1h")


def flights_at_three_patiences(feed: object) -> sw.PatienceBands:
    """The flights of both collectors, each once, in order of departure: soon, fuller, and final."""
    heard = sw.stream(feed, time="departed", origin="subject", arrived="heard", name="feed")
    return heard.in_bands(
        *PATIENCES,
        bounds=sw.Bounds.delay(NEVER_LATER).only(*SUBJECTS),  # what is older has come or never will, whoever is silent
        ahead="5m",  # a departure is past: what claims to be in the future is late, and moves nobody's clock
        partial=once,
        merge=once,
    )


def per_hour(flights: sw.OrderedStream) -> sw.OrderedStream:
    """Departures per hour and carrier."""
    return flights.tumbling("1h").group_by("carrier", "band").aggregate(flights=sw.count())


def start(session: SparkSession, server: str, folder: Path, messages: int) -> sw.SparkQuery:
    """Start it, or let it go on from its checkpoint."""
    feed = sw.jetstream(session, server, stream=STREAM, schema=COLUMNS, maxMessagesPerTrigger=messages)
    bands = flights_at_three_patiences(feed)
    answers = sw.DeltaSink(folder / "answers")
    return sw.start_together(
        [*((per_hour(flights), answers) for flights in bands), (bands.streams[-1], sw.DeltaSink(folder / "flights"))],
        late={"feed": sw.DeltaSink(folder / "ahead"), "feed#2": sw.DeltaSink(folder / "late")},
        checkpoint=str(folder / "checkpoint"),
    )


def main(server: str, folder: Path, messages: int) -> None:
    """Run until the input ends, then to the end of the feed, and note how far all is complete."""
    with quiet_session(folder) as session:
        query = start(session, server, folder, messages)
        said = -1
        while not select.select([sys.stdin], [], [], SAY_EVERY)[0] and not query.wait(0):
            said = say(query, said)
        rest = Thread(target=query.work)
        rest.start()
        while rest.is_alive():
            rest.join(SAY_EVERY)
            said = say(query, said)
        query.work()  # nothing is left, but a failure would be raised here
        proven, *_ = query.why()
        print("\n".join(f"      {line}" for line in str(proven).splitlines() if not line.startswith("  held")))
        (folder / "standing.json").write_text(json.dumps({"complete_before": proven.complete_before}))
        query.stop()


def say(query: sw.SparkQuery, said: int) -> int:
    """Say how far it has come, if it has come further than was said, and return the number of its last micro-batch."""
    last = query.last_micro_batch()
    if not last or last["batch_id"] == said:
        return said
    counted, complete = query.counters()["all shards"], last["complete_before"] or "nothing yet"
    print(
        f"      micro-batch {last['batch_id']:>3}: {counted.rows_in:>7,} messages, {counted.duplicates:,} second"
        f" copies, {counted.late:,} late; final before {complete[:16]}"
    )
    return int(last["batch_id"])


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
