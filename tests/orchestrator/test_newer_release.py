"""An orchestrator of this release next to one of a newer release, which has stored an event of a new tag."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from bus import BusUnavailable, decide_approval, describe_conversation, fork_conversation
from contracts import events, frames, wire
from contracts.ids import new_id
from contracts.messages import (
    ApprovalAnswered,
    ChatRequested,
    DecideApproval,
    DescribeConversation,
    ForkConversation,
)
from contracts.timings import COMMAND_ASKS
from conversations.event_store import mapper
from conversations.event_store.store import open_store
from orchestrator.orchestrator_services import Timings
from tests.orchestrator.given import World, ago, until_logged
from tests.orchestrator.process import orchestrator
from tests.orchestrator.scripted import says
from tests.orchestrator.test_approvals import ADA
from tests.orchestrator.test_elicitation import SHOP, asks_for, life, said
from tests.orchestrator.toolbox import Toolbox

NEW = "elicitation_requested.v9"
NEWER = f"""
from contracts import events
from conversations.event_store import mapper

mapper.UPCASTS["{NEW}"] = lambda state: state | {{"type": events.tag_of(events.ElicitationRequested)}}

from orchestrator.__main__ import main

main()
"""


@pytest.fixture(scope="module")
async def working(world: World) -> AsyncIterator[World]:
    """With one worker of this release, which takes soon again what it has put back."""
    async with world.worker(timings=Timings(put_back_seconds=(0.1, 1.0))):
        yield world


@pytest.fixture(autouse=True)
def _fresh(box: Toolbox) -> None:
    box.run = asks_for()
    box.requested.clear()


async def elicited(world: World, count: int) -> ChatRequested:
    """A run whose tool has asked a person, as a newer release stores it, with so many of its events."""
    request = world.request(await world.agent(mcp_servers=(SHOP,)), requested_at=ago(20))
    stored = mapper.stored(life(request, expires_at=ago(-3600))[:count])
    asked = events.tag_of(events.ElicitationRequested)
    async with open_store(world.settings.database_url) as store:
        version = (await world.begun(request)).version
        await store.append_stored(
            request.conversation_id,
            version,
            [_renamed(state) if topic == asked else (topic, state) for topic, state in stored],
        )
    return request


def _renamed(state: bytes) -> tuple[str, bytes]:
    return NEW, wire.encode(msgspec.json.decode(state, type=dict[str, Any]) | {"type": NEW})


async def test_a_request_is_left_to_the_newer_release_which_gives_the_tool_its_answer(
    working: World, box: Toolbox
) -> None:
    request = await elicited(working, 4)
    working.will(says("Done."))
    with capture_logs() as lines:
        caller = await working.ask_again(request)
        await until_logged(
            lines, lambda line: line["event"] == "request_put_back" and NEW in line["reason"], count=4
        )
    async with orchestrator(working.settings, "newer", code=NEWER):
        await caller.until(frames.Completed)
    (again,) = box.requested
    assert (again.leg, again.input, again.responses) == (1, {"n": 2}, (said("accept", {"guests": 3}),))
    assert caller.of(frames.Failed) == []


async def test_a_decision_is_left_to_the_newer_release(working: World, box: Toolbox) -> None:
    request = await elicited(working, 3)
    working.will(says("Done."))
    caller = await working.listen(request)
    decision = DecideApproval(
        trace_id=request.trace_id,
        account_id=request.account_id,
        conversation_id=request.conversation_id,
        approval_id="approval-b",
        decision="approved",
        by=ADA,
        input={"guests": 3},
    )
    with capture_logs() as lines, pytest.raises(BusUnavailable, match="Declined"):
        await decide_approval(working.bus.rpc, decision)
    assert [line["event"] for line in lines].count("request_declined") == COMMAND_ASKS
    async with orchestrator(working.settings, "newer", code=NEWER):
        answer = None
        for _ in range(5):  # each asks COMMAND_ASKS times, of either
            with contextlib.suppress(BusUnavailable):
                answer = await decide_approval(working.bus.rpc, decision)
                break
        assert answer == ApprovalAnswered()
        await caller.until(frames.Completed)
    assert [each.responses for each in box.requested] == [(said("accept", {"guests": 3}),)]


async def test_a_fork_is_left_to_the_newer_release(working: World) -> None:
    request = await elicited(working, 4)
    command = ForkConversation(
        trace_id=new_id().replace("-", ""),
        account_id=request.account_id,
        conversation_id=new_id(),
        source_id=request.conversation_id,
    )
    with pytest.raises(BusUnavailable, match="Declined"):
        await fork_conversation(working.bus.rpc, command)


async def test_a_description_is_left_to_the_newer_release(working: World) -> None:
    """It merges what the conversation has, of which this release may not know the newest."""
    request = await elicited(working, 3)
    command = DescribeConversation(
        trace_id=new_id().replace("-", ""),
        account_id=request.account_id,
        conversation_id=request.conversation_id,
        metadata={"customer": "C-77"},
    )
    with pytest.raises(BusUnavailable, match="Declined"):
        await describe_conversation(working.bus.rpc, command)
