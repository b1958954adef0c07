"""A run as bars: out of the recorded histories, and of runs that go on."""

import json
from collections.abc import Sequence
from decimal import Decimal

import pytest
from msgspec.structs import replace

from agentchat.contracts import events
from agentchat.contracts.events import Event
from agentchat.contracts.values import Decider, UnfinishedReply, Usage
from agentchat.conversations.aggregate.conversation import fold
from agentchat.conversations.aggregate.model_calls import RecordedCall
from agentchat.conversations.event_store import mapper
from agentchat.conversations.event_store.event_log import LogEntry
from agentchat.conversations.projections import runs_table
from agentchat.conversations.projections.projection import LoggedFact
from agentchat.conversations.queries.run_timeline import AXIS, Timeline, build_timeline
from agentchat.runtime.prices import Price, Prices
from tests.conversations import recorded
from tests.conversations.given import (
    AT,
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


@pytest.mark.parametrize(
    ("kind", "decision", "note"),
    [
        ("operator", "denied", "denied by key-1"),
        ("service", "expired", "expired"),
        ("service", "cancelled", ""),
    ],
)
def test_only_a_decision_of_a_person_has_an_author(kind: str, decision: str, note: str) -> None:
    *asked, decided = build_held_call()
    taken = replace(decided, decision=decision, by=Decider(kind=kind, id="key-1"))  # type: ignore[arg-type]
    found = build_from_log(build_conversation_started(), *begin(), *asked, taken)
    (bar,) = [bar for bar in found.bars if bar.kind == "approval"]
    assert bar.note == note


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


def test_a_bar_has_the_model_call_that_its_tokens_are_of() -> None:
    lost = events.ReplyLost(trace_id=trace(), at=AT, round=1, usage=Usage(output_tokens=3), model="first")
    replied = replace(build_model_replied([], stop_reason="end_turn"), model="second", at=LATER)
    found = build_from_log(build_conversation_started(), *begin(), lost, replied)
    calls = [bar.call for bar in found.bars if bar.call]
    assert [(call.model, call.at) for call in calls] == [("first", AT), ("second", LATER)]


def test_the_bar_of_a_broken_off_call_has_its_tokens() -> None:
    unfinished = UnfinishedReply(model="first", usage=Usage(output_tokens=3))
    cancelled = replace(build_run_cancelled(), usage=unfinished.usage, unfinished=unfinished)
    found = build_from_log(build_conversation_started(), *begin(), cancelled)
    assert [bar.call for bar in found.bars] == [RecordedCall("first", unfinished.usage, cancelled.at)]


def test_the_steps_cost_together_what_the_ledger_has_for_the_run() -> None:
    """Each at the price of its model on its own day: the run goes on after midnight, with another model."""
    night, day = "2026-11-21T23:59:59.000000Z", "2026-11-22T00:00:01.000000Z"
    some = Usage(input_tokens=1_000, output_tokens=10)
    unfinished = UnfinishedReply(model="second", usage=some)
    stored = (
        *(replace(event, at=night) for event in (build_conversation_started(), *begin())),
        events.ReplyLost(trace_id=trace(), at=night, round=1, usage=some, model="first"),
        events.WarningRaised(
            trace_id=trace(),
            at=day,
            code="model_changed",
            subject="second",
            message="It failed.",
            fallback=1,
            failed_model="first",
            usage=some,
        ),
        replace(build_run_cancelled(), at=day, usage=some + some + some, unfinished=unfinished),
    )
    first = [Price(input=1.0, output=2.0), Price(since="2026-11-22", input=3.0, output=4.0)]
    prices = Prices(models={"first": first, "second": Price(input=5.0, output=6.0)})
    calls = [bar.call for bar in build_from_log(*stored).bars if bar.call]
    steps = [prices.compute_cost(call.model, call.usage, call.at) for call in calls]
    assert steps == pytest.approx([0.001_02, 0.003_04, 0.005_06])

    facts = [LoggedFact(place, "c", "account", event, 1) for place, event in enumerate(stored)]
    [(_, (rows,)), *_] = runs_table.build_projection(prices).build_statements(facts)
    assert [Decimal(row["cost"]) for row in json.loads(str(rows))] == [Decimal("0.0091200000")]
    assert [call.model for call in fold("c", stored).runs[-1].model_calls] == ["first", "first", "second"]
