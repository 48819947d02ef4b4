"""Steps that treat each row by itself, done inside another operator; columns of its own go along with the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from slackwater.operators.where import WhereOperator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slackwater.events.batch import EventBatch, Times
    from slackwater.operators.operator import Operator


def through_steps(
    steps: Sequence[Operator[Any]], rows: EventBatch, columns: Sequence[Times] = ()
) -> tuple[EventBatch, list[Times]]:
    """Let rows without punctuations pass some steps; return what is left of them, and of the columns beside them.

    Only a where leaves rows out, and only a window gives a row several places: that must be the last to need columns.
    """
    kept = list(columns)
    for step in steps:
        if not rows.rows:
            break
        if isinstance(step, WhereOperator):
            mask = step.kept(rows)
            rows = rows.keep_rows(mask)
            kept = kept if mask.all() else [column[np.flatnonzero(mask)] for column in kept]
        else:
            batches = step.on_batch(0, rows).batches
            if not batches:  # all of them lie in gaps between windows
                return rows.slice(0, 0), [column[:0] for column in kept]
            (rows,) = batches
    assert all(len(column) == rows.rows for column in kept), (len(kept), rows.rows)
    return rows, kept
