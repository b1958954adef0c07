"""A run that waits for a person: it parks, holds nothing, and goes on when it is decided, once."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from agentchat.bus.bus import Bus
from agentchat.bus.commands import decide_approval
from agentchat.contracts import events, frames
from agentchat.contracts.messages import ApprovalAnswered, ChatRequested, DecideApproval
from agentchat.contracts.values import Decider, Usage
from agentchat.conversations.aggregate.approval_rules import ApprovalTerms, request_approval
from agentchat.conversations.aggregate.conversation import Conversation, Run, fold
from agentchat.conversations.aggregate.rebuild_request import CANCELLED, rebuild_request
from agentchat.conversations.event_store.conversation_store import open_store
from agentchat.conversations.event_store.mapper import UNREADABLE
from agentchat.conversations.leases.leases import Leases
from agentchat.directory.agent_config import McpServer
from agentchat.directory.approval_policy import ApprovalRules, ToolFilter
from agentchat.orchestrator.run.run_log import get_run
from tests.orchestrator.given import Listener, World, format_time_ago
from tests.orchestrator.scripted import reply_with, reply_with_calls
from tests.orchestrator.toolbox import SPECS, Toolbox

POLICY = ApprovalRules(never=ToolFilter(tool_names=("find",)))
SHOP = McpServer(name="shop", url="https://shop.example/mcp", require_approval=POLICY)
ADA = Decider(kind="account", id="key-1")
ORDER = {"n": 2}
_NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.fixture(scope="module")
async def box(system: World) -> AsyncIterator[Toolbox]:
    async with Toolbox(system.bus).open() as opened:
        opened.specs = tuple(
            msgspec.structs.replace(spec, input_schema=_NUMBER) if spec.name == "order" else spec
            for spec in SPECS
        )
        yield opened


@pytest.fixture(autouse=True)
def _reset_box(box: Toolbox) -> None:
    box.run = box.echo
    box.requested.clear()


async def pause_run(world: World, **agent: Any) -> Listener:
    """A run that has done what needs nobody, and waits."""
    world.will(
        reply_with_calls(("a", "find", '{"q": 1}'), ("b", "order", '{"n": 2}'), text="Let me see. "),
        reply_with("Done."),
    )
    caller = await world.ask(await world.agent(mcp_servers=(SHOP,), **agent))
    await caller.until(frames.Paused)
    return caller


async def decision(
    world: World, caller: Listener, decided: Any = "approved", **fields: Any
) -> DecideApproval:
    (call,) = (await world.run(caller)).pending
    (approval,) = call.pending
    return DecideApproval(
        trace_id=caller.request.trace_id,
        account_id=caller.request.account_id,
        conversation_id=caller.request.conversation_id,
        approval_id=approval.id,
        decision=decided,
        by=ADA,
        **fields,
    )


def ran(box: Toolbox, name: str = "order") -> list[dict[str, Any]]:
    """What a tool was run with, each time."""
    return [request.input for request in box.requested if request.tool == name]


async def test_a_run_waits_without_a_lease_and_goes_on_when_it_is_approved(
    system: World, box: Toolbox
) -> None:
    caller = await pause_run(system)
    assert [request.tool for request in box.requested] == ["find"]
    assert not await Leases(system.pool, "test").has_live_lease(caller.request.trace_id)
    kinds = [type(frame).__name__ for frame in caller.frames]
    assert kinds == [
        "Accepted",
        "DeltaFrame",
        "ToolCalledFrame",
        "ToolCalledFrame",
        "ToolReturnedFrame",
        "Paused",
    ]
    command = await decision(system, caller, on_behalf_of="support@shop.example")
    assert await decide_approval(system.bus.rpc, command) == ApprovalAnswered()
    await caller.until(frames.Completed)
    assert ran(box) == [ORDER]
    assert caller.text == "Let me see. Done."
    assert await decide_approval(system.bus.rpc, command) == ApprovalAnswered()
    run = await system.run(caller)
    assert (run.state, run.attempt) == ("completed", 2)
    (decided,) = [each for each in await system.events(caller) if isinstance(each, events.ApprovalDecided)]
    assert (decided.by, decided.on_behalf_of) == (ADA, "support@shop.example")


async def test_decision_on_an_unreadable_conversation_is_no_overload(system: World, box: Toolbox) -> None:
    caller = await pause_run(system)
    command = await decision(system, caller)
    thread = await system.log.load_conversation(command.conversation_id)
    unreadable = ("feedback_given.v1", b'{"type":"feedback_given.v1"}')
    async with open_store(system.settings.database_url) as store:
        await store.append_stored(thread.conversation_id, thread.version, [unreadable])
    answered = await decide_approval(system.bus.rpc, command)
    assert (answered.code, answered.detail) == ("internal_error", UNREADABLE)


async def test_edited_input_is_validated_and_used(system: World, box: Toolbox) -> None:
    caller = await pause_run(system)
    refused = await decide_approval(system.bus.rpc, await decision(system, caller, input={"n": "two"}))
    assert refused.code == "invalid_request"
    assert refused.detail == "n must be a whole number"
    assert (await system.run(caller)).pending
    await decide_approval(system.bus.rpc, await decision(system, caller, input={"n": 3}))
    await caller.until(frames.Completed)
    assert ran(box) == [{"n": 3}]
    told = system.calls[-1].messages[2]["content"][1]["content"]
    assert told.startswith('A person changed the input of this call before it ran. It ran with {"n":3}.')


async def test_of_two_decisions_at_once_one_is_made(system: World, box: Toolbox) -> None:
    caller = await pause_run(system)
    approved, denied = await decision(system, caller), await decision(system, caller, "denied")
    async with (
        Bus.connect(system.settings.nats_url, name="gateway-1") as one,
        Bus.connect(system.settings.nats_url, name="gateway-2") as two,
        system.worker("orchestrator-2"),
    ):
        answers = await asyncio.gather(decide_approval(one.rpc, approved), decide_approval(two.rpc, denied))
        await caller.until(frames.Completed)
    assert {each.code for each in answers} == {None, "approval_decided"}
    assert ran(box) == ([ORDER] if answers[0].code is None else [])


async def test_a_run_that_waits_can_be_cancelled(system: World, box: Toolbox) -> None:
    caller = await pause_run(system)
    request, conversation = caller.request, await system.conversation(caller)
    await system.cancel(request)
    again = rebuild_request(conversation, get_run(conversation, request.trace_id), CANCELLED + 1)
    await system.bus.queues.request_chat(again)
    assert (await caller.until(frames.Failed)).code == "cancelled"
    assert ran(box) == []
    last = [type(each) for each in await system.events(caller)][-3:]
    assert last == [events.ApprovalDecided, events.MessageSaved, events.RunCancelled], "its text is kept"


def life(request: ChatRequested, *, expires_at: str, tool: str = "order") -> tuple[events.Event, ...]:
    """Every event of an approval, as workers of before have left them, up to the attempt that may ask."""
    trace_id, at = request.trace_id, request.requested_at
    blocks = ({"type": "tool_use", "id": "b", "name": tool, "input": ORDER},)
    replied = events.ModelReplied(
        trace_id=trace_id, at=at, round=1, blocks=blocks, stop_reason="tool_use", usage=Usage()
    )
    called = events.ToolCalled(
        trace_id=trace_id, at=at, round=1, call_id="b", name=tool, input=ORDER, needs_approval=True
    )
    run = _run_after(request, replied, called)
    terms = ApprovalTerms(
        agent_id=request.agent_id,
        server="shop",
        tool=tool,
        expires_at=expires_at,
        approvers="account",
        on_expiry="continue",
        on_new_message="refuse",
    )
    asked = request_approval(run, 1, run.rounds[0].calls[0], terms, approval_id="approval-b", now=at)
    decided = events.ApprovalDecided(
        trace_id=trace_id, at=at, approval_id="approval-b", decision="approved", by=ADA, input={"n": 5}
    )
    resumed = events.RunStarted(
        trace_id=trace_id, at=at, attempt=2, agent_version=1, model="demo-shop-1", form="form1"
    )
    return (replied, called, asked, decided, resumed)


def _run_after(request: ChatRequested, *stored: events.Event) -> Run:
    message = events.MessageSaved(
        trace_id=request.trace_id,
        at=request.requested_at,
        message_id=request.message_id,
        role="user",
        agent_id=request.agent_id,
        content=request.message,
    )
    conversation: Conversation = fold(request.conversation_id, (message, *stored))
    return get_run(conversation, request.trace_id)


async def resume_elsewhere(world: World, count: int, **more: Any) -> tuple[Listener, events.Event]:
    """A run whose worker died after so many events of the life of its approval, requested again."""
    request = world.request(await world.agent(mcp_servers=(SHOP,)), requested_at=format_time_ago(20))
    whole = life(request, **({"expires_at": format_time_ago(-3600)} | more))
    await world.store_open_run(request, *whole[:count])
    return await world.request_again(request), whole[count - 1]


@pytest.mark.slow
@pytest.mark.parametrize(("count", "runs"), [(4, [{"n": 5}]), (5, [])], ids=["decided", "resumed"])
async def test_crash_after_approval_runs_tool_at_most_once(
    system: World, box: Toolbox, count: int, runs: list[Any]
) -> None:
    """Behind the attempt that may have asked, nobody knows whether it ran: it is not asked for again."""
    system.will(reply_with("Done."))
    caller, last = await resume_elsewhere(system, count)
    await caller.until(frames.Completed)
    assert ran(box) == runs, last


async def test_a_tool_that_is_gone_by_then_is_said_not_to_have_run(system: World) -> None:
    system.will(reply_with("I could not."))
    caller, _ = await resume_elsewhere(system, 4, tool="vanished")
    await caller.until(frames.Completed)
    told = system.calls[-1].messages[2]["content"][0]["content"]
    assert "The tool vanished cannot be reached any more; the call was not run." in told
