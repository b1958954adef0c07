"""An orchestrator of this release next to one of a newer release, which has stored an event of a new tag."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from agentchat.contracts import events, frames, wire
from agentchat.contracts.messages import (
    ChatRequested,
)
from agentchat.conversations.event_store import mapper
from agentchat.conversations.event_store.conversation_store import open_store
from agentchat.orchestrator.services import Timings
from tests.orchestrator.given import World, format_time_ago, wait_until_logged
from tests.orchestrator.process import orchestrator
from tests.orchestrator.scripted import reply_with
from tests.orchestrator.test_elicitation import SHOP, elicit, life, respond
from tests.orchestrator.toolbox import Toolbox

NEW = "elicitation_requested.v9"
NEWER = f"""
from agentchat.contracts import events
from agentchat.conversations.event_store import mapper

mapper.UPCASTS["{NEW}"] = lambda state: state | {{"type": events.get_tag(events.ElicitationRequested)}}

from agentchat.orchestrator.__main__ import main

main()
"""


@pytest.fixture(scope="module")
async def system(world: World) -> AsyncIterator[World]:
    """With one worker of this release, which takes soon again what it has put back."""
    async with world.worker(timings=Timings(put_back_seconds=(0.1, 1.0))):
        yield world


@pytest.fixture(autouse=True)
def _reset_box(box: Toolbox) -> None:
    box.run = elicit()
    box.requested.clear()


async def run_until_elicited(world: World, count: int) -> ChatRequested:
    """A run whose tool has asked a person, as a newer release stores it, with so many of its events."""
    request = world.request(await world.agent(mcp_servers=(SHOP,)), requested_at=format_time_ago(20))
    stored = mapper.encode_pairs(life(request, expires_at=format_time_ago(-3600))[:count])
    asked = events.get_tag(events.ElicitationRequested)
    async with open_store(world.settings.database_url) as store:
        version = (await world.store_open_run(request)).version
        await store.append_stored(
            request.conversation_id,
            version,
            [_rename_event(state) if topic == asked else (topic, state) for topic, state in stored],
        )
    return request


def _rename_event(state: bytes) -> tuple[str, bytes]:
    return NEW, wire.encode(msgspec.json.decode(state, type=dict[str, Any]) | {"type": NEW})


@pytest.mark.slow
async def test_unknown_event_leaves_request_to_newer_release(system: World, box: Toolbox) -> None:
    request = await run_until_elicited(system, 4)
    system.will(reply_with("Done."))
    with capture_logs() as lines:
        caller = await system.request_again(request)
        await wait_until_logged(
            lines, lambda line: line["event"] == "request_put_back" and NEW in line["reason"], count=4
        )
    async with orchestrator(system.settings, "newer", code=NEWER):
        await caller.until(frames.Completed)
    (again,) = box.requested
    assert (again.leg, again.input, again.responses) == (1, {"n": 2}, (respond("accept", {"guests": 3}),))
    assert caller.of(frames.Failed) == []
