"""POST /v1/chat/stream in form 2, which tells of tools; on some plans only. Its events: `contracts.sse`."""

from contracts import sse
from gateway.doors import own
from gateway.doors.port import Door
from gateway.forms import check_plan

DOOR = Door(
    name="form2",
    check=lambda caller: check_plan("form2", caller),
    read=own.reader(
        lambda _, claim: sse.Encoder("form2", claim.conversation_id, claim.trace_id), streamed=True
    ),
)
