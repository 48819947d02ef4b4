"""A collector: a process that publishes what it has heard, up to where the clock of the feed has come.

python collector.py NAME SERVER FLIGHTS DAYS
"""

from __future__ import annotations

import asyncio
import sys
from bisect import bisect_left
from datetime import datetime

import nats
import pyarrow.parquet as pq
from broker import SUBJECT
from hearing import heard_by
from mishaps import Mishaps

_AT_ONCE = 500
"""How many messages are under way to the server at most."""


async def publish(name: str, server: str, flights: str, days: str) -> None:
    """Publish when the clock strikes, and answer it when the server has stored all; end when the server does."""
    messages = heard_by(name, pq.read_table(flights).to_pylist(), Mishaps.in_days(int(days)))
    client = await nats.connect(server, allow_reconnect=False)
    stream = client.jetstream()
    sent = 0
    async for strike in (await client.subscribe(f"clock.{name}")).messages:
        now = datetime.fromisoformat(strike.data.decode())
        due = bisect_left(messages, now, key=lambda message: message.heard)
        while sent < due:
            some = messages[sent : min(due, sent + _AT_ONCE)]
            stored = [await stream.publish_async(f"{SUBJECT}.{name}", message.data) for message in some]
            await asyncio.gather(*stored)
            sent += len(some)
        await strike.respond(b"")


if __name__ == "__main__":
    asyncio.run(publish(*sys.argv[1:]))
