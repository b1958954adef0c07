"""The header X-Stream-Form, by which a request chooses the form of its stream."""

from typing import Literal

from contracts import sse
from contracts.values import Form
from directory.caller import Caller
from gateway.http.exchange import Exchange
from gateway.http.problem_responses import Refusal, invalid
from gateway.openapi.described import parameter

_NAME = "X-Stream-Form"
STREAM_FORM = parameter(
    "header",
    _NAME,
    "The form of the stream's events, 2 on some plans only; without it the deployment's.",
    enum=["1", "2"],
)
_FORMS: dict[bytes, sse.Form] = {b"1": "form1", b"2": "form2"}


def form_of(exchange: Exchange) -> sse.Form | None:
    """The form that is asked for; None where none is. Raises Refusal."""
    asked = exchange.header(_NAME.lower().encode())
    if not asked:
        return None
    if len(asked) > 1 or asked[0] not in _FORMS:
        raise invalid(_NAME, "This header must be 1 or 2, or be left out.")
    return _FORMS[asked[0]]


def default_form(number: Literal[1, 2]) -> sse.Form:
    """The form of streams whose request asks for none."""
    return _FORMS[b"%d" % number]


def check_plan(form: Form | None, caller: Caller) -> None:
    """Raises Refusal where the caller's plan does not have this form."""
    if form == "form2" and not caller.plan.form2_streaming:
        raise Refusal("plan_upgrade_required", f"The plan {caller.plan.name} has no streaming in form 2.")
