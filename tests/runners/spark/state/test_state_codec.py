"""The state of every operator comes back from storage as it was; what nobody wrote is refused."""

from __future__ import annotations

import dataclasses
import json
import math
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.errors import PlanError, RunError
from slackwater.events.batch import EventBatch
from slackwater.events.gather import no_columns
from slackwater.events.kinds import Kind
from slackwater.operators.operator import Operator, StatelessOperator
from slackwater.operators.replicas.compare import CompareReplicasOperator
from slackwater.operators.replicas.replica_merge import ReplicaMerge
from slackwater.operators.stream_progress import StreamProgress
from slackwater.runners.spark.shard.idle_sources import SourceActivity
from slackwater.runners.spark.shard.totals import Totals
from slackwater.runners.spark.state import state_codec
from slackwater.runners.spark.state.segments import seal, unseal
from slackwater.runners.spark.state.state_codec import StateCodec
from slackwater.runners.spark.state.stored_columns import rows_of
from slackwater.testing.cases import CASES
from slackwater.testing.torture import TICK, Cut, TortureCase, operators_found, schedule

if TYPE_CHECKING:
    from slackwater.operators.emission import Emission
    from slackwater.progress.frontier import Port
    from slackwater.runners.spark.state.stored_columns import Leaf

_PLACES = {"written out": 1 << 30, "in segments": 0}
"""Below how many bytes columns are written out: all of them, or none."""

_EXAMPLES = settings(max_examples=max(4, settings().max_examples // 5))

_MERGES = [case for case in CASES if issubclass(case.operator, (ReplicaMerge, CompareReplicasOperator))]


_CODEC = StateCodec([SourceActivity, Totals, *(one for case in CASES for one in case.operator.state_types)])
"""For the states of all operators."""


class _Storage:
    """Segments, and the columns that have one."""

    def __init__(self, small: int) -> None:
        self._small = small
        self._segments: dict[int, bytes] = {}

    def write(self, value: object) -> str:
        """Store a value; return its form as text."""
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(state_codec, "_SMALL", self._small)
            return json.dumps(_CODEC.form_of(value, self._numbers_of), allow_nan=False)

    def read(self, text: str) -> Any:
        """Make the value again."""
        return _CODEC.value_of(
            json.loads(text), lambda numbers, read: read(unseal(self._segments[numbers[0]], numbers))
        )

    def _numbers_of(self, leaf: Leaf) -> tuple[int]:
        self._segments[len(self._segments)] = seal(rows_of(leaf))
        return (len(self._segments) - 1,)


def _stored(value: object, small: int) -> Any:
    storage = _Storage(small)
    return storage.read(storage.write(value))


def _assert_same(one: Any, other: Any) -> None:
    """Assert that two values are of the very same types and content, all the way down."""
    assert type(one) is type(other), (type(one), type(other))
    if dataclasses.is_dataclass(one):
        for field in dataclasses.fields(one):
            _assert_same(getattr(one, field.name), getattr(other, field.name))
    elif isinstance(one, (tuple, list)):
        assert len(one) == len(other), (one, other)
        for part, counterpart in zip(one, other, strict=True):
            _assert_same(part, counterpart)
    elif isinstance(one, np.ndarray):
        assert (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
    elif isinstance(one, (pa.RecordBatch, pa.Table)):
        assert one.schema.equals(other.schema, check_metadata=True), (one.schema, other.schema)
        assert (one.num_rows, repr(one.to_pylist())) == (other.num_rows, repr(other.to_pylist()))
    elif isinstance(one, pa.Array):
        assert (one.type, repr(one.to_pylist())) == (other.type, repr(other.to_pylist()))
    else:
        assert one == other or repr(one) == repr(other) == "nan", (one, other)


# ---- operators -----------------------------------------------------------------------------------------------------


class _Twins:
    """Two operators that are given the same and start anew from their states; those of one are stored in between."""

    def __init__(self, case: TortureCase) -> None:
        self._build = case.build
        self._kept, self._stored = case.build(None), case.build(None)

    def both(self) -> tuple[Any, Any]:
        return self._kept, self._stored

    def start_anew(self, small: int) -> None:
        state = self._stored.snapshot()
        again = _stored(state, small)
        _assert_same(again, state)
        self._kept, self._stored = self._build(self._kept.snapshot()), self._build(again)

    def emitted(self, port: Port, batch: EventBatch | None) -> list[Emission]:
        """What both say to a batch, or to the end of an input."""
        kept, stored = (_emitted(operator, port, batch) for operator in self.both())
        _assert_same(stored, kept)
        self._stored.check()
        return stored

    def assert_same_state(self) -> None:
        _assert_same(self._stored.snapshot(), self._kept.snapshot())


def _emitted(operator: Operator[Any], port: Port, batch: EventBatch | None) -> list[Emission]:
    ticked = [operator.on_tick(TICK)] if operator.ticks else []
    return [*ticked, operator.on_end(port) if batch is None else operator.on_batch(port, batch)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@_EXAMPLES
@given(data=st.data(), seed=st.integers(0, 2**32))
def test_an_operator_goes_on_from_a_stored_state_as_if_it_had_never_stopped(
    case: TortureCase, data: st.DataObject, seed: int
) -> None:
    """Stored at any boundary, in any form, the state is the same; and so is all that is emitted from then on."""
    rng, streams = Random(seed), data.draw(case.streams)
    twins, undisturbed = _Twins(case), case.build(None)
    for port, batch in schedule(streams, rng.choice(list(Cut)), rng):
        if rng.random() < 0.5:
            twins.start_anew(rng.choice(list(_PLACES.values())))
        _assert_same(twins.emitted(port, batch), _emitted(undisturbed, port, batch))
    twins.assert_same_state()


@pytest.mark.parametrize("case", _MERGES, ids=lambda case: case.name)
@_EXAMPLES
@given(data=st.data(), seed=st.integers(0, 2**32), complete_from=st.integers(0, 25))
def test_a_merge_goes_on_from_a_stored_state_when_replicas_have_come_and_gone(
    case: TortureCase, data: st.DataObject, seed: int, complete_from: int
) -> None:
    """What one has sent that has not joined is part of the state, and so is who is listened to."""
    rng, streams = Random(seed), data.draw(case.streams)
    twins, plan = _Twins(case), schedule((*streams, streams[0]), Cut.RANDOM, rng)
    for merge in twins.both():
        merge.attach(len(streams), complete_from)
    detached_at = rng.randrange(len(plan))
    for step, (port, batch) in enumerate(plan):
        if step == detached_at:
            for merge in twins.both():
                merge.detach(0)
        if rng.random() < 0.5:
            twins.start_anew(rng.choice(list(_PLACES.values())))
        twins.emitted(port, batch)
    twins.assert_same_state()


@pytest.mark.parametrize("operator", operators_found(), ids=lambda operator: operator.__name__)
def test_every_operator_that_remembers_something_is_among_those_above(operator: type[Operator[Any]]) -> None:
    """One that has no case is not tested: add one to slackwater.testing.cases."""
    remembers = [
        case for case in CASES if type(case.build(None)) is operator and case.build(None).snapshot() is not None
    ]
    assert remembers or issubclass(operator, StatelessOperator)


# ---- values --------------------------------------------------------------------------------------------------------

_FIELDS = np.dtype([("at", "<i8"), ("place", [("x", "<f4", (2,)), ("y", "S3")])])
_FIELDS_APART = np.dtype({"names": ["a", "b"], "formats": ["i1", "i8"]}, align=True)
_ROWS = pa.record_batch({"n": [1, None, 3], "word": ["a", "", None]})

_VALUES: list[Any] = [
    None, True, 0, -1, 2**70, "", "tide \u263e", 0.1, -0.0, math.inf, -math.inf, math.nan, b"", b"\x00\xff",
    (), ((), (None, (1, "a"))), frozenset(), frozenset({b"a", b"b", (1, b"c")}),
    {}, {(1, 2): "a", 3: (b"", {}), "b": 1.5}, StreamProgress(3, 5), (StreamProgress(), StreamProgress(1)),
    np.empty(0, np.int64), np.array(7), np.arange(6).reshape(2, 3), np.empty((0, 5)), np.zeros((2, 0, 3), np.int8),
    np.asfortranarray(np.arange(6).reshape(2, 3)), np.arange(20)[::3], np.array([True, False]),
    np.array([math.nan, -0.0, math.inf], np.float32), np.array([1 + 2j]), np.array([1, 2], ">i2"),
    np.array(["2026-11-16", "NaT"], "M8[us]"), np.array(["tide", ""]), np.array([b"a"]),
    np.array([(1, ([2.5, 3.5], b"abc"))], _FIELDS), np.zeros((2, 2), _FIELDS_APART),
    pa.array([1, None, 3]), pa.array(["a", None, "c", "d"]).slice(1, 2), pa.array([], pa.decimal128(38, 2)),
    pa.array([[1], None, []]), pa.array(["a", "b", "a"]).dictionary_encode(), pa.nulls(2),
    _ROWS, _ROWS.slice(1, 1), _ROWS.slice(0, 0), no_columns(5), _ROWS.replace_schema_metadata({"k": "v"}),
    pa.Table.from_batches([_ROWS, _ROWS.slice(2)]), pa.Table.from_batches([], _ROWS.schema),
    EventBatch.inserts(_ROWS, [1, 2, 3]),
    EventBatch(_ROWS.slice(0, 1), np.array([1, 4]), None, np.array([0, 2], np.int8)),
]  # fmt: skip


@pytest.mark.parametrize("small", _PLACES.values(), ids=_PLACES)
@pytest.mark.parametrize("value", _VALUES, ids=lambda value: type(value).__name__)
def test_a_value_comes_back_as_it_was(value: Any, small: int) -> None:
    """Of the same type, bit by bit, alone and as a part of another."""
    _assert_same(_stored(value, small), value)
    _assert_same(_stored((1, (value, value)), small), (1, (value, value)))


@pytest.mark.parametrize("small", _PLACES.values(), ids=_PLACES)
def test_stored_arrays_cannot_be_written_to(small: int) -> None:
    """Whoever wrote to one would change what the next state, sharing it, takes for stored."""
    assert not _stored(np.arange(9), small).flags.writeable


def test_large_columns_have_segments_and_small_ones_none() -> None:
    """By their bytes, whatever they are made of; the same object goes by the same number."""
    numbers = pa.record_batch({"n": range(128)})
    large = [np.zeros(128), np.zeros((8, 16)), pa.array(["x" * 2_000]), numbers, pa.Table.from_batches([numbers])]
    small = [np.zeros(127), _ROWS.column(0), _ROWS, pa.Table.from_batches([_ROWS])]
    assert [_CODEC.form_of(leaf, _by_identity)["segments"] for leaf in large] == [[id(leaf)] for leaf in large]
    assert all("segments" not in _CODEC.form_of(leaf, _by_identity) for leaf in small)


def _by_identity(leaf: object) -> tuple[int]:
    return (id(leaf),)


def test_a_set_is_written_in_one_order() -> None:
    """Its own order differs from process to process; what is written should not."""
    letters = [bytes([code]) for code in range(97, 123)]
    assert _CODEC.form_of(frozenset(letters), _by_identity)["set"] == [
        _CODEC.form_of(letter, _by_identity) for letter in letters
    ]


class _Unlisted(NamedTuple):
    """A tuple, and more than one."""

    times: int


@dataclasses.dataclass(frozen=True)
class StreamProgressOfAnother:
    """A class that no operator names."""

    punctuated: int


StreamProgressOfAnother.__name__ = "StreamProgress"  # its name alone does not make it one


@pytest.mark.parametrize(
    "value",
    [
        [1], {1}, bytearray(b"a"), lambda: None, _Unlisted(1), StreamProgressOfAnother(1), Kind.INSERT, np.int64(1),
        np.float64(1), np.str_("a"), np.array([object()]), np.array([(1, "a")], [("n", "i8"), ("o", "O")]),
        np.ma.masked_array([1]), pa.scalar(1), pa.chunked_array([[1]]), 1j,
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_cannot_come_back_as_it_was_is_not_stored(value: object) -> None:
    """Not even as a part, and not as something that it derives from."""
    for holder in (value, (1, (value,)), {1: value}):
        with pytest.raises(PlanError, match=r"(?s)cannot store the state of this step.*type"):
            _CODEC.form_of(holder, numbers_of=_by_identity)


@pytest.mark.parametrize(
    ("form", "complaint"),
    [
        ({"class": "Unheard", "fields": {}}, "does not fit.*Unheard.*no such state"),
        ({"class": "Popen", "fields": {"args": "true"}}, "does not fit.*Popen.*no such state"),
        (
            {"class": "StreamProgress", "fields": {"reached": 1}},
            "does not fit.*stored +reached.*known +punctuated, reached",
        ),
        ({"class": "StreamProgress", "fields": {"punctuated": 1, "reached": 1, "x": 1}}, "does not fit.*reached, x"),
        (
            {"class": "EventBatch", "fields": dict.fromkeys(["payload", "start", "end", "kind", "prior_end"], 1)},
            "AttributeError",
        ),
        ({"class": "StreamProgress"}, "nothing is stored in this form"),
        ({"unheard": 1}, "nothing is stored in this form"),
        ({}, "nothing is stored in this form"),
        (1.5, "nothing is stored in this form"),
        ({"float": 1.5}, "nothing is stored in this form"),
        ({"float": "tide"}, "could not convert"),
        ({"bytes": "AA%A"}, "base64"),
        ({"set": [{"map": []}]}, "unhashable"),
        ({"map": [[1, 2, 3]]}, "ValueError"),
        ({"map": [1]}, "TypeError"),
        ({"written": "AAAA", "as": "array", "type": "<i8", "shape": [1]}, "buffer size"),
        ({"written": "AAAAAAAAAAA=", "as": "array", "type": "<i8", "shape": [2]}, "reshape"),
        ({"written": "AAAAAAAAAAA=", "as": "array", "type": "|O", "shape": [1]}, "ValueError"),
        ({"written": "AAAAAAAAAAA=", "as": "array", "type": "[exit(1)]", "shape": [1]}, "ValueError"),
        ({"written": "AAAAAAAAAAA=", "as": "array", "type": "tide", "shape": [1]}, "TypeError"),
        ({"written": "AAAA", "as": "rows"}, "Arrow"),
        ({"written": "AA%A", "as": "rows"}, "base64"),
        ({"segments": [0], "as": "unheard"}, "nothing is stored as"),
        ({"segments": [0], "as": "array", "type": "<i8", "shape": [3]}, "reshape"),
        ({"segments": ["0"], "as": "rows"}, "nothing is stored in this form"),
        ({"segments": [0, None], "as": "rows"}, "nothing is stored in this form"),
        ({"segments": [], "as": "rows"}, "nothing is stored in this form"),
    ],
    ids=str,
)
def test_a_form_that_nobody_wrote_is_refused(form: Any, complaint: str) -> None:
    """Alone and as a part; with what was found, and before anything is made of it."""
    rows = rows_of(np.arange(2))
    for whole in (form, [1, form], {"set": [form]}):
        with pytest.raises(RunError, match=rf"(?s)stored state .*{complaint}.*hint"):
            _CODEC.value_of(whole, lambda _, read: read(rows))
