"""An approval shows what a person needs to decide, asks before it is final, and then shows the result."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from agentchat.administration.approval_details import CallResult, build_details, get_asking_tool
from agentchat.console.pages.approvals_page import build_question
from agentchat.contracts import approval_bodies, events
from agentchat.contracts.ids import make_id
from agentchat.contracts.values import Elicitation, InputAsked, ToolSpec
from agentchat.conversations.queries.find_approvals import FoundApproval
from tests.console.pages import Browser, extract_text
from tests.conversations.given import (
    AT,
    LATER,
    build_conversation_started,
    build_held_call,
    build_run,
    build_run_started,
    build_tool_returned,
    build_user_message,
)
from tests.conversations.read_models import Storage

SPEC = ToolSpec(
    name="get_order",
    server="shop",
    tool="get_order",
    description="Cancel <b>an</b> order.",
    input_schema={"type": "object"},
    destructive=True,
    open_world=False,
)


def request_call(word: str, approval_id: str) -> list[events.Event]:
    """A run that waits for a person, whose tools are recorded."""
    reply, called, asked, _ = build_held_call(word, f"call-{word}")
    assert isinstance(reply, events.ModelReplied)
    assert isinstance(asked, events.ApprovalRequested)
    said = build_user_message(word, f"Please cancel it <i>now</i>, says {word}")
    reply = replace(reply, offered_tools=(SPEC,), tools_sha256="ab")
    return [said, build_run_started(word), reply, called, replace(asked, approval_id=approval_id)]


def decide(word: str, approval_id: str, **decision: Any) -> events.ApprovalDecided:
    decided = build_held_call(word)[-1]
    assert isinstance(decided, events.ApprovalDecided)
    return replace(decided, approval_id=approval_id, **decision)


@pytest.mark.usefixtures("empty_read_models")  # others leave calls with the same tool and input
async def test_an_approval_shows_its_reasons_and_then_its_result(browser: Browser, storage: Storage) -> None:
    first, second = make_id(), make_id()
    waiting = await storage.add(*request_call("one", first))
    await storage.add(*request_call("two", second))
    await storage.follow()
    assert "The customer wrote Please cancel it <i>now</i>, says one" in await browser.open_page("/approvals")
    page = await browser.get(f"/approvals/{first}")
    shown = extract_text(page.text)
    assert "<b>an</b>" not in page.text
    assert "Cancel <b>an</b> order. Its server says: changes something, destructive, stays within" in shown
    assert f"1 other pending approval with the same tool and input: …{second[-8:]}" in shown
    path = f"/approvals/{first}/decision"
    asked = await browser.post(path, {"decision": "approved", "reason": "fine"})
    assert "Approve this call? get_order runs on shop with the model's input." in extract_text(asked.text)
    back = await browser.post(path, {"decision": "approved", "reason": "fine", "back": "1"})
    assert 'value="fine"' in back.text, "what was written is kept"
    await storage.store.append(waiting, [decide("one", first, input={"order": "ORD-7"})])
    await storage.follow()
    shown = await browser.open_page(f"/approvals/{first}")
    assert '{ "order": "ORD-7" } Changed by a person. The model\'s input: {}' in shown
    assert "no result yet" in shown
    waiting = await storage.store.load(waiting.conversation_id)
    returned = build_tool_returned("call-one", '{"state": "<b>cancelled</b>"}', word="one")
    await storage.store.append(waiting, [returned])
    page = await browser.get(f"/approvals/{first}")
    assert "✓ result" in extract_text(page.text)
    assert "<b>cancelled</b>" in extract_text(page.text)
    assert "<b>cancelled</b>" not in page.text


def build_found(*following: events.Event) -> FoundApproval:
    """The approval `a` of a run with these events after the request."""
    told = [build_conversation_started(), *request_call("one", "a"), *following]
    (run,) = build_run(*told).runs
    approval = approval_bodies.ApprovalRecord(
        id="a",
        status="pending",
        trace_id=run.trace_id,
        conversation_id="c",
        agent_id="agent-1",
        tool=approval_bodies.CalledTool(name="get_order", server="shop"),
        input={"order": 1},
        requested_at=AT,
        expires_at=LATER,
    )
    return FoundApproval("account-1", None, approval, run)


RETURNED = build_tool_returned("call-one", "x" * 5000, word="one")


@pytest.mark.parametrize(
    ("following", "result"),
    [
        ((), None),
        ((decide("one", "a", decision="denied"), RETURNED), None),
        ((decide("one", "a"),), CallResult(state="running")),
        ((decide("one", "a"), RETURNED), CallResult(state="succeeded", output="x" * 4000, ms=RETURNED.ms)),
        (
            (decide("one", "a"), replace(RETURNED, output="{}", is_error=True)),
            CallResult(state="failed", output="{}", ms=RETURNED.ms),
        ),
    ],
)
def test_only_an_approved_call_has_a_result(
    following: tuple[events.Event, ...], result: CallResult | None
) -> None:
    assert build_details(build_found(*following), SPEC, ()).result == result


def test_tool_that_asks_is_shown_without_a_list_of_tools() -> None:
    *_, asked = request_call("one", "a")
    fields = msgspec.structs.asdict(asked)
    question = InputAsked(message="Why?", requested_schema={}, name="get_order", input={}, key="k")
    told = [
        *request_call("one", "b")[:-1],
        events.ElicitationRequested(**fields, asked=question, offered_tool=SPEC),
    ]
    (run,) = build_run(build_conversation_started(), *told).runs
    assert get_asking_tool(replace(build_found(), run=run)) == SPEC
    assert get_asking_tool(build_found()) is None


def test_same_are_of_the_same_tool_and_input() -> None:
    found = build_found()
    own = found.approval
    others = [
        own,
        replace(own, id="b", conversation_id="d"),
        replace(own, id="c", input={"order": 2}),
        replace(own, id="d", tool=approval_bodies.CalledTool(name="get_order", server="other")),
    ]
    assert build_details(found, None, others).same_pending == ("b",)


@pytest.mark.parametrize(
    ("decision", "elicits", "text"),
    [
        (
            {"decision": "approved"},
            False,
            "Approve this call? get_order runs on shop with the model's input.",
        ),
        ({"decision": "approved", "input": {}}, False, "get_order runs on shop with your changed input."),
        ({"decision": "denied"}, False, "Deny this call? get_order is not run, and the model is told so."),
        ({"decision": "denied", "reason": "No"}, False, "the model is told so, with your reason: No."),
        ({"decision": "approved", "input": {}}, True, "Answer this question? The tool gets this answer"),
        ({"decision": "denied"}, True, "Deny this question? The tool gets no answer"),
    ],
)
def test_a_decision_is_asked_in_words(decision: dict[str, Any], elicits: bool, text: str) -> None:
    approval = build_found().approval
    if elicits:
        approval = replace(approval, elicitation=Elicitation(message="Why?", requested_schema={}))
    question = build_question(approval, msgspec.convert(decision, approval_bodies.DecisionBody))
    assert text in f"{question.title} {question.text}"
    assert question.text.endswith("It cannot be taken back.")
