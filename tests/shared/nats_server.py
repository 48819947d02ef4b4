"""A NATS server of its own for tests, from the wheel, at a free port of the loopback and with a folder of its own."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sysconfig
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nats

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_PATIENT_SECONDS = 60


@dataclass(frozen=True)
class NatsServer:
    """A server, and what tests do with it."""

    url: str
    process: subprocess.Popen[bytes]
    connect: Mapping[str, Any]

    def request(self, subject: str, **question: Any) -> dict[str, Any]:
        """Ask the interface of JetStream."""
        return json.loads(self._with_client(lambda client: _requested(client, subject, question)))

    def add_stream(self, name: str, *subjects: str, **config: Any) -> None:
        """Make a stream, in memory: in files one that is made right after its removal may find its messages again."""
        stored = {"retention": "limits", "storage": "memory", "max_msgs_per_subject": -1, "max_age": 0, **config}
        answer = self.request(f"STREAM.CREATE.{name}", name=name, subjects=subjects, **stored)
        assert "error" not in answer, answer

    def publish(self, subject: str, *texts: bytes) -> None:
        """Publish messages; all are stored when this returns."""
        self.publish_all((subject, text) for text in texts)

    def publish_all(self, messages: Iterable[tuple[str, bytes]]) -> None:
        """The same, each with its subject."""
        self._with_client(lambda client: _published(client, list(messages)))

    def delete(self, stream: str, *sequences: int) -> None:
        """Delete messages."""
        for sequence in sequences:
            assert self.request(f"STREAM.MSG.DELETE.{stream}", seq=sequence)["success"]

    def purge(self, stream: str, up_to: int | None = None) -> None:
        """Remove all messages, or those before a sequence."""
        assert self.request(f"STREAM.PURGE.{stream}", **({} if up_to is None else {"seq": up_to}))["success"]

    def remove_streams(self) -> None:
        """Remove all streams."""
        for name in self.request("STREAM.NAMES").get("streams") or ():
            assert self.request(f"STREAM.DELETE.{name}")["success"]

    def _with_client(self, act: Any) -> Any:
        async def acted() -> Any:
            client = await nats.connect(self.url, **self.connect)
            try:
                return await act(client)
            finally:
                await client.close()

        return asyncio.run(acted())


async def _requested(client: Any, subject: str, question: Mapping[str, Any]) -> bytes:
    reply = await client.request(f"$JS.API.{subject}", json.dumps(question).encode(), timeout=_PATIENT_SECONDS)
    return bytes(reply.data)


async def _published(client: Any, messages: list[tuple[str, bytes]]) -> None:
    stream = client.jetstream()
    for first in range(0, len(messages), 500):
        waiting = [await stream.publish_async(subject, data) for subject, data in messages[first : first + 500]]
        await asyncio.gather(*waiting)


@contextmanager
def nats_server(folder: Path, *arguments: str, **connect: Any) -> Iterator[NatsServer]:
    """Start it, and yield it when it answers; in the end it is gone. It writes to the folder alone."""
    program = Path(sysconfig.get_path("scripts")) / "nats-server"
    store = ["-js", "-sd", str(folder / "store"), "--ports_file_dir", str(folder)]
    command = [str(program), "-a", "127.0.0.1", "-p", "-1", *store, *arguments]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603 - the wheel's
    try:
        yield NatsServer(_address_of(folder, process), process, connect)
    finally:
        process.terminate()
        process.wait()


def _address_of(folder: Path, process: subprocess.Popen[bytes]) -> str:
    """The address that it has chosen, when it has written it down."""
    deadline = time.monotonic() + _PATIENT_SECONDS
    while True:
        for file in folder.glob("*.ports"):
            text = file.read_text()
            if text.strip().endswith("}"):
                return str(json.loads(text)["nats"][0])
        assert process.poll() is None, (folder / "log").read_text()
        assert time.monotonic() < deadline
        time.sleep(0.01)
