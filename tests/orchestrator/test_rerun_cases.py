"""Recorded runs that a question brings along: done again anywhere, and what becomes of calls they lack."""

import base64
import json
import os
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from bus import decide_approval
from contracts import frames, wire
from contracts.events import SourcesRetrieved
from contracts.replay_messages import AskedTool, WhatIf, WhatIfAnswered
from contracts.values import Source
from directory.agents import AgentSettings, McpServer
from evals.asking import ModelUnavailable, ask_model
from evals.errors import QuestionTooLarge
from evals.suite import SuiteAgent
from experiments.reruns import Reruns
from tests.orchestrator.given import Listener, World
from tests.orchestrator.scripted import asks, fails, says
from tests.orchestrator.test_approvals import SHOP as ASKING_SHOP
from tests.orchestrator.test_approvals import decision
from tests.orchestrator.test_compaction import SMALL, fills, thread
from tests.orchestrator.toolbox import SPECS, Toolbox

SHOP = (McpServer(name="shop", url="http://127.0.0.1:1/"),)
NOWHERE = "0192f0c1-0000-7000-8000-0000000000ff"
_FIND = ("call_a", "find", '{"q": "mugs"}')
_ORDER = ("call_b", "order", '{"id": "mug-1"}')


@pytest.fixture(scope="module")
async def tools(working: World) -> AsyncIterator[Toolbox]:
    async with Toolbox(working.bus).open() as toolbox:
        yield toolbox


async def recorded(world: World, *answers: Any, **draft: Any) -> Listener:
    """A run that has completed."""
    world.will(*answers)
    asked = await world.ask(await world.agent(**draft), "Do you have mugs?")
    await asked.until(frames.Completed)
    return asked


async def case_of(world: World, run: Listener, **changes: Any) -> WhatIf:
    """The run as a question that needs neither the log nor the directory."""
    rows = await world.log.rows(run.request.conversation_id)
    fields: dict[str, Any] = {
        "account_id": NOWHERE,
        "agent_id": NOWHERE,
        "agent_version": 0,
        "conversation_id": run.request.conversation_id,
        "trace_id": run.request.trace_id,
        "seconds": 20.0,
        "record": tuple(msgspec.Raw(row.state) for row in rows),
        "offered": SPECS,
        "agent": {"name": "Case", "model": "demo"},
        "unrecorded": "stop",
    }
    return WhatIf(**fields | changes)


async def again(world: World, question: WhatIf) -> WhatIfAnswered:
    return await Reruns(world.bus).answer(question)


def stored_of(run: Listener) -> dict[str, Any]:
    """Fields of a question that is about the account's own agent."""
    request = run.request
    return {"account_id": request.account_id, "agent_id": request.agent_id, "agent_version": 1}


def calls(answer: WhatIfAnswered) -> list[tuple[str, bool, bool, bool]]:
    return [(call.name, call.missed, call.simulated, call.live) for call in answer.calls]


async def test_a_case_is_done_again_where_neither_log_nor_agent_is(working: World, tools: Toolbox) -> None:
    script = (asks(_FIND, text="Let me see. "), says("Yes."))
    first = await recorded(working, *script, mcp_servers=SHOP)
    shown, listed = [call.body for call in working.calls], len(tools.listed)
    working.will(*script)
    answer = await again(working, await case_of(working, first))
    assert (answer.outcome, answer.code) == ("failed", "provider_error"), "the deployment has no key"
    assert answer.kind == "no_key"
    answer = await again(working, await case_of(working, first, **stored_of(first)))
    assert (answer.outcome, answer.content, answer.unrecorded) == ("completed", "Let me see. Yes.", "stop")
    assert calls(answer) == [("find", False, False, False)]
    assert [call.body for call in working.calls] == shown
    assert len(tools.listed) == listed, "no tool server is touched"


async def test_a_case_that_no_message_can_hold_is_done_again(working: World) -> None:
    first = await recorded(working, says("Yes."))
    case = await case_of(working, first, **stored_of(first))
    asked, long = b"Do you have mugs?", b"Do you have mugs?" * 600_000
    record = tuple(msgspec.Raw(bytes(each).replace(asked, long)) for each in case.record or ())
    answer = await again(working, msgspec.structs.replace(case, record=record))
    assert (answer.outcome, answer.content) == ("completed", "Yes.")
    assert working.calls[-1].last_text == long.decode()


async def test_the_key_of_an_agent_goes_to_its_own_provider_alone(working: World) -> None:
    first = await recorded(working, says("Yes."))
    for elsewhere in (
        {"provider": "openai"},
        {"base_url": "https://elsewhere.example"},
    ):
        agent = {"name": "Case", "model": "demo"} | elsewhere
        answer = await again(working, await case_of(working, first, **stored_of(first), agent=agent))
        assert (answer.outcome, answer.kind) == ("failed", "no_key")
    unfit = await again(working, await case_of(working, first, agent={"model": 7}))
    assert (unfit.outcome, unfit.code) == ("failed", "agent_not_found")
    assert "configuration" in (unfit.detail or "")


async def test_a_rerun_stops_at_the_first_unrecorded_call(working: World, tools: Toolbox) -> None:
    first = await recorded(working, asks(_FIND), says("Yes."), mcp_servers=SHOP)
    done = len(tools.requested)
    working.will(asks(("c", "find", '{"q": "red mugs"}'), text="Hm. "), says("No."))
    answer = await again(working, await case_of(working, first, **stored_of(first)))
    assert (answer.outcome, answer.code, answer.content) == ("failed", "diverged", "Hm. ")
    assert answer.diverged is not None
    assert answer.diverged.call == AskedTool(round=1, name="find", input={"q": "red mugs"}, missed=True)
    assert answer.diverged.nearest == AskedTool(round=1, name="find", input={"q": "mugs"})
    assert answer.detail == 'Round 1 calls find {"q":"red mugs"}, which was never recorded.'
    assert len(working.calls) == 1
    assert len(tools.requested) == done


async def test_a_model_plays_a_tool_whose_call_was_never_recorded(working: World, tools: Toolbox) -> None:
    first = await recorded(working, asks(_FIND), says("Yes."), mcp_servers=SHOP)
    done = len(tools.requested)
    other = ("c", "find", '{"q": "cups"}')
    working.will(asks(_FIND, other), says('{"found": 2}'), asks(_ORDER), says("Sorry: no."), says("Two."))
    answer = await again(working, await case_of(working, first, **stored_of(first), unrecorded="simulate"))
    assert (answer.outcome, answer.content) == ("completed", "Two.")
    assert calls(answer) == [
        ("find", False, False, False),
        ("find", False, True, False),
        ("order", False, True, False),
    ]
    played = json.loads(working.calls[1].last_text)
    assert played["input"] == {"q": "cups"}
    assert [each["input"] for each in played["recorded_answers"]] == [{"q": "mugs"}]
    told = [result["content"] for result in working.calls[2].messages[-1]["content"]]
    assert told[1] == '{"found": 2}'
    assert working.calls[4].messages[-1]["content"][0]["content"] == '{"text":"Sorry: no."}'
    assert answer.usage.total == 15 * 5, "those that play a tool are counted too"
    assert len(tools.requested) == done


async def test_a_harmless_tool_is_called_and_another_one_stops_the_rerun(
    working: World, tools: Toolbox
) -> None:
    first = await recorded(working, asks(_FIND), says("Yes."), mcp_servers=SHOP)
    done = len(tools.requested)
    live = stored_of(first) | {"unrecorded": "live", "harmless": ("find",)}
    working.will(asks(("c", "find", '{"q": "cups"}')), says("Two."))
    answer = await again(working, await case_of(working, first, **live))
    assert (answer.outcome, answer.content) == ("completed", "Two.")
    assert calls(answer) == [("find", False, False, True)]
    (request,) = tools.requested[done:]
    assert (request.tool, request.input, request.no_run) == ("find", {"q": "cups"}, True)
    assert request.trace_id != first.request.trace_id
    working.will(asks(_ORDER), says("Bought."))
    stopped = await again(working, await case_of(working, first, **live))
    assert stopped.code == "diverged"
    assert len(tools.requested) == done + 1


async def test_passages_come_with_the_case(working: World) -> None:
    first = await recorded(working, says("Yes."))
    source = Source(index=1, id="p1", title="T", url="", source_type="file", score=1.0, snippet="Short …")
    found = SourcesRetrieved(
        trace_id=first.request.trace_id, at=first.request.requested_at, sources=(source,)
    )
    case = await case_of(working, first, **stored_of(first))
    record = (*case.record[:3], msgspec.Raw(wire.encode(found)), *case.record[3:]) if case.record else ()
    agent = {"name": "Case", "model": "demo", "retrieval": {"knowledge_base_id": NOWHERE}}
    case = msgspec.structs.replace(case, record=record, agent=agent)
    for passages, shown in (({"p1": "All of it."}, "All of it."), ({}, "Short …")):
        working.will(says("Yes."))
        answer = await again(working, msgspec.structs.replace(case, passages=passages))
        assert (answer.outcome, answer.sources_missed) == ("completed", False)
        assert shown in working.calls[0].messages[0]["content"][0]["text"]


async def test_a_changed_input_is_told_to_the_model_as_it_was(working: World, tools: Toolbox) -> None:
    working.will(asks(("b", "order", '{"n": 2}')), says("Done."))
    caller = await working.ask(await working.agent(mcp_servers=(ASKING_SHOP,)))
    await caller.until(frames.Paused)
    await decide_approval(working.bus.rpc, await decision(working, caller, input={"n": 3}))
    await caller.until(frames.Completed)
    shown = [call.body for call in working.calls]
    assert "It ran with" in json.dumps(shown[-1])
    working.will(asks(("b", "order", '{"n": 2}')), says("Done."))
    answer = await again(working, await case_of(working, caller, **stored_of(caller)))
    assert answer.content == "Done."
    assert [call.body for call in working.calls] == shown


async def test_a_recorded_summary_is_used_again(working: World) -> None:
    script = (says("Hi Ada."), fills(600, "Well."), fills(700, "Ada said hello."), says("Done."))
    working.will(*script)
    agent = await working.agent(compaction=SMALL)
    first = await thread(working, agent, "I am Ada.", "And?")
    third = await working.go_on(first, "So?")
    await third.until(frames.Completed)
    shown = working.calls[3].body
    own = {"name": "Case", "model": "demo", "compaction": SMALL}
    case = await case_of(working, third, **stored_of(third), offered=(), agent=own)
    working.will(says("Done."))
    answer = await again(working, case)
    assert [call.body for call in working.calls] == [shown]
    assert (answer.content, answer.usage.total) == ("Done.", 720)
    other = SMALL | {"prompt": "Be short."}
    working.will(fills(30, "Short."), says("Done."))
    again_asked = msgspec.structs.replace(case, agent={"name": "C", "model": "demo", "compaction": other})
    assert (await again(working, again_asked)).outcome == "completed"
    assert len(working.calls) == 2, "another instruction is another summary"


async def test_what_is_no_record_is_named(working: World) -> None:
    first = await recorded(working, says("Yes."))
    for changes, outcome in (
        ({"record": ()}, "not_found"),
        ({"trace_id": "f" * 32}, "not_found"),
        ({"record": (msgspec.Raw(b'{"type":"message_saved.v1"}'),)}, "failed"),
        ({"record": (msgspec.Raw(b"[]"),)}, "failed"),
        ({"agent_version": 7}, "failed"),
    ):
        answer = await again(working, await case_of(working, first, **changes))
        assert answer.outcome == outcome, (changes, answer)
        assert answer.detail


def judge_of(world: World, agent_id: str, **settings: Any) -> SuiteAgent:
    fields: dict[str, Any] = {"name": "Judge", "model": "demo", "system_prompt": "Sell mugs."}
    return SuiteAgent(
        account_id=world.account_id, agent_id=agent_id, version=1, settings=AgentSettings(**fields | settings)
    )


async def test_a_judge_asks_a_model_with_the_key_of_an_agent(working: World) -> None:
    judge = judge_of(working, await working.agent(), parameters={"stop_sequences": ["x"]})
    reruns = Reruns(working.bus)
    schema = {
        "type": "object",
        "properties": {"score": {"type": "number"}},
        "required": ["score"],
        "additionalProperties": False,
    }
    working.will(says('{"score": 0.5}'))
    reply = await ask_model(reruns, judge, "How good?", system="You judge.", schema=schema, model="judge-1")
    assert (json.loads(reply.text), reply.model, reply.usage.total) == ({"score": 0.5}, "judge-1", 15)
    (call,) = working.calls
    assert call.system.startswith("You judge.")
    assert "Sell mugs" not in call.system
    assert call.last_text == "How good?"
    assert "stop_sequences" not in call.body
    working.will(says("nonsense"))
    with pytest.raises(ModelUnavailable) as unfit:
        await ask_model(reruns, judge, "How good?", system="You judge.", schema=schema)
    assert (unfit.value.code, unfit.value.transient) == ("output_invalid", False)
    assert unfit.value.usage.total == 15
    working.will(fails(401, "authentication_error"))
    with pytest.raises(ModelUnavailable) as refused:
        await ask_model(reruns, judge, "How good?", system="You judge.")
    assert refused.value.code == "provider_error"
    with pytest.raises(QuestionTooLarge):
        await ask_model(reruns, judge, base64.b64encode(os.urandom(9_000_000)).decode(), system="You judge.")
