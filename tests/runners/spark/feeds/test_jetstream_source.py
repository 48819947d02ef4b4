"""Streams of JetStream as sources: a range of sequences is the same rows again, or it is an error that says why not."""

from __future__ import annotations

import json
import runpy
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from nats_server import NatsServer, nats_server
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import LongType, StringType, StructType, TimestampType

import slackwater as sw
from slackwater.errors import PlanError, SourceFailed
from slackwater.runners.spark.feeds.jetstream_server import JetStream
from slackwater.runners.spark.feeds.jetstream_source import JetStreamReader, JetStreamSource
from slackwater.runners.spark.feeds.options import as_texts
from slackwater.runners.spark.feeds.replayed import EndingReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

    from slackwater.runners.spark.feeds.replayed import Offset

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

# Not imported: what workers are sent must not refer to a module that they cannot find.
_SMALL = SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[1] / "small_query.py")))

_AS_THE_OPTIONS_SAY = ReadMaxRows(1)
_SUBJECTS = ("tide.ebb", "tide.flood", "tide.slack.north")
_ROW = json.dumps(StructType().add("n", LongType()).jsonValue())


class _Readers:
    """Readers of a stream, which let their server go when the test ends."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._made: list[JetStreamReader] = []

    def __call__(self, **options: Any) -> JetStreamReader:
        """One with these options."""
        given_here = {"servers": self._url, "stream": "TIDE", "schema": _ROW, **options}
        source = JetStreamSource(CaseInsensitiveDict(as_texts(given_here)))
        columns = source.schema()
        assert isinstance(columns, StructType)
        self._made.append(source.streamReader(columns))
        return self._made[-1]

    def close(self) -> None:
        """Let all servers go."""
        for reader in self._made:
            reader.stop()
        self._made.clear()


@pytest.fixture
def reader(nats: NatsServer) -> Iterator[_Readers]:
    """Makes readers of the stream TIDE."""
    nats.add_stream("TIDE", "tide.>")
    readers = _Readers(nats.url)
    yield readers
    readers.close()


def _numbered(numbers: Sequence[int]) -> list[tuple[str, bytes]]:
    return [(_SUBJECTS[number % 3], json.dumps({"n": number}).encode()) for number in numbers]


def _rows(reader: JetStreamReader, start: Offset, end: Offset) -> list[dict[str, Any]]:
    return [row for part in reader.partitions(start, end) for batch in reader.read(part) for row in batch.to_pylist()]


def _numbers(reader: JetStreamReader, start: Offset, end: Offset) -> list[int]:
    return [row["n"] for row in _rows(reader, start, end)]


def _to_the_end(reader: JetStreamReader, start: Offset | None = None) -> list[tuple[Offset, Offset]]:
    """The micro-batches that Spark would make of what there is."""
    ranges = []
    at = reader.initialOffset() if start is None else start
    while (end := reader.latestOffset(_logged(at), _AS_THE_OPTIONS_SAY)) != at:
        ranges.append((at, end))
        at = end
    return ranges


def _logged(offset: Offset) -> Offset:
    """As it comes back from Spark's log."""
    return dict(json.loads(json.dumps(offset)))


def _all(reader: JetStreamReader) -> list[int]:
    return [n for one in _to_the_end(reader) for n in _numbers(reader, *one)]


# ---- ranges ----------------------------------------------------------------------------------------------------------


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    bursts=some.lists(some.integers(0, 12), min_size=1, max_size=4),
    most=some.none() | some.integers(1, 7),
    per_part=some.integers(1, 9),
    subjects=some.sampled_from(["", "tide.>", "tide.ebb", "tide.ebb,tide.slack.*", "tide.*"]),
)
def test_ranges_have_every_message_once_and_the_same_again(
    nats: NatsServer, bursts: list[int], most: int | None, per_part: int, subjects: str
) -> None:
    """Whatever comes meanwhile, of these subjects or of others, and however ranges and tasks are cut."""
    nats.remove_streams()
    nats.add_stream("TIDE", "tide.>")
    wanted = {"tide.ebb": {0}, "tide.ebb,tide.slack.*": {0, 2}, "tide.*": {0, 1}}.get(subjects, {0, 1, 2})
    options = {"maxMessagesPerTrigger": most, "maxMessagesPerPartition": per_part, "subjects": subjects}
    readers, published, read = _Readers(nats.url), 0, []
    reader = readers(**options)
    at = reader.initialOffset()
    for burst in bursts:
        nats.publish_all(_numbered(range(published, published + burst)))
        published += burst
        for first, stop in _to_the_end(reader, at):
            read.append((first, stop, _rows(reader, first, stop)))
            at = stop
    rows = [row for _, _, some_rows in read for row in some_rows]
    assert [row["n"] for row in rows] == [n for n in range(published) if n % 3 in wanted]
    assert [row["sequence"] for row in rows] == [row["n"] + 1 for row in rows]
    assert [row["subject"] for row in rows] == [_SUBJECTS[row["n"] % 3] for row in rows]
    assert [row["arrived_at"] for row in rows] == sorted(row["arrived_at"] for row in rows)
    assert all(len(some_rows) <= (most or published) for _, _, some_rows in read)
    again = readers(**{**options, "maxMessagesPerPartition": 4})
    for first, stop, some_rows in read:
        assert _rows(again, _logged(first), _logged(stop)) == some_rows
    readers.close()


def test_a_limit_counts_messages_of_the_subjects_that_are_read(nats: NatsServer, reader: _Readers) -> None:
    """Where one in fifty is wanted, a micro-batch of twenty is about a thousand messages long.

    The server is asked for counts, and keeps nothing of it: readers may be many before it forgets them itself.
    """
    nats.publish_all(
        [("tide.ebb" if n % 50 == 0 else "tide.flood", json.dumps({"n": n}).encode()) for n in range(4_000)]
    )
    rare = reader(subjects="tide.ebb", maxMessagesPerTrigger=20)
    ranges, server = _to_the_end(rare), rare._server()
    assert server.first_since(datetime(2100, 1, 1, tzinfo=UTC)) == 4_001
    info = server._asked(lambda client: server._info(client, details=False))
    assert info["state"]["consumer_count"] == 0
    sizes = [len(_numbers(rare, *one)) for one in ranges]
    assert sum(sizes) == 80
    assert len(sizes) <= 6
    assert max(sizes) <= 20


def test_all_that_is_available_is_read_without_limits_when_spark_asks_for_it(
    nats: NatsServer, reader: _Readers
) -> None:
    """A trigger that runs once asks so; and what comes later is not available now."""
    nats.publish_all(_numbered(range(5)))
    limited = reader(maxMessagesPerTrigger=2)
    start = limited.initialOffset()
    assert _numbers(limited, start, limited.latestOffset(start, ReadAllAvailable())) == [0, 1, 2, 3, 4]
    limited.prepareForTriggerAvailableNow()
    nats.publish_all(_numbered(range(5, 9)))
    assert [_numbers(limited, *one) for one in _to_the_end(limited)] == [[0, 1], [2, 3], [4]]


def test_the_first_micro_batch_is_the_same_though_the_query_would_now_begin_elsewhere(
    nats: NatsServer, reader: _Readers
) -> None:
    """Spark does not log where the first one began, and asks again."""
    nats.publish_all(_numbered([0]))
    one = reader(startingSequence="latest")
    start = one.initialOffset()
    nats.publish_all(_numbered([1]))
    end = _logged(one.latestOffset(start, ReadAllAvailable()))
    nats.publish_all(_numbered([2]))
    again = reader(startingSequence="latest")
    assert again.initialOffset() != start
    assert _numbers(again, again.initialOffset(), end) == [1]


def test_a_query_begins_where_it_is_asked_to(nats: NatsServer, reader: _Readers) -> None:
    """At the first message or the next one, at a sequence, or at a time."""
    nats.publish_all(_numbered(range(3)))
    times = [row["arrived_at"] for one in _to_the_end(reader()) for row in _rows(reader(), *one)]
    nats.purge("TIDE", up_to=2)
    assert _all(reader()) == _all(reader(startingSequence="Earliest")) == [1, 2]
    assert _all(reader(startingSequence=3)) == [2]
    assert _all(reader(startingSequence=4)) == _all(reader(startingSequence="latest")) == []
    assert _all(reader(startingTimestamp=times[2])) == [2]
    assert _all(reader(startingTimestamp="2001-01-01")) == [1, 2]
    assert _all(reader(startingTimestamp=datetime(2100, 1, 1, tzinfo=UTC))) == []
    with pytest.raises(
        PlanError, match=r"does not have this message yet(?s:.*)startingSequence +5(?s:.*)last message +3"
    ):
        reader(startingSequence=5).initialOffset()
    with pytest.raises(SourceFailed, match=r"never read(?s:.*)sequences +1 to 3(?s:.*)gone +1: 1\n"):
        _all(reader(startingSequence=1))


def test_a_stream_that_ends_is_read_as_it_is(nats: NatsServer, reader: _Readers) -> None:
    """For DataFrames that are no streams; one without messages has no rows. Nobody stops it: it lets the server go."""
    asked = reader()
    reading = EndingReader(asked)
    assert [list(reading.read(part)) for part in reading.partitions()] == []
    assert asked._open is None
    nats.publish_all(_numbered(range(5)))
    rows = [row["n"] for part in reading.partitions() for batch in reading.read(part) for row in batch.to_pylist()]
    assert rows == [0, 1, 2, 3, 4]


# ---- what is gone ----------------------------------------------------------------------------------------------------


def test_messages_that_go_before_they_are_read_stop_the_query_unless_that_is_allowed(
    nats: NatsServer, reader: _Readers
) -> None:
    """Deleted ones and purged ones, by their sequences; whether they were of our subjects nobody can know."""
    nats.publish_all(_numbered(range(12)))
    nats.delete("TIDE", 7, 9)
    with pytest.raises(
        SourceFailed, match=r"never read(?s:.*)sequences +1 to 12\n +gone +2: 7, 9\n(?s:.*)failOnDataLoss"
    ):
        _all(reader())
    with pytest.raises(SourceFailed, match=r"gone +2: 7, 9\n +subjects +tide.flood; of which those were is not known"):
        _all(reader(subjects="tide.flood"))
    assert _all(reader(failOnDataLoss=False)) == [0, 1, 2, 3, 4, 5, 7, 9, 10, 11]
    few = reader(maxMessagesPerTrigger=3)
    first, second = few.initialOffset(), None
    second = few.latestOffset(first, _AS_THE_OPTIONS_SAY)
    assert _numbers(few, first, second) == [0, 1, 2]
    nats.purge("TIDE", up_to=6)
    with pytest.raises(SourceFailed, match=r"sequences +4 to 6\n +gone +2: 4, 5\n"):
        few.latestOffset(second, _AS_THE_OPTIONS_SAY)
    nats.purge("TIDE")
    with pytest.raises(SourceFailed, match=r"gone +9: 4, 5, 6, 7, 8 \.\.\.\n"):
        reader().latestOffset(second, ReadAllAvailable())
    assert [_numbers(few, *one) for one in _to_the_end(reader(failOnDataLoss=False), second)] == [[]]


def test_a_micro_batch_that_is_done_again_without_some_of_its_messages_is_refused(
    nats: NatsServer, reader: _Readers
) -> None:
    """Its rows would be others; those that were gone when it was planned are no reason."""
    nats.publish_all(_numbered(range(9)))
    nats.delete("TIDE", 2)
    lenient = reader(failOnDataLoss=False)
    ((start, end),) = _to_the_end(lenient)
    again = reader(maxMessagesPerPartition=4)
    before = _numbers(again, start, end)
    assert before == [0, 2, 3, 4, 5, 6, 7, 8]
    parts = again.partitions(start, end)
    nats.delete("TIDE", 8)
    with pytest.raises(SourceFailed, match=r"done again are gone(?s:.*)sequences +1 to 9\n +gone +2: 2, 8\n"):
        again.partitions(start, end)
    with pytest.raises(SourceFailed, match=r"while a micro-batch read them(?s:.*)sequences +7 to 9\n +gone +1: 8\n"):
        [list(again.read(part)) for part in parts]
    assert _numbers(lenient, start, end) == [0, 2, 3, 4, 5, 6, 8]


def test_another_stream_of_the_name_stops_the_query(nats: NatsServer, reader: _Readers) -> None:
    """Its sequences count from one again."""
    nats.publish_all(_numbered(range(3)))
    one = reader()
    ((start, end),) = _to_the_end(one)
    nats.remove_streams()
    with pytest.raises(SourceFailed, match=r"refuses what is asked(?s:.*)stream +TIDE(?s:.*)stream not found"):
        one.latestOffset(end, ReadAllAvailable())
    nats.add_stream("TIDE", "tide.>")
    nats.publish_all(_numbered(range(7)))
    for ask in (lambda: one.latestOffset(end, ReadAllAvailable()), lambda: reader().partitions(start, end)):
        with pytest.raises(SourceFailed, match=r"another stream is where"):
            ask()


@pytest.mark.parametrize("retention", ["workqueue", "interest"])
def test_streams_that_forget_what_was_read_are_refused(nats: NatsServer, reader: _Readers, retention: str) -> None:
    """Nothing could be read again."""
    nats.add_stream("QUEUE", "queue.>", retention=retention)
    with pytest.raises(PlanError, match=rf"go when somebody has read them(?s:.*)retention +{retention}"):
        reader(stream="QUEUE").initialOffset()


# ---- messages --------------------------------------------------------------------------------------------------------


def test_a_bad_message_stops_the_query_or_is_a_row(nats: NatsServer, reader: _Readers) -> None:
    """The message has its sequence; the row its bytes, and all that the server knows of it."""
    nats.publish_all([*_numbered([0]), ("tide.ebb", b'{"n": "seven"}'), *_numbered([2]), ("tide.flood", b"")])
    with pytest.raises(
        SourceFailed, match=r"cannot be read(?s:.*)stream +TIDE\n +sequence +2\n +subject +tide\.ebb\n(?s:.*)seven"
    ):
        _all(reader())
    lenient = reader(mode="permissive", columnNameOfCorruptRecord="bad")
    rows = [row for one in _to_the_end(lenient) for row in _rows(lenient, *one)]
    shown = [(row["n"], row["bad"], row["subject"], row["sequence"]) for row in rows]
    assert shown == [
        (0, None, "tide.ebb", 1),
        (None, b'{"n": "seven"}', "tide.ebb", 2),
        (2, None, "tide.slack.north", 3),
        (None, b"", "tide.flood", 4),
    ]
    raw = reader(format="raw", schema=None)
    assert [row["data"] for one in _to_the_end(raw) for row in _rows(raw, *one)][1:] == [
        b'{"n": "seven"}', b'{"n": 2}', b"",
    ]  # fmt: skip


def test_rows_of_one_message_have_its_subject_and_time(nats: NatsServer, reader: _Readers) -> None:
    """Where a message is a table."""
    sink = pa.BufferOutputStream()
    table = pa.table({"n": pa.array([1, 2, 3], pa.int64())})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    nats.publish("tide.ebb", sink.getvalue().to_pybytes(), sink.getvalue().to_pybytes())
    tables = reader(format="arrow")
    rows = [row for one in _to_the_end(tables) for row in _rows(tables, *one)]
    assert [(row["n"], row["sequence"]) for row in rows] == [(1, 1), (2, 1), (3, 1), (1, 2), (2, 2), (3, 2)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subject": "tide.ebb"}, r"no option of this name(?s:.*)option +subject\n"),
        ({"stream": None}, r"needs the option stream"),
        ({"servers": None}, r"needs the option servers"),
        ({"schema": None}, r"needs the option schema"),
        ({"format": "avro"}, r"format(?s:.*)one of json, arrow, raw"),
        ({"format": "raw"}, r"have no columns(?s:.*)leave schema= out"),
        ({"format": "raw", "schema": None, "mode": "PERMISSIVE"}, r"no message is bad"),
        ({"mode": "DROPMALFORMED"}, r"mode(?s:.*)one of FAILFAST, PERMISSIVE"),
        ({"columnNameOfCorruptRecord": "bad"}, r"no column takes(?s:.*)mode=\"PERMISSIVE\""),
        ({"startingSequence": 0}, r"startingSequence(?s:.*)a sequence, earliest or latest"),
        ({"startingSequence": 1, "startingTimestamp": "2026-01-01"}, r"begins at one place"),
        ({"maxMessagesPerTrigger": 0}, r"maxMessagesPerTrigger(?s:.*)above zero"),
        ({"attempts": -1}, r"attempts(?s:.*)above zero"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any], words: str) -> None:
    """Before a server is asked."""
    given_here = {"servers": "nats://nowhere", "stream": "TIDE", "schema": _ROW, **options}
    with pytest.raises(PlanError, match=words):
        JetStreamSource(CaseInsensitiveDict(as_texts(given_here))).schema()


def test_columns_that_are_not_the_sources_are_refused(reader: _Readers) -> None:
    """Such as come by Spark's own way to name them, or twice."""
    source = JetStreamSource(CaseInsensitiveDict({"servers": "x", "stream": "TIDE", "schema": "n bigint"}))
    assert source.schema() == "n bigint, subject string, sequence bigint, arrived_at timestamp"
    with pytest.raises(PlanError, match=r"names its columns itself"):
        source.streamReader(StructType().add("n", LongType()))
    metadata = StructType().add("Sequence", LongType())
    for name, kind in (("subject", StringType()), ("sequence", LongType()), ("arrived_at", TimestampType())):
        metadata = metadata.add(name, kind)
    with pytest.raises(PlanError, match=r"the name of one that the source adds(?s:.*)Sequence, sequence"):
        source.streamReader(metadata)
    filled = json.dumps(StructType().add("n", LongType(), nullable=False).jsonValue())
    assert reader(schema=filled) is not None
    with pytest.raises(PlanError, match=r"have nulls in all columns(?s:.*)not null +n\n"):
        reader(schema=filled, mode="PERMISSIVE")


# ---- connections -----------------------------------------------------------------------------------------------------


def test_a_connection_that_is_lost_costs_a_question(
    nats: NatsServer, reader: _Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked again over another one, and no message is missed or doubled."""
    nats.publish_all(_numbered(range(30)))
    monkeypatch.setattr("slackwater.runners.spark.feeds.jetstream_server._AT_ONCE", 4)
    monkeypatch.setattr("slackwater.runners.spark.feeds.jetstream_server._FIRST_PAUSE", 0)
    asked, some_messages = [], JetStream._some

    async def lost_now_and_then(self: JetStream, client: Any, first: int, most: int) -> Any:
        asked.append(first)
        if len(asked) % 3 == 2:
            await client.close()
        return await some_messages(self, client, first, most)

    monkeypatch.setattr(JetStream, "_some", lost_now_and_then)
    assert _all(reader()) == list(range(30))
    assert len(asked) > len(set(asked)) >= 8


def test_a_server_that_does_not_answer_is_asked_so_often_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message has the server and the cause, and nobody's password."""
    monkeypatch.setattr("slackwater.runners.spark.feeds.jetstream_server._FIRST_PAUSE", 0)
    with nats_server(tmp_path, "--user", "ann", "--pass", "swordfish", user="ann", password="swordfish") as server:  # noqa: S106
        server.add_stream("TIDE", "tide.>")
        server.publish_all(_numbered([0]))
        right = _Readers(server.url)
        assert _all(right(user="ann", password="swordfish")) == [0]  # noqa: S106
        assert _all(right(servers=server.url.replace("//", "//ann:swordfish@"))) == [0]
        right.close()
        wrong = _Readers(server.url)
        with pytest.raises(
            SourceFailed, match=r"does not answer(?s:.*)attempts +2\n +cause +.*Authorization"
        ) as failure:
            wrong(servers=server.url.replace("//", "//ann:codfish@"), attempts=2).initialOffset()
        assert "codfish" not in str(failure.value)
        wrong.close()
        server.process.terminate()
        server.process.wait()
        gone = _Readers(server.url)
        with pytest.raises(
            SourceFailed, match=rf"does not answer(?s:.*)servers +{server.url}\n(?s:.*)Connect"
        ) as failure:
            gone(user="ann", password="swordfish", attempts=2).initialOffset()  # noqa: S106
        assert "swordfish" not in str(failure.value)
        gone.close()


# ---- on Spark --------------------------------------------------------------------------------------------------------


def _small(session: SparkSession, url: str, folder: Path, **options: Any) -> None:
    """The small query, of a stream; to the end of what there is."""
    source = sw.jetstream(session, url, stream="SMALL", schema=_SMALL.COLUMNS, **options)
    stream = sw.stream(source, time="at").select("at", "n").sort(_SMALL.PATIENCE)
    out: Any = {"main": str(folder / "out"), "late": str(folder / "late"), "checkpoint": str(folder / "checkpoint")}
    assert stream.start(**out, trigger={"availableNow": True}, shards=1).wait()


def test_a_micro_batch_that_is_done_again_reads_the_same_rows(
    session: SparkSession, nats: NatsServer, tmp_path: Path
) -> None:
    """The first one and one that follows; more has come meanwhile. Passwords are in no log of Spark's."""
    nats.add_stream("SMALL", "small")
    secret = {
        "maxMessagesPerTrigger": 100,
        "user": "ann",
        "password": "swordfish",
    }  # which this server does not ask for
    for number in range(3):
        nats.publish("small", *(json.dumps(row).encode() for row in _SMALL.table(number).to_pylist()))
        if number < 2:
            _small(session, nats.url, tmp_path, **secret)
            _SMALL.replay_last(tmp_path)
    _small(session, nats.url, tmp_path, **secret)
    assert sorted(pq.read_table(tmp_path / "out", columns=["n"])["n"].to_pylist()) == _SMALL.expected(3)
    assert sorted(pq.read_table(tmp_path / "late", columns=["n"])["n"].to_pylist()) == _SMALL.late(3)
    assert len(list((tmp_path / "checkpoint/offsets").glob("[0-9]*"))) == 3
    logged = [path.read_bytes() for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()]
    assert not any(b"swordfish" in text for text in logged)


def test_spark_reads_it_by_its_name(session: SparkSession, nats: NatsServer) -> None:
    """As users read any source; what is wrong is one message."""
    nats.add_stream("SMALL", "small")
    nats.publish("small", b'{"at": 1}', b'{"at": 2}')
    session.dataSource.register(sw.JetStreamSource)
    source = session.read.format("slackwater_jetstream").option("servers", nats.url).option("stream", "SMALL")
    rows = source.option("schema", "at bigint").load().collect()
    assert [(row.at, row.subject, row.sequence) for row in rows] == [(1, "small", 1), (2, "small", 2)]
    ends = sw.jetstream(session, [nats.url], stream="SMALL", schema="at bigint", streaming=False)
    ordered = sw.stream(ends, time="at", origin="subject", arrived="arrived_at").sort(0, late=sw.Late.drop())
    assert [row.at for row in ordered.to_spark(shards=1).collect()] == [1, 2]
    with pytest.raises(PlanError, match=r"^the JetStream source needs the option schema\n"):
        sw.jetstream(session, nats.url, stream="SMALL")
