"""Merges replicas that may send the same event any number of times, and revise each: LMerge's case R4, compiled.

As in replicated_events there is one node for each start and payload (see merged_events). Where that has one end for
each replica and for the output, here are lists of counted ends (the paper's in3t).

When a punctuation passes the start of an event, the output gets as many of it as the replica has (AdjustOutputCount).
When it passes ends, the output gets exactly the replica's (AdjustOutput): surplus ends are moved to those that lack.
Paper: the technical report of Physically Independent Stream Merging, section IV-E.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from slackwater.kernels.columns.payload_words import hash_event
from slackwater.kernels.compile import kernel
from slackwater.kernels.replicas.counted_ends import (
    COUNT,
    END,
    NEXT,
    NO_END,
    NO_ENTRY,
    count_down,
    count_of,
    count_up,
    last_end,
    surplus_end,
    take_first,
    total,
)
from slackwater.kernels.replicas.event_index import (
    AT,
    BLOCK,
    GONE,
    LENGTH,
    LINES,
    NODES,
    READ,
    START,
    forget_event,
    lower_bound,
)
from slackwater.kernels.replicas.merged_events import (
    COMPLETE,
    ENDS,
    KINDS,
    MOST,
    NOBODY,
    NOWHERE,
    OTHER_ENDS,
    OUT_END,
    RANKED,
    SETTLED,
    STATE,
    node_of,
    punctuate_output,
)
from slackwater.kernels.replicas.output_lines import (
    ADJUST,
    CONTRADICTED_EVENT,
    HELD,
    INSERT,
    PUNCTUATE,
    pass_over,
    write_line,
)
from slackwater.kernels.replicas.replica_standing import (
    CONTRADICTED,
    DIVERTS,
    DUPLICATES,
    FIRST_RULE,
    LIVE_EVENTS,
    NEWEST,
    QUORUM,
    REVISE_WHEN_FROZEN,
    REVISED,
    REVISION_RULE,
    WHEN_FINAL,
    WHEN_FROZEN,
    WHEN_HALF_FROZEN,
    WHEN_QUORUM,
    is_believed,
    is_frozen,
    may_revise,
    settled_by,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from slackwater.kernels.replicas.event_index import Column, Table

_FOREVER: Final = 2**63 - 1


@kernel(f"int64({LINES}, int64, int64, {LINES}, int64)")
def _due(nodes: Column, node: int, replica: int, entries: Column, complete: int) -> int:
    """The time that a replica's punctuation must pass for a node to need attention: first of all its start."""
    if nodes[node, START] >= complete:
        return nodes[node, START]
    given, out = nodes[node, ENDS + replica], nodes[node, OUT_END]
    first = entries[given, END] if given > NO_ENTRY else nodes[node, START]
    return min(first, entries[out, END] if out > NO_ENTRY else _FOREVER)


@kernel(f"boolean({LINES}, int64, {LINES}, {LINES}, int64, int64, int64)")
def _take_in(
    nodes: Column, node: int, entries: Column, standing: Column, replica: int, prior_end: int, end: int
) -> bool:
    """Count an event of a replica, in the place of the one with the prior end if there is one; False if it has none."""
    start, ins = nodes[node, START], ENDS + replica
    if prior_end != NO_END:
        if not count_down(nodes, node, ins, entries, prior_end):
            return False
        standing[replica, LIVE_EVENTS] -= 1
    if end > start:
        count_up(nodes, node, ins, entries, end)
        standing[replica, LIVE_EVENTS] += 1
    standing[replica, NEWEST] = max(standing[replica, NEWEST], start)
    return True


# ---- agreeing with a replica ---------------------------------------------------------------------------------------


@kernel(f"int64({LINES}, int64, {LINES}, int64, {LINES}, int64)")
def _equal_count(nodes: Column, node: int, entries: Column, replica: int, lines: Column, count: int) -> int:
    """Make the output have as many events as the replica: take back those it lacks, emit those the output lacks."""
    start, ins = nodes[node, START], ENDS + replica
    surplus = total(nodes, node, OUT_END, entries) - total(nodes, node, ins, entries)
    while surplus > 0:
        end = surplus_end(nodes, node, OUT_END, ins, entries, NO_END, False)
        count_down(nodes, node, OUT_END, entries, end)
        write_line(lines, count, ADJUST, start, end, start, HELD, nodes[node, AT], nodes[node, LENGTH])
        count += 1
        surplus -= 1
    while surplus < 0:
        end = surplus_end(nodes, node, ins, OUT_END, entries, NO_END, False)
        count_up(nodes, node, OUT_END, entries, end)
        write_line(lines, count, INSERT, start, end, end, HELD, nodes[node, AT], nodes[node, LENGTH])
        count += 1
        surplus += 1
    return count


@kernel(f"int64({LINES}, int64, {LINES}, int64[::1], int64, {LINES}, int64, {LINES}, int64)")
def _equal_ends(
    nodes: Column,
    node: int,
    entries: Column,
    counters: Column,
    replica: int,
    standing: Column,
    t: int,
    lines: Column,
    count: int,
) -> int:
    """Make the output have exactly the ends of the replica, as far as a punctuation freezes them.

    Ends that the output has frozen stay. A replica that came later need not have them; one that has others in their
    place contradicts those before it.
    """
    start, ins, frozen = nodes[node, START], ENDS + replica, counters[COMPLETE]
    while True:
        old = surplus_end(nodes, node, OUT_END, ins, entries, frozen, False)
        new = surplus_end(nodes, node, ins, OUT_END, entries, NO_END, False)
        if new == NO_END or (new >= t and (old == NO_END or old >= t)):
            break
        if new < frozen or old == NO_END:
            # A punctuation of the output rules it out: the replica is taken to have what was emitted.
            counters[OTHER_ENDS] += 1
            emitted = surplus_end(nodes, node, OUT_END, ins, entries, NO_END, False)
            _take_in(nodes, node, entries, standing, replica, new, start if emitted == NO_END else emitted)
            continue
        # What freezes on one side is paired with what lasts longest on the other, unless that freezes, too.
        old = old if old < t else surplus_end(nodes, node, OUT_END, ins, entries, frozen, True)
        new = new if new < t else surplus_end(nodes, node, ins, OUT_END, entries, NO_END, True)
        count_down(nodes, node, OUT_END, entries, old)
        count_up(nodes, node, OUT_END, entries, new)
        write_line(lines, count, ADJUST, start, old, new, HELD, nodes[node, AT], nodes[node, LENGTH])
        count += 1
    return count


@kernel(f"int64({LINES}, int64, {LINES}, int64, int64, {LINES}, int64)")
def _emit_frozen(nodes: Column, node: int, entries: Column, replica: int, t: int, lines: Column, count: int) -> int:
    """Emit the events of a replica that its punctuation freezes, none of which is in the output yet."""
    start, at = nodes[node, START], nodes[node, ENDS + replica]
    while at > NO_ENTRY and is_frozen(entries[at, END], t):
        end = entries[at, END]
        for _ in range(entries[at, COUNT] - count_of(nodes, node, OUT_END, entries, end)):
            count_up(nodes, node, OUT_END, entries, end)
            write_line(lines, count, INSERT, start, end, end, HELD, nodes[node, AT], nodes[node, LENGTH])
            count += 1
        at = entries[at, NEXT]
    return count


@kernel(f"UniTuple(int64, 2)({LINES}, int64, {LINES})")
def _who_has_most(nodes: Column, node: int, entries: Column) -> tuple[int, int]:
    """The first replica that has most events of a node, and how many these are."""
    found, most = 0, 0
    for replica in range(nodes.shape[1] - ENDS):
        count = total(nodes, node, ENDS + replica, entries)
        if count > most:
            found, most = replica, count
    return found, most


@kernel(f"int64({LINES}, {LINES}, int64[::1], {LINES}, int64)")
def recount(nodes: Column, entries: Column, counters: Column, standing: Column, gone: int) -> int:
    """Count the events that are not emitted yet; what only a replica had that is gone is left out. Cost: O(nodes)."""
    unsent = 0
    for node in range(counters[NODES]):
        if nodes[node, LENGTH] == GONE:
            continue
        out = total(nodes, node, OUT_END, entries)
        if gone != NOBODY:
            _, most = _who_has_most(nodes, node, entries)
            standing[gone, CONTRADICTED] += nodes[node, MOST] - max(out, most)
            nodes[node, MOST] = max(out, most)
        unsent += nodes[node, MOST] - out
    return unsent


@kernel(f"void({LINES}, int64, {LINES}, int64, int64, {LINES})", inlined=True)
def _count_in(nodes: Column, node: int, entries: Column, kind: int, replica: int, standing: Column) -> None:
    """Count an element that was taken in: as one more event, or by what it is instead."""
    if kind == ADJUST:
        _, most = _who_has_most(nodes, node, entries)
        most = max(most, total(nodes, node, OUT_END, entries))
        standing[replica, REVISED] += 1 + nodes[node, MOST] - most
        nodes[node, MOST] = most
    elif total(nodes, node, ENDS + replica, entries) > nodes[node, MOST]:
        nodes[node, MOST] += 1
    else:
        standing[replica, DUPLICATES] += 1


@kernel(f"int64({LINES}, int64, {LINES}, {RANKED}, {LINES}, int64)", inlined=True)
def _count_what_is_left_out(
    nodes: Column,
    node: int,
    entries: Column,
    leader: int,
    rules: Column,
    standing: Column,
    lines: Column,
    count: int,
) -> int:
    """Count the events of a node that the output does not have: contradicted, or taken back by who had them.

    Return the count of lines.
    """
    out = total(nodes, node, OUT_END, entries)
    if nodes[node, MOST] > out:
        holder, most = _who_has_most(nodes, node, entries)
        contradicted = max(most - out, 0)
        standing[holder, CONTRADICTED] += contradicted
        standing[leader, REVISED] += nodes[node, MOST] - out - contradicted
        for _ in range(contradicted if rules[DIVERTS] else 0):
            end = surplus_end(nodes, node, ENDS + holder, OUT_END, entries, NO_END, False)
            count_up(nodes, node, OUT_END, entries, end)  # so that it is not found again; the list is done with
            start, at, length = nodes[node, START], nodes[node, AT], nodes[node, LENGTH]
            write_line(lines, count, CONTRADICTED_EVENT, start, holder, end, HELD, at, length)
            count += 1
    return count


@kernel(f"int64({LINES}, int64, {LINES}, int64[::1], {RANKED}, {LINES}, int64)")
def _forget(
    nodes: Column,
    node: int,
    entries: Column,
    counters: Column,
    leader: int,
    rules: Column,
    standing: Column,
    lines: Column,
    count: int,
) -> int:
    """Be done with a node: leave its lists for others to use. Return the count of lines."""
    count = _count_what_is_left_out(nodes, node, entries, leader, rules, standing, lines, count)
    for replica in range(len(standing)):
        while nodes[node, ENDS + replica] > NO_ENTRY:
            standing[replica, LIVE_EVENTS] -= take_first(nodes, node, ENDS + replica, entries)
    while nodes[node, OUT_END] > NO_ENTRY:
        take_first(nodes, node, OUT_END, entries)
    forget_event(nodes, counters, node)
    return count


@kernel(f"int64({LINES}, int64, {LINES}, int64[::1], {RANKED}, int64, {LINES}, int64)")
def _settle(
    nodes: Column,
    node: int,
    entries: Column,
    counters: Column,
    replica: int,
    rules: Column,
    standing: Column,
    t: int,
    lines: Column,
    count: int,
) -> int:
    """Make the output agree with a replica on a node that its punctuation freezes; return the count of lines."""
    is_final = rules[FIRST_RULE] == WHEN_FINAL
    if is_final or rules[FIRST_RULE] == WHEN_FROZEN:
        count = _emit_frozen(nodes, node, entries, replica, _FOREVER if is_final else t, lines, count)
    else:
        if nodes[node, START] >= counters[SETTLED]:
            count = _equal_count(nodes, node, entries, replica, lines, count)
        count = _equal_ends(nodes, node, entries, counters, replica, standing, t, lines, count)
    if is_final or is_frozen(last_end(nodes, node, ENDS + replica, entries), t):
        count = _forget(nodes, node, entries, counters, replica, rules, standing, lines, count)
    return count


@kernel(f"UniTuple(int64, 3)({LINES}, {LINES}, int64[::1], {LINES}, {RANKED}, int64, {LINES}, int64)")
def _freeze(
    nodes: Column,
    bounds: Column,
    counters: Column,
    entries: Column,
    replica: int,
    rules: Column,
    standing: Column,
    t: int,
    lines: Column,
    count: int,
) -> tuple[int, int, int]:
    """Settle all events that a punctuation freezes.

    Return the count of lines, how far the output is complete then, and whether all fitted. Where they did not, it is
    called again: what was settled is settled again without any output.
    """
    # Where only what is frozen is emitted, a node needs attention as long as it lives: it holds punctuations back.
    only_frozen = rules[FIRST_RULE] == WHEN_FROZEN or rules[FIRST_RULE] == WHEN_FINAL
    complete, punctuation = NOWHERE if only_frozen else counters[SETTLED], t
    for block in range((counters[NODES] + BLOCK - 1) // BLOCK):
        if not is_frozen(bounds[block, replica], t):
            continue
        least = _FOREVER
        for node in range(block * BLOCK, min((block + 1) * BLOCK, counters[NODES])):
            if nodes[node, LENGTH] == GONE:
                continue
            if is_frozen(_due(nodes, node, replica, entries, complete), t) and nodes[node, START] < t:
                room = total(nodes, node, OUT_END, entries) + total(nodes, node, ENDS + replica, entries)
                room += nodes[node, MOST] if rules[DIVERTS] else 0
                if count + room > lines.shape[1]:
                    return count, punctuation, 0
                count = _settle(nodes, node, entries, counters, replica, rules, standing, t, lines, count)
                if nodes[node, LENGTH] == GONE:
                    continue
                _lower_bounds(nodes, bounds, node, entries, NOWHERE if only_frozen else nodes[node, START] + 1)
            if only_frozen:
                punctuation, least = min(punctuation, nodes[node, START]), min(least, nodes[node, START])
            else:
                least = min(least, _due(nodes, node, replica, entries, min(t, nodes[node, START] + 1)))
        bounds[block, replica] = least
    return count, punctuation, 1


@kernel(f"void({LINES}, {LINES}, int64, {LINES}, int64)")
def _lower_bounds(nodes: Column, bounds: Column, node: int, entries: Column, complete: int) -> None:
    """See that no bound hides a node whose output has changed."""
    for replica in range(bounds.shape[1]):
        lower_bound(bounds, node, replica, _due(nodes, node, replica, entries, complete))


# ---- taking elements -----------------------------------------------------------------------------------------------


@kernel(f"boolean({LINES}, int64, int64, {LINES}, int64)")
def _is_lacking(nodes: Column, node: int, ins: int, entries: Column, end: int) -> bool:
    """Whether a replica has an end more often than the output."""
    return count_of(nodes, node, ins, entries, end) > count_of(nodes, node, OUT_END, entries, end)


@kernel(f"boolean({LINES}, int64, {LINES}, {RANKED}, int64, int64)")
def _is_one_more(
    nodes: Column,
    node: int,
    entries: Column,
    replica: int,
    rules: Column,
    standing: Column,
    prior_end: int,
    end: int,
) -> bool:
    """Whether a replica has more of an event than the output, and the rule for the first time lets one more go out."""
    if prior_end != NO_END and not _is_lacking(nodes, node, ENDS + replica, entries, end):
        return False
    out = total(nodes, node, OUT_END, entries)
    if total(nodes, node, ENDS + replica, entries) <= out:
        return False
    if rules[FIRST_RULE] != WHEN_QUORUM:
        return is_believed(rules, standing, replica)
    if rules[QUORUM] == 1:
        return True
    agreeing = 1
    for other in range(len(standing)):
        agreeing += other != replica and total(nodes, node, ENDS + other, entries) > out
    return agreeing >= rules[QUORUM]


@kernel(f"int64({LINES}, {LINES}, int64, {LINES}, int64[::1], int64, int64, int64, {LINES}, int64)")
def _revise(
    nodes: Column,
    bounds: Column,
    node: int,
    entries: Column,
    counters: Column,
    replica: int,
    prior_end: int,
    end: int,
    lines: Column,
    count: int,
) -> int:
    """Give the output what a replica has now in the place of something it has not, if there is such a thing.

    That is the prior end, if the output has it. Otherwise it is the latest such end, unless it may be one that the
    replica has yet to send.
    """
    start, ins = nodes[node, START], ENDS + replica
    more = total(nodes, node, OUT_END, entries) - total(nodes, node, ins, entries)
    wanted = more > 0 if end == start else _is_lacking(nodes, node, ins, entries, end)
    old = prior_end
    if count_of(nodes, node, OUT_END, entries, old) <= count_of(nodes, node, ins, entries, old):
        wanted = wanted and (end == start or more <= 0)
        old = surplus_end(nodes, node, OUT_END, ins, entries, counters[COMPLETE], True)
    if not wanted:
        return count
    if old == NO_END or min(old, end) < counters[COMPLETE]:
        return count
    count_down(nodes, node, OUT_END, entries, old)
    if end > start:
        count_up(nodes, node, OUT_END, entries, end)
    write_line(lines, count, ADJUST, start, old, end, HELD, nodes[node, AT], nodes[node, LENGTH])
    _lower_bounds(nodes, bounds, node, entries, counters[SETTLED])
    return count + 1


@kernel(f"UniTuple(int64, 2)({STATE}, {LINES}, {RANKED}, {KINDS}, {', '.join([READ] * 5)}, int64, int64, {LINES})")
def merge_elements(
    nodes: Column,
    table: Table,
    held: Column,
    counters: Column,
    bounds: Column,
    entries: Column,
    replica: int,
    rules: Column,
    standing: Column,
    kinds: NDArray[np.int8],
    starts: Column,
    prior_ends: Column,
    ends: Column,
    offsets: Column,
    words: Column,
    first: int,
    row: int,
    lines: Column,
) -> tuple[int, int]:
    """Take a replica's elements from the first one given on; return where it stopped, and how many lines were written.

    `row` is the row of the first of them. It stops early when the lines are full. There is room for as many nodes,
    words and entries as the batch may bring.
    """
    count, row = 0, row - 1
    # Where an event goes out when it is frozen or half frozen, none of these rules applies before.
    only_frozen = rules[FIRST_RULE] == WHEN_FROZEN or rules[FIRST_RULE] == WHEN_FINAL
    emits_at_once = not only_frozen and rules[FIRST_RULE] != WHEN_HALF_FROZEN
    revises = rules[REVISION_RULE] != REVISE_WHEN_FROZEN and not only_frozen
    for i in range(first, len(kinds)):
        if count == lines.shape[1]:
            return i, count
        start, end = starts[i], ends[i]
        if kinds[i] == PUNCTUATE:
            t = settled_by(rules, standing, replica, start)
            if t > counters[SETTLED]:
                count, complete, all_fit = _freeze(
                    nodes, bounds, counters, entries, replica, rules, standing, t, lines, count
                )
                if not all_fit or count == lines.shape[1]:
                    return i, count
                count = punctuate_output(counters, t, complete, lines, count)
            continue
        row += 1
        begin, length = offsets[row], offsets[row + 1] - offsets[row]
        hashed = hash_event(start, words, begin, length)
        node = node_of(nodes, table, held, counters, bounds, kinds[i], hashed, start, words, begin, length)
        prior_end = prior_ends[i] if kinds[i] == ADJUST else NO_END
        if node < 0 or not _take_in(nodes, node, entries, standing, replica, prior_end, end):
            count = pass_over(standing, replica, rules, lines, count, kinds[i], start, end, row, length)
            continue
        emits = emits_at_once and start >= counters[SETTLED]
        if emits and _is_one_more(nodes, node, entries, replica, rules, standing, prior_end, end):
            count_up(nodes, node, OUT_END, entries, end)
            write_line(lines, count, INSERT, start, end, end, row, nodes[node, AT], length)
            count += 1
        elif revises and may_revise(rules, standing, replica):
            count = _revise(nodes, bounds, node, entries, counters, replica, prior_end, end, lines, count)
        _count_in(nodes, node, entries, kinds[i], replica, standing)
        due = _due(nodes, node, replica, entries, NOWHERE if only_frozen else counters[SETTLED])
        lower_bound(bounds, node, replica, due)
    return len(kinds), count
