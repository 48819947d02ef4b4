"""Keys as words: exactly the words that their form says, wherever the bytes of a column lie in memory."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from slackwater.operators.deduplicate.key_words import KeyWords, Words

_TEXTS = st.lists(st.none() | st.binary(max_size=20), max_size=12)
_NUMBERS = st.none() | st.integers(-(2**63), 2**63 - 1)


def _words_of(text: bytes | None, number: int | None) -> list[int]:
    """The form, written down: length and bytes, the number, and which of both are null, if one is."""
    laid = text or b""
    padded = laid + bytes(-len(laid) % 8)
    words = [len(laid), *np.frombuffer(padded, dtype=np.int64).tolist(), number or 0]
    missing = (text is None) | (number is None) << 1
    return [*words, missing] if missing else words


@given(_TEXTS, st.integers(0, 7), st.data())
def test_a_key_is_its_length_its_bytes_its_number_and_its_nulls(
    texts: list[bytes | None], misplaced: int, data: st.DataObject
) -> None:
    """Read from a slice, of a buffer that begins anywhere and ends with the last byte."""
    numbers = data.draw(st.lists(_NUMBERS, min_size=len(texts), max_size=len(texts)))
    column = _misplaced(pa.array(texts, pa.binary()), misplaced)
    rows = pa.record_batch({"text": column, "number": pa.array(numbers, pa.int64())})
    begin = data.draw(st.integers(0, len(texts)))
    part = rows.slice(begin)
    written = KeyWords(part.schema, ["text", "number"]).encode(part)
    keys = [_words_of(text, number) for text, number in zip(texts[begin:], numbers[begin:], strict=True)]
    assert written.words.tolist() == [word for key in keys for word in key]
    assert written.offsets.tolist() == np.cumsum([0, *map(len, keys)]).tolist()


@given(st.lists(st.binary(max_size=90), max_size=12), st.lists(st.integers(-(2**63), 2**63 - 1), max_size=12))
def test_a_key_has_one_hash(texts: list[bytes], numbers: list[int]) -> None:
    """Whichever loop hashes it: a step that is resumed hashes the words that it stored, not the column."""
    for values in (pa.array(texts, pa.binary()), pa.array(numbers, pa.int64())):
        rows = pa.record_batch({"key": values})
        written = KeyWords(rows.schema, ["key"]).encode(rows)
        hashes = Words.of(written.offsets.copy(), written.words.copy()).hashes
        assert written.hashes.tolist() == hashes.tolist()
        assert (hashes >= 0).all()


def _misplaced(column: pa.Array, by: int) -> pa.Array:
    """The same values, with bytes that begin so far behind a whole word, and nothing behind them."""
    present, offsets, data = column.buffers()
    whole = data.to_pybytes()[: int(np.frombuffer(offsets, np.int32)[len(column)])] if data else b""
    moved = pa.py_buffer(bytearray(by) + whole).slice(by)
    return pa.Array.from_buffers(column.type, len(column), [present, offsets, moved])
