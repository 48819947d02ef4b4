"""What every stream can do: explain itself, run, and be looked at.

A stream is a frozen handle on a plan node. Its methods add a node and return a new stream; nothing runs until asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from slackwater import notebook
from slackwater.disorder.profile import DisorderProfile
from slackwater.errors import PlanError, message
from slackwater.operators.emission import LATE, LEFT_OUT
from slackwater.plan.explain import explain
from slackwater.plan.nodes.by_origin import refuse_mixed_origins
from slackwater.progress.instants import format_duration
from slackwater.runners.in_process.runner import BATCH_ROWS, BUFFER_LIMIT
from slackwater.streams.diverted_rows import only_late_stream, require_diverted_rows_taken
from slackwater.streams.explaining import explained
from slackwater.streams.on_spark import start_together, to_spark
from slackwater.streams.query import Query, run_into, run_together, starts_of
from slackwater.streams.sinks import ParquetSink, TableSink

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from datetime import timedelta

    import pyarrow as pa

    from slackwater.events.changes import ChangeLog
    from slackwater.events.schema import EventSchema
    from slackwater.plan.node import Node
    from slackwater.plan.properties import Properties
    from slackwater.progress.clock import Clock
    from slackwater.runners.result import Result
    from slackwater.runners.spark.output.sinks import AnySink, SinkFunction
    from slackwater.runners.spark.query import SparkQuery
    from slackwater.runners.spark.source import Frame
    from slackwater.streams.diverted_rows import Callback


@dataclass(frozen=True, repr=False)
class Stream:
    """A plan node, seen as a stream of events.

    >>> import slackwater as sw
    >>> sw.stream([{"at": 1, "x": 2}], time="at").sort(patience=5)
    <OrderedStream of 2 columns, time=at, patience 5>
    """

    node: Node

    def __post_init__(self) -> None:
        refuse_mixed_origins(self.node)

    def __repr__(self) -> str:
        schema = self.node.schema
        facts = [f"time={schema.time.name}", *([] if schema.until is None else [f"until={schema.until.name}"])]
        wait = self.node.longest_wait()
        if wait is not None:
            facts.append(f"patience {format_duration(wait) if schema.calendar else wait}")
        columns = len(self.schema)
        return f"<{type(self).__name__} of {columns} column{'s' * (columns != 1)}, {', '.join(facts)}>"

    def _repr_html_(self) -> str:
        columns = [(field.name, str(field.type)) for field in self.schema]
        plan = notebook.folded("plan", explain(self.node))
        return notebook.block(repr(self), notebook.table(["column", "type"], columns), plan)

    @property
    def shown_as(self) -> EventSchema | ChangeLog:
        """How batches become rows that users see."""
        return self.node.schema

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows, time columns included."""
        return self.shown_as.shown

    @property
    def properties(self) -> Properties:
        """What is known of the stream before it runs."""
        return self.node.properties

    def explain(self, runner: Literal["in_process", "spark"] | None = None, *, shards: int | None = None) -> str:
        """Return the plan as text: one line per step, with what is known of its output and the reason for it.

        - `runner`: "in_process" or "spark"; without it the one that can run the stream, in process if both can. Of
          Spark it says besides how many shards there are, which columns decide the shard of a row and why, where each
          step is done (by Spark itself, in the map tasks that read rows, in shards), where rows are summed up, and how
          often they go through Python. No query is started, and no row is read.
        - `shards`: as many as start() would be given, on Spark.

        >>> import slackwater as sw
        >>> rows = sw.stream([{"at": 1, "k": "a"}], time="at", name="clicks")
        >>> print(rows.sort(patience=5).explain().splitlines()[0].partition("  ")[0])
        sort#1
        >>> counts = rows.tumbling(10).sort(patience=5).group_by("k").aggregate(n=sw.count())
        >>> print(counts.explain(runner="spark", shards=4).splitlines()[0])
        shards     4, by k: all rows that a step needs together agree on that
        """
        return explained(self.node, runner=runner, shards=shards)

    def run(self, clock: Clock | None = None) -> Result:
        """Run in this thread until every source has ended, and return all rows as one table, late ones apart.

        - `clock`: the clock that stamps arrivals and times periodic punctuations; without it the machine's own.

        >>> import slackwater as sw
        >>> result = sw.stream([{"at": 3}, {"at": 1}], time="at").sort(patience=5).run()
        >>> result.table["at"].to_pylist(), result.late.num_rows
        ([1, 3], 0)
        """
        (result,) = run_together(self, clock=clock)
        return result

    def disorder(self, clock: Clock | None = None) -> DisorderProfile:
        """Run, and measure how far the events are from being ordered, in their order of arrival.

        Rows without a time are left out.

        >>> import slackwater as sw
        >>> print(sw.stream([{"at": at} for at in (1, 3, 2, 4)], time="at").disorder())
        events             4
        inversions         1
        distance           1 places
        natural runs       2
        interleaved runs   2
        late               1 (25.0%)
        lateness p50       1
        lateness p90       1
        lateness p99       1
        lateness p99.9     1
        greatest lateness  1
        """
        return DisorderProfile.of(starts_of(self, clock), calendar=self.node.schema.calendar)

    def batches(
        self, clock: Clock | None = None, on_late: Callback | None = None, on_left_out: Callback | None = None
    ) -> Generator[pa.RecordBatch, None, None]:
        """Run, and hand out the rows as they come. Stopping early closes the sources.

        `on_late` takes the rows that come too late, `on_left_out` those that a merge of replicas leaves out; a plan
        that diverts such rows must have it.

        >>> import slackwater as sw
        >>> [rows.num_rows for rows in sw.stream([{"at": 1}, {"at": 2}], time="at").batches()]
        [2]
        """
        bindings = {LATE: on_late, LEFT_OUT: on_left_out}
        taken = [output for output, binding in bindings.items() if binding is not None]
        require_diverted_rows_taken(self, besides=taken)  # now, and not when the first batch is asked for
        return self._hand_out(clock, on_late, on_left_out)

    def _hand_out(
        self, clock: Clock | None, on_late: Callback | None, on_left_out: Callback | None
    ) -> Generator[pa.RecordBatch, None, None]:
        ready: list[pa.RecordBatch] = []
        with self.open(ready.append, clock=clock, on_late=on_late, on_left_out=on_left_out) as query:
            while not query.finished:
                more = query.step()
                yield from ready
                ready.clear()
                if not more:
                    query.wait_for_more()

    def for_each(
        self,
        callback: Callback,
        clock: Clock | None = None,
        on_late: Callback | None = None,
        on_left_out: Callback | None = None,
    ) -> Result:
        """Run, and call back with every batch of rows. The result's table is empty: the rows went to the callback.

        Rows that come too late go to `on_late`, and those that a merge leaves out and diverts to `on_left_out`; without
        it the result has them.

        >>> import slackwater as sw
        >>> result = sw.stream([{"at": 1}, {"at": 2}], time="at").for_each(lambda rows: print(rows["at"].to_pylist()))
        [1, 2]
        """
        (result,) = run_into([(self, callback)], [TableSink(self.schema)], clock, on_late, on_left_out)
        return result

    def write_parquet(self, path: str | Path, clock: Clock | None = None, late: str | Path | None = None) -> Result:
        """Run, and write all rows to one Parquet file, which appears when the run has succeeded.

        Rows that come too late go to the file `late`, if one is named; otherwise the result has them.
        A failing run leaves what was there before alone, and the rows up to the failure in a file "....partial".

        >>> import slackwater as sw, pyarrow.parquet as pq, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = sw.stream([{"at": 2}, {"at": 1}], time="at").sort().write_parquet(f"{folder}/rows.parquet")
        ...     pq.read_table(f"{folder}/rows.parquet")["at"].to_pylist()
        [1, 2]
        """
        if late is None:
            with ParquetSink(path, self.schema) as sink:
                return self.for_each(sink, clock=clock)
        late_schema = only_late_stream(self).schema
        if Path(path).resolve() == Path(late).resolve():
            raise PlanError(message("late rows need a file of their own", {"both": path}, "name another file"))
        with ParquetSink(path, self.schema) as sink, ParquetSink(late, late_schema) as late_sink:
            return self.for_each(sink, clock=clock, on_late=late_sink)

    def open(
        self,
        on_batch: Callback,
        clock: Clock | None = None,
        resume: Mapping[str, Any] | None = None,
        on_late: Callback | None = None,
        on_left_out: Callback | None = None,
        *,
        batch_rows: int = BATCH_ROWS,
        buffer_limit: int = BUFFER_LIMIT,
    ) -> Query:
        """Start a live query that is driven by hand: work() does what can be done now, close() flushes and ends.

        `resume` takes what Query.snapshot() returned. `on_late` takes the rows that come too late, `on_left_out` those
        that a merge leaves out; a plan that diverts such rows must have it. `batch_rows` are taken from a source at
        once: fewer for very wide rows. A step may hold back `buffer_limit` rows for a silent source; then the others
        are left unread, and their feeders wait.

        >>> import pyarrow as pa, slackwater as sw
        >>> source = sw.PushSource({"at": pa.int64()})
        >>> ordered = sw.stream(source, time="at").sort(patience=2)
        >>> query = ordered.open(lambda rows: print(rows["at"].to_pylist()), on_late=print)
        >>> source.push([{"at": 3}, {"at": 1}, {"at": 6}])
        >>> query.work()
        [1, 3]
        >>> query.close()
        [6]
        """
        return Query(
            [(self, on_batch)],
            clock,
            resume,
            on_late,
            on_left_out,
            batch_rows=batch_rows,
            buffer_limit=buffer_limit,
        )

    def start(
        self,
        *,
        checkpoint: str,
        main: AnySink,
        late: AnySink | Mapping[str, AnySink] | None = None,
        left_out: AnySink | Mapping[str, AnySink] | None = None,
        on_late: SinkFunction | None = None,
        on_left_out: SinkFunction | None = None,
        metrics: AnySink | None = None,
        trigger: Mapping[str, Any] | None = None,
        timeout: str | timedelta | None = None,
        at_end: str | None = None,
        name: str | None = None,
        shards: int | None = None,
        rescale: bool = False,
        control: bool | None = None,
        memory: int | str | None = None,
        chunk_rows: int | None = None,
    ) -> SparkQuery:
        """Start a query on Spark that runs until it is stopped, and goes on from its checkpoint when started again.

        - `checkpoint`: the folder in which Spark keeps what the query has read and remembers.
        - `main`: the sink that takes the rows. A sink is the path of a folder for Parquet files, a function of the rows
          and the number of a micro-batch, or a `FolderSink`, `DeltaSink` or `PostgresSink`. After a crash the last
          micro-batch is run again: folders and tables that have it keep it, functions are called again with its number.
          A folder belongs to one query, which its checkpoint makes, and so does a table, unless each of its writers has
          a name; another is refused.
        - `late`: the sink for rows that come too late; where several steps divert such rows, a mapping with a sink for
          each, by the name of the source. A function may be given as `on_late`, as in open().
        - `left_out`: the sink for rows that a merge of replicas leaves out and diverts; of several merges in the same
          way. A function may be given as `on_left_out`.
        - `metrics`: the sink for a row of figures for each micro-batch and shard; its column `why` has for each step
          how far it is complete, by which bound, and what waits, and where sources go by themselves, each of them.
        - `trigger`: what Spark's own trigger() takes, such as {"availableNow": True}.
        - `timeout`: how long a source that pauses is waited for; without one, for ever. A source that has sent nothing
          for so long, such as "30s", by the timestamps of micro-batches, is taken to be complete, and from then on
          calendar time goes on with the clock, so that windows close. What it sends later with earlier times is late.
          Where bounds were given they say what silence means, and `timeout` is after how long, and how often, the clock
          is looked at while nothing comes at all. Spark then runs a micro-batch at every trigger, rows or not, so
          name one: {"processingTime": "5 seconds"}. What waited when a query was stopped goes on waiting when it is
          started again, and comes out though nothing is sent.
        - `at_end`: "flush" lets everything out that is held when a query with the trigger {"availableNow": True} has
          taken all there is: query.wait() does so, once, in a last micro-batch, and the query is over, its checkpoint
          takes nothing any more. Only a query that was always started so can be flushed. Without it what waits for late
          rows or for the end of a window is held; query.progress() says how much, and the next start goes on with it.
        - `name`: what Spark calls the query in its lists, and in the descriptions of its jobs; without one it is the
          names of the sources and the beginning of its id.
        - `shards`: how many parts share the work; without it one for each core, and as many as before in a query that
          is started again. explain(runner="spark") says which columns decide.
        - `rescale`: whether a query that is started again may have another number of shards: `shards`, or one for each
          core there is now. What is held goes where it belongs then, before the query goes on; where the number is the
          same nothing is done. A step whose memory cannot be parted yet is refused: it names itself. So is `timeout`.
          The command `slackwater rescale CHECKPOINT --shards 8` has the next start do so that does not say `shards`.
        - `control`: whether somebody may ask things of the query while it runs, by `query.control` and the command
          `slackwater control`: to pause a source, to take another patience, to let out what is held. It is chosen with
          the checkpoint, for good.
        - `memory`: how much rows may take that wait for their turn in the sorts of a shard, such as "256MB"; without it
          512 MiB, or a sixteenth of what `spark.executor.pyspark.memory` leaves a worker, if that is less. Beyond it
          rows are spilled to the state store, in order, and come back when they are due. explain(runner="spark") says
          what a row takes. It may be another one each time that a query is started.
        - `chunk_rows`: how many rows are moved to a shard as one value, at most.

        >>> import slackwater as sw
        >>> rows = spark.createDataFrame([(1, "a"), (12, "b"), (3, "a")], "at long, k string")
        >>> rows.coalesce(1).write.parquet(f"{folder}/in")
        >>> frame = spark.readStream.schema("at long, k string").parquet(f"{folder}/in")
        >>> counts = sw.stream(frame, time="at").tumbling(10).sort(patience=5).group_by("k").aggregate(n=sw.count())
        >>> query = counts.start(
        ...     checkpoint=f"{folder}/checkpoint",
        ...     main=f"{folder}/counts",
        ...     late=f"{folder}/late",
        ...     trigger={"availableNow": True},
        ...     at_end="flush",
        ...     shards=1,
        ... )
        >>> query.wait(), query.finished
        (True, True)
        >>> [row.n for row in spark.read.parquet(f"{folder}/counts").orderBy("window_start").collect()]
        [2, 1]
        """
        return start_together(
            [(self, main)],
            checkpoint=checkpoint,
            late=late,
            left_out=left_out,
            on_late=on_late,
            on_left_out=on_left_out,
            metrics=metrics,
            trigger=trigger,
            timeout=timeout,
            at_end=at_end,
            name=name,
            shards=shards,
            rescale=rescale,
            control=control,
            memory=memory,
            chunk_rows=chunk_rows,
        )

    def to_spark(
        self,
        timeout: str | timedelta | None = None,
        *,
        shards: int | None = None,
        memory: int | str | None = None,
        chunk_rows: int | None = None,
    ) -> Frame:
        """Return the rows as a DataFrame of Spark, for a query of your own: streaming, if the sources are.

        `timeout`, `shards`, `memory` and `chunk_rows` are as in start(); a timeout, and memory, are for streaming ones.
        What start() sets for its own query is up to you here: a session that keeps state elsewhere than in RocksDB,
        cannot distinguish attempts at a task apart, or has more shuffle partitions than there are shards, is refused
        with the calls to make. With "2m" for spark.sql.execution.arrow.maxBytesPerBatch large micro-batches are faster.

        >>> import slackwater as sw
        >>> frame = spark.createDataFrame([(1, "a"), (3, "b"), (2, "c")], "at long, x string")
        >>> ordered = sw.stream(frame, time="at").sort(patience=5, late=sw.Late.drop())
        >>> [row.x for row in ordered.to_spark(shards=1).collect()]
        ['a', 'c', 'b']
        """
        return to_spark(self, timeout, shards=shards, memory=memory, chunk_rows=chunk_rows)
