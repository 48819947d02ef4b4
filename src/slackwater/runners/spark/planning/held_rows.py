"""What steps hold while rows wait: how much memory a row takes, and which steps need no more than there is for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from slackwater.operators.operator import Operator
from slackwater.operators.sort import PLACE_BYTES, SortOperator
from slackwater.runners.spark.state.memory import shown_memory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from slackwater.runners.spark.planning.shard_plan import ShardPlan


def held_rows(plan: ShardPlan, memory: int | None) -> str:
    """Say what a row takes that waits, and what becomes of rows beyond so much memory; nothing where none wait.

    There is no such bound where rows end, for then nothing is stored.
    """
    return "; ".join(_held_rows(plan, memory))


def _held_rows(plan: ShardPlan, memory: int | None) -> Iterator[str]:
    operators = {name: node.build_driven(name) for node, name in plan.steps.items()}
    sorts = {name: operator for name, operator in operators.items() if isinstance(operator, SortOperator)}
    if sorts:
        rows = ", ".join(f"{name} {bytes_of_row(operator.held_columns)}" for name, operator in sorts.items())
        yield f"of each row that waits {rows}"
        yield (
            "all of them wait in memory, for nothing is stored of a frame that ends"
            if memory is None
            else f"beyond {shown_memory(memory)} in a shard (memory=) they are spilled to the state store"
        )
    others = [name for name, operator in operators.items() if name not in sorts and _holds(operator)]
    if others:
        yield f"what {', '.join(others)} hold{'s' if len(others) == 1 else ''} stays in memory"


def bytes_of_row(columns: pa.Schema) -> str:
    """The memory that a row takes in a sort; columns whose values are not equally long are named.

    >>> bytes_of_row(pa.schema({"device": pa.int32(), "value": pa.float64()}))
    '28 bytes'
    >>> bytes_of_row(pa.schema({"device": pa.string(), "value": pa.float64()}))
    '24 bytes and device'
    """
    fixed = [column for column in columns if _width(column.type) is not None]
    bits = sum(_width(column.type) or 0 for column in fixed)
    others = [column.name for column in columns if column not in fixed]
    return " and ".join([f"{PLACE_BYTES + -(-bits // 8)} bytes", *([", ".join(others)] if others else [])])


def _width(kind: pa.DataType) -> int | None:
    """The bits of a value; of words in a dictionary those of their places. None where values are of any length."""
    kind = kind.index_type if pa.types.is_dictionary(kind) else kind
    try:
        return int(kind.bit_width)
    except ValueError:
        return None


def _holds(operator: Operator[Any]) -> bool:
    """Whether an operator is one that lets rows or groups wait."""
    kind = type(operator)
    return kind.buffered is not Operator.buffered or kind.held_back is not Operator.held_back
