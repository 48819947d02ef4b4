"""Joins two live streams in order, one of them four hundred times as fast, with and without on-demand punctuations.

Orders come 200 times a second, exchange rates once in two seconds. Each order is priced with every rate of its currency
from the ten seconds before, in order of time. It cannot be priced before it is sure that no older rate is still to
come: a rate source that is silent makes the join wait, unless it can be asked how far it has come.
"""

from __future__ import annotations

import random
import statistics
import threading
import time

import pyarrow as pa

import slackwater as sw

SECONDS = 5.0
ORDERS_PER_SECOND, RATES_PER_SECOND = 200.0, 0.5
ORDER = pa.schema({"currency": pa.string(), "amount": pa.float64(), "sent_ns": pa.int64()})
RATE = pa.schema({"currency": pa.string(), "rate": pa.float64()})


def main() -> None:
    """Run the same arrivals twice and compare."""
    show_plan()
    outcomes = [
        run("none", sw.Punctuations.none(), show=0),
        run("on demand", sw.Punctuations.on_demand(), show=5),
    ]
    print(f"\n{'punctuations':<14}{'pairs':>7}{'mean latency':>15}{'idle-waiting':>14}{'most waiting':>14}")
    for name, pairs, latency, idle, waiting in outcomes:
        print(f"{name:<14}{pairs:>7}{latency:>12.2f} ms{idle:>13.1%}{waiting:>10} rows")


def show_plan() -> None:
    """Print what will run, with the reason for each step."""
    priced, *_ = build(sw.Punctuations.on_demand())
    print(priced.explain())


def build(punctuations: sw.Punctuations) -> tuple[sw.OrderedStream, sw.PushSource, sw.PushSource]:
    """Make the two live sources and the stream of priced orders."""
    orders = sw.PushSource(ORDER, name="orders")
    rates = sw.PushSource(RATE, name="rates")
    priced = sw.arrivals(orders, punctuations=punctuations).join(
        sw.arrivals(rates, punctuations=punctuations), on="currency", within="10s"
    )
    return priced, orders, rates


def run(name: str, punctuations: sw.Punctuations, show: int) -> tuple[str, int, float, float, int]:
    """Feed both sources in real time from a thread, and watch the priced orders come."""
    priced, orders, rates = build(punctuations)
    print(f"\nlive for {SECONDS:.0f} s, punctuations {name} ...")
    latencies: list[float] = []

    def on_rows(rows: pa.RecordBatch) -> None:
        now = time.time_ns()
        for row in rows.to_pylist():
            if len(latencies) < show:
                print(f"  {row['matched_at']:%H:%M:%S.%f}  {row['amount']:8.2f} {row['currency']} at {row['rate']:.4f}")
            if row["matched_at"] == row["arrived_at"]:  # the order was the later of the two
                latencies.append((now - row["sent_ns"]) / 1e6)

    query = priced.open(on_rows)
    fed = threading.Event()
    feeder = threading.Thread(target=feed, args=(orders, rates, fed))
    begun = time.perf_counter()
    feeder.start()
    while not fed.is_set():
        query.work()
        query.wait_for_more()
    idle = query.counters()["join#1"].idle_waiting / 1e6 / (time.perf_counter() - begun)
    query.close()
    feeder.join()
    return name, len(latencies), statistics.fmean(latencies), idle, query.peak_queued


def feed(orders: sw.PushSource, rates: sw.PushSource, fed: threading.Event) -> None:
    """Push Poisson arrivals, the same ones each time."""
    rng = random.Random(2007)  # noqa: S311 - a demonstration, not cryptography
    begun = time.perf_counter()
    rates.push({"currency": "EUR", "rate": 1.08})
    next_order, next_rate = rng.expovariate(ORDERS_PER_SECOND), rng.expovariate(RATES_PER_SECOND)
    while min(next_order, next_rate) < SECONDS:
        time.sleep(max(0.0, begun + min(next_order, next_rate) - time.perf_counter()))
        if next_order < next_rate:
            orders.push({"currency": "EUR", "amount": rng.uniform(1, 1000), "sent_ns": time.time_ns()})
            next_order += rng.expovariate(ORDERS_PER_SECOND)
        else:
            rates.push({"currency": "EUR", "rate": rng.uniform(1.05, 1.10)})
            next_rate += rng.expovariate(RATES_PER_SECOND)
    fed.set()
    orders.close()
    rates.close()


if __name__ == "__main__":
    main()
