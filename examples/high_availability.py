"""Three copies of one query; two of them die, and the answers go on as if nothing had happened.

Each copy counts the readings of two sensors, in windows of ten seconds. A copy that dies just falls silent.
"""

from __future__ import annotations

import pyarrow as pa

import slackwater as sw

READING = pa.schema({"at": pa.int64(), "sensor": pa.string()})
LIVES = {"frankfurt": 15, "dublin": 32, "oslo": 60}
"""How many seconds each copy lives."""


def counts(source: sw.PushSource) -> sw.OrderedStream:
    """The query of which there are copies."""
    readings = sw.stream(source, time="at").assume_ordered()
    return readings.tumbling(10).group_by("sensor").aggregate(n=sw.count())


def show(rows: pa.RecordBatch) -> None:
    """Print answers as they come."""
    for row in rows.to_pylist():
        print(f"[{row['window_start']}, {row['window_end']}) {row['sensor']} {row['n']}")


def main() -> None:
    """Feed all copies with the same readings, each as long as it lives."""
    copies = {name: sw.PushSource(READING, name=name) for name in LIVES}
    merged = sw.high_availability(*(counts(source) for source in copies.values()))
    with merged.open(show, clock=sw.ManualClock()) as query:
        for at in range(60):
            for name, source in copies.items():
                if at == LIVES[name]:
                    print(f"-- {name} dies at {at}")
                if at < LIVES[name]:
                    source.push({"at": at, "sensor": "in" if at % 3 else "out"})
            query.work()


if __name__ == "__main__":
    main()
