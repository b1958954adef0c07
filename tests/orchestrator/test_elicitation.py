"""A tool that asks a person in a call: the run parks, and the call is made again with what was said."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from agentchat.bus.commands import decide_approval
from agentchat.bus.work_queues import ExhaustedMessage
from agentchat.contracts import events, frames, subjects, wire
from agentchat.contracts.ids import make_id
from agentchat.contracts.messages import ApprovalAnswered, ChatRequested, DecideApproval
from agentchat.contracts.tool_messages import InputRequest, InputResponse, ToolFinished, ToolRequested
from agentchat.contracts.values import Elicitation, InputAsked, ToolSpec, Usage
from agentchat.conversations.aggregate.approval_rules import list_needed_approvals
from agentchat.conversations.aggregate.rounds import CallApproval
from agentchat.directory.agent_config import McpServer
from agentchat.directory.approval_policy import ApprovalRules, ToolFilter
from agentchat.orchestrator.inbox.exhausted_deliveries import end_exhausted
from agentchat.orchestrator.services import WorkerServices
from tests.orchestrator.given import Listener, World, format_time_ago
from tests.orchestrator.scripted import reply_with, reply_with_calls
from tests.orchestrator.test_approvals import ADA
from tests.orchestrator.toolbox import Toolbox, build_result

SHOP = McpServer(name="shop", url="https://shop.example/mcp")
ASKS_FOR_FIND = ApprovalRules(always=ToolFilter(tool_names=("find",)))
GUESTS = Elicitation(
    message="How many?",
    requested_schema={
        "type": "object",
        "properties": {"guests": {"type": "integer", "maximum": 9}},
        "required": ["guests"],
    },
)
LINK = Elicitation(message="Pay here.", mode="url", url="https://pay.example/")


@pytest.fixture(autouse=True)
def _reset_box(box: Toolbox) -> None:
    box.run = elicit(GUESTS)
    box.requested.clear()


def elicit(*legs: Elicitation) -> Any:
    """A tool that asks for one of these in each leg, and is then done."""

    async def run(request: ToolRequested) -> str | ToolFinished:
        if request.leg >= len(legs):
            return f'{{"leg": {request.leg}}}'
        asked = InputRequest(key="a", elicitation=legs[request.leg])
        return build_result(request, input_requests=(asked,), request_state=f"state {request.leg}")

    return run


async def pause_run(world: World, *calls: Any, **agent: Any) -> Listener:
    world.will(
        reply_with_calls(*(calls or (("b", "order", '{"n": 2}'),)), text="Let me see. "), reply_with("Done.")
    )
    caller = await world.ask(await world.agent(**({"mcp_servers": (SHOP,)} | agent)))
    await caller.until(frames.Paused)
    return caller


async def list_pending(world: World, caller: Listener) -> list[CallApproval]:
    return [each for call in (await world.run(caller)).pending for each in call.pending]


async def decide(
    world: World, caller: Listener, decided: Any = "approved", *, which: int = 0, **fields: Any
) -> ApprovalAnswered:
    waiting = await list_pending(world, caller)
    return await decide_approval(
        world.bus.rpc,
        DecideApproval(
            trace_id=caller.request.trace_id,
            account_id=caller.request.account_id,
            conversation_id=caller.request.conversation_id,
            approval_id=waiting[which].id,
            decision=decided,
            by=ADA,
            **fields,
        ),
    )


def respond(
    action: Any, content: dict[str, Any] | None, *, asked: Elicitation = GUESTS, leg: int = 0
) -> InputResponse:
    return InputResponse(key="a", elicitation=asked, leg=leg, action=action, content=content)


async def test_a_run_parks_and_its_call_is_made_again_with_the_answer(system: World, box: Toolbox) -> None:
    caller = await pause_run(system)
    run = await system.run(caller)
    (told,) = list_needed_approvals(run)
    assert (told.tool, told.input, told.elicitation) == ("order", {"n": 2}, GUESTS)
    assert (await decide(system, caller, input={"guests": 4}, on_behalf_of="Bo")).code is None
    await caller.until(frames.Completed)
    first, again = box.requested
    assert (first.leg, first.responses, first.request_state) == (0, (), None)
    assert (again.leg, again.input, again.request_state) == (1, {"n": 2}, "state 0")
    assert again.responses == (respond("accept", {"guests": 4}),)
    (result,) = [each for each in await system.events(caller) if isinstance(each, events.ToolReturned)]
    assert result.output == '{"leg": 1}'
    assert system.calls[-1].messages[-1]["content"][0]["content"] == '{"leg": 1}'


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (None, "guests"),
        ({"guests": 10}, "guests must be at most"),
        ({"guests": 4, "more": {"deep": 1}}, "Each value must be a string, a number, true, false, null"),
        ({"guests": 4, "more": "x" * 70_000}, "longer than 65536 bytes"),
    ],
)
async def test_an_answer_that_does_not_fit_is_refused_and_the_run_waits_on(
    system: World, box: Toolbox, given: dict[str, Any] | None, sentence: str
) -> None:
    caller = await pause_run(system)
    answer = await decide(system, caller, input=given)
    assert answer.code == "invalid_request"
    assert sentence in (answer.detail or "")
    assert len(await list_pending(system, caller)) == 1
    assert len(box.requested) == 1


async def test_a_refusal_reaches_the_tool_whose_result_the_model_gets(system: World, box: Toolbox) -> None:
    caller = await pause_run(system)
    assert (await decide(system, caller, "denied", reason="Not today.")).code is None
    await caller.until(frames.Completed)
    assert box.requested[-1].responses == (respond("decline", None),)
    assert system.calls[-1].messages[-1]["content"][0]["content"] == '{"leg": 1}'


async def test_a_tool_may_ask_again_and_gets_all_answers(system: World, box: Toolbox) -> None:
    box.run = elicit(GUESTS, LINK)
    caller = await pause_run(system)
    await decide(system, caller, input={"guests": 4})
    await caller.until(frames.Paused, count=2)
    await decide(system, caller)
    await caller.until(frames.Completed)
    last = box.requested[-1]
    assert (last.leg, last.request_state) == (2, "state 1")
    assert last.responses == (respond("accept", {"guests": 4}), respond("accept", None, asked=LINK, leg=1))
    run = await system.run(caller)
    assert [each.wait for each in run.rounds[0].calls[0].approvals] == [0, 1]


async def test_what_else_the_round_waits_for_is_asked_with_it(system: World, box: Toolbox) -> None:
    """And a call that a person has allowed may ask as well."""
    box.run = elicit(GUESTS)
    held = McpServer(name="shop", url="https://shop.example/mcp", require_approval=ASKS_FOR_FIND)
    caller = await pause_run(
        system, ("a", "find", '{"q": 1}'), ("b", "order", '{"n": 2}'), mcp_servers=(held,)
    )
    waiting = await list_pending(system, caller)
    by_tool = {each.requested.tool: place for place, each in enumerate(waiting)}
    assert sorted(by_tool) == ["find", "order"]
    assert [each.tool for each in box.requested] == ["order"]
    await decide(system, caller, which=by_tool["order"], input={"guests": 1})
    await decide(system, caller)  # find may run
    await caller.until(frames.Paused, count=2)
    (asked,) = await list_pending(system, caller)
    assert (asked.requested.tool, asked.wait) == ("find", 1)
    assert isinstance(asked.requested, events.ElicitationRequested)
    assert isinstance(asked.requested.offered_tool, ToolSpec)
    await decide(system, caller, input={"guests": 2})
    await caller.until(frames.Completed)
    assert sorted((each.tool, each.leg) for each in box.requested) == [
        *(("find", 0), ("find", 1), ("order", 0), ("order", 1))
    ]


def life(request: ChatRequested, *, expires_at: str) -> tuple[events.Event, ...]:
    """Every event of an elicitation, as workers of before have left them, up to the attempt that may ask."""
    at: dict[str, Any] = {"trace_id": request.trace_id, "at": request.requested_at}
    blocks = ({"type": "tool_use", "id": "b", "name": "order", "input": {"n": 2}},)
    return (
        events.ModelReplied(round=1, blocks=blocks, stop_reason="tool_use", usage=Usage(), **at),
        events.ToolCalled(round=1, call_id="b", name="order", input={"n": 2}, **at),
        events.ElicitationRequested(
            approval_id="approval-b",
            call_id="b",
            round=1,
            input_sha256="",
            expires_at=expires_at,
            agent_id=request.agent_id,
            server="shop",
            tool="order",
            asked=InputAsked(
                message=GUESTS.message,
                requested_schema=GUESTS.requested_schema,
                name="order",
                input={"n": 2},
                key="a",
                request_state="state 0",
            ),
            **at,
        ),
        events.ApprovalDecided(
            approval_id="approval-b", decision="approved", by=ADA, input={"guests": 3}, **at
        ),
        events.RunStarted(attempt=2, agent_version=1, model="demo-shop-1", form="form1", **at),
    )


async def resume_elsewhere(
    world: World, count: int, *, result: int | None = 0, expires_at: str = ""
) -> Listener:
    """A run whose worker died after so many of these events, and the bus has the result of that leg."""
    request = world.request(await world.agent(mcp_servers=(SHOP,)), requested_at=format_time_ago(20))
    await world.store_open_run(
        request, *life(request, expires_at=expires_at or format_time_ago(-3600))[:count]
    )
    if result is not None:
        asked = (InputRequest(key="a", elicitation=GUESTS),) if result == 0 else ()
        found = ToolFinished(
            trace_id=request.trace_id,
            call_id="b",
            leg=result,
            output=f'{{"kept": {result}}}',
            is_error=False,
            ms=1,
            input_requests=asked,
        )
        await world.bus.traces.finish_tool(found)
    return await world.request_again(request)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "result", "legs", "told"),
    [(4, 0, [1], '{"leg": 1}'), (5, 0, [], "its outcome is unknown"), (5, 1, [], '{"kept": 1}')],
    ids=["decided", "resumed", "resumed, with its result"],
)
async def test_crash_after_answer_delivers_it_at_most_once(
    system: World, box: Toolbox, count: int, result: int, legs: list[int], told: str
) -> None:
    """The result of the leg before is still on the bus, and is never taken for this one's."""
    system.will(reply_with("Done."))
    caller = await resume_elsewhere(system, count, result=result)
    await caller.until(frames.Completed)
    assert [each.leg for each in box.requested] == legs
    assert told in system.calls[-1].messages[-1]["content"][0]["content"]


async def test_a_leg_that_was_delivered_too_often_fails_as_that_leg(world: World) -> None:
    request = ToolRequested(
        trace_id=make_id().replace("-", ""),
        account_id=world.account_id,
        agent_id=make_id(),
        agent_version=1,
        server="shop",
        tool="order",
        call_id="b",
        input={},
        deadline=format_time_ago(-60),
        leg=2,
    )
    exhausted = ExhaustedMessage(
        stream=subjects.TOOLS, subject="chat.tools.requests.x", data=wire.encode(request), deliveries=50
    )
    await end_exhausted(cast(WorkerServices, SimpleNamespace(bus=world.bus)), exhausted)
    async with world.connect_nats() as nats:
        stored = await nats.jetstream().get_last_msg(
            subjects.RESULTS, subjects.format_tool_result(request.trace_id, request.call_id)
        )
    told = wire.decode_message(ToolFinished, stored.data or b"")
    assert (told.leg, told.is_error) == (2, True)
