"""A wish for another number of shards: what the command says of a checkpoint, and what the next start makes of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import slackwater as sw
from slackwater.cli.main import main
from slackwater.errors import PlanError
from slackwater.runners.spark import runner
from slackwater.runners.spark.checkpoint.rescaling import remove_earlier

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

_COLUMNS = "at long, k string"


class _Query:
    """A query of which nothing but its starts and its checkpoint matter."""

    def __init__(self, session: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._session, self._folder, self._capsys = session, folder, capsys
        (folder / "in").mkdir()
        self.checkpoint = folder / "checkpoint"

    def start(self, **options: Any) -> None:
        """Start it, and stop it at once."""
        frame = self._session.readStream.schema(_COLUMNS).parquet(str(self._folder / "in"))
        rows = sw.stream(frame, time="at").tumbling(5).sort(patience=10, late=sw.Late.drop())
        per = rows.group_by("k") if options.pop("keyed", True) else rows
        places = {"checkpoint": str(self.checkpoint), "main": str(self._folder / "out")}
        per.aggregate(n=sw.count()).start(**{**places, **options}).stop(within=None)

    def rescale(self, *arguments: str, code: int = 0) -> str:
        """Give the command, and return what it says."""
        assert main(["rescale", str(self.checkpoint), *arguments]) == code
        answer = self._capsys.readouterr()
        assert not (answer.err if code == 0 else answer.out)
        assert "Traceback" not in answer.err
        return answer.out if code == 0 else answer.err

    def record(self) -> dict[str, Any]:
        """What the checkpoint says of it."""
        found: dict[str, Any] = json.loads((self.checkpoint / "_slackwater/query.json").read_text())
        return found

    @property
    def shards(self) -> int:
        """How many it has by that."""
        return int(self.record()["plan"]["shards"][0])


@pytest.fixture
def query(session: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> _Query:
    """A query that nobody has started yet."""
    return _Query(session, tmp_path, capsys)


def test_the_next_start_does_what_was_wished_for_and_those_behind_it_keep_it(query: _Query) -> None:
    """Also where it would have as many as there are cores; a wish that was taken back is none."""
    query.start(shards=2)
    answer = query.rescale("--shards", "5")
    assert answer.startswith("2 shards become 5 when the query is started again\n")
    assert "was given shards=2: leave that out, or the next start is refused" in answer
    assert query.shards == 2
    with pytest.raises(PlanError, match=r"(?s)somebody wished for another number.*shards=2.*were +5.*--shards 2"):
        query.start(shards=2)
    query.start(rescale=True)
    assert query.shards == 5
    assert "its program" not in query.rescale("--shards", "3")
    assert query.rescale("--shards", "5").startswith("the query stays in 5 shards\n")
    query.start()
    assert query.shards == 5
    query.rescale("--shards=1")
    query.start(shards=1)
    assert query.shards == 1
    assert query.rescale("--shards=4").startswith("1 shard becomes 4 ")
    query.start()
    query.start()
    assert query.shards == 4


def test_a_wish_that_comes_while_a_query_is_started_is_for_the_start_behind_it(
    query: _Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start forgets the wish that it has found, and no other."""
    query.start(shards=2)

    def meanwhile(*arguments: Any) -> None:
        query.rescale("--shards=3")
        remove_earlier(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(runner, "remove_earlier", meanwhile)
        query.start()
    assert query.shards == 2
    query.start()
    assert query.shards == 3


def test_what_the_next_start_would_refuse_is_refused_now(query: _Query) -> None:
    """With the reason; nothing is written."""
    assert query.rescale("--shards=2", code=2).startswith("slackwater: no query has this checkpoint\n")
    assert "shards is a whole number above zero" in query.rescale("--shards=0", code=2)
    assert "--shards" in query.rescale(code=2)
    query.start(shards=2, timeout="1s", trigger={"processingTime": "1 second"})
    answer = query.rescale("--shards=3", code=2)
    assert answer.startswith("slackwater: this query cannot be taken to another number of shards\n")
    assert "timers cannot be taken to another number of shards yet: timeout 1s" in answer
    assert not (query.checkpoint / "_slackwater/wish.json").exists()


def test_a_query_of_one_shard_and_one_that_has_ended_have_nothing_to_part(query: _Query) -> None:
    """A plan without keys has one place for all rows."""
    query.start(shards=1, keyed=False, at_end="flush", trigger={"availableNow": True})
    assert "one shard does all the work: " in query.rescale("--shards=3", code=2)
    record = query.record()
    (query.checkpoint / "_slackwater/query.json").write_text(json.dumps({**record, "fixed": ""}))
    (query.checkpoint / "flushed").mkdir()
    (query.checkpoint / "flushed/part").touch()
    assert "it has been flushed, and has come to its end" in query.rescale("--shards=3", code=2)


def test_a_wish_that_cannot_be_fulfilled_any_more_is_named_in_the_refusal(query: _Query) -> None:
    """The program has changed since: it says how to take the wish back, which helps."""
    query.start(shards=2)
    query.rescale("--shards=3")
    options: dict[str, Any] = {"timeout": "1s", "trigger": {"processingTime": "1 second"}}
    with pytest.raises(PlanError, match=r"(?s)timers cannot be taken.*; 3 were wished for.*--shards 2$"):
        query.start(**options)
    wish = query.checkpoint / "_slackwater/wish.json"
    wish.write_text(json.dumps({**json.loads(wish.read_text()), "query": "one that had the folder before"}))
    query.start()
    assert query.shards == 2
    assert not wish.exists()
