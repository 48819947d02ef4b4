"""Systems of sources that are known by name: those of the paper's sections 3.1 and 4, and closed ones.

Paper: Srivastava, Widom. Flexible Time Management in Data Stream Systems. PODS 2004, sections 3.1, 4.1 and 4.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.testing.oracles.heartbeats.system import Skew, System

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slackwater.testing.oracles.heartbeats.system import Source, Tick, Time


def uniform(sources: int, *skews: Skew, latency: Tick = 0) -> System:
    """The same bounds of each on each; a patience p is Skew(0, p + 1).

    >>> uniform(2, Skew(0, 6)).entry(1, 0)
    (Skew(0, 6),)
    """
    return System((latency,) * sources, {(i, j): skews for i in range(sources) for j in range(sources)})


def repeating(further: int, latency: Tick = 0) -> System:
    """One source in order, in which a time may come again `further` times, and no more (section 3.1).

    The paper counts them in two ways; here they come after the first.

    >>> repeating(2).entry(0, 0)
    (Skew.rows(0, 1), Skew.rows(2, 0))
    """
    return System((latency,), {(0, 0): (Skew.rows(0, 1), Skew.rows(further, 0))})


def global_counter(processing: Sequence[tuple[Tick, Tick]], latency: Sequence[Tick], *, by_rows: bool = True) -> System:
    """Sources that number rows by one counter, and have each number for a least and a greatest time (section 4.1).

    >>> system = global_counter([(1, 3), (2, 5)], latency=[0, 0])
    >>> system.entry(0, 0), system.entry(0, 1), system.entry(1, 0)
    ((Skew(0, 0),), (Skew(4, 0), Skew.rows(1, 0)), (Skew(1, 0), Skew.rows(1, 0)))
    """
    further = (Skew.rows(1, 0),) if by_rows else ()

    def entry(i: Source, j: Source) -> tuple[Skew, ...]:
        if i == j:
            return (Skew(0, 0),)
        return (Skew(max(processing[j][1] - processing[i][0], 0), 0), *further)

    sources = range(len(processing))
    return System(tuple(latency), {(i, j): entry(i, j) for i in sources for j in sources})


def global_counter_at_once(processing: Sequence[tuple[Tick, Tick]], latency: Sequence[Tick]) -> System:
    """The same without waits: while a source is busy with one number, the others get on by so many (section 4.1).

    The paper has it to show how weak bounds are that cannot wait.

    >>> global_counter_at_once([(1, 3), (2, 5), (4, 4)], latency=[0, 0, 0]).entry(0, 1)
    (Skew(0, 7),)
    """
    sources = range(len(processing))
    ahead = {j: sum(-(-processing[j][1] // processing[k][0]) for k in sources if k != j) for j in sources}
    bounds = {(i, j): (Skew(0, 0 if i == j else ahead[j]),) for i in sources for j in sources}
    return System(tuple(latency), bounds)


def sensors(
    deviation: Sequence[Time],
    latency: Sequence[Tick],
    rates: Sequence[int] | None = None,
    *,
    as_printed: bool = False,
) -> System:
    """Sensors with clocks that deviate by so much, and that advance by so much a tick at least (section 4.2).

    As printed, two readings of one clock are never equal; they may well be, so each difference is one more here.

    >>> sensors([2, 3], latency=[0, 0]).entry(0, 1)
    (Skew(0, 6),)
    >>> sensors([2, 3], [0, 0], rates=[1, 2], as_printed=True).entry(0, 1)
    (Skew(0, 5), Skew(3, 0))
    """
    equal = 0 if as_printed else 1

    def entry(i: Source, j: Source) -> tuple[Skew, ...]:
        behind = deviation[i] if i == j else deviation[i] + deviation[j]
        caught_up = () if rates is None else (Skew(-(-behind // rates[j]), 0),)
        return (Skew(0, behind + equal), *caught_up)

    sources = range(len(deviation))
    return System(tuple(latency), {(i, j): entry(i, j) for i in sources for j in sources})


def closed(system: System) -> System:
    """A time-based system with all compositions of its bounds added, so that it is closed under composition.

    That is another system: what is added does not follow from what was there, unless the source between sends a row.

    >>> closed(System((0, 0, 0), {(0, 1): (Skew(1, 2),), (1, 2): (Skew(3, 0),)})).entry(0, 2)
    (Skew(4, 2),)
    """
    bounds = {entry: set(skews) for entry, skews in system.bounds.items()}
    while missing := _missing_compositions(bounds):
        for entry, skew in missing:
            bounds.setdefault(entry, set()).add(skew)
    return System(system.latency, {entry: tuple(sorted(skews)) for entry, skews in bounds.items() if skews})


def _missing_compositions(
    bounds: dict[tuple[Source, Source], set[Skew]],
) -> list[tuple[tuple[Source, Source], Skew]]:
    return [
        ((i, k), composed)
        for (i, j), firsts in bounds.items()
        for (other, k), seconds in bounds.items()
        if other == j
        for first in firsts
        for second in seconds
        if not is_covered(composed := compose(first, second), bounds.get((i, k), set()))
    ]


def compose(first: Skew, second: Skew) -> Skew:
    """What follows of rows of k from rows of i, if there is a row of j between them that keeps to both bounds.

    >>> compose(Skew(1, 2), Skew(3, 0))
    Skew(4, 2)
    """
    if first.ticks is None or second.ticks is None:
        raise ValueError(f"only bounds by ticks have a sum: {first}, {second}")
    return Skew(first.ticks + second.ticks, first.delta + second.delta)


def is_covered(skew: Skew, by: Sequence[Skew] | set[Skew]) -> bool:
    """Whether one of some bounds by ticks is as strong as this one: no longer a wait, and no greater a difference.

    >>> is_covered(Skew(3, 2), [Skew(3, 1)]), is_covered(Skew(3, 2), [Skew(4, 1)])
    (True, False)
    """
    assert skew.ticks is not None, skew
    return any(one.ticks is not None and one.ticks <= skew.ticks and one.delta <= skew.delta for one in by)
