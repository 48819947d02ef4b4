"""Messages become rows: all of them at once as each by itself, and bad ones are found among good ones."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as some

from slackwater.runners.spark.feeds.payloads import ArrowPayloads, JsonPayloads, RawPayloads

if TYPE_CHECKING:
    from collections.abc import Sequence

_SCHEMA = pa.schema(
    {"n": pa.int64(), "word": pa.string(), "at": pa.timestamp("us", "UTC"), "list": pa.list_(pa.float64())}
)

_OBJECTS = some.fixed_dictionaries(
    {},
    optional={
        "n": some.integers(-(2**63), 2**63 - 1) | some.none(),
        "word": some.text() | some.none(),
        "list": some.lists(some.integers(-(2**50), 2**50).map(float) | some.none()),
        "further": some.integers(),
    },
)
_GOOD = some.tuples(_OBJECTS, some.sampled_from([None, 1])).map(lambda one: json.dumps(one[0], indent=one[1]).encode())
_BAD = some.sampled_from([
    b"", b" ", b"\n", b"[1]", b"7", b"null", b'"x"', b"{", b"}", b'{"n": 1}{"n": 2}', b'{"n": 1}\n{"n": 2}',
    b'{"n": 1} x', b'{"n": 1.5}', b'{"n": 9223372036854775808}', b'{"word": 1}', b'{"list": 1}', b'{"at": "soon"}',
    b'{"n": "x"}', b'{"n": 1}, {"n": 2}', b"\xff\xfe", b'{"a": {"n": 1}', b'"}{"', b'{"word": "a}\n{b"}}',
    b'{"word": "\xff"}', b'{"word": "\xc3"}',
])  # fmt: skip


def _expected(message: bytes) -> dict[str, Any]:
    found = json.loads(message)
    return {name: found.get(name) for name in _SCHEMA.names}


@given(messages=some.lists(some.tuples(some.booleans(), _GOOD, _BAD), max_size=12))
def test_each_object_is_a_row_and_what_is_none_is_bad(messages: Sequence[tuple[bool, bytes, bytes]]) -> None:
    """Whatever stands beside it, blanks and breaks included."""
    texts = [good if is_good else bad for is_good, good, bad in messages]
    decoded = JsonPayloads(_SCHEMA).decoded(texts)
    places = [place for place, (is_good, *_) in enumerate(messages) if is_good]
    assert decoded.rows.to_pylist() == [_expected(texts[place]) for place in places]
    assert decoded.rows.schema == _SCHEMA
    assert decoded.sources.to_pylist() == places
    assert sorted(decoded.bad) == [place for place in range(len(texts)) if place not in places]
    assert all(decoded.bad.values())


@pytest.mark.parametrize(
    "text", ["2024-02-29T12:30:01.000005Z", "2024-02-29 12:30:01.000005Z", "2024-02-29T13:30:01.000005+01:00"]
)
def test_times_are_read_with_their_zone(text: str) -> None:
    """As ISO 8601 writes them."""
    decoded = JsonPayloads(_SCHEMA).decoded([json.dumps({"at": text}).encode()])
    assert decoded.rows["at"].to_pylist() == [datetime(2024, 2, 29, 12, 30, 1, 5, UTC)]


def test_a_column_that_must_be_there_makes_a_message_bad_that_lacks_it() -> None:
    """As a type that does not fit does."""
    payloads = JsonPayloads(pa.schema([pa.field("n", pa.int64(), nullable=False)]))
    decoded = payloads.decoded([b'{"n": 1}', b"{}"])
    assert decoded.rows.to_pylist() == [{"n": 1}]
    assert list(decoded.bad) == [1]


def _stream(*batches: pa.RecordBatch, schema: pa.Schema | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema or batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def test_streams_of_arrow_have_any_number_of_rows() -> None:
    """Their columns in any order, further ones left out; what is cut short, no text, or has other columns is bad."""
    wanted = pa.schema({"n": pa.int64(), "word": pa.string()})
    rows = pa.RecordBatch.from_pydict({"word": ["a", "b"], "n": pa.array([1, 2], pa.int32()), "further": [1.5, 2.5]})
    other = pa.RecordBatch.from_pydict({"n": ["x"], "word": ["y"]})
    lacking = pa.RecordBatch.from_pydict({"n": [1]})
    no_text = pa.RecordBatch.from_arrays([rows["n"], pa.array([b"a", b"\xff"]).view(pa.string())], ["n", "word"])
    texts = [
        _stream(rows, rows),
        b"",
        _stream(schema=rows.schema),
        _stream(rows)[:40],
        _stream(other),
        _stream(lacking),
        _stream(no_text),
    ]
    decoded = ArrowPayloads(wanted).decoded([*texts, _stream(rows.slice(1))])
    two = [{"n": 1, "word": "a"}, {"n": 2, "word": "b"}]
    assert decoded.rows.to_pylist() == [*two, *two, two[1]]
    assert decoded.sources.to_pylist() == [0, 0, 0, 0, 7]
    assert sorted(decoded.bad) == [1, 3, 4, 5, 6]


def test_messages_that_are_not_looked_into_are_rows_of_bytes() -> None:
    """Empty ones, too."""
    decoded = RawPayloads(pa.schema({"data": pa.binary()})).decoded([b"\xff", b""])
    assert decoded.rows["data"].to_pylist() == [b"\xff", b""]
    assert (decoded.sources.to_pylist(), decoded.bad) == ([0, 1], {})
