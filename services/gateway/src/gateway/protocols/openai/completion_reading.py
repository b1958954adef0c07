"""A chat completion as a `RunRequest`: which agent, and which conversation (decision 35).

Under the caller's key the conversation is the one whose texts are those that he shows. Where there is none,
or it has gone on since, a new one begins with what he shows. Without a key each request begins one, which no
list has.
"""

from functools import partial
from hashlib import sha256

from contracts import wire
from conversations.claims.tries import Try
from conversations.queries import shown_history
from gateway.chat import shown
from gateway.chat.run_request import RunRequest, RunRequester
from gateway.gateway_services import Parts
from gateway.http import strict_json
from gateway.http.exchange import Exchange
from gateway.http.problem_responses import Refusal
from gateway.openapi.described import described
from gateway.protocols.openai import azure, completion_body, open_webui
from gateway.protocols.openai.completions_openapi import BODY, CONVERSATION_KEY
from gateway.protocols.openai.openai_headers import conversation_key_of, tries_of
from gateway.protocols.openai.structured import schema_of

_ANSWERED_SECONDS = 10.0
"""Under a key for the conversation, an answer that was lost on its way to the client is sent again for so
long: beyond the SDK's pause before a retry. Without one, equal requests may be those of strangers.
"""


class CompletionRunRequest(RunRequest, frozen=True, kw_only=True):
    """What is asked; `model` is as it was named, and a stream tells its usage where that is asked for."""

    model: str
    include_usage: bool


@described(
    *("agent_not_found", "conversation_not_found", "unsupported_media_type", "message_too_large"),
    parameters=[CONVERSATION_KEY, open_webui.TASK],
    body=BODY,
)
async def read(parts: Parts, exchange: Exchange, requester: RunRequester) -> CompletionRunRequest:
    """Raises Refusal, ClientGone, DatabaseUnavailable."""
    limit = requester.caller.plan.max_message_bytes
    given = await strict_json.read_json(exchange, partial(completion_body.parse, max_message_bytes=limit))
    is_task = open_webui.is_task(exchange, given.shown)
    key = None if is_task else conversation_key_of(exchange)
    account_id = requester.caller.account_id
    deployment = azure.deployment_of(exchange.scope["path"])
    model, request = given.model, given.request
    if deployment is not None:
        model, request = deployment, f"{deployment}\n{given.request}"
    agent_id = await parts.agent_names.called(account_id, model)
    if agent_id is None:
        raise Refusal("agent_not_found")
    hash_of = partial(shown_history.hash_of, account_id, agent_id, key or "")
    requested = CompletionRunRequest(
        form=requester.form,
        agent_id=agent_id,
        message=given.shown.message,
        model=model,
        include_usage=given.include_usage,
        streamed=given.streamed,
        unlisted=key is None,
        history=given.shown.history,
        instructions=given.shown.instructions,
        shown_sha256=hash_of(given.shown.digests.messages),
        attempted=attempt_of(exchange, requester, request, key),
        is_task=is_task,
        output_schema=await schema_of(parts.pool, account_id, agent_id, given.wanted),
    )
    if key is None:
        return requested
    return await shown.found(parts.pool, requested, given.shown, account_id, key, hash_of)


def attempt_of(exchange: Exchange, requester: RunRequester, request: str, key: str | None) -> Try | None:
    """As a try of all that it says, where its client counts them; `request` is a hash of its body."""
    tried = tries_of(exchange)
    if tried is None:
        return None
    caller = requester.caller
    return Try(
        account_id=caller.account_id,
        request=sha256(wire.encode((caller.key_id, key, request))).hexdigest(),
        first=tried == 0,
        asked_at=caller.now,
        answered_seconds=0.0 if key is None else _ANSWERED_SECONDS,
    )
