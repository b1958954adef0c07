"""Finish an agent's authorization at a tool server: GET /v1/oauth/callback.

No key is needed: the state, valid once and for one link, identifies the authorization.
"""

import re
from typing import Annotated

from litestar import Response, get
from litestar.params import PathParameter, QueryParameter

from agentchat.contracts import subjects
from agentchat.contracts.authorizations import CALLBACK_PATTERN, AuthorizationFinished, FinishAuthorization
from agentchat.contracts.http import OAUTH_CALLBACK
from agentchat.contracts.timings import AUTHORIZE_SECONDS
from agentchat.gateway.http.problems import Refusal, build_field_refusal
from agentchat.gateway.http.request_context import JsonRequest
from agentchat.runtime.client_address import find_peer

_STATE = "^[A-Za-z0-9_-]{43}$"
_MAX = 4096
_DONE = b"The agent is authorised at its tool server. This window can be closed.\n"
_HEADERS = {"content-type": "text/plain", "cache-control": "no-store", "referrer-policy": "no-referrer"}

State = Annotated[str | None, QueryParameter(name="state", description="Of the link; taken once.")]
Code = Annotated[
    str | None,
    QueryParameter(description="What tokens are issued for; absent if it was refused.", max_length=_MAX),
]
Issuer = Annotated[str | None, QueryParameter(description="Who answers (RFC 9207).", max_length=_MAX)]


@get(
    f"{OAUTH_CALLBACK}/{{issuer:str}}",
    operation_id="getOauthCallback",
    summary="Finish the authorization of an agent at a tool server.",
    media_type="text/plain",
)
async def get_oauth_callback(
    request: JsonRequest,
    issuer: Annotated[str, PathParameter(description="Stands for the issuer of the link.")],
    link_state: State = None,
    code: Code = None,
    iss: Issuer = None,
) -> Response[bytes]:
    """Return 200 if the agent is authorised now, else 404.

    404 also for a link that has expired, was used, or belongs to another issuer. An unknown state counts as a
    wrong key of its address.
    """
    if not re.fullmatch(CALLBACK_PATTERN, issuer):
        raise Refusal("not_found")
    if not re.fullmatch(_STATE, link_state or ""):
        raise build_field_refusal("state", "Unknown or expired `state`.")
    finish = FinishAuthorization(
        state=link_state or "", code=code or None, issuer=iss or None, callback=issuer
    )
    access = request.services
    peer = find_peer(request.scope, access.trusted_proxies)
    if (wait := access.wrong_keys.wait(peer)) is not None:
        raise Refusal("rate_limited", "Too many wrong states came from this address.", retry_after=wait)
    answer = await request.services.bus.rpc.ask(
        # Answered by tool_runner.authorization.authorization_links.
        subjects.TOOLS_AUTHORIZED,
        finish,
        AuthorizationFinished,
        timeout=AUTHORIZE_SECONDS,
    )
    if not answer.ok:
        access.wrong_keys.was_wrong(peer)
        raise Refusal("not_found", f"The agent was not authorised: {answer.detail}.")
    return Response(_DONE, headers=_HEADERS)
