"""A chat completion as an `Ask`: which agent, and which conversation (docs/decisions/0035).

Under the caller's key the conversation is the one whose texts are those that he shows. Where there is none,
or it has gone on since, a new one begins with what he shows. Without a key each request begins one, which no
list has.
"""

from datetime import datetime
from functools import partial

import msgspec
from msgspec.structs import replace

from conversations import shown
from conversations.idempotency import Claim
from directory.named import agent_called
from gateway import strict
from gateway.doors.openai import body
from gateway.doors.openai.answers import Chunks, Document
from gateway.doors.openai.who import again, conversation_key_of
from gateway.doors.port import Ask, Asker, Encoder
from gateway.exchange import Exchange
from gateway.parts import Parts
from gateway.problems import Refusal

_AGAIN_SECONDS = 900.0  # beyond a run's ten minutes, and the SDK's patience for an answer


class _Answering(msgspec.Struct, frozen=True):
    """How one request is answered; called once its run is known."""

    model: str
    streamed: bool
    include_usage: bool

    def __call__(self, exchange: Exchange, claim: Claim) -> Encoder:
        exchange.headers.append((b"x-conversation-id", claim.conversation_id.encode()))
        completion_id, created = (
            f"chatcmpl-{claim.trace_id}",
            int(datetime.fromisoformat(claim.now).timestamp()),
        )
        if self.streamed:
            return Chunks(completion_id, self.model, created, include_usage=self.include_usage)
        return Document(completion_id, self.model, created)


async def read(parts: Parts, exchange: Exchange, asker: Asker) -> Ask:
    """Raises Refusal, ClientGone, StoreUnavailable, DatabaseUnavailable."""
    key = conversation_key_of(exchange)
    limit = asker.caller.plan.max_message_bytes
    given = await strict.read_json(exchange, partial(body.parse, max_message_bytes=limit))
    account_id = asker.caller.account_id
    agent = await agent_called(parts.pool, account_id, given.model)
    if agent is None:
        raise Refusal("agent_not_found", "No agent of the account has this id, or alone has this name.")
    hash_of = partial(shown.hash_of, account_id, agent.agent_id, key or "")
    history, asked = given.messages[:-1], hash_of(given.messages)
    ask = Ask(
        agent_id=agent.agent_id,
        message=given.messages[-1].content,
        encoder=_Answering(given.model, given.streamed, given.include_usage),
        streamed=given.streamed,
        unlisted=key is None,
        history=history,
        instructions=given.instructions,
        shown_sha256=asked,
    )
    if key is None:
        return ask
    if again(exchange):
        ask = replace(ask, repeats=await shown.find_asked(parts.pool, asked, _AGAIN_SECONDS))
    if history and history[-1].role == "assistant":
        found = await shown.find_continued(parts.pool, hash_of(history[:-1]), history[-1].content)
        if found is not None:
            return replace(ask, conversation_id=found.conversation_id, after=found.reply_id, history=())
    return ask
