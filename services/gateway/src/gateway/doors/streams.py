"""POST /v1/chat/stream: the header X-Stream-Form chooses between its two doors."""

from typing import Any

from contracts import sse, wire
from gateway.doors import form1, form2, own
from gateway.doors.form1 import description as described1
from gateway.doors.form2 import description as described2
from gateway.doors.port import Door, Entrance
from gateway.exchange import Exchange
from gateway.forms import default_form, form_of
from gateway.openapi.answers import RATE_LIMIT, refusals, success
from gateway.openapi.chat import ASKING, BODY, EVENT, FAILING
from gateway.openapi.operations import AGENT_ID, IDEMPOTENCY_KEY, STREAM_FORM, operation
from gateway.parts import Parts

_DOORS: dict[sse.Form, Door] = {"form1": form1.DOOR, "form2": form2.DOOR}


def _chosen(parts: Parts, exchange: Exchange) -> Door:
    return _DOORS[form_of(exchange) or default_form(parts.stream_form)]


def _describe() -> dict[str, Any]:
    streams = described1.EXAMPLES | described2.EXAMPLES
    examples = {name: b"".join(map(wire.encode_sse, events)).decode() for name, events in streams.items()}
    return operation(
        "streamChat",
        "chat",
        "Send a message, get the reply as server-sent events.",
        {
            **success(
                "The message is saved, and these are the events of its reply. The contents of the `delta` "
                "events, joined, are the reply; the last event is one `done` or one `error`.",
                EVENT,
                examples,
                media_type="text/event-stream",
                headers=RATE_LIMIT,
            ),
            **refusals(*ASKING, "plan_upgrade_required", *FAILING, headers=RATE_LIMIT),
        },
        description=f"{described1.ABOUT} {described2.ABOUT}",
        parameters=[AGENT_ID, STREAM_FORM, IDEMPOTENCY_KEY],
        body=BODY,
    )


ENTRANCE = Entrance(path="/v1/chat/stream", who=own.who, door=_chosen, describe=_describe)
