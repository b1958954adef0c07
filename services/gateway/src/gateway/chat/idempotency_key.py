"""The header Idempotency-Key: one run for a key, whoever asks for it again, and at whichever gateway. And
tries that their client counts, with no key.

The key is an opaque text of visible ASCII, bare or as a quoted string (IETF
draft-ietf-httpapi-idempotency-key-header; RFC 9651 section 3.3.3). How claims work: decision 9.
"""

import contextlib
import hashlib
import re
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from contracts import wire
from contracts.messages import ChatRequested, DescribeConversation, ForkConversation
from contracts.timings import COMMAND_SECONDS
from conversations.claims import idempotency, tries
from conversations.claims.idempotency import Claim, KeyConflict
from conversations.claims.table import Claims
from conversations.claims.tries import Try
from gateway.http.exchange import Exchange
from gateway.http.problem_responses import Refusal, invalid
from gateway.openapi.described import parameter
from runtime.postgres import DatabaseUnavailable, Pool

NAME = "Idempotency-Key"
MAX_LENGTH = 255
IDEMPOTENCY_KEY = parameter(
    "header",
    NAME,
    "Names this request: sent again with the same key and body within 24 hours, it gives the first one's "
    "result and starts nothing. Visible ASCII, bare or as a quoted string, such as a new UUID.",
    minLength=1,
    maxLength=MAX_LENGTH,
    pattern="^[!#-~][!-~]*$",
)
_BARE = re.compile(rb"[!#-~][!-~]*\Z")
_QUOTED = re.compile(rb'"((?:[ !#-\[\]-~]|\\["\\])*)"\Z')
_ESCAPED = re.compile(rb'\\(["\\])')
C = TypeVar("C", DescribeConversation, ForkConversation)

_WRONG = f"This header is sent once, with 1 to {MAX_LENGTH} characters of visible ASCII."


class IdempotencyKey(msgspec.Struct, frozen=True):
    """The key of a request. `text` is None where it has none; `valid` False where the header cannot be right.

    `repeats`: a request with this key has begun a run, or is on its way.
    """

    text: str | None
    valid: bool = True
    repeats: bool = False

    def check(self) -> None:
        """Raises Refusal."""
        if not self.valid:
            raise invalid(NAME, _WRONG)

    async def claim(self, claims: Claims, request: ChatRequested, seconds: float) -> Claim | None:
        """Claim the key for `request` and `seconds`, or find what it stands for; only where there is one.

        Raises Refusal: 409 where it stands for another request; DatabaseUnavailable.
        """
        return await self._claim(
            claims, request.account_id, _hash(request), request.trace_id, request.conversation_id, seconds
        )

    async def claim_command(self, claims: Claims, command: C) -> C:
        """The command as the first request with this key gave it: with its trace, and what it is to begin.

        By these it is obeyed once, so nobody waits for anybody. Raises Refusal: 409, DatabaseUnavailable.
        """
        if self.text is None:
            return command
        asked = replace(command, trace_id="")
        if isinstance(asked, ForkConversation):
            asked = replace(asked, conversation_id="")
        request_hash = hashlib.sha256(wire.encode_canonical(asked)).digest()
        trace_id, conversation_id = command.trace_id, command.conversation_id
        claim = await self._claim(
            claims, command.account_id, request_hash, trace_id, conversation_id, COMMAND_SECONDS
        )
        return replace(command, trace_id=claim.trace_id, conversation_id=claim.conversation_id)

    async def _claim(
        self,
        claims: Claims,
        account_id: str,
        request_hash: bytes,
        trace_id: str,
        conversation_id: str,
        seconds: float,
    ) -> Claim:
        assert self.text is not None
        try:
            return await idempotency.claim_key(
                claims,
                account_id=account_id,
                key=self.text,
                request_hash=request_hash,
                trace_id=trace_id,
                conversation_id=conversation_id,
                seconds=seconds,
            )
        except KeyConflict:
            raise Refusal("idempotency_conflict") from None

    async def extend(self, pool: Pool, claim: Claim, seconds: float) -> None:
        """The claim's request waits in line: leave it so many seconds more."""
        if claim.key_hash:
            with contextlib.suppress(DatabaseUnavailable):
                await idempotency.extend(pool, claim, seconds)

    async def give_up(self, pool: Pool, claim: Claim, *, refused: bool) -> None:
        """The claim's request was not accepted; `refused`: by a worker. If this fails, it expires."""
        if claim.key_hash:
            with contextlib.suppress(DatabaseUnavailable):
                await idempotency.give_up(pool, claim, refused=refused)


class Tried(IdempotencyKey, frozen=True, kw_only=True):
    """No key, but a client that counts its tries: they have one run."""

    attempted: Try

    async def claim(self, claims: Claims, request: ChatRequested, seconds: float) -> Claim | None:
        """That of the other tries; None where it goes ahead on its own. Raises DatabaseUnavailable."""
        return await tries.claim_try(
            claims,
            self.attempted,
            trace_id=request.trace_id,
            conversation_id=request.conversation_id,
            seconds=seconds,
        )

    async def answered(self, claims: Claims, claim: Claim) -> None:
        """No try comes after this one."""
        if claim.key_hash:
            with contextlib.suppress(DatabaseUnavailable):
                await tries.answered(claims, self.attempted, claim.trace_id)


async def key_of(exchange: Exchange, pool: Pool, account_id: str) -> IdempotencyKey:
    """The key of this request, and whether it is known. Raises DatabaseUnavailable."""
    values = exchange.header(NAME.lower().encode())
    if not values:
        return IdempotencyKey(None)
    text = parse(values[0]) if len(values) == 1 else None
    if text is None:
        return IdempotencyKey(None, valid=False)
    return IdempotencyKey(text, repeats=await idempotency.is_repeat(pool, account_id, text))


def parse(value: bytes) -> str | None:
    """The key in a header's value; None where there is none that is allowed."""
    value = value.strip(b" \t")
    text = value.decode() if _BARE.match(value) else ""
    if quoted := _QUOTED.match(value):
        text = _ESCAPED.sub(rb"\1", quoted[1]).decode()
    return text if 1 <= len(text) <= MAX_LENGTH else None


def _hash(request: ChatRequested) -> bytes:
    """Of what the caller asked, whatever the endpoint, the form, and the way the JSON was written."""
    if request.shown_sha256 is not None:  # all of it; in which conversation is found by it
        shown = (request.shown_sha256, request.instructions)
        wanted = () if request.output_schema is None else (request.output_schema,)
        return hashlib.sha256(wire.encode((*shown, *wanted))).digest()
    thread = None if request.new_conversation else request.conversation_id
    asked = (request.agent_id, request.message, thread, request.prompt)
    return hashlib.sha256(wire.encode(asked)).digest()
