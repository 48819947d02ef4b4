"""Hopping windows of which one event has more than can be answered are refused when they are written."""

from __future__ import annotations

import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.errors import BadDuration
from slackwater.policies.windows import MOST_WINDOWS


def _numbered() -> sw.OrderedStream:
    return sw.stream([{"at": 3}, {"at": 5}], time="at").assume_ordered()


@pytest.mark.parametrize(("size", "hop"), [(sw.FOREVER, 1), (sw.FOREVER, 2**43), (MOST_WINDOWS + 1, 1)])
def test_more_windows_than_a_million_for_one_event_are_refused(size: int, hop: int) -> None:
    """At once, not by a machine that runs out of memory; a hop that the hint names is taken."""
    with pytest.raises(BadDuration, match="into too many windows") as no:
        _numbered().hopping(size, hop)
    named = int(str(no.value).split("hop by ")[1].split()[0])
    assert _numbered().hopping(size, named).node.line.startswith("hopping")
    with pytest.raises(BadDuration):
        _numbered().hopping(size, named - 1)


def test_the_message_speaks_in_the_lengths_that_were_written() -> None:
    """Those of the calendar, for times of one."""
    stamped = sw.stream(pa.table({"at": pa.array([0], pa.timestamp("us"))}), time="at").assume_ordered()
    with pytest.raises(BadDuration, match=r"size=4w2d hop=1ms(.|\n)*2,592,000,000(.|\n)*hop by 2s592ms or more"):
        stamped.hopping("30d", "1ms")


def test_windows_of_a_day_every_second_are_answered() -> None:
    """By panes: each event is summed up once, and there are as many answers as windows."""
    rows = pa.table({"at": pa.array([0, 40_000_000_000], pa.timestamp("us"))})
    counted = sw.stream(rows, time="at").assume_ordered().hopping("1d", "1s").aggregate(n=sw.count()).run().table
    assert counted.num_rows == 86_400 + 40_000
    assert sum(counted["n"].to_pylist()) == 2 * 86_400


def test_as_many_windows_as_are_allowed_can_be_given() -> None:
    """Also to a step that gets a copy of the event for each."""
    windows = sw.stream([{"at": 3}], time="at").assume_ordered().hopping(MOST_WINDOWS, 1)
    assert windows.run().table.num_rows == MOST_WINDOWS


def test_gaps_and_long_windows_are_no_concern() -> None:
    """What counts is how many windows one event is in."""
    assert _numbered().hopping(sw.FOREVER, sw.FOREVER).node.line.startswith("hopping")
    assert _numbered().hopping(1, sw.FOREVER).node.line.startswith("hopping")
    assert _numbered().hopping(sw.FOREVER, sw.FOREVER // MOST_WINDOWS + 1).node.line.startswith("hopping")
