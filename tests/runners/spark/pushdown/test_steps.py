"""Steps that Spark does itself: the same rows as those of the operators, to the last bit, or not taken over at all.

Run as a program, it does a few of these steps over Spark Connect:

    python test_steps.py FOLDER

The folder holds `rows.parquet`; what Spark gives for each is written into it.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from connected import connected_session
from pyarrow import feather

from slackwater.errors import BackwardInterval, BadTime
from slackwater.events.schema import EventSchema
from slackwater.plan.node import SourceNode
from slackwater.plan.nodes.rows import AssignWindow, MapBatches, Select, Where
from slackwater.plan.properties import Extent, Properties, Stamps
from slackwater.policies.punctuations import Punctuations
from slackwater.policies.windows import Hopping, Sliding, Tumbling
from slackwater.progress.instants import BEGINNING, FOREVER, MICROSECONDS
from slackwater.runners.spark.pushdown.expressions import Columns
from slackwater.runners.spark.pushdown.steps import run_natively
from slackwater.runners.spark.pushdown.values import NotNative
from slackwater.runners.spark.source import SparkFeed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from slackwater.plan.node import Node, StepNode
    from slackwater.policies.windows import Window

COMPILED = True
"""Spark's own steps and expressions are compared with ours."""

# Spark leaves sockets to its workers open; that is not for these tests to mend.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

_PATIENT_SECONDS = 200
_ZONE = "America/New_York"
_HOUR, _DAY = MICROSECONDS["h"], MICROSECONDS["d"]
_ZONED, _UNZONED = pa.timestamp("us", "UTC"), pa.timestamp("us")

# ---- rows -----------------------------------------------------------------------------------------------------------

_INTEGERS = {"tiny": pa.int8(), "small": pa.int16(), "middle": pa.int32(), "large": pa.int64()}
_NAN, _INFINITE = float("nan"), float("inf")
_DOUBLES = [_NAN, _INFINITE, -_INFINITE, 0.0, -0.0, 5e-324, -1.7976931348623157e308, 0.1, 1.5, -2.5, 3.0, 2.0**53]
_SINGLES = [_NAN, _INFINITE, -_INFINITE, 0.0, -0.0, 2.0**-149, 2.0**127, 1.5, -2.5, 3.0, 2.0**24, 13421773 / 2**27]
_WORDS = ["", "a", "A", "tide", "slack water", "é", "e\u0301", "\0", "\U0001f600", "zz", "%_", "a.b", "\ufb00", "tidal"]
_TIMES = [0, -1, 1, 999_999, -(10**15), 10**15 + 7, -62_135_596_800_000_000, 2**62, FOREVER, BEGINNING]
_DAYS = [0, -1, 1, -719_162, 2_932_896, 2**31 - 1, -(2**31)]


def _numbers(kind: pa.DataType, chance: random.Random) -> list[int]:
    """The ends of a type and of those below it, what is next to them, and some numbers between."""
    half: int = 2 ** (kind.bit_width - 1)
    edges = {sign * 2**bits + near for bits in (0, 7, 15, 31, 32, 53, 63) for sign in (1, -1) for near in (-1, 0, 1)}
    between = [chance.randrange(-half, half) for _ in range(3)]
    return [*(number for number in sorted(edges) if -half <= number < half), *between]


def _rows(seed: int, count: int = 500) -> pa.Table:
    """Rows of all types, every value nasty, a seventh of them null; `at`, `seq` and `day` can serve as times."""
    chance = random.Random(seed)

    def some(values: Sequence[Any], kind: pa.DataType, via: pa.DataType | None = None) -> pa.Array:
        drawn = [None if chance.random() < 1 / 7 else chance.choice(values) for _ in range(count)]
        return pa.array(drawn, via or kind).cast(kind)

    def times(spread: int, kind: pa.DataType, via: pa.DataType) -> pa.Array:
        return pa.array([chance.randrange(-spread, spread) for _ in range(count)], via).cast(kind)

    return pa.table(
        {
            "at": times(3 * _DAY, _ZONED, pa.int64()),
            "seq": times(10**6, pa.int64(), pa.int64()),
            "day": times(400, pa.date32(), pa.int32()),
            "n": pa.array(range(count), pa.int64()),
            **{name: some(_numbers(kind, chance), kind) for name, kind in _INTEGERS.items()},
            "other_large": some(_numbers(pa.int64(), chance), pa.int64()),
            "double": some(_DOUBLES, pa.float64()),
            "other_double": some(_DOUBLES, pa.float64()),
            "single": some(_SINGLES, pa.float32()),
            "truth": some([True, False], pa.bool_()),
            "other_truth": some([True, False], pa.bool_()),
            "word": some(_WORDS, pa.string()),
            "other_word": some(_WORDS, pa.string()),
            "moment": some(_TIMES, _ZONED, pa.int64()),
            "other_moment": some(_TIMES, _ZONED, pa.int64()),
            "plain": some(_TIMES, _UNZONED, pa.int64()),
            "date": some(_DAYS, pa.date32(), pa.int32()),
            "other_date": some(_DAYS, pa.date32(), pa.int32()),
            "price": some([Decimal("1.10"), Decimal("-3.00")], pa.decimal128(9, 2)),
            "bytes": some([b"", b"\xff"], pa.binary()),
            "list": some([[], [1], [None, 2]], pa.list_(pa.int32())),
            "a.`b": some(_numbers(pa.int32(), chance), pa.int32()),
        }
    )


_ROWS = _rows(1)


def _keys(table: pa.Table) -> Counter[tuple[str, ...]]:
    """Rows that can be counted: -0.0 is not 0.0 here, and NaN is NaN; times beyond Python's years are numbers."""
    columns = []
    for column in table.columns:
        times = {"timestamp": pa.int64(), "date32": pa.int32()}.get(str(column.type).split("[")[0], column.type)
        columns.append([repr(value) for value in column.cast(times).to_pylist()])
    return Counter(zip(*columns, strict=True))


def _assert_same(got: pa.Table, expected: pa.Table) -> None:
    """The same types and the same rows, in whatever order."""
    assert got.schema.names == expected.schema.names
    assert got.schema.types == expected.schema.types
    assert got.num_rows == expected.num_rows
    for name in got.schema.names:  # a column alone says more than whole rows when they differ
        assert _keys(got.select([name])) == _keys(expected.select([name])), name
    assert _keys(got) == _keys(expected)


# ---- both ways ------------------------------------------------------------------------------------------------------


def _source(frame: DataFrame, time: str, until: str | None = None) -> SourceNode:
    """A source of a frame's rows."""
    return _source_of(frame.sparkSession.createDataFrame([], frame.schema).limit(0).toArrow().schema, time, until)


def _source_of(columns: pa.Schema, time: str, until: str | None = None) -> SourceNode:
    facts = Properties(extent=Extent.POINTS if until is None else Extent.INTERVALS)
    feed = SparkFeed("rows", columns, live=False)
    return SourceNode("rows", feed, EventSchema.of(columns, time, until), facts, Punctuations.none())


def _in_process(rows: pa.Table, start: Node, steps: Sequence[StepNode]) -> pa.Table:
    """What operators give for rows as `start` shows them."""
    shown = start.schema.shown
    (batch,) = rows.cast(shown).combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], shown)]
    batches = [start.schema.read(batch, "source")]
    for number, step in enumerate(steps):
        operator = step.build(f"step {number}")
        batches = [made for given in batches for made in operator.on_batch(0, given).batches]
    schema = (steps[-1] if steps else start).schema
    return pa.Table.from_batches([schema.show(batch) for batch in batches], schema.shown)


def _on_spark(frame: DataFrame, source: SourceNode, steps: Sequence[StepNode]) -> tuple[pa.Table, int]:
    """What Spark gives for its steps, and operators for the others; and how many Spark did."""
    native, schema, done = run_natively(frame, source, steps)
    last = steps[done - 1] if done else source
    assert schema is last.schema
    rows = native.toArrow()
    assert rows.schema.names == schema.shown.names
    assert rows.schema.types == schema.shown.types
    return _in_process(rows, last, steps[done:]), done


def _chain(source: Node, *makers: Callable[[Node], StepNode]) -> list[StepNode]:
    steps: list[StepNode] = []
    for make in makers:
        steps.append(make(steps[-1] if steps else source))
    return steps


def _where(predicate: Any) -> Callable[[Node], StepNode]:
    return lambda node: Where(node, predicate)


def _adding(**columns: Any) -> Callable[[Node], StepNode]:
    """A select that keeps all there is."""
    return lambda node: Select(node, {**{name: name for name in node.schema.columns}, **columns})


def _computing(expressions: Sequence[Any]) -> Callable[[Node], StepNode]:
    """A select of nothing but these."""
    return lambda node: Select(node, {f"column {number}": what for number, what in enumerate(expressions)})


def _window(window: Window) -> Callable[[Node], StepNode]:
    return lambda node: AssignWindow(node, window)


# ---- sessions -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def connected(
    tmp_path_factory: pytest.TempPathFactory, surroundings: Callable[[Path], dict[str, str]]
) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A process with a session of Spark Connect, and its folder."""
    folder = tmp_path_factory.mktemp("connect")
    pq.write_table(_ROWS, folder / "rows.parquet")
    shared = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, **surroundings(folder), "PYTHONPATH": shared}
    command = [sys.executable, __file__, str(folder)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env=env)  # noqa: S603
    yield process, folder
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.fixture(scope="module")
def session(session: SparkSession) -> SparkSession:
    """A classic session, in a zone with daylight saving."""
    session.conf.set("spark.sql.session.timeZone", _ZONE)
    return session


_Read = Callable[[pa.Table], "DataFrame"]
"""From rows to a frame of them."""


@pytest.fixture(scope="module")
def read(session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> _Read:
    """Writes rows to a file of many small groups, some of which Spark may leave out by their statistics; reads it."""

    def written(rows: pa.Table) -> DataFrame:
        path = str(tmp_path_factory.mktemp("rows") / "rows.parquet")
        pq.write_table(rows, path, row_group_size=10)
        return session.read.parquet(path)

    return written


@pytest.fixture(scope="module")
def frame(read: _Read) -> DataFrame:
    """The rows that most tests use."""
    return read(_ROWS)


# ---- expressions that Spark computes --------------------------------------------------------------------------------

_col = nw.col
_NOON = datetime(1969, 12, 31, 12, tzinfo=UTC)
_PLAIN_NOON = datetime.fromisoformat("1969-12-31T12:00:00.000001")
_IN_NO_LOCAL_TIME = datetime.fromisoformat("2024-03-10T02:30:00")  # when clocks of the session's zone are put forward

_COMPARE: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a == b, lambda a, b: a != b, lambda a, b: a < b,
    lambda a, b: a <= b, lambda a, b: a > b, lambda a, b: a >= b,
]  # fmt: skip
_CALCULATE: list[Callable[[Any, Any], Any]] = [lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b]

_COMPARED_FULLY: list[tuple[Any, Any]] = [
    (_col("double"), 0), (_col("double"), -0.0), (_col("double"), _NAN), (nw.lit(0.1), _col("double")),
    (_col("double"), _col("other_double")), (_col("single"), 0.1), (_col("word"), _col("other_word")),
    (_col("large"), _col("other_large")),
]  # fmt: skip
"""Pairs that meet every sign."""

_COMPARED: list[tuple[Any, Any]] = [
    (_col("tiny"), 127), (_col("small"), 0), (_col("middle"), -(2**31)), (_col("large"), 2**63 - 1), (_col("large"), 0),
    (_col("tiny"), _col("large")), (nw.lit(5), _col("small")), (_col("word"), "tide"), (_col("word"), "\ufb00"),
    (_col("truth"), True), (_col("truth"), _col("other_truth")), (_col("single"), np.float32(0.1)),
    (_col("middle"), _col("double")), (_col("middle"), 1.5), (_col("tiny"), _NAN), (_col("single"), 2**24),
    (_col("single"), _col("double")), (_col("small"), _col("single")),
    (_col("moment"), _NOON), (_col("moment"), _col("other_moment")), (_col("at"), _NOON + timedelta(hours=7)),
    (_col("moment"), datetime(1900, 3, 1, 2, 30, 0, 1, tzinfo=UTC)), (_col("plain"), _PLAIN_NOON),
    (_col("plain"), _IN_NO_LOCAL_TIME), (_col("date"), date(1970, 1, 1)), (_col("date"), _col("other_date")),
]  # fmt: skip
"""Pairs that meet two signs, by turns."""

_NUMBERS: list[tuple[Any, Any]] = [
    (_col("tiny"), _col("tiny")), (_col("tiny"), _col("small")), (_col("middle"), _col("middle")),
    (_col("middle"), _col("large")), (_col("large"), _col("other_large")), (_col("large"), 2**31 + 1),
    (_col("large"), -(2**63)), (2**63 - 1, _col("large")), (3, _col("tiny")), (_col("tiny"), np.int8(100)),
    (_col("small"), 2**63 - 1),
]  # fmt: skip
_ARITHMETIC: list[Any] = [calculate(one, other) for one, other in _NUMBERS for calculate in _CALCULATE]

_OTHERS: list[Any] = [
    _col("large"), _col("a.`b"), _col("list"), _col("price"), _col("large").alias("another"),
    nw.lit(1), nw.lit("tide"), nw.lit(value=True), nw.lit(_NOON), nw.lit(_PLAIN_NOON), nw.lit(7, nw.Int8),
    nw.lit(date(1969, 12, 31)), nw.lit(2**62) * 4,
    *(_col(name).is_null() for name in ("double", "price", "bytes", "list")),
    _col("double").is_nan(), ~_col("single").is_nan(), _col("double").is_finite(), ~_col("single").is_finite(),
    -_col("tiny"), -_col("large"), -_col("double"),
    _col("double") + _col("other_double"), _col("double") * 0.1, _col("single") - _col("double"), _col("single") * 3,
    _col("middle") - _col("double"), _col("tiny") * _col("single"), _col("middle") + 0.5, 2 - _col("double"),
    _col("truth") & _col("other_truth"), _col("truth") | _col("other_truth"), ~_col("truth"), _col("truth") & True,
    nw.all_horizontal("truth", "other_truth", ignore_nulls=False),
    nw.any_horizontal("truth", _col("double") > 0, ignore_nulls=True),
    _col("large").is_in([1, 2**63 - 1, -(2**63)]), _col("tiny").is_in((1, 1000, None)),
    _col("word").is_in({"tide", "é"}),
    _col("middle").is_in(range(3)), _col("date").is_in([date(1970, 1, 1), None]), _col("moment").is_in([_NOON]),
    ~_col("word").is_in(["a", None]),
    *(_col("large").is_between(-1, 2**31, closed=closed) for closed in ("both", "left", "right", "none")),
    _col("double").is_between("other_double", 3.0), _col("word").is_between(nw.lit("a"), nw.lit("tide")),
    _col("large").fill_null(0), _col("tiny").fill_null(7), _col("single").fill_null(0.1), _col("double").fill_null(1),
    _col("large").fill_null(0.5), _col("word").fill_null("tide"), _col("moment").fill_null(_NOON),
    nw.coalesce("large", "tiny"), nw.coalesce("word", "other_word", nw.lit("none")),
    nw.when(_col("truth")).then(_col("large")).otherwise(_col("tiny")), nw.when(_col("large") > 0).then(nw.lit("yes")),
    nw.when("truth", _col("large") > 0).then(1).when(_col("tiny") < 0).then(2).otherwise(_col("middle")),
    nw.when(_col("double") > 0).then("moment").otherwise("other_moment"),
    _col("tiny").cast(nw.Int64), _col("middle").cast(nw.Float64), _col("small").cast(nw.Float32),
    _col("single").cast(nw.Float64), _col("word").cast(nw.String), nw.lit(5).cast(nw.Int16),
    _col("large") / 7, _col("tiny") / -3, _col("double") / 0.1, _col("middle") / 0.5,
    _col("large") % 7, _col("tiny") % 7, _col("large") % (2**63 - 1), _col("small") % nw.lit(9, nw.Int16),
    _col("word").str.len_chars(), _col("word").str.starts_with("tid"), _col("word").str.ends_with(""),
    _col("word").str.contains("a", literal=True), _col("word").str.contains("tid"),
    _col("word").str.contains("%_", literal=True), _col("word").str.len_chars() + 2**31 - 1,
    (_col("large") + _col("other_large") * 3 - 1 > 0) & ~(_col("double") * 2 < 1),
]  # fmt: skip

_DONE_BY_SPARK: list[Any] = [
    *(compare(*pair) for pair in _COMPARED_FULLY for compare in _COMPARE),
    *(compare(*pair) for turn, pair in enumerate(_COMPARED) for compare in _COMPARE[turn % 3 :: 3]),
    *_ARITHMETIC,
    *_OTHERS,
]


def test_what_spark_computes_is_what_the_operators_compute(frame: DataFrame) -> None:
    """Every operation of the list, on every nasty value of every type that it takes."""
    source = _source(frame, "at")
    steps = _chain(source, _computing(_DONE_BY_SPARK))
    got, done = _on_spark(frame, source, steps)
    assert done == 1
    _assert_same(got, _in_process(_ROWS, source, steps))


def test_whether_spark_makes_overflows_errors_has_no_say(session: SparkSession, frame: DataFrame) -> None:
    """By default it does, so that the other tests have it; here it does not."""
    assert session.conf.get("spark.sql.ansi.enabled") == "true"
    source = _source(frame, "at")
    steps = _chain(source, _computing(_ARITHMETIC))
    session.conf.set("spark.sql.ansi.enabled", "false")
    try:
        got, done = _on_spark(frame, source, steps)
    finally:
        session.conf.unset("spark.sql.ansi.enabled")
    assert done == 1
    _assert_same(got, _in_process(_ROWS, source, steps))


@pytest.mark.parametrize("seed", range(2))
def test_combinations_are_computed_the_same(frame: DataFrame, seed: int) -> None:
    """Expressions at random, some inside others."""
    chance = random.Random(seed)
    source = _source(frame, "at")
    steps = _chain(source, _computing([_any_expression(chance) for _ in range(25)]))
    got, done = _on_spark(frame, source, steps)
    assert done == 1
    _assert_same(got, _in_process(_ROWS, source, steps))


def _any_expression(chance: random.Random) -> Any:
    return chance.choice([_truth, _integer, _double, _text])(chance, 2)


def _truth(chance: random.Random, depth: int) -> Any:
    if depth == 0:
        return chance.choice([_col("truth"), _col("other_truth"), _col("double").is_nan(), _col("list").is_null()])
    operand, below = chance.choice([_integer, _double, _text]), depth - 1
    choices: list[Callable[[], Any]] = [
        lambda: chance.choice(_COMPARE)(operand(chance, below), operand(chance, below)),
        lambda: _truth(chance, below) & _truth(chance, below),
        lambda: _truth(chance, below) | _truth(chance, below),
        lambda: ~_truth(chance, below),
        lambda: operand(chance, below).is_null(),
        lambda: _integer(chance, below).is_in([0, 1, 127, -(2**63)]),
        lambda: _double(chance, below).is_between(-1.0, 2.5),
    ]
    return chance.choice(choices)()


def _integer(chance: random.Random, depth: int) -> Any:
    if depth == 0:
        number = nw.lit(chance.choice([0, -1, 3, 2**31, 2**63 - 1]))
        return chance.choice([*map(_col, _INTEGERS), number])
    below = depth - 1
    choices: list[Callable[[], Any]] = [
        lambda: chance.choice(_CALCULATE)(_integer(chance, below), _integer(chance, below)),
        lambda: -_integer(chance, below),
        lambda: _integer(chance, below) % 10,
        lambda: _integer(chance, below).fill_null(0),
        lambda: _text(chance, below).str.len_chars() - 3,
        lambda: nw.when(_truth(chance, below)).then(_integer(chance, below)).otherwise(_integer(chance, below)),
    ]
    return chance.choice(choices)()


def _double(chance: random.Random, depth: int) -> Any:
    if depth == 0:
        leaves = [_col("double"), _col("other_double"), _col("single").cast(nw.Float64), nw.lit(0.1), nw.lit(-0.0)]
        return chance.choice(leaves)
    below = depth - 1
    choices: list[Callable[[], Any]] = [
        lambda: chance.choice(_CALCULATE)(_double(chance, below), _double(chance, below)),
        lambda: -_double(chance, below),
        lambda: _integer(chance, below) / 3,
        lambda: _double(chance, below) / 0.3,
        lambda: nw.when(_truth(chance, below)).then(_double(chance, below)),
        lambda: nw.coalesce(_double(chance, below), _double(chance, below)),
    ]
    return chance.choice(choices)()


def _text(chance: random.Random, depth: int) -> Any:
    if depth == 0:
        return chance.choice([_col("word"), _col("other_word"), nw.lit("tide")])
    return nw.when(_truth(chance, depth - 1)).then(_text(chance, depth - 1)).otherwise(_text(chance, depth - 1))


# ---- what is left to the operators ----------------------------------------------------------------------------------

_LEFT_TO_OPERATORS: dict[str, Any] = {
    "a function": lambda rows: pc.add(rows.column("large"), 1),
    "int64 with floats": _col("large") > 1.5,
    "int64 with a column of floats": _col("large") + _col("double"),
    "int32 with float32": _col("middle") == _col("single"),
    "a cast that rounds": _col("middle").cast(nw.Float32),
    "a cast that may not fit": _col("tiny").cast(nw.Int64).cast(nw.Int8),
    "a cast to text": _col("large").cast(nw.String),
    "is_in of floats": _col("double").is_in([0.0]),
    "is_in of nothing": _col("large").is_in([]),
    "is_in of an Arrow array": _col("large").is_in(pa.array([1, 2])),
    "is_in of very many": _col("large").is_in(range(100_000)),
    "is_nan of integers": _col("large").is_nan(),
    "a null": nw.lit(None),
    "compared with null": _col("large") > None,
    "decimals": _col("price") > 1,
    "bytes": _col("bytes") == b"",
    "a date with a time": _col("date") == _PLAIN_NOON,
    "the time between": _col("moment") - _col("other_moment"),
    "a time later": _col("at") + timedelta(seconds=1),
    "floor division": _col("large") // 7,
    "division by a column": _col("double") / _col("other_double"),
    "division by zero": _col("double") / 0,
    "division of float32": _col("single") / 3,
    "a remainder by a negative number": _col("large") % -7,
    "a remainder of floats": _col("double") % 2.0,
    "a power": _col("tiny") ** 2,
    "abs": _col("large").abs(),
    "round": _col("double").round(1),
    "upper case": _col("word").str.to_uppercase(),
    "a pattern": _col("word").str.contains("t.de"),
    "a slice": _col("word").str.slice(0, 2),
    "choices of unlike types": nw.when(_col("truth")).then(_col("single")).otherwise(1),
    "fill_nan": _col("double").fill_nan(0.0),
    "a part of a time": _col("at").dt.hour(),
    "clip": _col("double").clip(0.0, 1.0),
    "the greatest of a row": nw.max_horizontal("large", "middle"),
    "text put together": nw.concat_str(_col("word"), _col("other_word")),
    "arithmetic that would be too long": (_col("large") * _col("other_large") * 3) * (_col("large") * 5 * 7) * 9,
}


def test_what_spark_would_do_otherwise_is_left_to_the_operators(frame: DataFrame) -> None:
    """Each alone, so that none hides behind another."""
    source = _source(frame, "at")
    for why, what in _LEFT_TO_OPERATORS.items():
        steps = _chain(source, _computing([what]))
        assert run_natively(frame, source, steps) == (frame, source.schema, 0), why


def test_computations_over_many_rows_are_left_to_the_operators(frame: DataFrame) -> None:
    """No plan has them, since it refuses them; if one had, Spark would not be asked."""
    columns = Columns(_source(frame, "at").schema, frame.schema)
    for expression in (_col("large").cum_sum(), _col("large").shift(1), _col("large").max() > 3, nw.len(), nw.all()):
        with pytest.raises(NotNative):
            columns.written(expression)


def test_text_that_is_compared_by_a_collation_is_left_to_the_operators(frame: DataFrame) -> None:
    """Spark finds "TIDE" and "tide" equal then, and yet shows the column as any other in Arrow."""
    collated = frame.selectExpr("at", "word COLLATE UTF8_LCASE AS word", "other_word COLLATE UTF8_LCASE AS other_word")
    source = _source(collated, "at")
    assert run_natively(collated, source, [Where(source, _col("word") == _col("other_word"))])[2] == 0
    assert run_natively(collated, source, [Where(source, _col("word").is_null())])[2] == 1


def test_names_that_are_one_to_spark_are_left_to_the_operators(frame: DataFrame) -> None:
    """It does not look at their case."""
    alike = frame.select("at", "large", "tiny").toDF("at", "n", "N")
    source = _source(alike, "at")
    assert run_natively(alike, source, [Where(source, _col("n") > 0)]) == (alike, source.schema, 0)


def test_a_frame_that_is_not_what_the_source_says_is_left_as_it_is(frame: DataFrame) -> None:
    """A column more is enough; so are rows that may be revisions, or have no times of their own."""
    true_source = _source(frame, "at")
    for source in (
        _source(frame.drop("truth"), "at"),
        replace(true_source, facts=Properties(insert_only=False)),
        replace(true_source, facts=Properties(stamps=Stamps.INTERNAL)),
    ):
        assert run_natively(frame, source, [Where(source, _col("large") > 0)]) == (frame, source.schema, 0)
    assert run_natively(frame, true_source, [Where(true_source, _col("large") > 0)])[2] == 1


# ---- steps ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_steps_in_a_row_give_what_the_operators_give(frame: DataFrame, seed: int) -> None:
    """Steps at random, on timestamps, numbers and dates. Spark does all up to the first that is not for it."""
    chance = random.Random(seed)
    source = _source(frame, ("at", "seq", "day")[seed % 3])
    steps: list[StepNode] = []
    native: list[bool] = []
    for number in range(4):
        step, is_native = _any_step(chance, steps[-1] if steps else source, f"extra {number}")
        steps.append(step)
        native.append(is_native)
    got, done = _on_spark(frame, source, steps)
    assert done == [*native, False].index(False), [step.line for step in steps]
    expected = _in_process(_ROWS, source, steps)
    assert expected.num_rows
    _assert_same(got, expected)


def _any_step(chance: random.Random, node: Node, new_name: str) -> tuple[StepNode, bool]:
    """A step, and whether it is for Spark."""
    kind = chance.choice(["where", "where", "select", "window", "window", "other"])
    if kind == "window" and "window_start_before" not in node.schema.columns:
        window, is_native = _any_window(chance, node.schema.time.type)
        return AssignWindow(node, window), is_native
    if kind == "where":
        return Where(node, _truth(chance, 2) | (_col("n") % 3 > 0)), True
    if kind == "other":
        others: list[Callable[[Node], StepNode]] = [
            _where(_col("large").abs() > 100),
            _adding(**{new_name: lambda rows: pc.is_null(rows.column("word"))}),
            lambda node: MapBatches(node, lambda rows: rows, node.schema.payload),
        ]
        return chance.choice(others)(node), False
    added = {new_name: _any_expression(chance), f"{new_name}, again": chance.choice(["n", node.schema.time.name])}
    return _adding(**added)(node), True


def _any_window(chance: random.Random, kind: pa.DataType) -> tuple[Window, bool]:
    unit = _DAY if pa.types.is_date(kind) else _HOUR // 7 if pa.types.is_temporal(kind) else 100
    size, hop, offset = (unit * chance.randrange(*between) for between in ((2, 30), (1, 60), (-40, 40)))
    windows: list[Window] = [Tumbling(size, offset), Tumbling(size), Sliding(size), Hopping(size, hop, offset)]
    window = chance.choice(windows)
    overlaps = isinstance(window, Hopping) and window.hop < window.size
    return window, not overlaps and kind != _UNZONED


def test_what_sources_look_for_themselves_is_the_same(read: _Read) -> None:
    """Spark leaves out parts of a file by their statistics, which do not count NaN, and shorten long words."""
    values = sorted(value for value in _DOUBLES if value == value) * 20  # noqa: PLR0124 - NaN is what differs from itself
    mixed = [_NAN if place % 7 == 0 else value for place, value in enumerate(sorted(values))]
    words = [f"{'long ' * 30}{place // 20}" for place in range(len(mixed))]
    rows = pa.table({"at": pa.array(range(len(mixed)), _ZONED), "double": mixed, "word": words})
    frame = read(rows)
    source = _source(frame, "at")
    predicates = [
        ~(_col("double") < 2.0),
        _col("double") != 3.0,
        ~(_col("double").is_between(-9.0, 9.0) | (_col("double") == 0.0)),
        ~_col("double").is_finite() | _col("word").str.starts_with(words[-1]),
        (_col("word") > words[100]) & (_col("at") >= datetime(1970, 1, 1, 0, 0, 0, 90, tzinfo=UTC)),
    ]
    for predicate in predicates:
        steps = _chain(source, _where(predicate))
        got, done = _on_spark(frame, source, steps)
        assert done == 1
        _assert_same(got, _in_process(rows, source, steps))


def test_parts_of_days_are_left_to_the_operators(frame: DataFrame) -> None:
    """Windows over dates may start at any time of a day; only those that start at midnight are for Spark."""
    source = _source(frame, "day")
    for window in (Tumbling(6 * _HOUR), Tumbling(_DAY, offset=1), Sliding(_DAY + 1), Hopping(_DAY, 36 * _HOUR)):
        assert run_natively(frame, source, [AssignWindow(source, window)])[2] == 0, window


def test_times_without_a_zone_have_their_windows_from_the_operators(read: _Read) -> None:
    """Spark would ask for the zone of the session; other steps are done by it."""
    rows = _ROWS.set_column(0, "at", _ROWS.column("at").cast(_UNZONED))
    frame = read(rows)
    source = _source(frame, "at")
    steps = _chain(source, _where(_col("at") > _PLAIN_NOON), _adding(copy="at"), _window(Tumbling(_HOUR)))
    got, done = _on_spark(frame, source, steps)
    assert done == 2
    _assert_same(got, _in_process(rows, source, steps))


# ---- times that are refused -----------------------------------------------------------------------------------------

_EDGES = [BEGINNING, BEGINNING + 1, BEGINNING + 9, BEGINNING + 10, -(2**62), -11, -1, 0, 1, 3, 7, 10, 2**62]
_EDGES += [FOREVER - 11, FOREVER - 10, FOREVER - 5, FOREVER - 1, FOREVER]
_WINDOWS: list[Window] = [Tumbling(10, offset=-3), Hopping(5, 10, 2), Tumbling(2**62 - 1, 5), Sliding(FOREVER)]
_WINDOWS += [Tumbling(2**62 + 1), Hopping(FOREVER - 1, FOREVER)]
_LAST_DAY = FOREVER // _DAY
_EDGE_DAYS = [
    0,
    -1,
    5,
    *(sign * _LAST_DAY + near for sign in (1, -1) for near in (-2, -1, 0, 1, 2)),
    2**31 - 1,
    -(2**31),
]
_DAY_WINDOWS: list[Window] = [Tumbling(_DAY * 2, _DAY), Hopping(_DAY, 3 * _DAY)]


def _edge_rows(edges: Sequence[int], kind: pa.DataType, number: pa.DataType) -> pa.Table:
    """Every edge, and a missing time, with every answer of a predicate."""
    times = [time for time in [*edges, None] for _ in range(3)]
    answers = [True, False, None] * (len(edges) + 1)
    return pa.table({"time": pa.array(times, number).cast(kind), "keep": answers, "n": range(len(times))})


_ON_EDGES = pytest.mark.parametrize(
    ("rows", "windows"),
    [
        (_edge_rows(_EDGES, pa.int64(), pa.int64()), _WINDOWS),
        (_edge_rows([-128, -1, 0, 127], pa.int8(), pa.int64()), _WINDOWS[:1]),
        (_edge_rows(_EDGES, _ZONED, pa.int64()), [Sliding(5), *_WINDOWS[:1]]),
        (_edge_rows(_EDGE_DAYS, pa.date32(), pa.int32()), _DAY_WINDOWS),
        (_edge_rows(_EDGES, _UNZONED, pa.int64()), ()),
    ],
    ids=["int64", "int8", "timestamp", "date", "timestamp without zone"],
)
"""Rows of each kind of time, and windows over it."""


@_ON_EDGES
def test_a_row_that_operators_refuse_does_not_get_lost(read: _Read, rows: pa.Table, windows: Sequence[Window]) -> None:
    """It comes through all steps, to be refused behind them; no other row is, and all others are the same."""
    frame = read(rows)
    source = _source(frame, "time")
    _assert_refuses_the_same(frame, rows, source, _chain(source, _where(_col("keep")), _adding(copy="time")))
    for window in windows:
        _assert_refuses_the_same(frame, rows, source, _chain(source, _window(window), _where(_col("keep"))))


@_ON_EDGES
def test_a_row_without_a_time_is_one_like_any_other_where_it_is_late(
    read: _Read, rows: pa.Table, windows: Sequence[Window]
) -> None:
    """The predicate decides; rows with bad times are still refused. Windows are left to the operators."""
    frame = read(rows)
    source = _source(frame, "time")
    source = replace(source, event_schema=source.schema.with_untimed_rows(), facts=source.facts.replace(untimed=True))
    steps = _chain(source, _where(_col("keep")), _adding(copy="time"))
    given, _ = _assert_gives_the_same(frame, rows, source, steps)
    assert given.filter(pc.is_null(given["time"]))["keep"].to_pylist() == [True]
    for window in windows:
        assert run_natively(frame, source, _chain(source, _where(_col("keep")), _window(window)))[2] == 1


@pytest.mark.parametrize(
    ("kind", "number", "far"),
    [
        (pa.int64(), pa.int64(), [FOREVER, FOREVER - 1, BEGINNING]),
        (_ZONED, pa.int64(), [FOREVER, FOREVER - 1]),
        (pa.date32(), pa.int32(), [_LAST_DAY, _LAST_DAY + 1, 2**31 - 1]),
    ],
    ids=["int64", "timestamp", "date"],
)
def test_ends_that_are_not_known_yet_are_null(read: _Read, kind: pa.DataType, number: Any, far: list[int]) -> None:
    """However they were written; and an end before its start is refused."""
    pairs = [(start, end) for start in (0, 5, None) for end in (None, 0, 4, 5, 9, *far)]
    starts, ends = (pa.array(column, number).cast(kind) for column in zip(*pairs, strict=True))
    rows = pa.table({"start": starts, "end": ends, "n": range(len(pairs))})
    frame = read(rows)
    source = _source(frame, "start", "end")
    predicate = _col("end").is_null() | (_col("n") > 5)
    steps = _chain(source, _where(predicate), _adding(copy="end"), _window(Tumbling(_DAY)))
    _assert_refuses_the_same(frame, rows, source, steps[:2])
    _assert_refuses_the_same(frame, rows, source, steps)


def _assert_refuses_the_same(frame: DataFrame, rows: pa.Table, source: SourceNode, steps: Sequence[StepNode]) -> None:
    """Row by row, of which some are refused."""
    _, refused = _assert_gives_the_same(frame, rows, source, steps)
    assert refused


def _assert_gives_the_same(
    frame: DataFrame, rows: pa.Table, source: SourceNode, steps: Sequence[StepNode]
) -> tuple[pa.Table, list[int]]:
    """Row by row: refused by the operators both ways, or given the same; return what is given, and who is refused."""
    native, _, done = run_natively(frame, source, steps)
    assert done == len(steps)
    expected, refused = _row_by_row(rows.append_column("row", rows.column("n")), source, steps)
    got, refused_behind = _row_by_row(native.toArrow().sort_by("n"), steps[-1], [])
    assert refused_behind == refused
    _assert_same(got, expected)
    return got, refused


def _row_by_row(rows: pa.Table, start: Node, steps: Sequence[StepNode]) -> tuple[pa.Table, list[int]]:
    """What operators give for each row alone, and the numbers of the rows that they refuse."""
    given: list[pa.Table] = []
    refused: list[int] = []
    for place, n in enumerate(rows.column("n").to_pylist()):
        try:
            given.append(_in_process(rows.slice(place, 1).select(start.schema.columns), start, steps))
        except (BadTime, BackwardInterval):
            refused.append(n)
    return pa.concat_tables(given), refused


# ---- where it runs --------------------------------------------------------------------------------------------------


def test_sources_are_asked_for_less(frame: DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
    """Files are read for the columns that are left, and predicates are looked for in their statistics."""
    source = _source(frame, "at")
    steps = _chain(source, lambda node: Select(node, {"n": "n"}), _where((_col("n") > 5) & (_col("at") < _NOON)))
    native, _, done = run_natively(frame, source, steps)
    assert done == 2
    native.explain()
    plan = capsys.readouterr().out
    assert "PushedFilters: [Or(And(GreaterThan(n,5),LessThan(at,1969-12-31" in plan
    assert "ReadSchema: struct<at:timestamp,n:bigint>" in plan


def test_a_streaming_frame_stays_one(session: SparkSession, tmp_path: Path) -> None:
    """And gives what a frame that ends gives."""
    (tmp_path / "in").mkdir()
    pq.write_table(_ROWS, tmp_path / "in" / "rows.parquet")
    columns = session.read.parquet(str(tmp_path / "in")).schema
    frame = session.readStream.schema(columns).parquet(str(tmp_path / "in"))
    source = _source(frame, "at")
    steps = _chain(source, _where(_col("large") > 0), _window(Tumbling(_HOUR)))
    native, schema, done = run_natively(frame, source, steps)
    assert native.isStreaming
    assert done == 2
    writer = native.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).format("parquet")
    writer.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
    written = session.read.parquet(str(tmp_path / "out")).toArrow()
    _assert_same(written.cast(schema.shown), _in_process(_ROWS, source, steps))


def _few_steps(source: SourceNode) -> dict[str, list[StepNode]]:
    return {
        "computed": _chain(source, _computing(_OTHERS)),
        "windows": _chain(source, _where(_col("double") > 0.1), _window(Tumbling(_HOUR, 7)), _where(_col("n") % 2 > 0)),
        "left": _chain(source, _where(_col("large").is_in([0, 1, 2])), _where(_col("large").abs() > 0)),
    }


@pytest.mark.long
def test_spark_connect_gives_the_same(connected: tuple[subprocess.Popen[bytes], Path]) -> None:
    """The same calls on a session that has no JVM in its process."""
    process, folder = connected
    assert process.wait(_PATIENT_SECONDS) == 0, (folder / "log").read_text()
    source = _source_of(_ROWS.schema, "at")
    for name, steps in _few_steps(source).items():
        done = {"computed": 1, "windows": 3, "left": 1}[name]
        got = feather.read_table(folder / f"{name} {done}")
        _assert_same(got, _in_process(_ROWS, source, steps[:done]))


def _run_over_connect(folder: str) -> None:
    session = connected_session()
    session.conf.set("spark.sql.session.timeZone", _ZONE)
    frame = session.read.parquet(f"{folder}/rows.parquet")
    source = _source(frame, "at")
    for name, steps in _few_steps(source).items():
        native, _, done = run_natively(frame, source, steps)
        feather.write_feather(native.toArrow(), f"{folder}/{name} {done}")
    session.stop()


if __name__ == "__main__":
    _run_over_connect(sys.argv[1])
