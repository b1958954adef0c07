"""POST /v1/chat/stream in form 1, which tells of sources. Its events: `contracts.sse`."""

from contracts import sse
from gateway.doors import own
from gateway.doors.port import Door

DOOR = Door(
    name="form1",
    read=own.streamed,
    encoder=lambda _ask, conversation_id, trace_id: sse.Encoder("form1", conversation_id, trace_id),
)
