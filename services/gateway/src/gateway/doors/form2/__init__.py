"""POST /v1/chat/stream in form 2, which tells of tools; on some plans only. Its events: `contracts.sse`."""

from contracts import sse
from gateway.doors import own
from gateway.doors.port import Door
from gateway.forms import check_plan

DOOR = Door(
    name="form2",
    check=lambda caller: check_plan("form2", caller),
    read=own.streamed,
    encoder=lambda _ask, conversation_id, trace_id: sse.Encoder("form2", conversation_id, trace_id),
)
