"""Algorithm R3 in plain Python as somebody would write it who wants it fast: the rival that needs no library.

Nodes lie in dictionaries by start, then by payload; the starts are kept in a sorted list, as the paper keeps them in a
tree, so that a punctuation looks at nothing that it does not concern. A node is one list: the end that each replica
tells, and the end that was sent. Nothing is sorted but starts. The oracle in slackwater.testing says what is right.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Any

from slackwater.events.elements import Adjust, Insert
from slackwater.progress.instants import BEGINNING

if TYPE_CHECKING:
    from slackwater.events.elements import Element


class PythonMerge:
    """R3 on dictionaries and lists, fed one element at a time."""

    __slots__ = ("_inputs", "_max_stable", "_nodes", "_starts")

    def __init__(self, inputs: int) -> None:
        self._inputs = inputs
        self._max_stable = BEGINNING
        self._nodes: dict[int, dict[Any, list[int | None]]] = {}
        self._starts: list[int] = []

    def take(self, stream: int, element: Element) -> list[Element]:
        """Take an element of an input; return what goes out."""
        kind = type(element)
        if kind is Insert:
            return self._insert(stream, element)  # type: ignore[arg-type]
        if kind is Adjust:
            node = self._nodes.get(element.start, {}).get(element.payload)  # type: ignore[union-attr]
            if node is not None:
                node[stream] = element.end  # type: ignore[union-attr]
            return []
        instant = element.complete_before  # type: ignore[union-attr]
        if instant <= self._max_stable:
            return []
        out = self._stable(stream, instant)
        self._max_stable = instant
        out.append(element)
        return out

    def _insert(self, stream: int, event: Insert) -> list[Element]:
        out: list[Element] = []
        payloads = self._nodes.get(event.start)
        node = None if payloads is None else payloads.get(event.payload)
        if node is None:
            if event.start < self._max_stable:
                return out
            node = [None] * (self._inputs + 1)
            node[-1] = event.end
            if payloads is None:
                self._nodes[event.start] = {event.payload: node}
                insort(self._starts, event.start)
            else:
                payloads[event.payload] = node
            out.append(event)
        node[stream] = event.end
        return out

    def _stable(self, stream: int, instant: int) -> list[Element]:
        out: list[Element] = []
        concerned = self._starts[: bisect_left(self._starts, instant)]
        emptied = False
        for start in concerned:
            payloads = self._nodes[start]
            frozen = []
            for payload, node in payloads.items():
                in_end, out_end = node[stream], node[-1]
                assert out_end is not None
                if in_end is None:
                    in_end = start
                if in_end != out_end and (in_end < instant or out_end < instant):
                    out.append(Adjust(payload, start, out_end, in_end))
                    node[-1] = in_end
                if in_end < instant:
                    frozen.append(payload)
            for payload in frozen:
                del payloads[payload]
            if not payloads:
                del self._nodes[start]
                emptied = True
        if emptied:
            self._starts[: len(concerned)] = [start for start in concerned if start in self._nodes]
        return out
