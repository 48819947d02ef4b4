"""Tables as sinks: whose they are, in the words that Delta and PostgreSQL share.

A folder belongs to one query. A table may have several writers, and each micro-batch of each is known by its query, so
that nobody can take another's for its own. What is not harmless is a query that begins again with a new checkpoint: it
would write all that it reads a second time. So a table remembers, for each name under which somebody writes there,
which query that is. Another one of that name is refused; it takes a name of its own, or goes on in the place of the
other one (`adopt`), which stops.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from slackwater.errors import PlanError, Superseded, message

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import types as st

    from slackwater.runners.spark.checkpoint.ownership import Run

_WRITER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def require_writer(writer: str | None) -> None:
    """Refuse a name of a writer that a table could not keep."""
    if writer is not None and not _WRITER.fullmatch(writer):
        hint = "leave writer= out, or use letters, digits, _ and -"
        raise PlanError(message("this cannot be the name of a writer", {"writer": repr(writer)}, hint))


def as_names(given: str | Iterable[str]) -> tuple[str, ...]:
    """Names of columns, of which one alone may be written as it is."""
    return (given,) if isinstance(given, str) else tuple(given)


def require_columns(option: str, names: Iterable[str], columns: st.StructType) -> None:
    """Refuse columns that the rows of a sink do not have, or that are named twice."""
    seen: set[str] = set()
    for name in names:
        if name not in columns.names or name in seen:
            facts = {option: name, "there are": ", ".join(columns.names)}
            raise PlanError(message(f"{option}= of a sink names columns of its rows, each once", facts))
        seen.add(name)


def refuse_types(what: str, columns: st.StructType, known: Mapping[str, object | None], hint: str) -> None:
    """Refuse columns of types that a table cannot hold."""
    unknown = [field for field in columns if known[field.name] is None]
    if unknown:
        facts = {field.name: field.dataType.simpleString() for field in unknown}
        raise PlanError(message(f"{what} has no type for a column", facts, hint))


def require_owner(sink: str, table: str, run: Run, owner: str | None, *, adopt: str | None, writer: str | None) -> bool:
    """Refuse a table that another query has under the same name; say whether it is to change hands."""
    if owner is None and adopt is not None:
        facts, hint = {"table": table, "adopt": adopt}, "leave adopt= out, or name the right table and writer"
        raise PlanError(message("there is nothing to adopt: no query has had the table of a sink", facts, hint))
    if owner not in {None, run.query, adopt}:
        facts = {"table": table, "owner": str(owner), **({} if writer is None else {"writer": writer})}
        hint = (
            "go on with the checkpoint of that query, or write to another table, or beside it as a writer of its own: "
            f"{sink}(..., writer='a name'), or in its place: {sink}(..., adopt={owner!r})"
        )
        raise PlanError(message("the table of a sink belongs to another query", facts, hint))
    return owner != run.query


def require_not_further(table: str, last: int | None, begun: int) -> None:
    """Refuse a checkpoint that is older than the table: its next micro-batches are others of the same numbers."""
    if last is not None and last > begun:
        facts = {"table": table, "has": f"micro-batch {last}", "checkpoint ends with": f"micro-batch {begun}"}
        hint = "restore both from copies of one time, or start anew with another checkpoint and another table"
        raise PlanError(message("the table of a sink is further than the checkpoint", facts, hint))


def taken_over(table: str, owner: str | None, run: Run) -> Superseded:
    """What stops a query whose table has gone to another one, or to a newer start."""
    facts = {"table": table, "owner": str(owner), "this query": run.query}
    hint = "leave it to the newer one, or write to another table; nothing is lost"
    return Superseded(message("the table of a sink was taken over", facts, hint))
