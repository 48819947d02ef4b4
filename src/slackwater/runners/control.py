"""What can be asked of a query while it runs, with the same words in process and on Spark: `query.control`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slackwater.events.written_times import Moment
    from slackwater.runners.control_records import Controllable, ControlRecord, Length
    from slackwater.runners.steering import SteeringState


@dataclass(frozen=True)
class AskedRecord:
    """One thing that was asked, and what has become of it.

    >>> print(AskedRecord(3, "pause source=orders", applied=True, micro_batch=7))
    3  pause source=orders  applied in micro-batch 7
    >>> print(AskedRecord(4, "pause source=clicks"))
    4  pause source=clicks  not read yet
    """

    number: int
    asked: str
    applied: bool | None = None
    """Whether it was applied, or left alone; None while it has not been read, or where nobody remembers."""

    micro_batch: int | None = None
    """On Spark, at the end of which micro-batch that was, as far as Spark remembers."""

    cause: str = ""
    """Why it was left alone."""

    def __str__(self) -> str:
        when = "" if self.micro_batch is None else f" in micro-batch {self.micro_batch}"
        stands = "not read yet" if self.applied is None else f"applied{when}" if self.applied else "left alone"
        return f"{self.number}  {self.asked}  {stands}{f': {self.cause}' if self.cause else ''}"


class Control(ABC):
    r"""What can be asked of a running query. Every call is a record, and returns its number.

    Records are applied between two instants: on Spark at the end of the next micro-batch, behind its rows, in process
    at once. Nothing that was punctuated is taken back by any of them.

    >>> import pyarrow as pa, slackwater as sw
    >>> orders, refunds = (sw.PushSource({"at": pa.int64()}, name=name) for name in ("orders", "refunds"))
    >>> both = sw.union(*(sw.stream(one, time="at").sort(patience=2) for one in (orders, refunds)))
    >>> query = both.open(lambda rows: print(rows["at"].to_pylist()), on_late=print)
    >>> orders.push([{"at": 1}, {"at": 4}, {"at": 9}])
    >>> query.work()  # refunds has not sent anything, and everything waits for it
    >>> query.control.pause("refunds")
    [1, 4]
    1
    >>> query.control.flush()
    [9]
    2
    >>> query.control.patience(5, step="punctuate#1"), query.control.resume("refunds"), query.control.retire("refunds")
    (3, 4, 5)
    >>> print(*query.control.records()[:3], sep="\n")
    1  pause source=refunds  applied
    2  flush  applied
    3  patience step=punctuate#1 patience=5  applied
    """

    def pause(self, source: str) -> int:
        """Wait for a source no longer, until it is resumed: it is assumed to send nothing meanwhile.

        `source` is a stream, by its name, or one of the sources of a stream that has bounds, as the column of origins
        has it. Rows that come from it all the same are late, or in time, as any others. `why()` names the assumption.
        """
        return self._ask(self._controllable().about_source("pause", source))

    def resume(self, source: str) -> int:
        """Wait for a source again that was paused or retired. How far it had been waited for is not taken back."""
        return self._ask(self._controllable().about_source("resume", source))

    def retire(self, source: str) -> int:
        """Wait for a source no longer, for good: it has ended. Only resume() takes it back; that it sends does not."""
        return self._ask(self._controllable().about_source("retire", source))

    def patience(self, patience: Length, *, step: str | None = None) -> int:
        """Wait so long for late rows from now on; `step` says who, where several steps have a patience.

        A smaller one lets out what waits longer, and rows behind that are late. A greater one takes nothing back: until
        the newest row is so far ahead nothing more is complete.
        """
        return self._ask(self._controllable().about_patience(patience, step))

    def flush(self) -> int:
        """Let out all that is held now, as if time had gone on; rows that come behind it are late."""
        return self._ask(self._controllable().about_flush())

    def attach(self, replica: str, *, complete_from: Moment) -> int:
        """Listen to a replica of a merge, which has every event that lasts until `complete_from`, or longer.

        `replica` is a stream that was given to merge_replicas(), by its name, which was made for replicas that come and
        go: attachable=True, or standby=[...]. Until the merged stream is complete up to `complete_from` the replica's
        events count, and its punctuations do not.

        >>> import pyarrow as pa, slackwater as sw
        >>> sources = [sw.PushSource({"at": pa.int64()}, name=name) for name in ("blue", "green")]
        >>> copies = [sw.stream(one, time="at").assume_ordered() for one in sources]
        >>> query = sw.merge_replicas(*copies, attachable=True).open(lambda rows: print(rows["at"].to_pylist()))
        >>> query.control.detach("blue"), query.control.attach("blue", complete_from=5)
        (1, 2)
        """
        return self._ask(self._controllable().about_attaching(replica, complete_from))

    def detach(self, replica: str) -> int:
        """Listen to a replica of a merge no longer: what it sends is read, and dropped, until it is attached again.

        >>> import pyarrow as pa, slackwater as sw
        >>> sources = [sw.PushSource({"at": pa.int64()}, name=name) for name in ("blue", "green")]
        >>> copies = [sw.stream(one, time="at").assume_ordered() for one in sources]
        >>> query = sw.merge_replicas(*copies, attachable=True).open(lambda rows: print(rows["at"].to_pylist()))
        >>> query.control.detach("green")
        1
        """
        return self._ask(self._controllable().about_detaching(replica))

    @abstractmethod
    def records(self) -> list[AskedRecord]:
        """What has been asked so far, and what has become of it."""

    @abstractmethod
    def _controllable(self) -> Controllable:
        """What the plan lets users ask."""

    @abstractmethod
    def _ask(self, record: ControlRecord) -> int:
        """Give a record its number, and see that it is applied."""


def standing_of(number: int, asked: str, state: SteeringState | None, micro_batch: int | None = None) -> AskedRecord:
    """What has become of a record, by what the query remembers; without a state nobody knows yet.

    >>> from slackwater.runners.steering import SteeringState
    >>> print(standing_of(2, "pause source=b", SteeringState().after(1).after(2, "no such source")))
    2  pause source=b  left alone: no such source
    """
    if state is None or not state.has_read(number):
        return AskedRecord(number, asked)
    cause = dict(state.outcomes).get(number, "")
    return AskedRecord(number, asked, applied=not cause, micro_batch=micro_batch, cause=cause)
