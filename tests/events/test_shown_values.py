"""Every Arrow value can be shown, and every message about a row comes about, whatever the row holds."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.errors import BackwardInterval, BadElement, BadTime, BrokenOrder, LateEvent, RunError, StepFailed
from slackwater.events.batch import EventBatch
from slackwater.events.elements import Adjust, Element, Insert, Punctuate, batch_of
from slackwater.events.shown_values import COLUMNS, ITEMS, LETTERS, show_element, show_row, show_value

LAST_OF_9999 = 253_402_300_799


class Stamped(pa.ExtensionType):  # type: ignore[misc]
    """An extension type over times in a zone."""

    def __init__(self) -> None:
        super().__init__(pa.timestamp("us", "Asia/Tokyo"), "slackwater.test.stamped")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> Stamped:
        return cls()


UNITS = ("s", "ms", "us", "ns")
ZONES = (None, "UTC", "Asia/Tokyo", "America/Los_Angeles", "+05:30", "Mars/Phobos")
TIMES = [pa.timestamp(unit, zone) for unit in UNITS for zone in ZONES]
TIMES += [pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")]
TIMES += [pa.duration(unit) for unit in UNITS]
NUMBERS = [
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.uint8(),
    pa.uint64(),
    pa.float16(),
    pa.float32(),
    pa.float64(),
]
FIXED = [*TIMES, *NUMBERS, pa.decimal128(38, 3), pa.decimal256(76, -5), pa.binary(5), pa.month_day_nano_interval()]
VARIABLE = [pa.binary(), pa.string(), pa.large_binary(), pa.large_string()]


@st.composite
def plain_arrays(draw: st.DrawFn, count: int) -> pa.Array:
    """Values of any bytes, as they might come from a file or another process; some are null."""
    valid = pa.array(draw(st.lists(st.booleans(), min_size=count, max_size=count)), pa.bool_()).buffers()[1]
    kind = draw(st.sampled_from([*FIXED, *VARIABLE]))
    if kind in VARIABLE:
        values = draw(st.lists(st.binary(max_size=3 * LETTERS), min_size=count, max_size=count))
        wide = kind in (pa.large_binary(), pa.large_string())
        _, offsets, data = pa.array(values, pa.large_binary() if wide else pa.binary()).buffers()
        return pa.Array.from_buffers(kind, count, [valid, offsets, data])
    size = kind.bit_width // 8 * count
    extreme = st.sampled_from([b"\x00", b"\xff", b"\x7f", b"\x80"]).map(lambda byte: byte * size)
    data = draw(st.one_of(extreme, st.binary(min_size=size, max_size=size)))
    return pa.Array.from_buffers(kind, count, [valid, pa.py_buffer(data)])


@st.composite
def arrays(draw: st.DrawFn, count: int = 3, depth: int = 2) -> pa.Array:  # noqa: PLR0911 - one for each form
    """Plain values, or such values in lists, structs, maps, dictionaries and run-end encoded columns."""
    form = draw(st.sampled_from(["plain", "list", "struct", "map", "dictionary", "fixed list", "runs", "view"]))
    if form == "plain" or depth == 0:
        return draw(plain_arrays(count))
    inner = draw(arrays(count, depth - 1))
    match form:
        case "list":
            return pa.ListArray.from_arrays(pa.array([0, *sorted(draw(_places(count))), count], pa.int32()), inner)
        case "view":
            starts = pa.array(draw(_places(count + 1)), pa.int32())
            return pa.ListViewArray.from_arrays(starts, pc.subtract(pa.scalar(count, pa.int32()), starts), inner)
        case "fixed list":
            return pa.FixedSizeListArray.from_arrays(inner, 1)
        case "struct":
            return pa.StructArray.from_arrays([inner, inner], names=["same", "same"])
        case "map":
            keys = pa.array([f"k{i}" for i in range(count)])
            return pa.MapArray.from_arrays(pa.array(range(count + 1), pa.int32()), keys, inner)
        case "dictionary":
            numbers = pa.array(draw(st.lists(st.integers(0, count - 1) | st.none(), min_size=count, max_size=count)))
            return pa.DictionaryArray.from_arrays(numbers.cast(pa.int8()), inner)
        case _:
            return pa.RunEndEncodedArray.from_arrays(pa.array(range(1, count + 1), pa.int32()), inner)


def _places(count: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, 3), min_size=count - 1, max_size=count - 1)


@given(arrays())
def test_every_value_of_every_type_can_be_shown(values: pa.Array) -> None:
    """Values of any bytes, nested or not: the text is there, and it is short."""
    for value in values:
        text = show_value(value)
        assert text
        assert len(text) <= LETTERS + 1
        assert "cannot be shown" not in text
    rows = pa.RecordBatch.from_arrays([values], names=["x"])
    assert show_row(rows, 0).startswith("{'x': ")
    assert show_element(EventBatch.inserts(rows.slice(0, 1), [3]), 0).endswith(", 3, 4)")


@given(st.datetimes(timezones=st.just(UTC)), st.sampled_from(ZONES[:-1]))
def test_times_that_python_can_hold_are_shown_as_python_shows_them(moment: datetime, zone: str | None) -> None:
    """Read back by Python, the text is the same moment, day or time of day."""
    plain = moment if zone is not None else moment.replace(tzinfo=None)
    shown = show_value(pa.scalar(plain, pa.timestamp("us", zone)))
    assert datetime.fromisoformat(shown) == plain
    day = moment.date()
    assert show_value(pa.scalar(day, pa.date32())) == show_value(pa.scalar(day, pa.date64())) == day.isoformat()
    hour = moment.time()
    assert time.fromisoformat(show_value(pa.scalar(hour, pa.time64("us")))) == hour


@given(st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=20) | st.binary(max_size=20))
def test_plain_values_are_shown_as_python_shows_them(value: object) -> None:
    """Numbers, words and bytes look as they do in Python."""
    assert show_value(pa.scalar(value)) == repr(value)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (pa.array([LAST_OF_9999]).view(pa.timestamp("s", "Asia/Tokyo"))[0], "9999-12-31T23:59:59Z"),
        (pa.array([-62_135_596_801]).view(pa.timestamp("s"))[0], "0000-12-31T23:59:59"),
        (pa.array([1_234_567_891]).view(pa.timestamp("ns"))[0], "1970-01-01T00:00:01.234567891"),
        (pa.array([2**31 - 1], pa.int32()).view(pa.date32())[0], "5881580-07-11"),
        (pa.array([-(2**63)]).view(pa.timestamp("us"))[0], "-9223372036854775808us"),
        (pa.array([90_000_000_000]).view(pa.duration("ns"))[0], "1m30s"),
        (pa.array([-5_000]).view(pa.duration("ms"))[0], "-5s"),
        (pa.array([-1]).view(pa.duration("ns"))[0], "-1ns"),
        (pa.array([1]).view(pa.time64("ns"))[0], "00:00:00.000000001"),
        (pa.scalar(Decimal("1.50")), "1.50"),
        (pa.scalar(1.5, pa.float16()), "1.5"),
        (pa.scalar({"a": [1, None], "b": date(2020, 1, 2)}), "{'a': [1, None], 'b': 2020-01-02}"),
        (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64()))[0], "{'k': 1}"),
        (pa.array(["a", "b"]).dictionary_encode()[1], "'b'"),
        (pa.scalar("x" * 1_000), "'" + "x" * (LETTERS - 1) + "…"),
        (pa.scalar(list(range(ITEMS + 5))), "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, … 5 more]"),
        (pa.ExtensionArray.from_storage(Stamped(), pa.array([2**62]).view(Stamped().storage_type))[0],
         "148108-07-06T14:00:27.387904Z"),
        (pa.UnionArray.from_sparse(pa.array([1], pa.int8()), [pa.array([1]), pa.array(["a"])])[0], "'a'"),
        (pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xffa"]).buffers())[0], "'\\\\xffa'"),
    ],
)  # fmt: skip
def test_a_value_is_shown_by_what_it_means(value: pa.Scalar, shown: str) -> None:
    """Times that Python cannot hold, and everything that has a form of its own."""
    assert show_value(value) == shown


def test_a_row_of_very_many_columns_is_shortened() -> None:
    """It says how many columns were left out."""
    rows = pa.record_batch({f"c{i}": [i] for i in range(COLUMNS + 7)})
    assert show_row(rows, 0).endswith(f"'c{COLUMNS - 1}': {COLUMNS - 1}, … 7 more}}")


def test_elements_are_written_as_their_own_text_says() -> None:
    """The same text as that of the element itself."""
    sent: list[Element] = [
        Insert(("a", 1), 3, 4),
        Adjust(("a", 1), 3, 4, 2**63 - 1),
        Punctuate(5),
        Punctuate(2**63 - 1),
    ]
    batch = batch_of(sent, pa.schema({"x": pa.string(), "y": pa.int64()}))
    assert [show_element(batch, at) for at in range(4)] == [str(one) for one in sent]
    alone = batch_of([Insert(("a",), 3, 4)], pa.schema({"x": pa.string()}))
    assert show_element(alone, 0) == "insert(('a',), 3, 4)"


# ---- messages about rows that Python cannot hold ---------------------------------------------------------------------

FAR = pa.array([LAST_OF_9999] * 4).view(pa.timestamp("s", "Asia/Tokyo"))
ODD = {
    "a zone east of Greenwich": FAR,
    "year 0": pa.array([-62_135_596_801] * 4).view(pa.timestamp("s")),
    "a long duration": pa.array([2**62] * 4).view(pa.duration("s")),
    "a far day": pa.array([2**31 - 1] * 4, pa.int32()).view(pa.date32()),
    "an unknown zone": pa.array([0] * 4).view(pa.timestamp("us", "Mars/Phobos")),
    "not UTF-8": pa.Array.from_buffers(pa.string(), 4, pa.array([b"\xff"] * 4).buffers()),
    "nested": pa.StructArray.from_arrays([FAR], names=["at"]),
    "an extension": pa.ExtensionArray.from_storage(Stamped(), pa.array([2**62] * 4).view(Stamped().storage_type)),
}


@pytest.fixture(params=list(ODD))
def odd(request: pytest.FixtureRequest) -> pa.Array:
    """A column of which Python cannot hold a value."""
    return ODD[request.param]


def _rows(odd: pa.Array, *times: int, **more: list[int]) -> pa.Table:
    return pa.table({"at": list(times), "odd": odd.slice(0, len(times)), **more})


def test_a_late_row_is_refused_by_name(odd: pa.Array) -> None:
    """The policy Late.raise_error() shows the row."""
    stream = sw.stream(_rows(odd, 1, 50, 2), time="at").sort(patience=3, late=sw.Late.raise_error())
    with pytest.raises(LateEvent, match="'odd': "):
        stream.run()


def test_a_row_out_of_order_is_refused_by_name(odd: pa.Array) -> None:
    """So does assume_ordered()."""
    with pytest.raises(BrokenOrder, match="'odd': "):
        sw.stream(_rows(odd, 5, 3), time="at").assume_ordered().run()


def test_a_row_that_ends_before_it_starts_is_refused_by_name(odd: pa.Array) -> None:
    """So does the reading of intervals."""
    with pytest.raises(BackwardInterval, match="'odd': "):
        sw.stream(_rows(odd, 5, until=[3]), time="at", until="until").run()


def test_a_row_that_breaks_a_function_is_named(odd: pa.Array) -> None:
    """So does a computation."""

    def inverse(rows: pa.RecordBatch) -> pa.Array:
        return pc.divide(pa.scalar(1), rows.column("at"))

    stream = sw.stream(_rows(odd, 1, 0), time="at").select("odd", inverse=inverse)
    with pytest.raises(StepFailed, match="'odd': "):
        stream.run()


def test_a_row_without_a_time_is_refused_by_name(odd: pa.Array) -> None:
    """So does a step where such rows are late."""
    table = pa.table({"at": pa.array([None], pa.int64()), "odd": odd.slice(0, 1)})
    stream = sw.stream(table, time="at", untimed_is_late=True).sort(patience=3, late=sw.Late.raise_error())
    with pytest.raises(BadTime, match="'odd': "):
        stream.run()


def test_a_change_that_is_none_is_refused_by_name(odd: pa.Array) -> None:
    """So does the reading of changes."""
    table = pa.table({"at": [1], "odd": odd.slice(0, 1), "change": ["upsert"]})
    with pytest.raises(BadElement, match="'odd': "):
        sw.changes(table, time="at").run()


@pytest.mark.parametrize("broken", ["punctuation", "key", "unknown", "backward"])
def test_replicas_and_changes_that_break_their_word_are_refused_by_name(odd: pa.Array, broken: str) -> None:
    """So do merges, keys and punctuations."""
    odd = odd.storage if isinstance(odd.type, pa.ExtensionType) else odd
    words = {"punctuation": ["punctuate", "insert"], "key": ["insert", "insert"]}.get(broken, ["insert", "remove"])
    times = {"punctuation": [9, 3], "key": [1, 1]}.get(broken, [1, 2])
    until = [9, 0 if broken == "backward" else 9]
    table = pa.table({"at": times, "until": until, "until_before": until, "odd": odd.slice(0, 2), "change": words})
    stream = sw.changes(table, time="at", until="until", keyed=broken == "key")
    with pytest.raises(RunError, match=r"insert|adjust|remove"):
        (stream.settle() if broken == "unknown" else sw.merge_replicas(stream, stream)).run()


@pytest.mark.parametrize("what", [name for name in ODD if name not in {"nested", "an extension"}])  # can be keys
def test_an_answer_too_large_for_its_type_names_its_keys(what: str) -> None:
    """Keys of aggregates are shown, too."""
    table = pa.table({"at": [1, 1], "odd": ODD[what].slice(0, 2), "x": [2**62, 2**62]})
    stream = sw.stream(table, time="at").assume_ordered().tumbling(10).group_by("odd").aggregate(total=sw.sum("x"))
    with pytest.raises(RunError, match="odd="):
        stream.run()


def test_a_pushed_moment_that_leaves_the_years_of_python_in_its_zone_is_taken() -> None:
    """Nine hours past the last hour of 9999 in UTC."""
    source = sw.PushSource({"at": pa.timestamp("us", "Asia/Tokyo")}, name="far")
    source.push({"at": datetime(9999, 12, 31, 23, tzinfo=UTC)})
    assert source.waiting == 1


def test_a_computed_time_that_python_cannot_hold_can_be_planned() -> None:
    """What the plan tries a computation with is compared without Python's times."""
    table = pa.table({"at": [1], "when": FAR.slice(0, 1)})
    far = sw.stream(table, time="at").select(
        later=lambda rows: pc.add(rows.column("when"), pa.scalar(10**12, pa.duration("s")))
    )
    assert far.where(nw.col("at") == 1).run().table.num_rows == 1
    assert np.asarray(far.run().table["later"].cast(pa.int64())).tolist() == [LAST_OF_9999 + 10**12]
