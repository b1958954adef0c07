"""What is behind a wait, for a reader who was told what is before it."""

from typing import Any

import pytest
from msgspec.structs import replace

from agentchat.contracts import events
from agentchat.contracts.examples import TRACE
from agentchat.contracts.updates import (
    Broken,
    Finished,
    NextRound,
    RetrievedSources,
    Started,
    TextUpdate,
    ToolEnded,
    ToolStarted,
    Update,
)
from agentchat.contracts.values import ApprovalNeeded, Decider, Elicitation, Usage
from agentchat.conversations.aggregate.conversation import Run
from agentchat.conversations.aggregate.rounds import Call, CallApproval, Round
from agentchat.gateway.protocols.openai.responses.previous_response import (
    Named,
    build_response_id,
    parse_response_id,
)
from agentchat.gateway.runs.after_pause import AfterPause, PausePoint
from tests.gateway.live_frames import make_message, run
from tests.gateway.test_view_paused import ASKED

WAIT = Broken(
    "approval_required",
    "A person has to approve a tool call.",
    local=True,
    approvals=(ApprovalNeeded(id="approval-1", tool="find", input={}, expires_at="later"),),
    calls=("3",),
)
FORM = Elicitation(message="Who?", requested_schema={"type": "object", "properties": {}})
LINK = Elicitation(message="Pay.", mode="url", url="https://pay.example/")


def make_request(elicitation: Elicitation) -> list[Update]:
    """The same wait, for what the tool asks."""
    (needed,) = WAIT.approvals
    return [replace(WAIT, approvals=(replace(needed, elicitation=elicitation),))]


END = Finished(make_message("Hello. So. Bye."), (), Usage())


DENIED = events.ApprovalDecided(
    trace_id="t",
    at="t",
    approval_id="approval-1",
    decision="denied",
    by=Decider(kind="account", id="k"),
)


def make_waited(decided: events.ApprovalDecided | None = None) -> Run:
    """It has said two rounds; in the second one call has returned, and one waits for a person."""
    call: dict[str, Any] = {"at": "t", "name": "find", "input": {}}
    ran = Call(call_id="1", output="{}", **call)
    also = Call(call_id="2", output="{}", **call)
    asked = Call(call_id="3", needs_approval=True, approvals=(CallApproval(ASKED, decided),), **call)
    first = Round(number=1, text="Hello.", cuts=(), blocks=(), calls=(ran,))
    return run(rounds=(first, Round(number=2, text=" So.", cuts=(), blocks=(), calls=(asked, also))))


def make_denied() -> Run:
    """The same, once the person has refused it."""
    return make_waited(DENIED)


def read_all(*texts: str) -> list[Update]:
    """All of it, with the texts of its first two rounds in these pieces."""
    first, *second = map(TextUpdate, texts)
    before: list[Update] = [
        *(Started(), RetrievedSources(()), first, ToolStarted("1", "find", {}), ToolEnded("1", False, "{}")),
        NextRound(2),
    ]
    behind: list[Update] = [
        *(ToolStarted("3", "find", {}), ToolStarted("2", "find", {})),
        *(ToolEnded("3", True, "{}"), ToolEnded("2", False, "{}")),
        *(NextRound(3), ToolStarted("4", "find", {}), ToolEnded("4", False, "{}"), TextUpdate(" Bye."), END),
    ]
    return [*before, *second, *behind]


BEHIND = [
    *(Started(), ToolEnded("3", True, "{}")),
    *(NextRound(3), ToolStarted("4", "find", {}), ToolEnded("4", False, "{}"), TextUpdate(" Bye."), END),
]


@pytest.mark.parametrize("texts", [("Hello.", " So."), ("Hel", "lo", ". So.")])
def test_whatever_pieces_come_the_rest_is_the_same(texts: tuple[str, ...]) -> None:
    behind = AfterPause(make_waited(), PausePoint(2))
    assert [rest for update in read_all(*texts) for rest in behind.take_rest([update])] == BEHIND
    assert list(behind.calls) == ["3"]


def test_a_round_that_waits_twice_is_sent_once_after_each_wait() -> None:
    """Of the first one's calls one has returned before the second, in which the other one's tool asks."""
    again = replace(ASKED, approval_id="approval-2")
    call: dict[str, Any] = {"at": "t", "name": "find", "input": {}}
    allowed = Call(call_id="1", approvals=(CallApproval(ASKED, DENIED),), output='"No."', **call)
    asks = Call(call_id="2", approvals=(CallApproval(ASKED, DENIED), CallApproval(again, wait=1)), **call)
    twice = run(rounds=(Round(number=1, text="", cuts=(), blocks=(), calls=(allowed, asks)),))
    told: list[Update] = [Started(), ToolStarted("1", "find", {}), ToolStarted("2", "find", {})]
    told += [ToolEnded("1", True, '"No."'), ToolEnded("2", False, "{}")]
    first, second = AfterPause(twice, PausePoint(1)), AfterPause(twice, PausePoint(1, 1))
    assert first.take_rest(told) == [Started(), *told[3:]]
    assert second.take_rest(told) == [Started(), told[4]]
    assert (first.find_approval_id("2"), second.find_approval_id("2")) == ("approval-1", "approval-2")


@pytest.mark.parametrize("wait", [None, PausePoint(1), PausePoint(12), PausePoint(1, 2)])
def test_the_id_of_a_response_names_the_wait_before_it(wait: PausePoint | None) -> None:
    given = build_response_id(TRACE, wait)
    assert parse_response_id(given) == Named(TRACE, wait)
    assert wait != PausePoint(12) or given == f"resp_{TRACE}_12", "as it was before a round could wait twice"
