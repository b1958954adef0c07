"""What a door is: how one kind of client asks for a run, and how he is answered."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol

import msgspec

from contracts.updates import Update
from contracts.values import ShownMessage
from conversations.idempotency import Claim
from conversations.shown import Asked
from directory.caller import AgentSummary, Caller
from gateway.exchange import Exchange
from gateway.parts import Parts
from gateway.problems import Words


class Encoder(Protocol):
    """The bytes of one answer."""

    def encode(self, updates: Iterable[Update]) -> bytes:
        """Those of the next updates of a stream, or of all the updates of a document, which ends Finished."""


class Asker(msgspec.Struct, frozen=True):
    """Who asks. `agent` is the one that `agent_id` names, where that is one of the account's."""

    caller: Caller
    agent_id: str | None
    agent: AgentSummary | None


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked, in no client's words, and who words the answer.

    `conversation_id` is None for a new conversation, which no list shows where it is `unlisted`. `streamed`:
    the answer goes out as the run goes on; otherwise it is one document, once that has ended.

    `history`, `after`, `instructions` and `shown_sha256` are those of ChatRequested; where the last is given,
    it is what a repeated Idempotency-Key must agree with. `repeats` is the run of which this is asked again.
    """

    agent_id: str
    message: str
    encoder: Callable[[Exchange, Claim], Encoder]
    streamed: bool
    conversation_id: str | None = None
    prompt: str | None = None
    unlisted: bool = False
    history: tuple[ShownMessage, ...] = ()
    after: str | None = None
    instructions: str | None = None
    shown_sha256: str | None = None
    repeats: Asked | None = None


class Door(msgspec.Struct, frozen=True, kw_only=True):
    """`name` is the `form` of the runs that are asked for here, in stored events.

    `read` reads the rest of a request (Refusal, ClientGone); `check` raises Refusal where the caller's plan
    does not have this door.
    """

    name: str
    read: Callable[[Parts, Exchange, Asker], Awaitable[Ask]]
    check: Callable[[Caller], None] = lambda _: None


class Entrance(msgspec.Struct, frozen=True, kw_only=True):
    """An address by which runs are asked for, with POST, and its doors.

    `who` gives the key and, where headers name one, the agent's id; `door` chooses (both raise Refusal).
    `again`: a client says that it asks for the second time. `describe` gives the operation in OpenAPI.
    """

    path: str
    who: Callable[[Exchange], tuple[str, str | None]]
    door: Callable[[Parts, Exchange], Door]
    describe: Callable[[], dict[str, Any]]
    again: Callable[[Exchange], bool] = lambda _: False


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """An address beside an entrance that is read with GET; `answer` is given what its path names, or ""."""

    path: str
    answer: Callable[[Parts, Exchange, str], Awaitable[None]]
    describe: Callable[[], dict[str, Any]]


class Wording(msgspec.Struct, frozen=True, kw_only=True):
    """How refusals are worded at all addresses that begin with `prefix`."""

    prefix: str
    words: Words
