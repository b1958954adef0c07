"""A run as bars: out of the recorded histories, and of runs that go on."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from agentchat.contracts import events
from agentchat.contracts.events import Event
from agentchat.contracts.values import Usage
from agentchat.conversations.aggregate.conversation import fold
from agentchat.conversations.event_store import mapper
from agentchat.conversations.event_store.event_log import LogEntry
from agentchat.conversations.queries.run_timeline import AXIS, Timeline, build_timeline
from tests.conversations import recorded
from tests.conversations.given import (
    LATER,
    begin,
    build_conversation_started,
    build_held_call,
    build_model_replied,
    build_run_cancelled,
    build_run_started,
    build_tool_called,
    trace,
    use,
)

THEN = "2026-11-21T09:30:40.000000Z"


def build_entries(stored: Sequence[Event]) -> list[LogEntry]:
    return [
        LogEntry(version, "c", version, mapper.get_topic(event), mapper.encode_state(event))
        for version, event in enumerate(stored, start=1)
    ]


def build_from_log(*stored: Event, now: str = LATER) -> Timeline:
    run = fold("c", stored).runs[-1]
    return build_timeline(run, build_entries(stored), now)


def show(found: Timeline) -> list[str]:
    return [f"{bar.label} {bar.state}" for bar in found.bars]


@pytest.mark.parametrize(
    ("history", "bars"),
    [
        ("sources", ["retrieve done", "model 1 done"]),
        (
            "approvals",
            ["model 1 done", "cancel_order done", "resumed done", "cancel_order done", "model 2 done"],
        ),
        ("client_tool", ["model 1 done", "show_map done", "resumed done", "model 2 done"]),
        ("handed_over", ["given up failed", "attempt 2 done", "model 1 done"]),
        ("taken_over", ["lost failed", "attempt 2 done", "model 1 done"]),
        ("cancelled", ["model 1 cancelled"]),
        ("busy", ["model 1 done", "track_shipment done", "steered done", "model 2 done"]),
    ],
)
def test_a_recorded_run_is_shown_by_what_it_did(history: str, bars: list[str]) -> None:
    stored = recorded.build_facts(recorded.encode_carried(history))
    runs = fold("c", stored).runs
    run = runs[-1] if history == "busy" else runs[0]
    found = build_timeline(run, build_entries(stored), LATER)
    assert show(found) == bars
    places = [
        (found.place(bar.began), found.place(bar.began + bar.measure_seconds(found.seconds)))
        for bar in found.bars
    ]
    assert all(0 <= first <= last <= AXIS for first, last in places)


def test_what_a_run_does_now_is_an_open_bar() -> None:
    begun = (build_conversation_started(), *begin())
    waits = [event for event in build_held_call() if not isinstance(event, events.ApprovalDecided)]
    for stored, bar in [
        (begun, "model 1 running"),
        ((*begun, *build_tool_called([use("one"), use("two", "search")])), "search running"),
        ((*begun, *waits), "get_order waiting"),
    ]:
        found = build_from_log(*stored)
        assert show(found)[-1] == bar
        assert found.bars[-1].ended is None
        assert found.seconds == 60


def test_what_never_returned_ends_with_the_run() -> None:
    found = build_from_log(
        build_conversation_started(),
        *begin(),
        *build_tool_called([use("one")]),
        build_run_cancelled(),
        now="2027-01-01T00:00:00Z",
    )
    assert show(found) == ["model 1 done", "get_order cancelled"]
    assert found.bars[-1].ended == found.seconds == 60


def test_a_long_wait_for_a_person_is_drawn_short() -> None:
    reply, call, request, decided = build_held_call()
    at = "2026-11-21T09:30:10.000000Z"
    decided = replace(decided, at="2026-11-21T12:00:00.000000Z")
    resumed = replace(build_run_started(attempt=2), at="2026-11-21T12:00:00.000000Z")
    returned = events.ToolReturned(
        trace_id=trace(),
        at="2026-11-21T12:00:10.000000Z",
        round=1,
        call_id="call",
        output="1",
        is_error=False,
        ms=10_000,
    )
    waits = (replace(reply, at=at), replace(call, at=at), replace(request, at=at), decided)
    found = build_from_log(build_conversation_started(), *begin(), *waits, resumed, returned, now=returned.at)
    model, wait, _, tool, open_model = found.bars
    assert wait.measure_seconds(found.seconds) == 8990
    assert found.place(10) == pytest.approx(10 / 24 * AXIS, abs=1), (
        "20 s of work, and a fifth of that for the wait"
    )
    assert found.place(9000) == pytest.approx(14 / 24 * AXIS, abs=1)
    assert len(found.breaks) == 1
    assert (model.sent, model.version, tool.began, open_model.state) == (3, 4, 9000, "running")


def test_a_bar_names_the_model_that_its_tokens_are_of() -> None:
    lost = events.ReplyLost(trace_id=trace(), at=LATER, round=1, usage=Usage(output_tokens=3), model="first")
    replied = replace(build_model_replied([], stop_reason="end_turn"), model="second")
    found = build_from_log(build_conversation_started(), *begin(), lost, replied)
    assert [bar.model for bar in found.bars if bar.usage] == ["first", "second"]
