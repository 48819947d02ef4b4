"""Merges ordered replicas that send the rows of one time in the same order, and holds them to it: case R1 of LMerge.

Of the greatest time emitted it would be enough to count, as the paper does: the n-th row of one replica is the n-th row
of all. Here these rows are remembered, too, and compared: a replica that sends another row in that place would make the
merge lose one and double the other, so it is refused. A replica that lags behind sends nothing that goes out, and is
not compared.

Cost: as the counting, and the bytes of the rows of one time.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from slackwater.columns.row_codec import RowCodec
from slackwater.errors import BadElement, message
from slackwater.events.shown_values import show_element
from slackwater.operators.replicas.ordered_replicas import OrderedReplicas

if TYPE_CHECKING:
    import pyarrow as pa

    from slackwater.events.batch import EventBatch, Mask
    from slackwater.operators.replicas.ordered_replicas import OrderedState
    from slackwater.progress.frontier import Port


class MergeOrderedSameTies(OrderedReplicas):
    """Remembers the rows of the greatest time, in the order in which all send them, and how many each replica has."""

    __slots__ = ("_codec", "_count", "_rows")

    def __init__(
        self,
        replicas: int,
        no_rows: pa.RecordBatch,
        where: str = "merge_replicas",
        resume: OrderedState | None = None,
        *,
        diverts: bool = False,
    ) -> None:
        self._codec = RowCodec(no_rows.schema, where)
        self._count: dict[Port, int] = {}
        self._rows: list[bytes] = []
        super().__init__(replicas, no_rows, where, resume, diverts=diverts)

    def _restore(self, ties: object) -> None:
        counts, rows = ties if isinstance(ties, tuple) else ((), ())
        self._count, self._rows = dict(counts), list(rows)

    def _ties(self) -> tuple[tuple[tuple[Port, int], ...], tuple[bytes, ...]]:
        return tuple(sorted(self._count.items())), tuple(self._rows)

    def _new_ties(self, port: Port, tied: EventBatch) -> Mask:
        first, rows = self._count.get(port, 0), self._bytes(tied)
        known = self._rows[first : first + len(rows)]
        for at, (sent, row) in enumerate(zip(known, rows, strict=False)):
            if sent != row:
                self._refuse(port, tied, at)
        self._count[port] = first + len(rows)
        self._rows += rows[len(known) :]
        return np.arange(len(rows)) >= len(known)

    def _start_over(self, port: Port, tied: EventBatch) -> None:
        self._count, self._rows = {port: tied.rows}, self._bytes(tied)

    def _begin_anew(self, port: Port) -> None:
        super()._begin_anew(port)
        self._count.pop(port, None)

    def _bytes(self, tied: EventBatch) -> list[bytes]:
        encoded = self._codec.encode(tied.payload)
        held = encoded.data.tobytes()
        return [held[first:stop] for first, stop in pairwise(encoded.offsets.tolist())]

    def _refuse(self, port: Port, tied: EventBatch, at: int) -> None:
        element = show_element(tied, at)
        place = self._count.get(port, 0) + at
        facts = {"replica": port, "element": element, "others sent": f"another row as number {place} of its time"}
        hint = "leave same_tie_order=True out if rows of one time may come in any order"
        broken = f"{self._where} expects ties in the same order in every replica, and got another row"
        raise BadElement(message(broken, facts, hint))

    def check(self) -> None:
        """Assert that no replica has sent more rows of the greatest time than are remembered."""
        assert all(count <= len(self._rows) for count in self._count.values()), (self._count, len(self._rows))
