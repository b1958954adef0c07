"""Recorded runs that a question brings along: done again anywhere, and what becomes of calls they lack."""

import json
from typing import Any

import msgspec

from agentchat.bus.commands import decide_approval
from agentchat.contracts import frames, wire
from agentchat.contracts.events import SourcesRetrieved
from agentchat.contracts.replay_messages import AskedTool, WhatIf, WhatIfAnswered
from agentchat.contracts.values import Source
from agentchat.directory.agent_config import McpServer
from agentchat.evals.replay_requests import Reruns
from tests.orchestrator.given import Listener, World
from tests.orchestrator.scripted import reply_with, reply_with_calls
from tests.orchestrator.test_approvals import SHOP as ASKING_SHOP
from tests.orchestrator.test_approvals import decision
from tests.orchestrator.test_compaction import SMALL, reply_filling_window, thread
from tests.orchestrator.toolbox import SPECS, Toolbox

SHOP = (McpServer(name="shop", url="http://127.0.0.1:1/"),)
NOWHERE = "0192f0c1-0000-7000-8000-0000000000ff"
_FIND = ("call_a", "find", '{"q": "mugs"}')
_ORDER = ("call_b", "order", '{"id": "mug-1"}')


async def record_run(world: World, *answers: Any, **draft: Any) -> Listener:
    """A run that has completed."""
    world.will(*answers)
    return await world.chat(await world.agent(**draft), "Do you have mugs?")


async def build_case(world: World, run: Listener, **changes: Any) -> WhatIf:
    """The run as a question that does not need the log."""
    rows = await world.log.read_rows(run.request.conversation_id)
    fields: dict[str, Any] = {
        "account_id": run.request.account_id,
        "agent_id": run.request.agent_id,
        "agent_version": 1,
        "conversation_id": run.request.conversation_id,
        "trace_id": run.request.trace_id,
        "seconds": 20.0,
        "record": tuple(msgspec.Raw(row.state) for row in rows),
        "offered": SPECS,
    }
    return WhatIf(**fields | changes)


async def again(world: World, question: WhatIf) -> WhatIfAnswered:
    return await Reruns(world.bus).answer(question)


def calls(answer: WhatIfAnswered) -> list[tuple[str, bool]]:
    return [(call.name, call.missed) for call in answer.calls]


async def test_a_case_is_answered_where_the_log_does_not_have_it(system: World, box: Toolbox) -> None:
    script = (reply_with_calls(_FIND, text="Let me see. "), reply_with("Yes."))
    first = await record_run(system, *script, mcp_servers=SHOP)
    shown, listed = [call.body for call in system.calls], len(box.listed)
    system.will(*script)
    answer = await again(system, await build_case(system, first, conversation_id=NOWHERE))
    assert (answer.outcome, answer.content) == ("completed", "Let me see. Yes.")
    assert calls(answer) == [("find", False)]
    assert [call.body for call in system.calls] == shown
    assert len(box.listed) == listed, "no tool server is touched"


async def test_a_case_that_no_message_can_hold_is_done_again(system: World) -> None:
    first = await record_run(system, reply_with("Yes."))
    case = await build_case(system, first)
    asked, long = b"Do you have mugs?", b"Do you have mugs?" * 600_000
    record = tuple(msgspec.Raw(bytes(each).replace(asked, long)) for each in case.record or ())
    answer = await again(system, msgspec.structs.replace(case, record=record))
    assert (answer.outcome, answer.content) == ("completed", "Yes.")
    assert system.calls[-1].last_text == long.decode()


async def test_a_rerun_stops_at_the_first_unrecorded_call(system: World, box: Toolbox) -> None:
    first = await record_run(system, reply_with_calls(_FIND), reply_with("Yes."), mcp_servers=SHOP)
    done = len(box.requested)
    system.will(reply_with_calls(("c", "find", '{"q": "red mugs"}'), text="Hm. "), reply_with("No."))
    answer = await again(system, await build_case(system, first))
    assert (answer.outcome, answer.code, answer.content) == ("diverged", "diverged", "Hm. ")
    assert calls(answer) == [("find", True)]
    assert answer.diverged is not None
    assert answer.diverged.call == AskedTool(round=1, name="find", input={"q": "red mugs"}, missed=True)
    assert answer.diverged.nearest == AskedTool(round=1, name="find", input={"q": "mugs"})
    assert answer.detail == 'Round 1 calls find {"q":"red mugs"}, which was never recorded.'
    assert len(system.calls) == 1
    assert len(box.requested) == done


async def test_passages_come_with_the_case(system: World) -> None:
    first = await record_run(system, reply_with("Yes."))
    source = Source(index=1, id="p1", title="T", url="", source_type="file", score=1.0, snippet="Short …")
    found = SourcesRetrieved(
        trace_id=first.request.trace_id, at=first.request.requested_at, sources=(source,)
    )
    case = await build_case(system, first)
    record = (*case.record[:3], msgspec.Raw(wire.encode(found)), *case.record[3:]) if case.record else ()
    looking = await system.agent(retrieval={"knowledge_base_id": NOWHERE})
    case = msgspec.structs.replace(case, record=record, agent_id=looking)
    for passages, shown in (({"p1": "All of it."}, "All of it."), ({}, "Short …")):
        system.will(reply_with("Yes."))
        answer = await again(system, msgspec.structs.replace(case, passages=passages))
        assert (answer.outcome, answer.sources_missed) == ("completed", False)
        assert shown in system.calls[0].messages[0]["content"][0]["text"]


async def test_a_changed_input_is_reported_to_the_model_unchanged(system: World, box: Toolbox) -> None:
    system.will(reply_with_calls(("b", "order", '{"n": 2}')), reply_with("Done."))
    caller = await system.ask(await system.agent(mcp_servers=(ASKING_SHOP,)))
    await caller.until(frames.Paused)
    await decide_approval(system.bus.rpc, await decision(system, caller, input={"n": 3}))
    await caller.until(frames.Completed)
    shown = [call.body for call in system.calls]
    assert "It ran with" in json.dumps(shown[-1])
    system.will(reply_with_calls(("b", "order", '{"n": 2}')), reply_with("Done."))
    answer = await again(system, await build_case(system, caller))
    assert answer.content == "Done."
    assert [call.body for call in system.calls] == shown


async def test_a_recorded_summary_is_used_again(system: World) -> None:
    script = (
        reply_with("Hi Ada."),
        reply_filling_window(600, "Well."),
        reply_filling_window(700, "Ada said hello."),
        reply_with("Done."),
    )
    system.will(*script)
    agent = await system.agent(compaction=SMALL)
    first = await thread(system, agent, "I am Ada.", "And?")
    third = await system.continue_chat(first, "So?")
    shown = system.calls[3].body
    case = await build_case(system, third, offered=())
    system.will(reply_with("Done."))
    answer = await again(system, case)
    assert [call.body for call in system.calls] == [shown]
    assert (answer.content, answer.usage.total) == ("Done.", 720)
    other = SMALL | {"prompt": "Be short."}
    system.will(reply_filling_window(30, "Short."), reply_with("Done."))
    brief = await system.agent(compaction=other)
    again_asked = msgspec.structs.replace(case, agent_id=brief)
    assert (await again(system, again_asked)).outcome == "completed"
    assert len(system.calls) == 2, "another instruction is another summary"


async def test_what_is_no_record_is_named(system: World) -> None:
    first = await record_run(system, reply_with("Yes."))
    for changes, outcome in (
        ({"record": ()}, "not_found"),
        ({"trace_id": "f" * 32}, "not_found"),
        ({"record": (msgspec.Raw(b'{"type":"message_saved.v1"}'),)}, "failed"),
        ({"record": (msgspec.Raw(b"[]"),)}, "failed"),
        ({"agent_version": 7}, "failed"),
    ):
        answer = await again(system, await build_case(system, first, **changes))
        assert answer.outcome == outcome, (changes, answer)
        assert answer.detail
