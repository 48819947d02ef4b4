"""Texts of Arrow values for messages: whatever a row holds, it can be shown.

Python cannot hold all that Arrow can: times past the year 9999 or before the year 1, or pushed there by a zone, long
durations, words that are not UTF-8. A message about a row must not fail because of one of its values, so texts are made
here, of the numbers that Arrow keeps, and not by way of Python's own types. Long values are shortened.

Invariant: `show_value`, `show_row` and `show_element` return a text, for every value of every type.
Cost: O(what is shown), which is bounded; nothing is read of what is left out.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from slackwater.events.kinds import Kind
from slackwater.progress.instants import FOREVER, format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slackwater.events.batch import EventBatch
    from slackwater.progress.instants import Instant

LETTERS: Final = 200
"""As many letters of a value are shown, at most."""

ITEMS: Final = 10
"""As many items of a list, struct or map are shown, at most."""

COLUMNS: Final = 50
"""As many columns of a row are shown, at most."""

_LEVELS: Final = 4
_MORE: Final = "…"
_PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def show_value(scalar: pa.Scalar) -> str:
    """Write one value.

    >>> far = pa.array([253_402_300_800 - 1]).view(pa.timestamp("s", "Asia/Tokyo"))
    >>> show_value(far[0]), show_value(pa.scalar("abc")), show_value(pa.scalar([1, None]))
    ('9999-12-31T23:59:59Z', "'abc'", '[1, None]')
    """
    return _shown(scalar, 0)


def show_row(rows: pa.RecordBatch, row: int) -> str:
    """Write one row, as a mapping from names to values.

    >>> show_row(pa.record_batch({"at": [3, 5], "x": ["a", "b"]}), 1)
    "{'at': 5, 'x': 'b'}"
    """
    named = zip(rows.schema.names[:COLUMNS], rows.columns, strict=False)
    shown = [f"{name!r}: {show_value(column[row])}" for name, column in named]
    return f"{{{_listed(shown, rows.num_columns)}}}"


def show_element(batch: EventBatch, at: int) -> str:
    """Write one element of a batch, as `str` of it does: its kind, its payload and its times.

    >>> from slackwater.events.batch import EventBatch
    >>> show_element(EventBatch.inserts(pa.record_batch({"x": ["a"]}), start=[3]), 0)
    "insert(('a',), 3, 4)"
    """
    one = batch.slice(at, at + 1)
    start, end = _bound(int(one.start[0])), _bound(int(one.ends()[0]))
    kind = one.kinds()[0]
    if kind == Kind.PUNCTUATE:
        return f"punctuate({start})"
    columns = one.payload.columns
    values = _listed([show_value(column[0]) for column in columns[:COLUMNS]], len(columns))
    payload = f"({values},)" if len(columns) == 1 else f"({values})"
    if kind == Kind.INSERT:
        return f"insert({payload}, {start}, {end})"
    return f"adjust({payload}, {start}, {_bound(int(one.prior_ends()[0]))}, {end})"


def _shown(scalar: pa.Scalar, level: int) -> str:
    try:
        return _shortened(_text(scalar, level))
    except Exception as cause:  # noqa: BLE001 - a message must come about, whatever the value is
        return f"<{scalar.type} that cannot be shown: {type(cause).__name__}>"


def _text(scalar: pa.Scalar, level: int) -> str:
    kind = scalar.type
    if not scalar.is_valid:
        return "None"
    if _stands_for_another(kind):
        return _shown(scalar.value, level)
    if pa.types.is_nested(kind):
        return _nested(scalar, level + 1) if level < _LEVELS else _MORE
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return _time(int(scalar.value), kind)
    if hasattr(scalar, "as_buffer"):
        return _letters(scalar.as_buffer(), words=_holds_words(kind))
    return _python(scalar.as_py())


def _stands_for_another(kind: pa.DataType) -> bool:
    """Whether a value of the type is another one in disguise."""
    coded = pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind)
    return isinstance(kind, pa.BaseExtensionType) or bool(coded or pa.types.is_union(kind))


def _python(value: Any) -> str:
    if isinstance(value, Decimal):
        return str(value)
    return repr(float(value)) if isinstance(value, float | np.floating) else repr(value)


def _letters(held: pa.Buffer, *, words: bool) -> str:
    """Bytes, or words; one that is not UTF-8 with its odd bytes spelled out."""
    part = held.slice(0, min(held.size, 4 * LETTERS + 4)).to_pybytes()
    if not words:
        return repr(part)
    return repr(part.decode(errors="backslashreplace"))


def _time(ticks: int, kind: pa.DataType) -> str:
    """NumPy writes every date that Arrow can hold; durations and times of day are made of whole numbers."""
    if pa.types.is_date(kind):
        return str(
            np.datetime64(ticks, "D") if pa.types.is_date32(kind) else np.datetime64(ticks, "ms").astype("M8[D]")
        )
    if pa.types.is_timestamp(kind):
        # NumPy keeps one number for "no time", Arrow does not.
        moment = f"{ticks}{kind.unit}" if ticks == -(2**63) else str(np.datetime64(ticks, kind.unit))
        return moment if kind.tz is None else f"{moment}Z"
    per_second = _PER_SECOND[kind.unit]
    if pa.types.is_duration(kind):
        microseconds, rest = divmod(abs(ticks) * 1_000_000, per_second)
        return f"{'-' if ticks < 0 else ''}{format_duration(microseconds) if not rest else f'{abs(ticks)}ns'}"
    seconds, rest = divmod(ticks, per_second)
    digits = len(str(per_second)) - 1
    part = f".{rest:0{digits}}" if rest else ""
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{part}"


def _nested(scalar: pa.Scalar, level: int) -> str:
    kind = scalar.type
    if pa.types.is_struct(kind):
        fields = [kind.field(i).name for i in range(min(kind.num_fields, ITEMS))]
        shown = [f"{name!r}: {_shown(scalar[i], level)}" for i, name in enumerate(fields)]
        return f"{{{_listed(shown, kind.num_fields)}}}"
    values = scalar.values
    first = [values[i] for i in range(min(len(values), ITEMS))]
    if pa.types.is_map(kind):
        pairs = [f"{_shown(pair[0], level)}: {_shown(pair[1], level)}" for pair in first]
        return f"{{{_listed(pairs, len(values))}}}"
    return f"[{_listed([_shown(value, level) for value in first], len(values))}]"


def _holds_words(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _listed(shown: Iterable[str], count: int) -> str:
    listed = list(shown)
    left = count - len(listed)
    return ", ".join([*listed, f"{_MORE} {left} more"] if left else listed)


def _shortened(text: str) -> str:
    return text if len(text) <= LETTERS else f"{text[:LETTERS]}{_MORE}"


def _bound(instant: Instant) -> str:
    return "forever" if instant == FOREVER else str(instant)
