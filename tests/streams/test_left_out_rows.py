"""Rows that a merge of replicas leaves out: on request they go to an output of their own, with the reason."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.errors import PlanError, SchemaMismatch
from slackwater.operators.emission import LEFT_OUT
from slackwater.streams.diverted_rows import diverted_streams

_ROWS = pa.schema({"at": pa.int64(), "x": pa.string()})
_DIVERT = sw.LeftOutRows.divert()


def _sent(words: str) -> list[dict[str, Any]]:
    """Rows of these words; a time is the place of its word in the alphabet."""
    return [{"at": ord(word) - ord("a"), "x": word} for word in words]


def _ordered(words: str) -> sw.OrderedStream:
    return sw.stream(pa.Table.from_pylist(_sent(words), _ROWS), time="at").assume_ordered()


def _live(names: str = "01") -> tuple[list[sw.PushSource], list[sw.OrderedStream]]:
    sources = [sw.PushSource(_ROWS, name=name) for name in names]
    return sources, [sw.stream(source, time="at").assume_ordered() for source in sources]


def _rows(taken: list[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for batch in taken for row in batch.to_pylist()]


def test_the_result_has_what_only_a_follower_had() -> None:
    """The one that led lacked c, and was complete past it before the other one came to it."""
    sources, (blue, green) = _live()
    merged = sw.merge_replicas(blue, green, left_out=_DIVERT)
    left_out: list[pa.RecordBatch] = []
    with merged.open(lambda _: None, on_left_out=left_out.append) as query:
        sources[0].push(_sent("abd"))
        query.work()
        sources[1].push(_sent("ac"))
        query.work()
        assert query.counters()["merge_replicas#1"].passed_over == len(_rows(left_out)) == 2
    assert _rows(left_out) == [(0, "a", 1, "passed over"), (2, "c", 1, "passed over")]


def test_rows_left_out_by_several_merges_are_named_by_the_sources_of_their_replicas() -> None:
    """As late rows are: by what users have named, and not by the number of a step."""
    _, (blue, green, red) = _live("bgr")
    both, all_three = (sw.merge_replicas(*replicas, left_out=_DIVERT) for replicas in ((blue, green), (green, red)))
    assert list(diverted_streams(both, all_three, output=LEFT_OUT)) == ["b+g", "g+r"]
    merged = [sw.merge_replicas(_ordered("ab"), _ordered("ab"), left_out=_DIVERT) for _ in range(2)]
    one, _ = sw.run_together(*merged)
    assert list(one.left_out) == ["table", "table#2"]


@pytest.mark.parametrize("strict", [True, False], ids=["R0", "R2"])
def test_ordered_replicas_divert_what_was_passed_over(strict: bool) -> None:
    """Of answers with a key; strictly increasing ones are followed by their times alone."""
    streams = [_ordered("abdz"), _ordered("acdz")]
    counted = [one.tumbling(1).group_by(*(() if strict else "x")).aggregate(n=sw.count()) for one in streams]
    result = sw.merge_replicas(*counted, left_out=_DIVERT).run()
    counters = result.counters["merge_replicas#1"]
    left_out = result.left_out
    assert left_out.num_rows == counters.passed_over
    assert counters.passed_over > 0
    assert set(left_out["left_out"].to_pylist()) == {"passed over"}


def test_disordered_replicas_divert_what_was_contradicted() -> None:
    """Blue has come furthest, and lacks c."""
    result = sw.merge_replicas(_ordered("abdfz"), _ordered("abcdf"), left_out=_DIVERT, attachable=True).run()
    assert "".join(result.table["x"].to_pylist()) in {"abdfz", "abcdfz"}
    rows = result.left_out.to_pylist()
    counters = result.counters["merge_replicas#1"]
    assert len(rows) == counters.contradicted + counters.passed_over
    words = sorted([*result.table["x"].to_pylist(), *(row["x"] for row in rows)])
    assert len(words) + counters.duplicates == len("abdfz") + len("abcdf")


def test_by_a_column_the_rows_keep_the_name_of_their_replica() -> None:
    """Whatever the other columns are called; null is a name like any other."""
    sent = [("blue", "abdz"), (None, "abc")]
    rows = [{"at": row["at"], "replica": row["x"], "who": who} for who, words in sent for row in _sent(words)]
    schema = pa.schema({"at": pa.int64(), "replica": pa.string(), "who": pa.dictionary(pa.int8(), pa.string())})
    stream = sw.stream(pa.Table.from_pylist(rows, schema), time="at")
    result = stream.merge_replicas("who", patience=2, every=sw.Every.batch(), left_out=_DIVERT).run()
    left_out = result.left_out
    assert left_out.schema.names == ["at", "replica", "who", "left_out"]
    assert left_out.to_pylist() == [{"at": 2, "replica": "c", "who": None, "left_out": "contradicted"}]


def test_a_stream_reads_them_beside_the_merged_one() -> None:
    """As the late ones."""
    merged = sw.merge_replicas(_ordered("abdz"), _ordered("abcz"), left_out=_DIVERT, attachable=True)
    together, left_out = sw.run_together(merged.tumbling(100).aggregate(n=sw.count()), merged.left_out)
    assert left_out.table.column_names == ["at", "x", "replica", "left_out"]
    assert left_out.table.equals(together.left_out)


def test_what_only_a_detached_replica_had_is_diverted_at_once() -> None:
    """A snapshot between the two would not have it."""
    sources, (blue, green) = _live()
    left_out: list[pa.RecordBatch] = []
    merged = sw.merge_replicas(blue, green, left_out=_DIVERT, attachable=True)
    query = merged.open(lambda _: None, on_left_out=left_out.append)
    sources[0].push(_sent("a"))
    sources[1].push(_sent("ab"))
    query.work()
    query.detach(green)
    assert _rows(left_out) == [(1, "b", 1, "contradicted")]
    query.close()
    assert len(_rows(left_out)) == 1


def test_what_only_a_failed_replica_had_is_diverted() -> None:
    """It goes back in time, and leaves."""
    sources, (blue, green) = _live()
    left_out: list[pa.RecordBatch] = []
    merged = sw.merge_replicas(blue, green, left_out=_DIVERT, attachable=True)
    with merged.open(lambda _: None, on_left_out=left_out.append) as query:
        sources[0].push(_sent("a"))
        sources[1].push(_sent("ab"))
        query.work()
        sources[1].push(_sent("a"))
        query.work()
        assert query.why_left(green)
        assert _rows(left_out) == [(1, "b", 1, "contradicted")]


def test_rows_of_a_replica_that_lags_are_not_left_out_before_they_come_to_the_merge() -> None:
    """Feedback would leave them out where they are read, so that nobody would see them."""
    for left_out, seen in ((_DIVERT, 3), (sw.LeftOutRows.drop(), 0)):
        sources, (blue, green) = _live()
        merged = sw.merge_replicas(blue, green, left_out=left_out)
        query = merged.open(lambda _: None, on_left_out=lambda _: None)
        sources[0].push(_sent("abcdz"))
        query.work()
        sources[1].push(_sent("abc"))
        query.work()
        assert query.counters()["merge_replicas#1"].passed_over == seen
        query.close()


def test_rows_that_nobody_takes_are_refused() -> None:
    """As late ones are; so is what is no policy, and a column that would be there twice."""
    merged = sw.merge_replicas(_ordered("ab"), _ordered("ab"), left_out=_DIVERT)
    with pytest.raises(PlanError, match=r"(?s)would be lost.*hint: take them with on_left_out=.*LeftOutRows\.drop"):
        merged.open(print)
    with pytest.raises(PlanError, match="would be lost"):
        merged.batches()
    with pytest.raises(PlanError, match=r"(?s)takes a LeftOutRows policy.*got  'divert'.*LeftOutRows\.divert"):
        sw.merge_replicas(_ordered("ab"), _ordered("ab"), left_out="divert")  # type: ignore[call-overload]
    named = _ordered("ab").select(replica="x")
    with pytest.raises(SchemaMismatch, match=r"(?s)two columns of one name.*replica.*LeftOutRows\.drop"):
        sw.merge_replicas(named, named, left_out=_DIVERT)
    with pytest.raises(PlanError, match=r"(?s)no step above.*left out.*left_out=LeftOutRows\.divert"):
        _ = sw.merge_replicas(_ordered("ab"), _ordered("ab")).left_out


def test_explain_says_that_they_are_diverted() -> None:
    """Where the merge is."""
    merged = sw.merge_replicas(_ordered("ab"), _ordered("ab"), left_out=_DIVERT)
    assert "left-out rows diverted" in merged.explain()
    assert "the rows that the merge did not emit" in merged.left_out.explain()
