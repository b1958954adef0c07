"""POST /openai/v1/responses/{response_id}/cancel: the end of a response, asked for at whichever gateway."""

from typing import Any

from litestar import Request, post
from litestar.di import NamedDependency, Provide

from contracts.messages import CancelRequested
from directory.caller import Caller
from gateway.access.admission import within_read_rate
from gateway.access.auth import provide_caller
from gateway.gateway_services import parts_of
from gateway.http.strict_json import without_body
from gateway.openapi.described import described
from gateway.protocols.openai.completions import has_bearer_key
from gateway.protocols.openai.completions_openapi import SECURITY, TAG
from gateway.protocols.openai.responses import wire
from gateway.protocols.openai.responses.previous_response import found_response
from gateway.protocols.openai.responses.retrieve import ResponseId, response_of


@post(
    "/openai/v1/responses/{response_id:str}/cancel",
    status_code=200,
    operation_id="cancelResponse",
    summary="Cancel a response that is under way or in line.",
    description="The worker is told, and the response ends soon; one that has ended stays as it is.",
    response_description="The response as it is now.",
    guards=[has_bearer_key, within_read_rate, without_body],
    dependencies={"caller": Provide(provide_caller, sync_to_thread=False)},
    security=[SECURITY],
    tags=[TAG["name"]],
)
@described("not_found")
async def cancel_response(
    request: Request[Any, Any, Any], caller: NamedDependency[Caller], response_id: ResponseId
) -> wire.Response:
    """404 for what is not the account's, is unknown or erased."""
    parts = parts_of(request)
    named, found = await found_response(parts, caller, response_id)
    response, *_ = await response_of(parts, named, found)
    if response.status in ("queued", "in_progress"):
        await parts.bus.traces.cancel(CancelRequested(trace_id=named.trace_id, account_id=caller.account_id))
    return response
