"""Two copies of one query that stall in turns: merged, they are as fast as the faster one at every moment.

Rows come in rounds. In each round one copy gets all rows that it has missed so far, and the other one nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import narwhals as nw
import pyarrow as pa

import slackwater as sw

if TYPE_CHECKING:
    from collections.abc import Callable

ORDER = pa.schema({"id": pa.int64(), "customer": pa.string(), "total": pa.int64()})
ROUNDS, PER_ROUND = 6, 5


def large(source: sw.PushSource) -> sw.OrderedStream:
    """The query of which there are copies: every order has a number of its own."""
    return sw.stream(source, time="id").assume_ordered().where(nw.col("total") > 10)


def order(number: int) -> dict[str, object]:
    """One order."""
    return {"id": number, "customer": "ann" if number % 2 else "bob", "total": 7 * number % 40}


def main() -> None:
    """Count what each has told after each round: the copies alone, and both merged."""
    names = ("blue", "green", "both")
    told = dict.fromkeys(names, 0)

    def note(name: str) -> Callable[[pa.RecordBatch], None]:
        def counted(rows: pa.RecordBatch) -> None:
            told[name] += rows.num_rows

        return counted

    sources = [sw.PushSource(ORDER, name=name) for name in names[:2]]
    copies = [large(source) for source in sources]
    both = sw.fast_availability(*copies)
    streams = (*copies, both)
    with sw.Query(
        [(stream, note(name)) for stream, name in zip(streams, names, strict=True)], clock=sw.ManualClock()
    ) as query:
        sent = [0, 0]
        print("round  blue  green  both")
        for turn in range(ROUNDS):
            fast, upto = turn % 2, (turn + 1) * PER_ROUND
            sources[fast].push([order(number) for number in range(sent[fast], upto)])
            sent[fast] = upto
            query.work()
            print(f"{turn:5}  {told['blue']:4}  {told['green']:5}  {told['both']:4}")


if __name__ == "__main__":
    main()
