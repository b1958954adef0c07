"""A request for a run, of any protocol."""

from typing import Annotated, Any

import msgspec

from contracts.http import DecisionBody
from contracts.values import ShownMessage
from conversations.claims.tries import Try

Reason = Annotated[str | None, msgspec.Meta(extra_json_schema={"maxLength": 2000})]
"""Of a decision, as a body has it: `storable` judges its length."""


class Fork(msgspec.Struct, frozen=True, kw_only=True):
    """A new conversation begins with what `source_id` has up to the message `at`, the reply of a run."""

    source_id: str
    at: str
    trace_id: str


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a person says of a tool call. A dismissal answers nothing, and may come too late."""

    approval_id: str
    body: DecisionBody
    is_dismissal: bool = False


class RunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked, in terms of no protocol.

    `conversation_id` is None for a new conversation, which no list shows where it is `unlisted`. `streamed`:
    the answer goes out as the run goes on; otherwise it is one document, once that has ended.

    `outputs`: the answer has the outputs of tools as they return. `calls_at_end`: its end has the tool calls
    with their outputs, which have to be read from the log.

    `form` is the name that stored events have for its protocol.

    `history`, `after`, `instructions`, `output_schema` and `shown_sha256` are those of ChatRequested; where
    the last is given, it is what a repeated Idempotency-Key must agree with. Where a `fork` cannot be made, a
    new conversation begins with the `history`. `attempted` is given where the client counts its tries: they
    have one run. `key` is an Idempotency-Key that the body has, for a request without the header.

    `is_task`: as ChatRequested has it. `model`: its `requested_model`.

    With `verdicts` nothing new is asked: the run that waits for them goes on. `decides_all`: for all of them.
    """

    form: str
    agent_id: str
    message: str = ""
    streamed: bool
    outputs: bool = False
    calls_at_end: bool = True
    conversation_id: str | None = None
    prompt: str | None = None
    unlisted: bool = False
    history: tuple[ShownMessage, ...] = ()
    after: str | None = None
    fork: Fork | None = None
    instructions: str | None = None
    shown_sha256: str | None = None
    output_schema: dict[str, Any] | None = None
    model: str | None = None
    attempted: Try | None = None
    key: str | None = None
    is_task: bool = False
    verdicts: tuple[Verdict, ...] = ()
    decides_all: bool = False
