"""Take the results of a client's tools: POST /v1/chat/{trace_id}/tool_results."""

from typing import Annotated

from litestar import post
from litestar.openapi.spec import Example
from litestar.params import BodyKwarg

from agentchat.contracts import http, wire
from agentchat.contracts.run_results import ActionRequired, ChatReply
from agentchat.contracts.values import ClientToolResult
from agentchat.gateway.access.checks import may_act
from agentchat.gateway.http.request_context import JsonRequest
from agentchat.gateway.protocols.chat import wait_for_answer
from agentchat.gateway.runs.owned_run import TraceId, find_owned_run
from agentchat.gateway.runs.resume_paused_run import follow_resumed_run
from agentchat.gateway.runs.return_results import list_request_ids, return_results

ToolResultsData = Annotated[
    http.ToolResultsBody,
    BodyKwarg(
        examples=[
            Example(
                summary="The result of one call",
                value={"results": [{"id": "tc_01980f5cb3a27c41a9d2c6d1b8e0f3a4", "output": "Ulm"}]},
            )
        ],
    ),
]


@post(
    "/v1/chat/{trace_id:str}/tool_results",
    status_code=200,
    operation_id="returnToolResults",
    summary="Return the results of client tools, get the reply as JSON.",
    guards=[may_act],
)
async def take_tool_results(
    request: JsonRequest, trace_id: TraceId, data: ToolResultsData
) -> ChatReply | ActionRequired:
    """Resume a run that waits for its client's tools; the answer is as that of `POST /v1/chat`.

    The results of all calls come together. Sending the same results again is safe. To stream the rest,
    follow `GET /v1/chat/{trace_id}/events` meanwhile. 409 for a call that is unknown or has a result already.
    """
    await find_owned_run(request.services.pool, request.auth, trace_id)
    results = [_build_result(each) for each in data.results]
    conversation_id, run = await return_results(request, results, trace_id=trace_id)
    resumed = await follow_resumed_run(request, conversation_id, run, list_request_ids(results))
    return await wait_for_answer(request, resumed)


def _build_result(given: http.SubmittedResult) -> ClientToolResult:
    output = wire.encode(given.output).decode()
    return ClientToolResult(id=given.id, output=output, is_error=given.is_error)
