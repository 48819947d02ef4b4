"""Merges ordered replicas that send the rows of one time in any order: case R2 of LMerge.

Start and payload are a key, so of the greatest time emitted it is enough to remember the payloads.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from slackwater.columns.row_codec import RowCodec
from slackwater.errors import BadElement, message
from slackwater.operators.replicas.ordered_replicas import OrderedReplicas
from slackwater.operators.replicas.progress_check import element_at

if TYPE_CHECKING:
    import pyarrow as pa

    from slackwater.events.batch import EventBatch, Mask
    from slackwater.operators.replicas.ordered_replicas import OrderedState
    from slackwater.progress.frontier import Port


_GONE: Final = -1
"""Stands for the replicas that have left."""


class MergeOrderedWithKey(OrderedReplicas):
    """Remembers the payloads at the greatest time, and which replica has sent which.

    Cost: O(1) for each row at the greatest time, however many there are already.
    """

    __slots__ = ("_codec", "_known", "_sent")

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
        self._sent: dict[Port, set[bytes]] = {}
        self._known: set[bytes] = set()  # by any replica; kept beside the others, for to unite those costs all of them
        super().__init__(replicas, no_rows, where, resume, diverts=diverts)

    def _restore(self, ties: object) -> None:
        self._sent = {port: set(payloads) for port, payloads in ties} if isinstance(ties, tuple) else {}
        self._known = set().union(*self._sent.values())

    def _ties(self) -> tuple[tuple[Port, frozenset[bytes]], ...]:
        return tuple((port, frozenset(payloads)) for port, payloads in sorted(self._sent.items()))

    def _new_ties(self, port: Port, tied: EventBatch) -> Mask:
        payloads = self._noted(port, tied)
        new = np.array([payload not in self._known for payload in payloads], dtype=bool)
        self._known.update(payloads)
        return new

    def _start_over(self, port: Port, tied: EventBatch) -> None:
        self._sent = {}
        self._known = set(self._noted(port, tied))

    def _noted(self, port: Port, tied: EventBatch) -> list[bytes]:
        """The payloads of rows, noted as sent by a replica; refuse one that it has sent already."""
        rows = self._codec.encode(tied.payload)
        held, ends = rows.data.tobytes(), rows.offsets.tolist()
        payloads = [held[a:b] for a, b in pairwise(ends)]
        sent = self._sent.setdefault(port, set())
        for at, payload in enumerate(payloads):
            if payload in sent:
                facts = {"replica": port, "element": element_at(tied, at)}
                hint = "declare the replicas without a key"
                doubled = f"{self._where} expects start and payload to be a key, and got an event twice"
                raise BadElement(message(doubled, facts, hint))
            sent.add(payload)
        return payloads

    def _begin_anew(self, port: Port) -> None:
        super()._begin_anew(port)
        # What a replica has sent that left stays known.
        self._sent.setdefault(_GONE, set()).update(self._sent.pop(port, set()))
