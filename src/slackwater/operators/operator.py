"""The contract of every operator, and its laws.

An operator is a pure state machine: values in, values out, everything that changes its state in its own file.
It reads no clock, no file, no environment and no random number, so the same calls give the same answers.

Laws (the torture harness in slackwater.testing runs them on every subclass it finds):
    1. The temporal table of the output does not depend on how the input was cut into batches, nor, for several
       ports, on how their batches were interleaved.
    2. snapshot() at any point, and a new operator built from it, changes nothing.
    3. Output punctuations never go back, and no output element contradicts one sent before it.
    4. After on_end on every port nothing is buffered.
    5. Feedback (ignore_before) at any moment, lost or repeated, changes nothing of what reaches past its bound, and no
       punctuation. So does leaving out what is of no interest by of_interest_from.
    6. Where `spills`: to spill at any moment changes nothing.
    7. Where `splits`: operators that each get the rows of some keys, with all punctuations, give together what one
       gives; and so they go on when split() and unite() have taken what they remember to another number of them.

To write one: copy `union.py` (several ports) or `where.py` (one port, no state), give it a plan node, and add a
case to `slackwater.testing.cases`; a test fails until the case is there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from slackwater.operators.emission import NOTHING, Emission
from slackwater.operators.replicas.left_out import NONE_LEFT_OUT, LeftOut
from slackwater.progress.instants import BEGINNING, Instant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slackwater.columns.row_spread import RowSpread
    from slackwater.columns.spillway import Spillway
    from slackwater.events.batch import EventBatch
    from slackwater.operators.why import Why
    from slackwater.progress.frontier import Port

StateT = TypeVar("StateT")
"""What an operator remembers: a frozen value, never changed by the operator that handed it out."""


class Operator(ABC, Generic[StateT]):
    """A pure state machine over event batches."""

    __slots__ = ()

    ticks: ClassVar[bool] = False
    """Whether the runner must pass the processing time (on_tick) before each batch."""

    begins_feedback: ClassVar[bool] = False
    """Whether of_interest_from rises by itself as the operator works; that of all others follows ignore_before."""

    asks_who_is_quiet: ClassVar[bool] = False
    """Whether the runner must say (on_quiet) when the input that it waits for has nothing to give now."""

    state_types: ClassVar[tuple[type[Any], ...]] = ()
    """The classes that a snapshot is made of, beside plain values and columns: those a runner must be able to store."""

    splits: ClassVar[bool] = False
    """Whether what is remembered can be taken to another number of operators: split() and unite() are there."""

    spills: ClassVar[bool] = False
    """Whether it needs little memory: spill() puts elsewhere what waits, send_more() sends what is due part by part."""

    @abstractmethod
    def on_batch(self, port: Port, batch: EventBatch) -> Emission:
        """Take a batch on an input; punctuations are elements of the batch."""

    @abstractmethod
    def on_end(self, port: Port) -> Emission:
        """Note that an input has ended. When all have, release everything that is held."""

    def on_tick(self, now: Instant) -> Emission:  # noqa: ARG002 - most operators know no processing time
        """Learn the processing time. Only operators that stamp by it or wait on it look at it."""
        return NOTHING

    def wakes_at(self) -> Instant | None:
        """When, by the processing time, this operator has something to send though nothing comes; None for never."""
        return None

    def on_wake(self, now: Instant) -> Emission:  # noqa: ARG002 - who is never woken does nothing
        """Send what the processing time alone lets go. It is called when no input has anything, not before wakes_at."""
        return NOTHING

    def on_demand(self) -> Emission:
        """Punctuate as far as the output is complete, if that is news: somebody downstream waits for it."""
        return NOTHING

    def on_quiet(self, port: Port) -> Emission:  # noqa: ARG002 - most operators wait for what is to come
        """Learn that nothing of the input that it waits for waits to be read; it must not wait for it any more."""
        return NOTHING

    def idle_waiting_on(self) -> Port | None:
        """Name the input that this operator waits for while it holds something back; None when it does not wait."""
        return None

    def why(self) -> Why | None:
        """Why the output is complete no further, for a step that decides it; None for one that does not."""
        return None

    def goes_on_at(self) -> Instant | None:
        """When its output will be complete further though no row comes, by the clock of arrivals; None if it will not.

        It is looked for, and not known: asked where somebody wants to read it, and not in every micro-batch.
        """
        return None

    def held_back(self) -> int:
        """How many events wait for an input that has not come as far yet."""
        return 0

    def buffered(self) -> int:
        """How many events (or partial results) are held, for whatever reason."""
        return self.held_back()

    def peak_buffered(self) -> int:
        """The most that was held within a call, since the operator was built; 0 where no more is than between calls.

        It is no part of the state.
        """
        return 0

    def spill(self, spillway: Spillway, memory: int) -> None:
        """Put all rows that wait elsewhere, if they take more memory than so many bytes."""
        raise NotImplementedError

    def spilled(self) -> int:
        """How many of the events that are held are not in memory."""
        return 0

    def send_more(self) -> Emission | None:
        """Send more of what is due, where that is too much for one emission; None if nothing is left of it.

        Who lets an operator spill asks after each call, until there is no more, and before a snapshot.
        """
        return None

    def late(self) -> int:
        """How many rows, since the very beginning, came too late and did not go to a band or the main output."""
        return 0

    def broken_bounds(self) -> int:
        """How many rows, since the very beginning, came though bounds ruled it out."""
        return 0

    def late_by_estimate(self) -> int:
        """How many rows, since the very beginning, came behind the stream because of an estimated bound."""
        return 0

    def duplicates(self) -> int:
        """How many rows, since the very beginning, were left out because another row stands for the same event."""
        return 0

    def of_interest_from(self, port: Port) -> Instant:  # noqa: ARG002 - to most operators everything matters
        """Elements of an input that only concern time before this change nothing any more; it never goes back.

        An element only concerns time before t when it ends at or before t; an adjust, when both its ends do. BEGINNING
        means that all may matter. Whoever returns more must bear an adjust of an event whose insert was of no interest.
        """
        return BEGINNING

    def ignore_before(self, bound: Instant) -> None:
        """Learn that nobody downstream is interested in what only concerns time before the bound.

        It may be used or not. It is no part of the state: a restored operator learns it anew, if at all.
        """

    def ignored_rows(self) -> int:
        """How many rows were left out, since the operator was built, because nobody is interested in them."""
        return 0

    def left_out(self) -> LeftOut:
        """What became of the rows, since the very beginning, that a merge of replicas did not send."""
        return NONE_LEFT_OUT

    @abstractmethod
    def snapshot(self) -> StateT:
        """Return all that the operator remembers, as a value that later calls do not change."""

    def split(self, spreads: Sequence[RowSpread]) -> Sequence[StateT]:
        """What each of several operators would remember that each get the rows of some keys.

        `spreads` say for each input which those are. Rows and groups go where their keys do; how far inputs have come
        all know, and what was counted stays with the first.
        """
        raise NotImplementedError

    def unite(self, states: Sequence[StateT]) -> StateT:
        """What one operator remembers that takes the place of several, each of which had some keys.

        Only a fresh operator is asked. It is as far as the least of them, and has counted what all have.
        """
        raise NotImplementedError

    def check(self) -> None:
        """Assert every invariant of the state; tests call it after each step."""


class StatelessOperator(Operator[None]):
    """An operator whose answers depend on the batch alone."""

    __slots__ = ()
    splits = True

    def on_end(self, port: Port) -> Emission:  # noqa: ARG002 - there is nothing to flush
        """Release nothing: nothing was held."""
        return NOTHING

    def snapshot(self) -> None:
        """Return None: there is nothing to remember."""
        return

    def split(self, spreads: Sequence[RowSpread]) -> list[None]:
        """Nothing for each."""
        return [None] * spreads[0].places

    def unite(self, states: Sequence[None]) -> None:  # noqa: ARG002 - there is nothing in them
        """Nothing of all."""
        return
