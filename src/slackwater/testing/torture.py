"""Drives an operator in every way a runner might, and holds it to the laws of the contract.

The same streams are fed as one batch, one element at a time, in random cuts, with empty batches in between, with ports
interleaved at random, and with a snapshot and a new operator at every boundary; check() is called after each call. An
operator that can spill does so at random moments, as soon as a row waits or when ten do.
Whatever the way, the output must be the same temporal table, the one of a slow oracle; its punctuations must never go
back nor be contradicted; and nothing may be left inside when all inputs have ended. Where rows may be divided by their
keys, several operators do the work of one, and become more and fewer meanwhile.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import pkgutil
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

import slackwater.operators
import slackwater.plan.nodes
from slackwater.columns.row_spread import RowSpread
from slackwater.errors import RunError
from slackwater.events.elements import Insert, Punctuate, elements_of
from slackwater.operators.operator import Operator
from slackwater.progress.instants import BEGINNING, Instant
from slackwater.temporal.table import earliest_concerned
from slackwater.testing.spilling import SpillwayInMemory
from slackwater.testing.tables import assert_same_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from random import Random

    from hypothesis.strategies import SearchStrategy

    from slackwater.events.batch import EventBatch
    from slackwater.events.schema import EventSchema
    from slackwater.operators.emission import Emission, OutputName
    from slackwater.progress.frontier import Port

Streams: TypeAlias = "tuple[EventBatch, ...]"
"""What an operator is fed: one whole stream per port."""

_CHANGES: float = 0.3
"""How often operators become more or fewer before they get an element."""

_SPILLS: float = 0.5
"""How often operators that can spill are asked to, after a call."""

_TEN_ROWS = 400
"""Bytes of about so many rows, with their places."""

TICK: Instant = 7
"""The processing time that operators with ticks get before each batch."""


@dataclass(frozen=True)
class TortureCase:
    """An operator, streams to feed it, and what it should emit."""

    name: str
    operator: type[Operator[Any]]
    build: Callable[[Any], Operator[Any]]
    """Makes the operator, fresh (None) or from a snapshot."""

    streams: SearchStrategy[Streams]
    oracle: Callable[[Streams], Iterable[Insert]]
    """The events of the output, found in the slowest and most obvious way."""

    ordered: bool = True
    """Whether the output must be ordered by start."""

    output: OutputName | None = None
    """The output that is looked at: the main one, or one beside it."""

    divided: tuple[EventSchema, ...] = ()
    """The columns of each input, where rows may be divided by their key "k"."""


class Cut(Enum):
    """How streams are cut into batches."""

    WHOLE = "one batch"
    ELEMENTS = "one element per batch"
    RANDOM = "random cuts"
    WITH_EMPTY = "random cuts with empty batches in between"


def torture(case: TortureCase, streams: Streams, rng: Random) -> None:
    """Run one case under every cut, with and without restores; raise AssertionError at the first broken law."""
    expected = list(case.oracle(streams))
    for cut, restore, spill in itertools.product(
        Cut, (False, True), (False, True) if case.operator.spills else (False,)
    ):
        emitted = drive(
            case, schedule(streams, cut, rng), len(streams), restore=restore, spilling=rng if spill else None
        )
        try:
            assert_lawful(emitted, ordered=case.ordered)
            assert_same_table(emitted, expected)
        except AssertionError as error:
            disturbed = "restored at every boundary" if restore else "undisturbed"
            error.add_note(f"{case.name}: {cut.value}, {disturbed}{', spilled' if spill else ''}")
            raise


def torture_divided(case: TortureCase, streams: Streams, rng: Random) -> None:
    """Let several operators do the work of one, as many as it happens; raise AssertionError at the first broken law."""
    expected = list(case.oracle(streams))
    emitted = _drive_divided(case, schedule(streams, Cut.ELEMENTS, rng), rng)
    for of_one in emitted:
        for stretch in of_one:
            assert_lawful(stretch, ordered=case.ordered)
    rows = [batch.data() for of_one in emitted for stretch in of_one for batch in stretch]  # each has its punctuations
    assert_same_table(rows, expected)


def _drive_divided(
    case: TortureCase, schedule: Iterable[tuple[Port, EventBatch | None]], rng: Random
) -> list[list[list[EventBatch]]]:
    """What operators emit that each get the rows of some keys; for each number of them, for each of them."""
    emitted: list[list[list[EventBatch]]] = []
    operators = [case.build(None)]
    spreads = _spreads(case, 1)
    ended: list[Port] = []
    for port, element in schedule:
        if not ended and rng.random() < _CHANGES:
            operators, spreads = _divided_anew(case, operators, rng.choice([1, 2, 3]))
            emitted.append([[] for _ in operators])
        if not emitted:
            emitted.append([[]])
        everybody = element is None or not element.rows
        mine = range(len(operators)) if everybody else [int(spreads[port].of(element)[0])]  # type: ignore[arg-type]
        for number in mine:
            operator = operators[number]
            emission = operator.on_end(port) if element is None else operator.on_batch(port, element)
            emitted[-1][number] += _all_batches(operator, emission, case.output)
            if operator.spills and rng.random() < _SPILLS:
                operator.spill(SpillwayInMemory(), 0)
            operator.check()
        ended += [port] if element is None else []
    assert sum(operator.buffered() for operator in operators) == 0, "something is left inside"
    return emitted


def _divided_anew(
    case: TortureCase, operators: list[Operator[Any]], number: int
) -> tuple[list[Operator[Any]], list[RowSpread]]:
    """As many operators as are wanted, of those there are; the same ones, if they have not come equally far."""
    spreads = _spreads(case, number)
    parts = zip(*(operator.split(spreads) for operator in operators), strict=True)
    try:
        states = [case.build(None).unite(of_one) for of_one in parts]
    except RunError:
        return operators, _spreads(case, len(operators))
    others = [case.build(state) for state in states]
    held = [sum(operator.buffered() for operator in some) for some in (operators, others)]
    assert held[0] >= held[1], f"{held[0]} were held, and {held[1]} by {number} operators that took over"
    return others, spreads


def _spreads(case: TortureCase, number: int) -> list[RowSpread]:
    return [RowSpread(schema, ("k",), number) for schema in case.divided]


def drive(
    case: TortureCase,
    schedule: Iterable[tuple[Port, EventBatch | None]],
    ports: int,
    *,
    restore: bool,
    spilling: Random | None = None,
) -> list[EventBatch]:
    """Feed batches and ends (None) to an operator, checking it after each call; return what it emitted."""
    operator = case.build(None)
    emitted: list[EventBatch] = []
    spillway = SpillwayInMemory()
    for port, batch in schedule:
        if restore:
            state = operator.snapshot()
            operator = case.build(state)
        if operator.ticks:
            emitted += _batches(operator.on_tick(TICK), case.output)
        emission = operator.on_end(port) if batch is None else operator.on_batch(port, batch)
        emitted += _all_batches(operator, emission, case.output)
        operator.check()
        if spilling is not None and spilling.random() < _SPILLS:
            operator.spill(spillway, spilling.choice([0, _TEN_ROWS]))
            operator.check()
        waits = operator.idle_waiting_on()
        assert waits is None or (0 <= waits < ports and operator.buffered()), "waits without holding anything"
    assert operator.buffered() == 0, f"{operator.buffered()} left inside after all inputs ended"
    return emitted


def _all_batches(operator: Operator[Any], emission: Emission | None, output: OutputName | None) -> list[EventBatch]:
    """What an operator has sent, and what it has left to send."""
    emitted: list[EventBatch] = []
    while emission is not None:
        emitted += _batches(emission, output)
        emission = operator.send_more()
    return emitted


def _batches(emission: Emission, output: OutputName | None) -> list[EventBatch]:
    if output is None:
        return list(emission.batches)
    return [batch for name, batch in emission.side if name == output]


def assert_lawful(emitted: Iterable[EventBatch], *, ordered: bool) -> None:
    """Assert that punctuations never go back, that no event contradicts one, and the order where it is claimed."""
    complete_before, high_water = BEGINNING, BEGINNING
    for batch in emitted:
        batch.check()
        for element in elements_of(batch):
            if isinstance(element, Punctuate):
                assert element.complete_before >= complete_before, f"{element} goes back behind {complete_before}"
                complete_before = element.complete_before
            else:
                assert earliest_concerned(element) >= complete_before, f"{element} contradicts {complete_before}"
                assert not ordered or element.start >= high_water, f"{element} came after time {high_water}"
                high_water = max(high_water, element.start)


def schedule(streams: Streams, cut: Cut, rng: Random) -> list[tuple[Port, EventBatch | None]]:
    """Cut every stream, then interleave the ports at random, each port in its own order, its end last."""
    waiting = [[*_cut(stream, cut, rng), None] for stream in streams]
    schedule: list[tuple[Port, EventBatch | None]] = []
    while any(waiting):
        port = rng.choice([port for port, batches in enumerate(waiting) if batches])
        schedule.append((port, waiting[port].pop(0)))
    return schedule


def _cut(stream: EventBatch, cut: Cut, rng: Random) -> list[EventBatch]:
    n = len(stream)
    if cut is Cut.WHOLE:
        return [stream]
    if cut is Cut.ELEMENTS:
        return [stream.slice(i, i + 1) for i in range(n)]
    places = sorted(rng.randrange(n + 1) for _ in range(rng.randrange(4)))
    if cut is Cut.WITH_EMPTY:
        places = sorted([*places, *places, 0, n])
    bounds = [0, *places, n]
    return [stream.slice(first, stop) for first, stop in itertools.pairwise(bounds)]


def operators_found() -> list[type[Operator[Any]]]:
    """Every operator that can be built, found by importing all operators, and nodes that have theirs beside them."""
    found: set[type[Operator[Any]]] = set()
    modules = [
        *pkgutil.walk_packages(slackwater.operators.__path__, "slackwater.operators."),
        *pkgutil.walk_packages(slackwater.plan.nodes.__path__, "slackwater.plan.nodes."),
    ]
    for module in modules:
        members = vars(importlib.import_module(module.name)).values()
        found |= {member for member in members if inspect.isclass(member) and issubclass(member, Operator)}
    return sorted((one for one in found if not inspect.isabstract(one)), key=lambda one: one.__name__)
