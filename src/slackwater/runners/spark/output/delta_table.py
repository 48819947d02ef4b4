"""A Delta table as one run of a query writes to it: what fits it, whose it is, and what it has already."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from slackwater.errors import PlanError, RunError, SlackwaterError, message
from slackwater.runners.spark.output.arrow_types import arrow_type, with_lengths_counted
from slackwater.runners.spark.output.table_owners import (
    as_names,
    refuse_types,
    require_columns,
    require_owner,
    taken_over,
)
from slackwater.runners.spark.storage.places import LOCAL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from slackwater.runners.spark.checkpoint.ownership import Run
    from slackwater.runners.spark.output.delta_sink import DeltaClaim
    from slackwater.runners.spark.storage.places import Place

_OWNER: Final = "slackwater.owner"
"""The property of a table that says which query writes there."""

ATTEMPTS: Final = 5
"""How often a micro-batch is committed anew when somebody else has changed the table meanwhile."""

_PARTITIONS: Final = (pa.types.is_string, pa.types.is_integer, pa.types.is_date, pa.types.is_boolean)
"""Types whose values name a partition in the same words for everybody."""

_RULES: Final = ("delta.constraints.", "delta.columnMapping.mode", "delta.setTransactionRetentionDuration")
"""Properties of tables whose rows must be checked or named otherwise, or that forget the numbers of micro-batches."""

_RULES_OF_COLUMNS: Final = ("delta.invariants", "delta.generationExpression", "delta.identity.start")
_GO_ON: Final = "see to it; started again, the query goes on from its checkpoint"


@dataclass(frozen=True)
class DeltaTarget:
    """A table, as one run writes to it."""

    uri: str
    shown: str
    """Its address in messages."""

    storage_options: Mapping[str, str] = field(repr=False)
    columns: pa.Schema
    partition_by: tuple[str, ...]
    writer: str | None
    adopt: str | None
    run: Run
    app: str
    """By which the table remembers the number of the last micro-batch: Delta's application id."""

    @classmethod
    def of(cls, claim: DeltaClaim, place: Place, run: Run) -> DeltaTarget:
        """Refuse what no Delta table can be."""
        sink, columns = claim.sink, with_lengths_counted(claim.columns)
        kinds = {column.name: arrow_type(column.dataType) for column in columns}
        refuse_types("Delta", columns, kinds, "select() it without them, or bring them into another type")
        partition_by = as_names(sink.partition_by)
        require_columns("partition_by", partition_by, columns)
        if place.scheme == LOCAL and "%" in place.path:
            facts, hint = {"path": place.path}, "write to a folder without % in its path"
            raise PlanError(message("the package deltalake cannot write to this path", facts, hint))
        schema = pa.schema(list(kinds.items()))
        _require_partitions(partition_by, schema)
        return cls(
            place.path if place.scheme == LOCAL else place.address,
            place.address,
            dict(sink.storage_options),
            schema,
            partition_by,
            sink.writer,
            sink.adopt,
            run,
            f"slackwater/{run.query}/{','.join(claim.outputs)}",
        )

    @contextmanager
    def reaching(self) -> Iterator[None]:
        """Say in one sentence which table could not be read or written."""
        try:
            yield
        except SlackwaterError:
            raise
        except Exception as error:
            facts = {
                "table": self.shown,
                "cause": f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}",
            }
            raise RunError(message("a Delta table cannot be written", facts, _GO_ON)) from error

    def open(self) -> Any:
        """The newest version; None if there is no table."""
        delta = deltalake_package()
        try:
            return delta.DeltaTable(self.uri, storage_options=dict(self.storage_options))
        except delta.exceptions.TableNotFoundError:
            return None

    def require(self) -> Any:
        """The newest version of a table that must be there, and be ours."""
        table = self.open()
        if table is None:
            hint = "restore it, or start anew with another checkpoint"
            raise RunError(message("the Delta table of a running query is gone", {"table": self.shown}, hint))
        owner = self.owner_in(table)
        if owner != self.run.query:
            raise taken_over(self.shown, owner, self.run)
        return table

    @property
    def owned_by(self) -> str:
        """The name of the property that says whose it is."""
        return _OWNER if self.writer is None else f"{_OWNER}.{self.writer}"

    def owner_in(self, table: Any) -> str | None:
        """The query whose table it is."""
        return table.metadata().configuration.get(self.owned_by)

    def changes_hands(self, owner: str | None) -> bool:
        """Whether it is to become another query's; refused if that may not be."""
        who = {"adopt": self.adopt, "writer": self.writer}
        return require_owner("slackwater.DeltaSink", self.shown, self.run, owner, **who)

    def last_batch(self, table: Any) -> int | None:
        """The last micro-batch that the table has of this query and these outputs."""
        return table.transaction_version(self.app)

    def create(self) -> None:
        """Make the table, with no rows."""
        delta = deltalake_package()
        schema = delta.Schema.from_arrow(self.columns)
        options, parts = dict(self.storage_options), list(self.partition_by)
        delta.DeltaTable.create(self.uri, schema, partition_by=parts, storage_options=options, mode="ignore")

    def take_over(self) -> None:
        """Write down whose the table is. Refused if it has become another's since it was looked at."""
        delta = deltalake_package()
        for _ in range(ATTEMPTS):
            table = self.open()
            if not self.changes_hands(self.owner_in(table)):
                return
            try:
                table.alter.set_table_properties({self.owned_by: self.run.query}, raise_if_not_exists=False)
            except delta.exceptions.CommitFailedError:
                continue
            return
        raise self.busy()

    def busy(self) -> RunError:
        """What is raised when others change the table all the time."""
        facts, hint = (
            {"table": self.shown, "attempts": ATTEMPTS},
            "started again, the query goes on from its checkpoint",
        )
        return RunError(message("others changed a Delta table whenever a micro-batch was to be committed", facts, hint))

    def fitted(self, table: Any) -> DeltaTarget:
        """Refuse a table of other columns, other partitions, or with rules that nobody here would keep."""
        metadata, fields = table.metadata(), table.schema().fields
        ours = deltalake_package().Schema.from_arrow(self.columns).fields
        wanted, found = ({one.name: _type_of(one) for one in some} for some in (ours, fields))
        if wanted != found or not all(one.nullable for one in fields):
            facts = {"table": self.shown, "its columns": _named(fields), "the rows'": _named(ours)}
            hint = "write to another table, or select() what it has"
            raise PlanError(message("a Delta table that is there has other columns", facts, hint))
        parts = tuple(metadata.partition_columns)
        if self.partition_by not in {(), parts}:
            facts = {
                "table": self.shown,
                "its": ", ".join(parts) or "none",
                "partition_by": ", ".join(self.partition_by),
            }
            hint = "leave partition_by= out, or write to another table"
            raise PlanError(message("a Delta table that is there has other partition columns", facts, hint))
        _require_partitions(parts, self.columns)
        rules = [name for name in metadata.configuration if name.startswith(_RULES)]
        rules += [f"{one.name}: {name}" for one in fields for name in one.metadata if name in _RULES_OF_COLUMNS]
        if rules:
            facts, hint = {"table": self.shown, "rules": ", ".join(rules)}, "write to a table without them"
            raise PlanError(message("a Delta table has rules that this sink cannot keep", facts, hint))
        return replace(self, partition_by=parts)

    def refuse_other_files(self) -> None:
        """Refuse a folder that has something in it and is no Delta table."""
        from deltalake.fs import DeltaStorageHandler
        from pyarrow.fs import FileSelector, PyFileSystem

        try:
            handler = DeltaStorageHandler(self.uri, dict(self.storage_options))
        except deltalake_package().exceptions.TableNotFoundError:
            return  # there is no such folder
        infos = PyFileSystem(handler).get_file_info(FileSelector("", allow_not_found=True))
        seen = sorted(name for name in (info.base_name for info in infos) if not name.startswith(("_", ".")))
        if seen:
            facts = {"folder": self.shown, "has": ", ".join(seen[:3])}
            hint = "write to another folder, or empty this one"
            raise PlanError(message("the folder of a Delta table has something in it and no table", facts, hint))


def _require_partitions(names: Sequence[str], columns: pa.Schema) -> None:
    for name in names:
        kind = columns.field(name).type
        if not any(is_one(kind) for is_one in _PARTITIONS) or len(names) == len(columns):
            facts = {"column": name, "type": kind, "columns": ", ".join(columns.names)}
            hint = "partition by texts, whole numbers, dates or booleans, and leave a column that is none"
            raise PlanError(message("a Delta table cannot be partitioned so", facts, hint))


def _type_of(column: Any) -> str:
    return str(column.type)


def _named(fields: Sequence[Any]) -> str:
    return ", ".join(f"{one.name} {one.type}{'' if one.nullable else ' not null'}" for one in fields)


def deltalake_package() -> Any:
    """The package, loaded when a table is looked at."""
    try:
        import deltalake
        import deltalake.exceptions
    except ImportError as error:
        facts, hint = {"missing": error.name}, "pip install 'slackwater[delta]'"
        raise PlanError(message("a Delta table needs the package deltalake", facts, hint)) from error
    return deltalake
