"""What an endpoint is sent of an approval: what a tool asks is in full payloads alone."""

import msgspec
import pytest
from msgspec.structs import replace

from contracts import events
from contracts.examples import EVENT_EXAMPLES
from webhooks.notices import notice_of, rest_of, with_id

pytestmark = pytest.mark.requirement("TOOLS-ELICITATION")


def test_what_a_tool_asks_is_told_in_full_without_the_servers_state() -> None:
    (example,) = (each for each in EVENT_EXAMPLES if isinstance(each, events.ElicitationRequested))
    asks = events.InputAsked(message="Why?", name="cancel", input={}, key="a", request_state="opaque")
    notice = notice_of(1, "conversation", 2, replace(example, asked=asks))
    assert notice is not None
    assert notice.type == "approval.requested"
    full = msgspec.json.decode(with_id("msg_1", rest_of(notice, "full")))["data"]
    thin = msgspec.json.decode(with_id("msg_1", rest_of(notice, "thin")))["data"]
    assert full["elicitation"] == {"message": "Why?"}
    assert thin.keys() & {"elicitation", "tool", "agent_id"} == set()
