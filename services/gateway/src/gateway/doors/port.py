"""What a door is: how one kind of client asks for a run, and how he is answered."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol

import msgspec

from contracts.updates import Update
from directory.caller import AgentSummary, Caller
from gateway.exchange import Exchange
from gateway.parts import Parts


class Asker(msgspec.Struct, frozen=True):
    """Who asks. `agent` is the one that `agent_id` names, where that is one of the account's."""

    caller: Caller
    agent_id: str | None
    agent: AgentSummary | None


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked, in no client's words. `conversation_id` is None for a new conversation.

    `streamed`: the answer goes out as the run goes on; otherwise it is one document, once that has ended.
    """

    agent_id: str
    message: str
    conversation_id: str | None = None
    prompt: str | None = None
    streamed: bool = True


class Encoder(Protocol):
    """The bytes of one answer."""

    def encode(self, updates: Iterable[Update]) -> bytes:
        """Those of the next updates of a stream, or of all the updates of a document, which ends Finished."""


class Door(msgspec.Struct, frozen=True, kw_only=True):
    """`name` is the `form` of the runs that are asked for here, in stored events.

    `check` raises Refusal where the caller's plan does not have this door; `read` reads the rest of a request
    (Refusal, ClientGone); `encoder` is given the conversation's id and the trace.
    """

    name: str
    read: Callable[[Parts, Exchange, Asker], Awaitable[Ask]]
    encoder: Callable[[Ask, str, str], Encoder]
    check: Callable[[Caller], None] = lambda _: None


class Entrance(msgspec.Struct, frozen=True, kw_only=True):
    """An address by which runs are asked for, with POST, and its doors.

    `who` gives the key and, where headers name one, the agent's id; `door` chooses (both raise Refusal).
    `describe` gives its operation in OpenAPI.
    """

    path: str
    who: Callable[[Exchange], tuple[str, str | None]]
    door: Callable[[Parts, Exchange], Door]
    describe: Callable[[], dict[str, Any]]
