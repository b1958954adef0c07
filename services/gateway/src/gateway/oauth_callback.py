"""GET /v1/oauth/callback: what an authorization server answers to a link that an administrator opened.

Nobody is authenticated here: the state, made for this one link and taken once, says what it is about.
"""

import re
from typing import Annotated

from litestar import get
from litestar.params import PathParameter

from contracts import subjects
from contracts.authorizations import CALLBACK_PATTERN, AuthorizationFinished, FinishAuthorization
from contracts.http import OAUTH_CALLBACK
from contracts.timings import AUTHORIZE_SECONDS
from gateway.gateway_request import GatewayRequest
from gateway.http import query
from gateway.http.http_responses import JsonAnswer
from gateway.http.peers import peer_of
from gateway.http.problem_responses import Refusal, invalid
from gateway.openapi.described import described, parameter

_STATE = "^[A-Za-z0-9_-]{43}$"
_MOST = 4096
_DONE = b"The agent is authorised at its tool server. This window can be closed.\n"
_HEADERS = {"cache-control": "no-store", "referrer-policy": "no-referrer"}


_PROBLEMS = ("invalid_request", "not_found", "rate_limited", "overloaded")
_QUERY = (
    parameter("query", "state", "Of the link; taken once.", required=True, maxLength=_MOST, pattern=_STATE),
    parameter(
        "query",
        "code",
        "What tokens are issued for; absent where the authorization was refused.",
        maxLength=_MOST,
    ),
    parameter("query", "iss", "Who answers (RFC 9207).", maxLength=_MOST),
)
_CONTENT = {"text/plain": {"type": "string"}}
_EXAMPLES = {"authorised": _DONE.decode()}


@get(
    f"{OAUTH_CALLBACK}/{{issuer:str}}",
    operation_id="getOauthCallbackOfIssuer",
    summary="Where the authorization server of a tool server sends an administrator's browser back to.",
    response_description="The agent is authorised.",
    media_type="text/plain",
    tags=["service"],
)
@described(*_PROBLEMS, parameters=_QUERY, content=_CONTENT, examples=_EXAMPLES)
async def get_oauth_callback_of_issuer(
    request: GatewayRequest,
    issuer: Annotated[
        str,
        PathParameter(
            description="Stands for the issuer of the link.",
            schema_extra={"pattern": f"^{CALLBACK_PATTERN}$"},
        ),
    ],
) -> JsonAnswer[bytes]:
    """As `get_oauth_callback`; an answer to a link of another issuer comes to nothing."""
    if not re.fullmatch(CALLBACK_PATTERN, issuer):
        raise Refusal("not_found")
    return await _finished(request, issuer)


@get(
    OAUTH_CALLBACK,
    operation_id="getOauthCallback",
    summary="The same for clients that were registered before each issuer had a redirect URI of its own.",
    response_description="The agent is authorised.",
    media_type="text/plain",
    tags=["service"],
)
@described(*_PROBLEMS, parameters=_QUERY, content=_CONTENT, examples=_EXAMPLES)
async def get_oauth_callback(request: GatewayRequest) -> JsonAnswer[bytes]:
    """200 where the agent is authorised now, else 404, also for a link that is over or was used.

    A state that comes to nothing counts as a wrong key of its address.
    """
    return await _finished(request, None)


async def _finished(request: GatewayRequest, callback: str | None) -> JsonAnswer[bytes]:
    given = query.parameters(request.exchange, "state", "code", "iss")
    if not re.fullmatch(_STATE, given.get("state", "")):
        raise invalid("state", "This is the state of no link.")
    for name, value in given.items():
        if len(value) > _MOST:
            raise invalid(name, f"This has more than {_MOST} characters.")
    asked = FinishAuthorization(
        state=given["state"],
        code=given.get("code") or None,
        issuer=given.get("iss") or None,
        callback=callback,
    )
    services = request.services
    peer = peer_of(request.exchange, services.trusted_proxies)
    if (wait := services.wrong_keys.wait(peer, asked.state)) is not None:
        raise Refusal("rate_limited", "Too many wrong states came from this address.", retry_after=wait)
    answer = await services.bus.rpc.ask(
        subjects.TOOLS_AUTHORIZED, asked, AuthorizationFinished, timeout=AUTHORIZE_SECONDS
    )
    if not answer.ok:
        services.wrong_keys.was_wrong(peer, asked.state)
        raise Refusal("not_found", f"The agent was not authorised: {answer.detail}.")
    return JsonAnswer(_DONE, media_type="text/plain", headers=_HEADERS)


HANDLERS = (get_oauth_callback_of_issuer, get_oauth_callback)
