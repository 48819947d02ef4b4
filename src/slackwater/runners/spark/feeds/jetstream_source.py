"""Streams of NATS JetStream as sources: a micro-batch is a range of sequences.

    {"stream": "2026-11-18T22:21:46Z", "sequence": 60000, "missing": 0}      read up to this message

A stream is called by the time when it was made: one that is made anew counts from one again. `missing` is how many
messages of the micro-batch's range were gone when it was planned. When more of them are gone as it is read, or read
again, rows of it are lost, and the query stops; so it does when messages go that were never read.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack

import pyarrow as pa
from pyspark.sql.datasource import DataSource, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from slackwater.errors import PlanError, SourceFailed, message
from slackwater.runners.spark.feeds.jetstream_server import JetStream, StreamAddress
from slackwater.runners.spark.feeds.options import GivenOptions
from slackwater.runners.spark.feeds.payloads import DATA, ArrowPayloads, JsonPayloads, RawPayloads
from slackwater.runners.spark.feeds.replayed import EndingReader, ReplayedReader, feed_of_source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from slackwater.runners.spark.feeds.jetstream_server import Message, StreamState
    from slackwater.runners.spark.feeds.payloads import Payloads
    from slackwater.runners.spark.feeds.replayed import At
    from slackwater.runners.spark.source import ColumnTypes, Session, SparkFeed

_PER_PART: Final = 50_000
"""How many messages a task reads at most, unless somebody says otherwise: about two seconds."""

_SHOWN_BYTES: Final = 120
_SHOWN_SEQUENCES: Final = 5
_LOGIN: Final = ("user", "password", "token", "credentials", "tlsCaFile", "tlsCertFile", "tlsKeyFile")
_METADATA: Final = "subject string, sequence bigint, arrived_at timestamp"
_CORRUPT: Final = "_corrupt_record"
_EARLIEST, _LATEST = "earliest", "latest"


class JetStreamOptions(TypedDict, total=False):
    """What `jetstream` takes besides its own parameters. Where Spark has a name for it, it is that one."""

    startingSequence: int | str
    startingTimestamp: Any
    maxMessagesPerTrigger: int
    maxMessagesPerPartition: int
    failOnDataLoss: bool
    mode: str
    columnNameOfCorruptRecord: str
    timeoutSeconds: int
    attempts: int
    user: str
    password: str
    token: str
    credentials: str
    tlsCaFile: str
    tlsCertFile: str
    tlsKeyFile: str


_KNOWN: Final = {*JetStreamOptions.__annotations__, "servers", "stream", "subjects", "schema", "format"}


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
    """Read a stream of JetStream. See `slackwater.jetstream`."""
    columns = schema if schema is None or isinstance(schema, str) else json.dumps(schema.jsonValue())
    given = {
        **options,
        "servers": _listed(servers),
        "stream": stream,
        "subjects": _listed(subjects) or None,
        "schema": columns,
        "format": format,
    }
    return feed_of_source(session, JetStreamSource, given, stream, streaming=streaming)


def _listed(texts: str | Sequence[str]) -> str:
    return texts if isinstance(texts, str) else ",".join(texts)


@dataclass(frozen=True)
class _Chosen:
    """What was chosen, looked at."""

    address: StreamAddress
    format: str
    columns: str
    start: str | None
    since: Any
    per_trigger: int | None
    per_part: int
    loss_fails: bool
    corrupt: str | None
    """The column of messages that cannot be read, where these do not stop the query."""

    @classmethod
    def of(cls, options: GivenOptions) -> _Chosen:
        options.refuse_unknown(_KNOWN)
        options.refuse_both("startingSequence", "startingTimestamp")
        start = options.text("startingSequence")
        if start is not None and not (start.isdecimal() and int(start)) and start.lower() not in {_EARLIEST, _LATEST}:
            raise options.refused("startingSequence", f"a sequence, {_EARLIEST} or {_LATEST}")
        subjects = _words(options.text("subjects") or "")
        address = StreamAddress(
            _words(options.required("servers", '.option("servers", "nats://host:4222")')),
            options.required("stream", '.option("stream", "ORDERS")'),
            () if ">" in subjects else subjects,
            {name: value for name in _LOGIN if (value := options.text(name)) is not None},
            options.whole("timeoutSeconds", 10) or 10,
            options.whole("attempts", 5) or 5,
        )
        form = options.one_of("format", "json", "arrow", "raw")
        return cls(
            address,
            form,
            _columns(options, form),
            None if start is None else start.lower(),
            options.instant("startingTimestamp"),
            options.whole("maxMessagesPerTrigger"),
            options.whole("maxMessagesPerPartition", _PER_PART) or _PER_PART,
            options.flag("failOnDataLoss", default=True),
            _corrupt(options, form),
        )


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _columns(options: GivenOptions, form: str) -> str:
    """The columns of messages, as they were given."""
    if form != "raw":
        return options.required("schema", 'name the columns of a message, schema="at timestamp, n bigint"')
    if options.text("schema") is not None:
        hint = f"leave schema= out: a message is one value, in a column {DATA}"
        raise PlanError(message("messages that are not looked into have no columns", {"format": form}, hint))
    return str(StructType().add(DATA, "binary").json())


def _corrupt(options: GivenOptions, form: str) -> str | None:
    """The column of bad messages, if there is one."""
    if options.one_of("mode", "FAILFAST", "PERMISSIVE") == "FAILFAST":
        if options.text("columnNameOfCorruptRecord") is not None:
            hint = 'mode="PERMISSIVE" has such a column'
            raise PlanError(message("no column takes messages that cannot be read", {"mode": "FAILFAST"}, hint))
        return None
    if form == "raw":
        hint = "leave mode= out: any message can be read"
        raise PlanError(message("no message is bad where none is looked into", {"format": form}, hint))
    return options.text("columnNameOfCorruptRecord") or _CORRUPT


class JetStreamSource(DataSource):
    """The source `slackwater_jetstream`, once it is registered: `spark.dataSource.register(sw.JetStreamSource)`.

    See `slackwater.jetstream`.
    """

    @classmethod
    def name(cls) -> str:
        """How Spark calls it."""
        return "slackwater_jetstream"

    @cached_property
    def chosen(self) -> _Chosen:
        """The options, looked at."""
        return _Chosen.of(GivenOptions("the JetStream source", self.options))

    def schema(self) -> StructType | str:
        """The columns of messages, and behind them what the server knows of each."""
        chosen = self.chosen
        corrupt = "" if chosen.corrupt is None else f"`{chosen.corrupt}` binary, "
        if not chosen.columns.lstrip().startswith("{"):
            return f"{chosen.columns}, {corrupt}{_METADATA}"
        columns = StructType.fromJson(json.loads(chosen.columns))
        if chosen.corrupt is not None:
            columns = columns.add(chosen.corrupt, "binary")
        return columns.add("subject", "string").add("sequence", "long").add("arrived_at", "timestamp")

    def streamReader(self, schema: StructType) -> JetStreamReader:
        """A reader of sequences."""
        return JetStreamReader(self.chosen, schema)

    def reader(self, schema: StructType) -> EndingReader:
        """A reader of what there is now."""
        return EndingReader(self.streamReader(schema))


@dataclass(frozen=True)
class _Place:
    """The last message that was read."""

    stream: str
    sequence: int
    missing: int = 0


@dataclass(frozen=True)
class MessagesOfTask(InputPartition):
    """Messages that one task reads."""

    first: int
    last: int
    missing: int
    """How many of them were gone when the task was planned."""


class JetStreamReader(ReplayedReader):
    """Reads ranges of sequences."""

    def __init__(self, chosen: _Chosen, columns: StructType) -> None:
        _refuse_other_columns(columns, chosen.corrupt)
        self._chosen = chosen
        self._columns = columns
        self.limited = chosen.per_trigger is not None
        self._open: JetStream | None = None

    def beginning(self) -> At:
        """At the first message, or where the options say."""
        server = self._server()
        state = server.state()
        newest = state.last if self._last is None else min(state.last, _Place(**self._last).sequence)
        if self._chosen.since is not None:
            return asdict(_Place(state.identity, server.first_since(self._chosen.since) - 1))
        start = self._chosen.start or _EARLIEST
        if start == _EARLIEST:
            return asdict(_Place(state.identity, max(state.first - 1, 0)))
        if start == _LATEST:
            return asdict(_Place(state.identity, newest))
        if int(start) > state.last + 1:
            facts = {"stream": self._chosen.address.stream, "startingSequence": start, "last message": state.last}
            hint = 'startingSequence="latest" begins with the next one'
            raise PlanError(message("a stream does not have this message yet", facts, hint))
        return asdict(_Place(state.identity, int(start) - 1))

    def newest(self) -> At:
        """The last message."""
        state = self._server().state()
        return asdict(_Place(state.identity, state.last))

    def reach(self, at: At, *, limited: bool, last: At | None) -> At:
        """Up to the last message, or as far as the options allow."""
        place, server = _Place(**at), self._server()
        state = server.state()
        self._require_same(place, state)
        newest = state.last if last is None else min(state.last, _Place(**last).sequence)
        if newest <= place.sequence:
            return at
        first = place.sequence + 1
        stop = self._within_limit(server, first, newest) if limited else newest
        gone = server.missing(first, stop)
        if gone and self._chosen.loss_fails:
            raise self._lost("messages of a stream are gone that were never read", gone, first, stop)
        return asdict(_Place(state.identity, stop, len(gone)))

    def parts(self, first: At, stop: At) -> list[MessagesOfTask]:
        """The messages between two places, in tasks of the same length."""
        begin, end = _Place(**first).sequence + 1, _Place(**stop).sequence
        if begin > end:
            return []
        server = self._server()
        self._require_same(_Place(**stop), server.state())
        gone = server.missing(begin, end)
        if len(gone) > _Place(**stop).missing and self._chosen.loss_fails:
            raise self._lost("messages of a micro-batch that is done again are gone", gone, begin, end)
        tasks = -(-(end - begin + 1) // self._chosen.per_part)
        edges = [begin + (end - begin + 1) * task // tasks for task in range(tasks + 1)]
        return [
            MessagesOfTask(one, other - 1, bisect_right(gone, other - 1) - bisect_left(gone, one))
            for one, other in pairwise(edges)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of some messages. What goes while they are read, stops it."""
        assert isinstance(partition, MessagesOfTask)
        read = 0
        rows = MessageRows(self._chosen, self._columns)
        with JetStream(self._chosen.address) as server:
            for messages in server.messages(partition.first, partition.last):
                read += len(messages)
                yield rows.of(messages)
            gone = server.missing(partition.first, partition.last)
        span = partition.last - partition.first + 1
        unread = not self._chosen.address.subjects and read + len(gone) < span
        if (len(gone) > partition.missing or unread) and self._chosen.loss_fails:
            where = partition.first, partition.last
            raise self._lost("messages of a stream have gone while a micro-batch read them", gone, *where)

    def stop(self) -> None:
        """Let the server go."""
        if self._open is not None:
            with self._open:
                self._open = None

    def _server(self) -> JetStream:
        """The server, as the driver asks it."""
        if self._open is None:
            self._open = JetStream(self._chosen.address)
        return self._open

    def _within_limit(self, server: JetStream, first: int, newest: int) -> int:
        """The furthest message up to which there are no more than a micro-batch takes, or nearly the furthest."""
        most = self._chosen.per_trigger or 1
        fits = min(first + most - 1, newest)
        if fits == newest or not self._chosen.address.subjects:
            return fits
        if server.count(first, newest) <= most:
            return newest
        too_far = newest
        while too_far - fits > max(1, (fits - first + 1) // 16):
            middle = (fits + too_far) // 2
            fits, too_far = (middle, too_far) if server.count(first, middle) <= most else (fits, middle)
        return fits

    def _require_same(self, place: _Place, state: StreamState) -> None:
        """Refuse a stream that was made anew, or has fewer messages than were read of it."""
        facts: dict[str, object] = {"stream": self._chosen.address.stream}
        hint = "start anew with another checkpoint: these are other messages"
        if state.identity != place.stream:
            facts |= {"the checkpoint's is of": place.stream, "the server's of": state.identity}
            raise SourceFailed(message("another stream is where that of the checkpoint was", facts, hint))
        if state.last < place.sequence:
            facts |= {"last message": state.last, "read up to": place.sequence}
            raise SourceFailed(message("a stream has fewer messages than were read of it", facts, hint))

    def _lost(self, headline: str, gone: Sequence[int], first: int, last: int) -> SourceFailed:
        shown = ", ".join(map(str, gone[:_SHOWN_SEQUENCES])) + (" ..." if len(gone) > _SHOWN_SEQUENCES else "")
        facts: dict[str, object] = {"stream": self._chosen.address.stream, "sequences": f"{first} to {last}"}
        facts |= {"gone": f"{len(gone)}: {shown}" if gone else "some"}
        if self._chosen.address.subjects:
            facts["subjects"] = f"{', '.join(self._chosen.address.subjects)}; of which those were is not known"
        hint = "keep messages for longer; failOnDataLoss=False goes on without them, as a stream needs"
        return SourceFailed(message(headline, facts, f"{hint} whose subjects keep only their last messages"))


@dataclass(frozen=True)
class MessageRows:
    """Makes rows of messages."""

    chosen: _Chosen
    columns: StructType

    @cached_property
    def _schema(self) -> pa.Schema:
        return to_arrow_schema(self.columns, timezone="UTC")

    @cached_property
    def _payloads(self) -> Payloads:
        behind = len(_words(_METADATA)) + (self.chosen.corrupt is not None)
        schema = pa.schema(list(self._schema)[:-behind])
        kinds: dict[str, Any] = {"json": JsonPayloads, "arrow": ArrowPayloads, "raw": RawPayloads}
        payloads: Payloads = kinds[self.chosen.format](schema)
        return payloads

    def of(self, messages: Sequence[Message]) -> pa.RecordBatch:
        """The rows of messages; a bad one is a row of its own, or an error."""
        decoded = self._payloads.decoded([one.data for one in messages])
        columns, places = list(decoded.rows.columns), decoded.sources
        if decoded.bad:
            self._refuse_bad(messages, decoded.bad)
            nulls = len(decoded.bad)
            columns = [pa.concat_arrays([column, pa.nulls(nulls, column.type)]) for column in columns]
            places = pa.concat_arrays([places, pa.array(sorted(decoded.bad), pa.int64())])
        if self.chosen.corrupt is not None:
            bad = [None] * len(decoded.sources) + [messages[place].data for place in sorted(decoded.bad)]
            columns.append(pa.array(bad, pa.binary()))
        for values, kind in (
            ([one.subject for one in messages], pa.string()),
            ([one.sequence for one in messages], pa.int64()),
            ([one.arrived for one in messages], pa.timestamp("us", "UTC")),
        ):
            columns.append(pa.array(values, kind).take(places))
        rows = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        return rows.sort_by("sequence") if decoded.bad else rows

    def _refuse_bad(self, messages: Sequence[Message], bad: dict[int, str]) -> None:
        if self.chosen.corrupt is not None:
            return
        place, why = min(bad.items())
        one = messages[place]
        begins = repr(one.data[:_SHOWN_BYTES])
        facts = {"stream": self.chosen.address.stream, "sequence": one.sequence, "subject": one.subject}
        facts |= {"format": self.chosen.format, "cause": " ".join(why.split()), "begins": begins}
        hint = f'mode="PERMISSIVE" goes on, with such messages in a column {_CORRUPT}'
        raise SourceFailed(message("a message cannot be read as a row", facts, hint))


def _refuse_other_columns(columns: StructType, corrupt: str | None) -> None:
    """Refuse columns that somebody has given to Spark, names that come twice, and nulls where none may be."""
    names = columns.fieldNames()
    wanted = [*([corrupt] if corrupt is not None else []), *(word.split()[0] for word in _words(_METADATA))]
    if names[-len(wanted) :] != wanted:
        facts = {"columns": ", ".join(names), "the last must be": ", ".join(wanted)}
        hint = 'leave schema() out, and name the columns of a message by option("schema", ...)'
        raise PlanError(message("the JetStream source names its columns itself", facts, hint))
    needed = [field.name for field in columns.fields[: -len(wanted)] if not field.nullable]
    if corrupt is not None and needed:
        # Spark looks for no null in such a column, and would take it for a 0.
        facts, hint = (
            {"not null": ", ".join(needed)},
            "leave NOT NULL out, or mode=: then a bad message stops the query",
        )
        raise PlanError(message("rows of messages that cannot be read have nulls in all columns", facts, hint))
    twice = sorted({name for name in names if [one.lower() for one in names].count(name.lower()) > 1})
    if twice:
        facts, hint = {"column": ", ".join(twice)}, "rename the field where messages are made, or leave it out"
        raise PlanError(message("a column of messages has the name of one that the source adds", facts, hint))
