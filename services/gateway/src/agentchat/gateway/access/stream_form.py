"""Read the form of stream that a request asks for in X-Stream-Form, and check the plan."""

from agentchat.gateway.http.problems import Refusal, build_field_refusal
from agentchat.gateway.http.request_context import JsonRequest

_HEADER = "X-Stream-Form"


def read_stream_form(request: JsonRequest, default: str | None = None) -> str:
    """Return the form of stream that a request asks for; else `default`, or the deployment's.

    Raises Refusal: 400, 403 if the plan does not have it.
    """
    form = request.headers.get(_HEADER, default or str(request.services.stream_form))
    if form not in ("1", "2", "full"):
        raise build_field_refusal(_HEADER, "This header must be full, 1 or 2, or be left out.")
    plan = request.auth.plan
    if form == "2" and not plan.form2_streaming:
        raise Refusal("plan_upgrade_required", f"The plan {plan.name} has no streaming in form 2.")
    return form
