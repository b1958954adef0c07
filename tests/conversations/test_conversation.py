"""given these events -> the conversation is this."""

from time import process_time

from hypothesis import given as for_all
from hypothesis import strategies as st

from agentchat.contracts import events
from agentchat.contracts.examples import EVENT_EXAMPLES
from agentchat.contracts.values import Usage
from agentchat.conversations.aggregate.conversation import Conversation, evolve, fold
from tests.conversations.given import (
    AT,
    LATER,
    build_conversation_started,
    build_delta,
    build_handed_over,
    build_run_started,
    build_tool_called,
    build_tool_returned,
    run_after,
    trace,
    turn,
    use,
)


def test_attempts_are_counted_until_one_makes_progress() -> None:
    restarts = [build_run_started(attempt=attempt) for attempt in (1, 2, 3)]
    assert run_after(*restarts).attempts_without_progress == 3
    for progress in (
        build_delta("Hi")[0],
        build_delta("Hi")[1],
        events.SourcesRetrieved(trace_id=trace(), at=AT, sources=()),
    ):
        assert run_after(*restarts, progress).attempts_without_progress == 0
    asking = build_tool_called([use("c1")])
    assert run_after(*asking, *restarts, build_tool_returned("c1")).attempts_without_progress == 0


def test_an_attempt_that_was_handed_over_does_not_count() -> None:
    dead = [build_run_started(attempt=1), build_run_started(attempt=2)]
    assert run_after(*dead, build_run_started(attempt=3), build_handed_over()).attempts_without_progress == 2
    assert run_after(build_handed_over()).attempts_without_progress == 0
    restarts = [
        event for n in range(20) for event in (build_run_started(attempt=n + 1), build_handed_over(tokens=7))
    ]
    assert run_after(*restarts).attempts_without_progress == 0
    assert run_after(*restarts).usage.total == 140


def test_text_that_readers_had_of_an_attempt_is_progress() -> None:
    heard = [build_run_started(attempt=n + 1, offset=7 * n) for n in range(20)]
    assert run_after(*heard).attempts_without_progress == 1
    assert run_after(*heard, build_run_started(attempt=21, offset=7 * 19)).attempts_without_progress == 2
    lost = build_run_started(attempt=21, offset=0)  # NATS was wiped
    again = build_run_started(attempt=22, offset=7 * 19)
    assert run_after(*heard, lost, again).attempts_without_progress == 3


def test_a_call_recorded_twice_is_one_call() -> None:
    run = run_after(build_run_started(), *build_tool_called([use("c1")]), *build_tool_called([use("c1")])[1:])
    assert len(run.rounds[0].calls) == 1


def test_usage_adds_up_over_rounds_until_the_end_states_it() -> None:
    run = run_after(build_run_started(), *build_delta("Hm", number=1), *build_delta("Yes", number=2))
    assert run.usage == Usage(input_tokens=20, output_tokens=10)
    end = events.RunCompleted(trace_id=trace(), at=LATER, usage=Usage(input_tokens=99), rounds=2)
    assert run_after(build_run_started(), *build_delta("Yes"), end).usage == Usage(input_tokens=99)


@for_all(st.lists(st.sampled_from(EVENT_EXAMPLES), max_size=30))
def test_any_log_folds_at_once_as_event_by_event(stored: list[events.Event]) -> None:
    stepwise = Conversation(conversation_id="c")
    for event in stored:
        stepwise = evolve(stepwise, event)
    assert fold("c", stored) == stepwise
    assert stepwise.version == len(stored)


def test_folding_ten_thousand_events_takes_a_fraction_of_a_second() -> None:
    log = [
        build_conversation_started(),
        *(event for number in range(1667) for event in turn(str(number), "Hello", "Hi")),
    ]
    assert len(log) > 10_000
    begin = process_time()
    fold("c", log)
    assert process_time() - begin < 1.0  # of this process; 20 ms when nothing else runs
