"""Everything Slackwater raises, as one tree.

    SlackwaterError
    ├── PlanError            a pipeline that cannot work, refused when it is built
    │   ├── NeedsOrder           an order-sensitive step on a stream that is neither ordered nor punctuated
    │   ├── MixedOrigins         a step that mixes rows of several sources, each of which has come as far as it is
    │   ├── SchemaMismatch       columns that are missing, clash, or have a type the step cannot use
    │   └── BadDuration          a length of time that cannot be read, or does not fit the stream's time
    └── RunError             a stream that broke a declaration, or a user's function that failed, while running
        ├── BadElement           an element that contradicts the elements before it
        │   ├── BrokenPunctuation    it concerns time that a punctuation had closed
        │   ├── BrokenOrder          it is older than its predecessor on a stream declared ordered
        │   ├── LateEvent            it came after its time was complete, at a step that refuses such
        │   ├── UnknownEvent         it adjusts an event that is not there
        │   ├── BackwardInterval     it ends before it starts
        │   ├── BadTime              its time is missing, or cannot be held in int64 microseconds
        │   └── BadPairing           it is an open or close that does not fit those before it, or has no such form
        ├── Incompatible         an output that can no longer follow its replicas
        ├── ReplicasGone         the last replica of a merge has failed; names the reasons of all
        ├── SourceFailed         a source could not be read, or brought rows of other columns
        ├── StepFailed           a user's function or a sink raised; names the step, the row and the cause
        └── Superseded           another driver has taken over what this one worked on; it must not go on

and one that is no error: Interrupted, a KeyboardInterrupt that says what a query holds and how it goes on.

Each message follows one formula, laid out by `message`: where, what was expected, what came, what to do. A text that
is used in several places has a named constructor below, so that it is written and tested once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


def message(headline: str, facts: Mapping[str, object] | None = None, hint: str = "") -> str:
    """Lay out a message: a headline, aligned facts, one hint.

    >>> print(message("step 'union#1' stopped", {"input": "b"}, "close b"))
    step 'union#1' stopped
        input  b
        hint: close b
    """
    lines = [headline]
    width = max((len(name) for name in facts or {}), default=0)
    lines += [f"    {name:<{width}}  {value}" for name, value in (facts or {}).items()]
    if hint:
        lines.append(f"    hint: {hint}")
    return "\n".join(lines)


class SlackwaterError(Exception):
    """The root of all errors that Slackwater raises on purpose."""


class PlanError(SlackwaterError):
    """A pipeline that cannot work; raised while it is being built, before any row flows."""


class NeedsOrder(PlanError):
    """An order-sensitive step on a stream that is neither ordered nor punctuated."""

    @classmethod
    def at(cls, step: str, line: str) -> NeedsOrder:
        """Name the refused step and show the line of explain() that is at fault."""
        return cls(
            message(
                f"{step} needs an ordered or punctuated stream, and this one is neither",
                {"stream": line},
                'sort(patience="5s") it, behind tumbling() where there is one, for fewer rows are late there; '
                'or take early and late answers by in_bands("1s", "1m"); '
                "declare assume_ordered() if rows do come in order of time",
            )
        )


class MixedOrigins(PlanError):
    """A step that mixes rows of several sources, each of which has come as far as it is."""

    @classmethod
    def at(cls, step: str, line: str, origin: str) -> MixedOrigins:
        """Name the refused step, and the column by which it may not mix."""
        return cls(
            message(
                f"{step} mixes rows of several sources, and here each source has come as far as it is",
                {"stream": line, "origin": origin},
                f"group_by({origin!r}, ...) and aggregate() or in_bands(), which keep sources apart; "
                "or have one order of all: sort(bounds=...) instead of sort_within_origins()",
            )
        )


class SchemaMismatch(PlanError):
    """Columns that are missing, clash, or have a type the step cannot use."""

    @classmethod
    def missing(cls, step: str, name: str, known: Iterable[str]) -> SchemaMismatch:
        """A column was named that the stream does not have."""
        return cls(
            message(f"{step} names a column that is not there", {"asked for": name, "there are": ", ".join(known)})
        )

    @classmethod
    def clash(cls, step: str, name: str, hint: str) -> SchemaMismatch:
        """Two columns would have the same name."""
        return cls(message(f"{step} would make two columns of one name", {"name": name}, hint))

    @classmethod
    def wrong_type(cls, step: str, name: str, found: object, wanted: str, hint: str = "") -> SchemaMismatch:
        """A column has a type that the step cannot use."""
        return cls(
            message(
                f"{step} cannot use the type of a column",
                {"column": name, "type": found, "wanted": wanted},
                hint,
            )
        )


class BadDuration(PlanError):
    """A length of time that cannot be read, or does not fit the stream's kind of time."""


class RunError(SlackwaterError):
    """Something that only running can show."""

    emitted: tuple[object, ...] = ()
    """The results of what was emitted before the error, one for each output; set by run()."""


class BadElement(RunError):
    """An element that contradicts the elements before it."""


class BrokenPunctuation(BadElement):
    """An element concerns time that an earlier punctuation had closed."""

    @classmethod
    def by(cls, where: str, element: object, complete_before: object) -> BrokenPunctuation:
        """Name the element and the punctuation it contradicts."""
        return cls(
            message(
                f"{where} got a row behind a punctuation that its input had sent",
                {"element": element, "complete before": complete_before},
                "punctuate later at the source, or keep the element out of the stream",
            )
        )


class BrokenOrder(BadElement):
    """An element is older than its predecessor on a stream that was declared ordered."""

    @classmethod
    def by(cls, where: str, came: object, after: object) -> BrokenOrder:
        """Name the element and the one before it."""
        return cls(
            message(
                f"{where} reads a stream declared ordered and got a row older than one before it",
                {"element": came, "came after": after},
                "drop assume_ordered() and treat the stream as disordered",
            )
        )


class LateEvent(BadElement):
    """An event came after its time was complete, at a step that refuses such events."""

    @classmethod
    def of(cls, where: str, event: object, time: str, complete_before: str) -> LateEvent:
        """Name the event, its time and the bound that it missed."""
        return cls(
            message(
                f"{where} got a late row: its time was complete already",
                {"event": event, "event time": time, "complete before": complete_before},
                "have more patience, or another policy for late events: Late.divert(), Late.drop() or Late.adjust()",
            )
        )


class UnknownEvent(BadElement):
    """An adjust names an event that is not in the temporal table."""

    @classmethod
    def adjusted_by(cls, where: str, element: object) -> UnknownEvent:
        """Name the adjust."""
        return cls(
            message(
                f"{where} got an adjust of an event that is not there",
                {"element": element},
                "payload, start and prior_end must be those of an event inserted before and not removed since",
            )
        )


class BackwardInterval(BadElement):
    """An element ends before it starts."""

    @classmethod
    def of(cls, where: str, element: object) -> BackwardInterval:
        """Name the element."""
        return cls(message(f"{where} got an element that ends before it starts", {"element": element}))


class BadTime(BadElement):
    """A time is missing, or cannot be held in int64 microseconds."""

    @classmethod
    def missing(cls, where: str, column: str, row: int) -> BadTime:
        """The time column holds a null."""
        return cls(
            message(
                f"{where} got a row without a time",
                {"column": column, "row": row},
                "filter such rows out, or fill the column, before the stream is made",
            )
        )

    @classmethod
    def late(cls, where: str, row: object, column: str) -> BadTime:
        """A row without a time came to a step that refuses late rows."""
        return cls(
            message(
                f"{where} got a row without a time, and such rows are late here",
                {"row": row, "column": column},
                "choose another policy for late rows: Late.divert() or Late.drop()",
            )
        )

    @classmethod
    def overflow(cls, where: str, element: object, doing: str) -> BadTime:
        """A computed time does not fit into int64."""
        return cls(
            message(
                f"{where} would leave the range of int64",
                {"element": element, "while": doing},
                "no event may be at the very ends of int64, nor within one window of its beginning",
            )
        )

    @classmethod
    def too_fine(cls, where: str, column: str, row: int, value: object) -> BadTime:
        """A nanosecond timestamp is not a whole number of microseconds."""
        return cls(
            message(
                f"{where} got a time finer than a microsecond",
                {"column": column, "row": row, "nanoseconds": value},
                'round the column first, for example pc.floor_temporal(column, unit="microsecond")',
            )
        )


class BadPairing(BadElement):
    """An open or a close does not fit those before it, or an element has no form as open and close."""

    @classmethod
    def by(cls, where: str, element: object, reason: str, hint: str = "") -> BadPairing:
        """Name the element and say what does not fit."""
        return cls(message(f"{where} got an element that does not fit: {reason}", {"element": element}, hint))


class Incompatible(RunError):
    """An output that can no longer follow its replicas: it says what they never will, or misses what they do."""

    condition: str = ""
    """The violated condition, by its name in the LMerge paper."""

    output_events: tuple[object, ...] = ()
    """The events of the output that are at fault."""

    input_events: tuple[object, ...] = ()
    """The events of the inputs that they contradict."""

    @classmethod
    def because(
        cls, condition: str, reason: str, output_events: tuple[object, ...], input_events: tuple[object, ...]
    ) -> Incompatible:
        """Name the condition and the events on both sides."""
        sides = {"output": output_events, "inputs": input_events}
        facts = {side: ", ".join(map(str, events)) for side, events in sides.items() if events}
        error = cls(message(f"{condition}: {reason}", facts))
        error.condition, error.output_events, error.input_events = condition, output_events, input_events
        return error


class ReplicasGone(RunError):
    """The last replica of a merge has failed. Until then each left, and the others went on."""

    @classmethod
    def of(cls, step: str, reasons: Mapping[str, str]) -> ReplicasGone:
        """Name the merge, and why each replica has left."""
        hint = "attach a spare one before the last fails, or open a new query from a snapshot taken before"
        return cls(message(f"step {step!r} has lost its last replica", reasons, hint))


class SourceFailed(RunError):
    """A source could not be read, or brought rows that do not fit its columns."""

    @classmethod
    def unreadable(cls, source: object, cause: BaseException, hint: str = "") -> SourceFailed:
        """Name the source and what stopped the reading."""
        facts = {"source": source, "cause": f"{type(cause).__name__}: {cause}"}
        return cls(message("a source could not be read", facts, hint))

    @classmethod
    def other_columns(cls, source: object, wanted: object, got: object) -> SourceFailed:
        """Name the source, its columns and those that came."""
        facts = {"source": source, "columns": wanted, "came": got}
        hint = "name all columns and their types with schema=pa.schema(...)"
        return cls(message("a source brought rows that do not fit its columns", facts, hint))


class StepFailed(RunError):
    """A user's function or a sink raised. What was emitted before it stays emitted."""

    @classmethod
    def at(cls, step: str, row: int | None, values: object, cause: BaseException) -> StepFailed:
        """Name the step, the first row that fails by itself where there is one, and the cause."""
        facts: dict[str, object] = {"cause": f"{type(cause).__name__}: {cause}"}
        if row is not None:
            facts = {"row": f"{row} of the batch, counted from 0", "values": values, **facts}
        return cls(message(f"step {step!r} failed", facts))


class Superseded(RunError):
    """Another driver, or another query, has taken over what this one worked on. Whoever restarts queries should not."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C stopped a query between two steps: nothing is lost, and it can go on. It is no SlackwaterError."""

    query: Any = None
    """The query, as it was left."""

    emitted: tuple[object, ...] = ()
    """The results of what was emitted so far, one for each output; set by run()."""

    go_on: Callable[[], Any]
    """Runs on to the end, and returns what the call that was interrupted would have returned."""

    @classmethod
    def at(cls, query: Any, now: str, go_on: Callable[[], Any]) -> Interrupted:
        """Say what is held, and how to go on."""
        hint = (
            "`except KeyboardInterrupt as stop:` stop.go_on() runs on to the end; stop.query.snapshot() has what is "
            "held, for open(resume=...); stop.query.close() sends it out"
        )
        stop = cls(message("the query was interrupted between two steps", {"now": now}, hint))
        stop.query, stop.go_on = query, go_on
        return stop
