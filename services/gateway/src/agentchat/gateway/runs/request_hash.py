"""Hash what a request wants, and claim its key for it, so that one run answers all requests with that key.

`conversations.idempotency.idempotency_keys` decides whose key it is (decision 9).
"""

import contextlib
import hashlib
from collections.abc import Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from agentchat.contracts import wire
from agentchat.contracts.messages import ChatRequested, DescribeConversation, ForkConversation, RunInput
from agentchat.contracts.ownership import Owned
from agentchat.contracts.timings import ACCEPT_SECONDS, COMMAND_SECONDS
from agentchat.conversations.idempotency import idempotency_keys
from agentchat.conversations.idempotency.claim_writer import Claims
from agentchat.conversations.idempotency.idempotency_keys import Claim, KeyConflict
from agentchat.gateway.access.idempotency_header import IdempotencyKey
from agentchat.gateway.http.problems import Refusal
from agentchat.runtime.postgres import DatabaseUnavailable, Pool

C = TypeVar("C", DescribeConversation, ForkConversation)


async def claim_run(
    claims: Claims, key: str, request: ChatRequested, file_marks: Sequence[str] = ()
) -> Claim:
    """Claim the key for a request, or find what it stands for.

    `file_marks` tell the files of its message from others.

    Raises Refusal: 409 if the key stands for another request; DatabaseUnavailable.
    """
    return await _claim(
        claims,
        owner=request,
        key=key,
        request_hash=hash_request(request, file_marks),
        trace_id=request.trace_id,
        conversation_id=request.conversation_id,
        seconds=ACCEPT_SECONDS,
    )


async def claim_command(claims: Claims, key: IdempotencyKey, command: C) -> C:
    """Return the command of the first request with this key, with its trace and the ids of what it creates.

    These make it take effect once, so a repeated request need not wait for the first. Raises Refusal: 409,
    DatabaseUnavailable.
    """
    if key.text is None:
        return command
    hashed = replace(command, trace_id="")
    if isinstance(hashed, ForkConversation):
        hashed = replace(hashed, conversation_id="")
    claim = await _claim(
        claims,
        owner=command,
        key=key.text,
        request_hash=hashlib.sha256(wire.encode_canonical(hashed)).digest(),
        trace_id=command.trace_id,
        conversation_id=command.conversation_id,
        seconds=COMMAND_SECONDS,
    )
    return replace(command, trace_id=claim.trace_id, conversation_id=claim.conversation_id)


async def extend_claim(pool: Pool, claim: Claim, seconds: float) -> None:
    """Extend the claim of a queued request by `seconds`. If this fails, the claim expires."""
    if claim.key_hash:
        with contextlib.suppress(DatabaseUnavailable):
            await idempotency_keys.extend_claim(pool, claim, seconds)


async def give_up_claim(pool: Pool, claim: Claim, *, refused: bool) -> None:
    """Free the key of a request that was not accepted; `refused`: by a worker. If this fails, it expires."""
    if claim.key_hash:
        with contextlib.suppress(DatabaseUnavailable):
            await idempotency_keys.give_up_claim(pool, claim, refused=refused)


async def _claim(
    claims: Claims,
    *,
    owner: Owned,
    key: str,
    request_hash: bytes,
    trace_id: str,
    conversation_id: str,
    seconds: float,
) -> Claim:
    try:
        return await idempotency_keys.claim_key(
            claims,
            owner=owner,
            key=key,
            request_hash=request_hash,
            trace_id=trace_id,
            conversation_id=conversation_id,
            seconds=seconds,
        )
    except KeyConflict:
        raise Refusal("idempotency_conflict") from None


def hash_request(request: ChatRequested, file_marks: Sequence[str]) -> bytes:
    """Hash what the caller wants, whatever the endpoint, the form, and the way the JSON was written."""
    options: tuple[Any, ...] = tuple(
        (name, value) for name in _HASHED if (value := getattr(request, name)) not in (None, {}, ())
    )
    if file_marks:
        options += (("attachments", file_marks),)
    if request.shown_sha256 is not None:  # all of it; in which conversation is found by it
        shown = (request.shown_sha256, request.instructions, *options)
        return hashlib.sha256(wire.encode_canonical(shown)).digest()
    thread = None if request.new_conversation else request.conversation_id
    fields = (request.agent_id, request.message, thread, request.prompt, request.instructions, *options)
    return hashlib.sha256(wire.encode_canonical(fields)).digest()


_NOT_HASHED = {
    *("agent_id", "message", "prompt", "instructions", "shown_sha256"),  # hashed by their place
    *("history", "after", "is_task"),  # `shown_sha256` stands for them
    *("form", "requested_model", "depth"),  # how the request came, not what it wants
}
_HASHED = (*(name for name in RunInput.__struct_fields__ if name not in _NOT_HASHED), "on_busy")
"""Fields that few requests have: a new field of a request is one of them."""
