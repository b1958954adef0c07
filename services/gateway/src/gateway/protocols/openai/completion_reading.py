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
from gateway.chat.chat_request import ChatRequest
from gateway.chat.run_request import RunRequest
from gateway.chat.shown import Shown, storable
from gateway.http.problem_responses import Refusal
from gateway.protocols.openai import azure, open_webui
from gateway.protocols.openai.completion_body import ChatCompletion, check_fit, hash_of
from gateway.protocols.openai.completion_messages import texts_of
from gateway.protocols.openai.openai_headers import conversation_key_of, tries_of
from gateway.protocols.openai.structured import schema_of, wanted_by

_ANSWERED_SECONDS = 10.0
"""Under a key for the conversation, an answer that was lost on its way to the client is sent again for so
long: beyond the SDK's pause before a retry. Without one, equal requests may be those of strangers.
"""


async def run_request(request: ChatRequest, body: ChatCompletion) -> RunRequest:
    """What the body and the headers ask for. Raises Refusal, DatabaseUnavailable."""
    received, limit, pool = await request.body(), request.auth.plan.max_message_bytes, request.services.pool
    account_id, exchange = request.auth.account_id, request.exchange

    def read() -> tuple[Shown, str]:
        check_fit(body)
        return texts_of(body.messages, "messages").shown("messages", limit), hash_of(received)

    given, body_hash = await request.in_turn(read)
    wanted = wanted_by(body.response_format, "response_format", "json_schema")
    is_task = open_webui.is_task(exchange, given)
    key = None if is_task else conversation_key_of(exchange)
    model = storable(body.model)
    if (deployment := azure.deployment_of(exchange.scope["path"])) is not None:
        model, body_hash = deployment, f"{deployment}\n{body_hash}"
    agent_id = await agent_named(request, model)
    hash_of_texts = partial(shown_history.hash_of, account_id, agent_id, key or "")
    requested = RunRequest(
        form="openai",
        agent_id=agent_id,
        message=given.message,
        model=model,
        streamed=bool(body.stream),
        unlisted=key is None,
        history=given.history,
        instructions=given.instructions,
        shown_sha256=hash_of_texts(given.digests.messages),
        attempted=attempt_of(request, body_hash, key),
        is_task=is_task,
        output_schema=await schema_of(pool, account_id, agent_id, wanted),
    )
    if key is None:
        return requested
    return await shown.found(pool, requested, given, account_id, key, hash_of_texts)


async def agent_named(request: ChatRequest, model: str) -> str:
    """The id of the agent that the body names. Raises Refusal: 404; DatabaseUnavailable."""
    agent_id = await request.services.agent_names.called(request.auth.account_id, model)
    if agent_id is None:
        raise Refusal("agent_not_found")
    return agent_id


def attempt_of(request: ChatRequest, body_hash: str, key: str | None) -> Try | None:
    """As a try of all that it says, where its client counts them."""
    tried, caller = tries_of(request.exchange), request.auth
    if tried is None:
        return None
    return Try(
        account_id=caller.account_id,
        request=sha256(wire.encode((caller.key_id, key, body_hash))).hexdigest(),
        first=tried == 0,
        asked_at=caller.now,
        answered_seconds=0.0 if key is None else _ANSWERED_SECONDS,
    )
