"""A running query is moved from blue to green, without a gap and without a repeat.

Green is a new deployment with other code inside: it tells the same events in another order. It was started at 20, so
that it tells everything from there on.
"""

from __future__ import annotations

import pyarrow as pa

import slackwater as sw

EVENT = pa.schema({"change": pa.string(), "at": pa.int64(), "user": pa.string()})


def rows(first: int, last: int, step: int = 1) -> list[dict[str, object]]:
    """Events of some seconds, and the promise that they are all."""
    events = [{"change": "insert", "at": at, "user": f"user {at % 3}"} for at in range(first, last)][::step]
    return [*events, {"change": "punctuate", "at": last}]


def main() -> None:
    """Run blue, attach green, wait until it has joined, detach blue, and go on."""
    blue, green = (sw.PushSource(EVENT, name=name) for name in ("blue", "green"))
    old, new = (sw.changes(source, time="at", keyed=True) for source in (blue, green))
    merged = sw.merge_replicas(old, new, standby=[new])
    seen: list[int] = []
    with merged.open(lambda batch: seen.extend(batch["at"].to_pylist()), clock=sw.ManualClock()) as query:
        blue.push(rows(0, 15))
        query.work()
        print("blue alone:", seen)
        green.push(rows(20, 30, step=-1))  # it runs ahead; nobody reads it yet
        blue.push(rows(15, 25))
        sw.cutover(query, old, new, complete_from=20)
        for standing in query.replicas():
            print(standing)
        green.push(rows(30, 40, step=-1))
    print("in the end:", seen)
    print("each once:", seen == list(range(40)))


if __name__ == "__main__":
    main()
