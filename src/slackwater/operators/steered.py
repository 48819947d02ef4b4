"""What somebody who watches a query may ask of the steps that decide how far a stream is complete.

Such a step goes by rows, bounds and patience. From outside it can be asked to go further than these say, and which of
its sources it waits for. What was punctuated stays punctuated, whatever is asked later.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slackwater.operators.emission import Emission
    from slackwater.progress.instants import Instant


class Steered(ABC):
    """A step that punctuates, and can be asked to go further."""

    __slots__ = ()

    @abstractmethod
    def reached(self) -> Instant:
        """Up to where it has punctuated its last output; BEGINNING while it has not."""

    @abstractmethod
    def punctuate(self, bound: Instant) -> Emission:
        """Punctuate at a bound, where that is further than the last punctuation; later rows behind it are late."""


class WaitsForSources(Steered):
    """A step that knows the sources of its rows, and goes as far as those that are waited for."""

    __slots__ = ()

    @abstractmethod
    def knows(self, source: str) -> bool:
        """Whether it has a source of that name: one that bounds name, or of which a row has come."""

    @abstractmethod
    def lags(self, source: str) -> bool:
        """Whether a source that it knows is complete less far than all that are waited for."""

    @abstractmethod
    def leave_out(self, source: str) -> Emission:
        """Wait for a source no longer, whatever it sends; send what that lets go."""

    @abstractmethod
    def wait_for_again(self, source: str) -> None:
        """Wait for a source as if it had never been left out."""

    @abstractmethod
    def go_on_without(self) -> Emission:
        """Where nobody is left to be waited for: send all that is not newer than the newest row."""
