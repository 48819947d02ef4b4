"""What is known of a stream before it runs: the facts on every edge of a plan.

Each fact is declared by the user, enforced by an operator, or follows from the steps before; operators are chosen
and pipelines refused by these facts alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum


class Order(Enum):
    """How the times of consecutive events compare."""

    NONE = "disordered"
    TIES = "ordered"
    STRICT = "strictly ordered"


class Stamps(Enum):
    """Who gives the events their times (Bai et al., ICDE 2007, section 5)."""

    EXTERNAL = "external"
    """The application that made them: a column of the source."""

    INTERNAL = "internal"
    """The clock, when they enter."""

    LATENT = "latent"
    """Nobody, until an operator needs times."""

    PROCESSED = "processed"
    """The step that first needed times: latent events are stamped when it processes them."""


class Extent(Enum):
    """How long the events last."""

    POINTS = "points"
    """One unit of time: [start, start + 1)."""

    WINDOWS = "windows"
    """Whole windows: events of one window share start and end."""

    INTERVALS = "intervals"
    """Any [start, end)."""


@dataclass(frozen=True)
class Properties:
    """The facts known of one stream."""

    order: Order = Order.NONE
    stamps: Stamps = Stamps.EXTERNAL
    extent: Extent = Extent.POINTS
    punctuated: bool = False
    insert_only: bool = True
    keyed: bool = False
    """Whether (start, payload) is a key of the temporal table."""

    untimed: bool = False
    """Whether rows may have no time: until a step with a patience has sent such rows where late ones go."""

    origin: str | None = None
    """The column that names the source of each row, where rows come as far as their own source is complete: those of
    one source in order, and punctuations up to where all sources are complete."""

    @property
    def ordered(self) -> bool:
        """Whether events come in order of time, with or without ties."""
        return self.order is not Order.NONE

    @property
    def progressive(self) -> bool:
        """Whether the stream says by itself when a time is complete: by its order or by punctuations."""
        return self.ordered or self.punctuated

    @property
    def latent(self) -> bool:
        """Whether nobody has given the events times yet."""
        return self.stamps is Stamps.LATENT

    def replace(self, **changes: object) -> Properties:
        """Return the same facts with some changed."""
        return replace(self, **changes)  # type: ignore[arg-type]

    def __str__(self) -> str:
        facts = [self.order.value if not self.latent else "latent", self.extent.value]
        facts += ["punctuated"] * (self.punctuated and not self.ordered)
        facts += ["keyed"] * self.keyed
        facts += ["revised"] * (not self.insert_only)
        facts += ["some without a time"] * self.untimed
        facts += [] if self.origin is None else [f"by origin {self.origin}"]
        return ", ".join(facts)
