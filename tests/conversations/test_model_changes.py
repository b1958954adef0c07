"""A run that changed its model: what it is known by, and where its readers are told."""

from agentchat.contracts import events
from agentchat.contracts.updates import Finished, NextRound, TextUpdate, ToolEnded, WarningUpdate
from agentchat.contracts.values import Usage
from agentchat.conversations.aggregate.canonical_stream import replay_updates
from tests.conversations.given import (
    AT,
    begin,
    build_answer,
    build_conversation_started,
    build_delta,
    build_run,
    build_tool_called,
    build_tool_returned,
    trace,
    use,
)

OPENING = (build_conversation_started(), *begin())
CHANGE = events.WarningRaised(
    trace_id=trace(),
    at=AT,
    code="model_changed",
    subject="gpt",
    message="m",
    fallback=2,
    usage=Usage(input_tokens=1),
)


def test_a_model_change_is_shown_in_its_round() -> None:
    """As in the live stream: a cursor counts warnings and results together."""
    first_round = (*build_tool_called([use("c")]), build_tool_returned("c"))
    last_round = (*build_delta("Done.", number=2), *build_answer("Done."))
    run = build_run(*OPENING, *first_round, CHANGE, *last_round).runs[-1]
    told = [each for each in replay_updates(run) if not isinstance(each, NextRound)]
    assert [type(each) for each in told[2:]] == [ToolEnded, WarningUpdate, TextUpdate, Finished]
    assert isinstance(told[-1], Finished)
    assert told[-1].model == "gpt"


def test_a_changed_run_has_the_model_and_the_cost_of_the_failed_one() -> None:
    run = build_run(*OPENING, CHANGE).runs[-1]
    assert (run.model, run.fallback, run.usage) == ("gpt", 2, Usage(input_tokens=1))
