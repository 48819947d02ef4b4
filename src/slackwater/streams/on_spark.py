"""Streams of Spark DataFrames, run by Spark. Whatever loads Spark is loaded when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from slackwater.errors import PlanError, message

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta
    from pathlib import Path

    from slackwater.runners.spark.feeds.delta_source import DeltaSourceOptions
    from slackwater.runners.spark.feeds.jetstream_source import JetStreamOptions
    from slackwater.runners.spark.input.file_openers import FileSystem
    from slackwater.runners.spark.input.file_source_options import FileSourceOptions
    from slackwater.runners.spark.input.parquet_files import ParquetFiles
    from slackwater.runners.spark.output.sinks import AnySink, SinkFunction
    from slackwater.runners.spark.query import SparkQuery
    from slackwater.runners.spark.source import ColumnTypes, Frame, Session, SparkFeed
    from slackwater.streams.stream import Stream


def start_together(
    streams: Sequence[tuple[Stream, AnySink]],
    *,
    checkpoint: str,
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
    """Start one query on Spark for several streams, such as the bands of in_bands(), each with its sink.

    What they share is done once. Streams with the same columns may have the same sink: what a micro-batch has for it is
    written at once. The rest is as for Stream.start().

    >>> import slackwater as sw
    >>> spark.createDataFrame([(1,), (3,), (2,)], "at long").coalesce(1).write.parquet(f"{folder}/in")
    >>> ordered = sw.stream(spark.readStream.schema("at long").parquet(f"{folder}/in"), time="at").sort(patience=5)
    >>> query = sw.start_together(
    ...     [(ordered, f"{folder}/rows"), (ordered.tumbling(10).aggregate(n=sw.count()), f"{folder}/counts")],
    ...     checkpoint=f"{folder}/checkpoint",
    ...     late=f"{folder}/late",
    ...     trigger={"availableNow": True},
    ...     at_end="flush",
    ...     shards=1,
    ... )
    >>> query.wait()
    True
    >>> spark.read.parquet(f"{folder}/rows").count(), spark.read.parquet(f"{folder}/counts").first().n
    (3, 3)
    """
    return _spark_runner().start_together(
        streams,
        checkpoint=checkpoint,
        late=_place_or_function("late", late, on_late),
        left_out=_place_or_function("left_out", left_out, on_left_out),
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


def _place_or_function(option: str, place: Any, function: SinkFunction | None) -> Any:
    """Where rows go that did not go on: to a place, or to a function."""
    if function is None:
        return place
    if place is not None:
        facts = {option: place, f"on_{option}": function}
        hint = f"{option}= names a place, on_{option}= a function that is called; give one"
        raise PlanError(message("these rows would go to two takers", facts, hint))
    if not callable(function):
        facts, hint = {"got": repr(function)}, f"name a place by {option}=..."
        raise PlanError(message(f"on_{option} is a function of the rows and the number of a micro-batch", facts, hint))
    return function


def parquet_files(
    session: Session,
    path: str,
    *,
    schema: ColumnTypes | None = None,
    streaming: bool = True,
    filesystem: FileSystem | None = None,
    **options: Unpack[FileSourceOptions],
) -> ParquetFiles:
    """Find the Parquet files of a folder, to be read by streams on Spark: `sw.stream(sw.parquet_files(...), time=...)`.

    Spark finds the files and keeps the book, as for `spark.readStream.parquet(path)`, and Arrow reads them right into
    the library: rows need not cross from Spark to Python, which is most of what rows cost. Steps give the same as on
    the DataFrame. `schema` names columns and types, as Spark writes them; without it they are those of the files that
    are there. `options` are those of Spark's file source, by Spark's names, such as maxFilesPerTrigger=1; another is
    refused, for Spark would not look at it. With `streaming=False` only the files that are there now are read.

    Files of local and mounted folders are opened as they are. Of `s3:`, `s3a:`, `gs:` and `hdfs:` Spark finds the files
    with its own settings, and workers open them by Arrow's file systems, with what these find: keys of the environment,
    for `hdfs:` libhdfs and Java. Files of other file systems (`abfss:`, `dbfs:`, `wasbs:`) Spark reads whole, and hands
    over their bytes: all columns are read then, and a file may have 2 GB at most. `filesystem="hadoop"` asks for the
    same where Arrow would find no keys. Or hand over a file system of fsspec or Arrow that opens them, such as
    `filesystem=fsspec.filesystem("abfs", account_name=...)`; it travels to the workers with what it knows of keys.

    >>> import slackwater as sw
    >>> spark.createDataFrame([(1, "a")], "at long, k string").write.parquet(f"{folder}/in")
    >>> files = sw.parquet_files(spark, f"{folder}/in", streaming=False)
    >>> ordered = sw.stream(files, time="at").sort(patience=5, late=sw.Late.drop())
    >>> ordered.to_spark(shards=1).collect()
    [Row(at=1, k='a')]
    """
    return _spark_runner().parquet_files(
        session, path, schema=schema, streaming=streaming, filesystem=filesystem, **options
    )


def delta_table(
    session: Session,
    path: str | Path,
    *,
    streaming: bool = True,
    storage_options: Mapping[str, str] | None = None,
    **options: Unpack[DeltaSourceOptions],
) -> SparkFeed:
    """Read a Delta table, version by version: `sw.stream(sw.delta_table(spark, path), time=...)`.

    `pip install slackwater[delta]`; it takes neither Spark's Delta nor a JAR. A new query reads the table as it is, and
    from then on what each version adds. The offsets that Spark logs are versions, and files in them, so that a
    micro-batch that is done again reads the same rows. `options` are those of Delta's own source, by its names:

    - `startingVersion`, a number or "latest", or `startingTimestamp`: begin there, without what the table has already;
    - `maxFilesPerTrigger` (1,000 unless a limit is given), `maxBytesPerTrigger`, `maxRowsPerTrigger`,
      `maxVersionsPerTrigger`: how much a micro-batch takes at most, but one file;
    - `ignoreDeletes`, `skipChangeCommits`: go on where a version deletes rows, or changes any. Otherwise the query
      stops there and names it.

    It also stops, and says what is missing, where the log of a version or a file is gone, where the table has got
    columns that are not read, and where another table has taken its place. Started again it reads all columns; a plan
    that hands them on is another one then, and goes on from its checkpoint only if the DataFrame below is given those
    that it had, by `select()`. With `streaming=False` it reads what there is now. `storage_options` are those of the
    package `deltalake`; they are not in what Spark logs.
    The same is `spark.readStream.format("slackwater_delta")` after `spark.dataSource.register(sw.DeltaSource)`.

    >>> import pyarrow as pa
    >>> import slackwater as sw
    >>> from deltalake import write_deltalake
    >>> for at in (2, 1):
    ...     write_deltalake(f"{folder}/table", pa.table({"at": [at]}), mode="append")
    >>> ordered = sw.stream(sw.delta_table(spark, f"{folder}/table"), time="at").sort(patience=5)
    >>> query = ordered.start(
    ...     checkpoint=f"{folder}/checkpoint",
    ...     main=f"{folder}/out",
    ...     late=f"{folder}/late",
    ...     trigger={"availableNow": True},
    ...     at_end="flush",
    ...     shards=1,
    ... )
    >>> query.wait()
    True
    >>> spark.read.parquet(f"{folder}/out").select("at").collect()
    [Row(at=1), Row(at=2)]
    """
    runner = _spark_runner()
    return runner.delta_table(session, path, streaming=streaming, storage_options=storage_options, **options)


def jetstream(
    session: Session,
    servers: str | Sequence[str],
    *,
    stream: str,
    subjects: str | Sequence[str] = (),
    schema: ColumnTypes | None = None,
    format: str = "json",  # noqa: A002 - as Spark calls it
    streaming: bool = True,
    **options: Unpack[JetStreamOptions],
) -> SparkFeed:
    """Read a stream of NATS JetStream: `sw.stream(sw.jetstream(spark, servers, stream=..., schema=...), time=...)`.

    `pip install slackwater[nats]`. A micro-batch is a range of sequences, which Spark logs, so that one that is done
    again reads the same messages. `schema` names the columns of a message, as Spark writes them: fields of a JSON
    object, or with `format="arrow"` columns of an Arrow IPC stream of any number of rows; `format="raw"` has the bytes
    in a column `data`. Behind them come `subject`, for `origin=`, `sequence`, and `arrived_at`, the server's own time
    stamp, for `arrived=`. If there are `subjects`, with wildcards as NATS has them, only those are read. Options:

    - `startingSequence`: "earliest" (the default), "latest" or a number; or `startingTimestamp`;
    - `maxMessagesPerTrigger`: how many a micro-batch takes at most; `maxMessagesPerPartition` (50,000): a task;
    - `failOnDataLoss`: by default the query stops, and names the sequences, where messages have gone that were never
      read, or that a micro-batch had which is done again. Streams that keep only the last messages of each subject
      need False;
    - `mode="PERMISSIVE"`: messages that cannot be read become rows with nulls and their bytes in
      `columnNameOfCorruptRecord`. Otherwise the query stops, and names the sequence;
    - `attempts` (5) and `timeoutSeconds` (10): how often and how long a server is asked that does not answer;
    - `user` and `password`, `token`, `credentials` (a file), `tlsCaFile`, `tlsCertFile`, `tlsKeyFile`: these are in no
      message and not in what Spark logs.

    Streams of other retention than `limits`, whose messages go once somebody has read them, are refused. The same is
    `spark.readStream.format("slackwater_jetstream")` after `spark.dataSource.register(sw.JetStreamSource)`. In process
    there is no such source: let a subscription push into a `PushSource`.

    >>> import slackwater as sw
    >>> readings = sw.jetstream(spark, nats, stream="READINGS", subjects="readings.>", schema="at bigint")
    >>> ordered = sw.stream(readings, time="at", origin="subject").sort(patience=5)
    >>> query = ordered.start(
    ...     checkpoint=f"{folder}/checkpoint",
    ...     main=f"{folder}/out",
    ...     late=f"{folder}/late",
    ...     trigger={"availableNow": True},
    ...     at_end="flush",
    ...     shards=1,
    ... )
    >>> query.wait()
    True
    >>> spark.read.parquet(f"{folder}/out").select("at", "subject", "sequence").collect()
    [Row(at=5, subject='readings.flood', sequence=2), Row(at=7, subject='readings.ebb', sequence=1)]
    """
    return _spark_runner().jetstream(
        session,
        servers,
        stream=stream,
        subjects=subjects,
        schema=schema,
        format=format,
        streaming=streaming,
        **options,
    )


def to_spark(
    stream: Stream,
    timeout: str | timedelta | None = None,
    *,
    shards: int | None = None,
    memory: int | str | None = None,
    chunk_rows: int | None = None,
) -> Frame:
    """The rows of a stream as a DataFrame."""
    runner = _spark_runner()
    return runner.to_frame(stream, timeout=timeout, shards=shards, memory=memory, chunk_rows=chunk_rows)


def loaded_from_spark(name: str) -> Any:
    """What the Spark runner calls so: a class that users need for their types, or a sink."""
    return getattr(_spark_runner(), name)


def _spark_runner() -> Any:
    try:
        from slackwater.runners import spark
    except ImportError as error:
        facts, hint = {"missing": error.name}, "pip install 'slackwater[spark]'"
        raise PlanError(message("this needs PySpark", facts, hint)) from error
    return spark
