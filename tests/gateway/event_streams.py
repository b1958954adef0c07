"""Reading GET /v1/chat/{trace_id}/events, and a run that is told there."""

import re

from msgspec.structs import replace

from agentchat.contracts import events
from agentchat.contracts.messages import ChatRequested
from agentchat.contracts.values import Form, Source, Usage
from tests.gateway import stored
from tests.gateway.client import Client, EventReader
from tests.gateway.conftest import Accounts
from tests.gateway.stored import AT, has_ended

Event = tuple[str | None, str]
"""The id of an event, and its data."""

_EVENT = re.compile(rb"(?:id: ([^\n]+)\n)?data: ([^\n]+)\n\n")
FIRST, SECOND = "Let me 👀 look.", " déjà\u2028 vu 😀."
SOURCE = Source(index=1, id="a", title="A", url="/a", source_type="document", score=0.5, snippet="…")


def parse_stream(data: bytes) -> list[Event]:
    """The events of a stream that holds nothing else."""
    assert _EVENT.sub(b"", data.replace(b": ping\n\n", b"")) == b""
    return [(cursor.decode() or None, text.decode()) for cursor, text in _EVENT.findall(data)]


async def open_events(
    client: Client, trace_id: str, form: int | str | None = None, after: str | None = None
) -> EventReader:
    headers = {} if form is None else {"X-Stream-Form": str(form)}
    if after is not None:
        headers["Last-Event-ID"] = after
    request = client.http.build_request(
        "GET",
        f"{client.url}/v1/chat/{trace_id}/events",
        headers={"X-Api-Key": client.headers["X-Api-Key"], **headers},
    )
    return EventReader(await client.http.send(request, stream=True))


async def read(
    client: Client, trace_id: str, form: int | str | None = None, after: str | None = None
) -> list[Event]:
    """The whole stream, or all after a cursor."""
    reader = await open_events(client, trace_id, form, after)
    assert reader.response.status_code == 200, await reader.response.aread()
    assert reader.response.headers["content-type"] == "text/event-stream"
    assert reader.response.headers["x-trace-id"] == trace_id
    await reader.rest()
    return parse_stream(reader.bytes)


def ask_events(accounts: Accounts, form: Form = "form1") -> ChatRequested:
    """A request that nobody sent."""
    return replace(stored.request(accounts.free, message="hi"), form=form)


def tell_story(request: ChatRequested) -> list[events.Event]:
    """Sources, a warning, a round with text in pieces and two calls, and a round that ends it."""
    trace_id, usage = request.trace_id, Usage(input_tokens=3, output_tokens=2)
    calls = [
        events.ToolCalled(trace_id=trace_id, at=AT, round=1, call_id=f"c{n}", name="look", input={"n": n})
        for n in (1, 2)
    ]
    returns = [
        events.ToolReturned(
            trace_id=trace_id, at=AT, round=1, call_id=f"c{n}", output='{"ok":1}', is_error=False, ms=1
        )
        for n in (1, 2)
    ]
    replied = events.ModelReplied(
        trace_id=trace_id, at=AT, round=1, blocks=(), stop_reason="tool_use", usage=usage
    )
    said, replied_again, saved, completed = has_ended(request, SECOND)
    last = [
        replace(said, round=2, cuts=(3, 6, 10)),
        replace(replied_again, round=2),
        replace(saved, content=FIRST + SECOND),
        completed,
    ]
    said = events.Delta(trace_id=trace_id, at=AT, round=1, text=FIRST, cuts=(4, 8, 14))
    sources = events.SourcesRetrieved(trace_id=trace_id, at=AT, sources=(SOURCE,))
    warned = events.WarningRaised(
        trace_id=trace_id,
        at=AT,
        code="tool_server_unavailable",
        subject="crm",
        message="The tool server crm cannot be reached.",
    )
    return [sources, warned, said, replied, *calls, *returns, *last]
