"""What becomes of rows that a merge of replicas leaves out."""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.errors import PlanError, message


@dataclass(frozen=True, slots=True)
class LeftOutRows:
    """What the user chose for rows of replicas that are in no output: contradicted, or passed over.

    >>> str(LeftOutRows.divert())
    'diverted'
    """

    diverted: bool

    @classmethod
    def divert(cls) -> LeftOutRows:
        """Send them to an output of their own, with the replica they are from and the reason.

        That output has the columns of the replicas, then `replica`, the number of the replica as it was given to
        merge_replicas() (where a column names the replicas, that column instead), and `left_out`:

        "contradicted"          the replica that led lacked the event, or who had it was detached
        "passed over"           the row came when the output had passed its time; it may have been emitted before, for
                                the merge does not remember what is over
        "revision passed over"  the same of a row that revises an event; its end is the one it would have given it

        Choose it to find out what only one replica has. Rows of a replica that lags are no longer left out before they
        are computed, so that it costs more work; it costs no memory.

        >>> import slackwater as sw
        >>> def replica(*times):
        ...     return sw.stream([{"at": at} for at in times], time="at").assume_ordered(strictly=True)
        >>> merged = sw.merge_replicas(replica(1, 3), replica(1, 3), left_out=sw.LeftOutRows.divert())
        >>> merged.run().left_out.schema.names
        ['at', 'replica', 'left_out']
        """
        return cls(diverted=True)

    @classmethod
    def drop(cls) -> LeftOutRows:
        """Leave them out; they are only counted. Right for replicas that are true copies.

        >>> import slackwater as sw
        >>> def replica(*times):
        ...     return sw.stream([{"at": at} for at in times], time="at").assume_ordered(strictly=True)
        >>> sw.merge_replicas(replica(1, 3), replica(1, 3), left_out=sw.LeftOutRows.drop()).run().left_out
        {}
        """
        return cls(diverted=False)

    def __str__(self) -> str:
        return "diverted" if self.diverted else "dropped"


def require_policy(chosen: object) -> None:
    """Refuse what is no choice for rows that are left out."""
    if not isinstance(chosen, LeftOutRows):
        hint = "choose LeftOutRows.divert() or LeftOutRows.drop()"
        raise PlanError(message("left_out= takes a LeftOutRows policy", {"got": repr(chosen)}, hint))
