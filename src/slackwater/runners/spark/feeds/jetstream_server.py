"""What is asked of a NATS server about a stream of JetStream: how far it reaches, what is missing, and its messages.

Every question stands alone: it may be asked again, over another connection, and gives the same messages. So a
connection that is lost costs a question and no more, as often as the options allow.

The client of NATS is asynchronous; here one loop is run for as long as a question takes.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from slackwater.errors import PlanError, SourceFailed, message

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping
    from datetime import datetime
    from types import TracebackType
    from typing import Self

_Answer = TypeVar("_Answer")

_AT_ONCE: Final = 2_000
"""How many messages are asked for at once, at most."""

_BYTES_AT_ONCE: Final = 8 << 20
"""How much they may have, by the mean size of the stream's messages."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
"""Seconds before a question is asked again: twice as long each time."""

_FORGOTTEN_AFTER: Final = 60
"""Seconds after which the server forgets a reader that has gone away."""

_LOGIN: Final = re.compile(r"(?<=//)[^\s,]*@")
"""Names and passwords in addresses, whatever letters these have that should have been encoded."""

_LIMITS: Final = "limits"
_NOT_FOUND: Final = 404


class Message(NamedTuple):
    """A message of a stream."""

    sequence: int
    subject: str
    arrived: int
    """When the server has stored it, in microseconds."""

    data: bytes


@dataclass(frozen=True)
class StreamState:
    """How far a stream reaches now."""

    identity: str
    """When it was made: one that is made anew has the same name and other messages."""

    first: int
    last: int
    deleted: int
    """How many messages between them are gone."""

    mean_bytes: int


@dataclass(frozen=True)
class StreamAddress:
    """A stream of a server, or of a cluster of them, and what is read of it."""

    servers: tuple[str, ...] = field(repr=False)
    stream: str
    subjects: tuple[str, ...] = ()
    """None are all of them."""

    login: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout: int = 10
    """Seconds for a question."""

    attempts: int = 5

    @property
    def shown(self) -> str:
        """The servers in messages, without names and passwords.

        >>> StreamAddress(("nats://ann:secret@host:4222", "nats://bob:p@ss/word@other:4222"), "FLIGHTS").shown
        'nats://host:4222, nats://other:4222'
        """
        return _LOGIN.sub("", ", ".join(self.servers))


class JetStream:
    """Asks a server, to be used as a context."""

    def __init__(self, address: StreamAddress) -> None:
        self._address = address
        self._loop = asyncio.new_event_loop()
        self._client: Any = None
        self._noted: Exception | None = None

    def __enter__(self) -> Self:
        """Connect with the first question."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Disconnect."""
        self._loop.run_until_complete(self._disconnect())
        self._loop.close()

    def state(self) -> StreamState:
        """How far the stream reaches. One whose messages go when somebody has read them is refused."""
        return self._state_in(self._asked(lambda client: self._info(client, details=False)))

    def missing(self, first: int, last: int) -> list[int]:
        """The messages from one sequence to another that are gone, by their sequences; whatever their subjects were."""
        info = self._asked(lambda client: self._info(client, details=False))
        if info["state"].get("num_deleted"):
            info = self._asked(lambda client: self._info(client, details=True))
        state = self._state_in(info)
        before = range(first, min(last + 1, state.first))
        return [*before, *(one for one in info["state"].get("deleted") or () if first <= one <= last)]

    def count(self, first: int, last: int) -> int:
        """How many messages of our subjects there are, or, where some come or go meanwhile, at most."""
        behind = self._asked(lambda client: self._counted(client, last + 1))
        return max(self._asked(lambda client: self._counted(client, first)) - behind, 0)

    def first_since(self, time: datetime) -> int:
        """The sequence of the first message that was stored at a time or later, or of the next to come."""
        start = {"deliver_policy": "by_start_time", "opt_start_time": time.isoformat()}
        return self._asked(lambda client: self._begun(client, start))

    def messages(self, first: int, last: int) -> Iterator[list[Message]]:
        """The messages of our subjects from one sequence to another, in order, some at a time."""
        at_once = max(1, min(_AT_ONCE, _BYTES_AT_ONCE // max(self.state().mean_bytes, 1)))
        while first <= last:
            some = self._asked(lambda client: self._some(client, first, min(at_once, last - first + 1)))  # noqa: B023 - asked at once
            found = [one for one in some if one.sequence <= last]
            if found:
                yield found
            if len(found) < len(some) or not some:
                return
            first = some[-1].sequence + 1

    # ---- questions ---------------------------------------------------------------------------------------------------

    async def _info(self, client: Any, *, details: bool) -> dict[str, Any]:
        return await self._api(client, f"STREAM.INFO.{self._address.stream}", {"deleted_details": details})

    async def _reader(self, client: Any, first: int | None, start: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Make a reader of the messages from a sequence on, which the server forgets by itself."""
        subjects = self._address.subjects if first is not None else ()
        config = {
            **(start or {"deliver_policy": "by_start_sequence", "opt_start_seq": first}),
            "ack_policy": "none",
            "replay_policy": "instant",
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": _FORGOTTEN_AFTER * 1_000_000_000,
            **({"filter_subjects": list(subjects)} if subjects else {}),
        }
        stream = self._address.stream
        return await self._api(client, f"CONSUMER.CREATE.{stream}", {"stream_name": stream, "config": config})

    async def _counted(self, client: Any, first: int) -> int:
        """How many messages of our subjects there are from a sequence on."""
        reader = await self._reader(client, first)
        await self._forget(client, reader)
        return int(reader["num_pending"])

    async def _begun(self, client: Any, start: Mapping[str, Any]) -> int:
        """The sequence at which a reader begins."""
        reader = await self._reader(client, None, start)
        await self._forget(client, reader)
        return int(reader["delivered"]["stream_seq"]) + 1

    async def _forget(self, client: Any, reader: Mapping[str, Any]) -> None:
        """Let a reader go at once: there may be many in the time after which the server does so itself."""
        with suppress(_Refused):  # it has done so already
            await self._api(client, f"CONSUMER.DELETE.{self._address.stream}.{reader['name']}", {})

    async def _some(self, client: Any, first: int, most: int) -> list[Message]:
        reader = await self._reader(client, first)
        wanted = min(most, reader["num_pending"])
        if not wanted:
            await self._forget(client, reader)
            return []
        inbox = client.new_inbox()
        box = await client.subscribe(inbox, pending_msgs_limit=-1, pending_bytes_limit=-1)
        expires = self._address.timeout * 1_000_000_000
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._address.stream}.{reader['name']}"
        await client.publish(subject, json.dumps({"batch": wanted, "expires": expires}).encode(), inbox)
        found = [_message_of(await box.next_msg(timeout=self._address.timeout)) for _ in range(wanted)]
        await box.unsubscribe()
        await self._forget(client, reader)
        return found

    async def _api(self, client: Any, subject: str, question: Mapping[str, Any]) -> dict[str, Any]:
        asked = json.dumps(question).encode()
        reply = await client.request(f"$JS.API.{subject}", asked, timeout=self._address.timeout)
        answer = dict(json.loads(reply.data))
        if "error" in answer:
            error = answer["error"]
            raise _Refused(error.get("code", 0), error.get("description", "no reason was given"))
        return answer

    def _state_in(self, info: Mapping[str, Any]) -> StreamState:
        config, state = info["config"], info["state"]
        if config["retention"] != _LIMITS:
            facts = {"stream": self._address.stream, "retention": config["retention"]}
            hint = "read a stream of retention limits, such as one that has this one as its source"
            raise PlanError(message("messages of this stream go when somebody has read them", facts, hint))
        mean = state["bytes"] // max(state["messages"], 1)
        return StreamState(info["created"], state["first_seq"], state["last_seq"], state.get("num_deleted", 0), mean)

    # ---- the connection ----------------------------------------------------------------------------------------------

    def _asked(self, question: Callable[[Any], Awaitable[_Answer]]) -> _Answer:
        """Ask, and ask again over another connection where one was lost."""
        return self._loop.run_until_complete(self._ask(question))

    async def _ask(self, question: Callable[[Any], Awaitable[_Answer]]) -> _Answer:
        last: Exception | None = None
        for attempt in range(self._address.attempts):
            if attempt:
                await asyncio.sleep(min(_FIRST_PAUSE * 2**attempt, _LONGEST_PAUSE))
            try:
                return await question(await self._connected())
            except _Refused as refusal:
                last = refusal
                if refusal.code == _NOT_FOUND:
                    break
            except _lost() as error:
                last = error
            await self._disconnect()
        raise self._failed(last) from last

    async def _connected(self) -> Any:
        if self._client is None:
            self._client = nats_package().NATS()  # which is closed, too, if it does not come to a connection
            connecting = self._client.connect(
                list(self._address.servers),
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=_FIRST_PAUSE,
                connect_timeout=self._address.timeout,
                error_cb=self._note,
                **_as_arguments(self._address.login),
            )
            await asyncio.wait_for(connecting, self._address.timeout)
        return self._client

    async def _note(self, error: Exception) -> None:
        """Remember why a server could not be reached: in the end the client only says that none could be."""
        self._noted = error

    async def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with suppress(*_lost()):
                await client.close()

    def _failed(self, error: Exception | None) -> SourceFailed:
        facts: dict[str, object] = {"servers": self._address.shown, "stream": self._address.stream}
        if isinstance(error, _Refused):
            facts["server says"] = str(error)
            return SourceFailed(message("a NATS server refuses what is asked of a stream", facts, "see to the stream"))
        if isinstance(error, nats_package().errors.NoServersError):
            error = self._noted or error
        facts |= {"attempts": self._address.attempts, "cause": f"{type(error).__name__}: {_LOGIN.sub('', str(error))}"}
        hint = "see to the server, or give more attempts=; started again, the query goes on from its checkpoint"
        return SourceFailed(message("a NATS server does not answer", facts, hint))


class _Refused(Exception):
    """A server that answers, and says no."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code = code


def _message_of(got: Any) -> Message:
    """A message as it was delivered: what is known of it stands in the subject that an answer would have.

    $JS.ACK.<stream>.<reader>.<deliveries>.<sequence>.<sequence of the reader>.<nanoseconds>.<pending>, and, where there
    are domains, two more words behind the second.
    """
    words = got.reply.split(".") if got.reply else []
    if len(words) < 9:  # noqa: PLR2004 - as above
        status = got.headers or {}
        raise _Refused(int(status.get("Status", 0)), f"{status.get('Status', '')} {status.get('Description', '')}")
    sequence, nanoseconds = (words[5], words[7]) if len(words) == 9 else (words[7], words[9])  # noqa: PLR2004 - as above
    return Message(int(sequence), got.subject, int(nanoseconds) // 1_000, got.data)


def _as_arguments(login: Mapping[str, str]) -> dict[str, Any]:
    """Names, passwords and keys as the client takes them."""
    plain = {"user": "user", "password": "password", "token": "token", "credentials": "user_credentials"}
    given: dict[str, Any] = {plain[name]: value for name, value in login.items() if name in plain}
    if any(name.startswith("tls") for name in login):
        context = ssl.create_default_context(cafile=login.get("tlsCaFile"))
        if "tlsCertFile" in login:
            context.load_cert_chain(login["tlsCertFile"], login.get("tlsKeyFile"))
        given["tls"] = context
    return given


def _lost() -> tuple[type[Exception], ...]:
    """What the client raises when a connection is not made, or lost."""
    nats = nats_package()
    return (nats.errors.Error, nats.js.errors.Error, OSError, TimeoutError)


def nats_package() -> Any:
    """The client, loaded when a server is asked."""
    try:
        import nats
        import nats.errors
        import nats.js.errors
    except ImportError as error:
        facts, hint = {"missing": error.name}, "pip install 'slackwater[nats]'"
        raise PlanError(message("JetStream needs the package nats-py", facts, hint)) from error
    return nats
