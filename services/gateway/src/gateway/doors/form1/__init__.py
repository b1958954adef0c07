"""POST /v1/chat/stream in form 1, which tells of sources. Its events: `contracts.sse`."""

from contracts import sse
from gateway.doors import own
from gateway.doors.port import Door

DOOR = Door(
    name="form1",
    read=own.reader(
        lambda _, claim: sse.Encoder("form1", claim.conversation_id, claim.trace_id), streamed=True
    ),
)
