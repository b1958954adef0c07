"""given this conversation, when this happens -> these events, or this step."""

import pytest
from msgspec.structs import replace

from agentchat.contracts import events
from agentchat.contracts.values import AgentFacts, ShownMessage, UnfinishedReply, Usage
from agentchat.conversations.aggregate.conversation import MAX_BYTES, MAX_EVENTS, Conversation
from agentchat.conversations.aggregate.next_step import CallModel, Retrieve, conclude, decide_next_step
from agentchat.conversations.aggregate.opening_rules import (
    AlreadyEnded,
    GiveUpRun,
    MustWait,
    Opening,
    Rejected,
    ResumeRun,
    StartRun,
    decide_opening,
    has_made_progress,
)
from agentchat.conversations.aggregate.run_ends import cancel, fail, save_interrupted_reply
from tests.conversations.given import (
    AGENT,
    AT,
    ERASED,
    LATER,
    begin,
    build_answer,
    build_conversation_started,
    build_delta,
    build_run,
    build_run_cancelled,
    build_run_failed,
    build_run_started,
    build_thread,
    build_tool_called,
    build_tool_returned,
    build_user_message,
    request,
    run_after,
    trace,
    turn,
    use,
)


def open_request(
    conversation: Conversation, word: str = "b", *, expired: bool = False, heard: int = 0, **more: object
) -> Opening:
    return decide_opening(conversation, request(word, **more), AGENT, now=AT, expired=expired, heard=heard)


def test_new_conversation_has_account_message_and_run() -> None:
    begun = open_request(build_run(), "a", new_conversation=True)
    assert begun == StartRun((build_conversation_started(), *begin()))


def test_a_new_conversation_is_seeded_with_what_its_caller_shows() -> None:
    shown = (ShownMessage("user", "Hello"), ShownMessage("assistant", "Hi"))
    begun = open_request(build_run(), "a", new_conversation=True, history=shown, instructions="Be brief.")
    seeded = events.ConversationSeeded(trace_id=trace("a"), at=AT, messages=shown)
    assert begun == StartRun((build_conversation_started(), seeded, *begin(instructions="Be brief.")))


def test_conversation_that_went_on_is_not_the_shown_one() -> None:
    conversation = build_thread(*turn("a", "Hello", "Hi"))
    (run,) = conversation.runs
    assert run.reply is not None
    assert isinstance(open_request(conversation, after=run.reply.id), StartRun)
    gone_on = open_request(conversation, after="an earlier reply")
    assert isinstance(gone_on, Rejected)
    assert gone_on.code == "conversation_busy"
    in_vain = (*begin("b", "Hello?"), build_run_failed("b"))
    asked_again = build_thread(*turn("a", "Hello", "Hi"), *in_vain)
    assert isinstance(open_request(asked_again, "c", after=run.reply.id, message="Hello? "), StartRun)
    assert open_request(asked_again, "c", after=run.reply.id, message="Another?") == gone_on
    cut = build_thread(
        *turn("a", "Hello", "Hi"), *in_vain[:2], *build_delta("W", "b")[:1], build_run_failed("b")
    )
    assert open_request(cut, "c", after=run.reply.id, message="Hello?") == gone_on
    under_way = build_thread(*turn("a", "Hello", "Hi"), *begin("b"))
    assert open_request(under_way, "c", after=run.reply.id) == gone_on, (
        "at once, not behind what is under way"
    )
    taken_over = open_request(conversation, new_conversation=True, history=(ShownMessage("user", "Hello"),))
    assert taken_over == gone_on, "begun by another, after the claim of this one was made"


def test_the_run_records_what_its_request_and_its_agent_say() -> None:
    agent = AgentFacts(agent_version=9, model="m", max_tool_rounds=2, retrieves=True, on_interruption="fail")
    asking = request("b", prompt="Be brief.", form="json")
    begun = decide_opening(build_thread(), asking, agent, now=AT, expired=False)
    assert isinstance(begun, StartRun)
    assert begun.events[-1] == build_run_started(
        "b",
        agent_version=9,
        model="m",
        max_tool_rounds=2,
        retrieves=True,
        on_interruption="fail",
        prompt_override="Be brief.",
        form="json",
    )


def test_unknown_foreign_and_erased_get_the_same_refusal() -> None:
    unknown = open_request(build_run())
    assert isinstance(unknown, Rejected)
    assert unknown.code == "conversation_not_found"
    assert open_request(build_thread(), account_id="account-2") == unknown
    assert open_request(build_thread(), account_id="account-2", new_conversation=True) == unknown
    assert open_request(build_thread(ERASED)) == unknown


@pytest.mark.parametrize("full", [{"version": MAX_EVENTS}, {"stored_bytes": MAX_BYTES}])
def test_a_full_conversation_takes_no_message_and_its_run_goes_on(full: dict[str, int]) -> None:
    there = replace(build_thread(*begin()), **full)
    refused = decide_opening(there, request("b"), AGENT, now=AT, expired=False)
    assert isinstance(refused, Rejected)
    assert refused.code == "conversation_full"
    assert isinstance(decide_opening(there, request("a"), AGENT, now=AT, expired=False), ResumeRun)


def test_a_second_message_waits_for_the_run_under_way() -> None:
    assert open_request(build_thread(*begin())) == MustWait(trace_id=trace("a"))


def test_expired_request_is_void_unless_it_has_events() -> None:
    void = open_request(build_thread(), expired=True)
    assert isinstance(void, Rejected)
    assert void.code == "overloaded"
    busy = build_thread(*begin())
    assert open_request(busy, expired=True) == void
    assert isinstance(open_request(busy, "a", expired=True), ResumeRun)


def test_five_attempts_without_progress_fail_the_run() -> None:
    attempts = [build_run_started("a", attempt=attempt) for attempt in range(1, 6)]
    assert isinstance(open_request(build_thread(build_user_message("a"), *attempts[:4]), "a"), ResumeRun)
    given_up = open_request(build_thread(build_user_message("a"), *attempts), "a")
    assert isinstance(given_up, GiveUpRun)
    (end,) = given_up.events
    assert isinstance(end, events.RunFailed)
    assert end.code == "internal_error"


def test_text_since_the_last_attempt_keeps_the_run_alive() -> None:
    attempts = [build_run_started("a", attempt=attempt, offset=12) for attempt in range(1, 7)]
    stuck = build_thread(build_user_message("a"), *attempts)
    assert isinstance(open_request(stuck, "a", heard=12), GiveUpRun)
    assert open_request(stuck, "a", heard=13) == ResumeRun((build_run_started("a", attempt=7, offset=13),))


@pytest.mark.parametrize(
    ("events_of_run", "expected"),
    [
        ([build_run_started("a", n + 1) for n in range(5)], False),
        ([build_run_started("a", n + 1) for n in range(6)], False),
        ([build_run_started("a", n + 1, offset=n) for n in range(6)], True),
        ([build_run_started("a", n + 1, offset=n) for n in range(6)] + [build_run_failed("a")], False),
    ],
)
def test_a_run_got_on_if_more_attempts_have_begun_than_may_be_in_vain(
    events_of_run: list[events.Event], expected: bool
) -> None:
    run = build_thread(build_user_message("a"), *events_of_run).run(trace("a"))
    assert run is not None
    assert has_made_progress(run) is expected


def test_a_run_given_up_after_it_has_spoken_was_interrupted() -> None:
    attempts = [build_run_started("a", attempt=attempt) for attempt in range(2, 7)]
    asking = build_tool_called([{"type": "text", "text": "Let me look."}, use("c1")])
    text = events.Delta(trace_id=trace("a"), at=AT, round=1, text="Let me look.", cuts=(12,))
    given_up = open_request(build_thread(*begin(), text, *asking, *attempts), "a")
    assert isinstance(given_up, GiveUpRun)
    (end,) = given_up.events
    assert isinstance(end, events.RunFailed)
    assert (end.code, end.usage) == ("generation_interrupted", Usage(input_tokens=10, output_tokens=5))


@pytest.mark.parametrize(
    "end", [(build_run_failed(),), (build_run_cancelled(),), (*build_delta("Hi"), *build_answer("Hi"))]
)
def test_a_request_whose_run_has_ended_is_only_announced_again(end: tuple[events.Event, ...]) -> None:
    conversation = build_thread(*begin(), *end)
    run = conversation.run(trace("a"))
    assert run is not None
    assert open_request(conversation, "a") == AlreadyEnded(run)


def test_an_agent_with_knowledge_retrieves_first() -> None:
    run = run_after(build_run_started(retrieves=True))
    assert decide_next_step(run) == Retrieve()
    found = events.SourcesRetrieved(trace_id=trace(), at=AT, sources=())
    assert decide_next_step(run_after(build_run_started(retrieves=True), found)) == CallModel(
        round=1, tools=True
    )


@pytest.mark.parametrize("maximum", [0, 1, 8])
def test_after_the_last_tool_round_the_model_is_called_without_tools(maximum: int) -> None:
    stored: list[events.Event] = [build_run_started(max_tool_rounds=maximum)]
    for number in range(1, maximum + 1):
        assert decide_next_step(run_after(*stored)) == CallModel(round=number, tools=True)
        stored += [
            *build_tool_called([use(f"c{number}")], number=number),
            build_tool_returned(f"c{number}", number=number),
        ]
    assert decide_next_step(run_after(*stored)) == CallModel(round=maximum + 1, tools=False)


def test_forbidden_tool_call_ends_the_run() -> None:
    run = run_after(build_run_started(max_tool_rounds=0), *build_tool_called([use("c1")]))
    assert decide_next_step(run) is None
    assert conclude(run, message_id="reply-a", now=AT)


@pytest.mark.parametrize(
    "end", [(build_run_failed(),), (build_run_cancelled(),), (*build_delta("Hi"), *build_answer("Hi"))]
)
def test_an_ended_run_needs_nothing_and_ends_once(end: tuple[events.Event, ...]) -> None:
    run = run_after(build_run_started(), *end)
    assert decide_next_step(run) is None
    assert conclude(run, message_id="m", now=AT) == ()
    assert fail(run, "internal_error", "No.", AT) == ()
    assert cancel(run, AT) == ()


def test_a_reply_that_asks_for_no_tool_concludes_the_run() -> None:
    asking = (
        *build_tool_called([{"type": "text", "text": "Let me look. "}, use("c1")]),
        build_tool_returned("c1"),
    )
    look = events.Delta(trace_id=trace(), at=AT, round=1, text="Let me look. ", cuts=(13,))
    run = run_after(build_run_started(), look, *asking, *build_delta("It has shipped.", number=2))
    assert decide_next_step(run) is None
    saved, completed = conclude(run, message_id="reply-a", now=LATER)
    assert saved == events.MessageSaved(
        trace_id=trace(),
        at=LATER,
        message_id="reply-a",
        role="assistant",
        agent_id="agent-1",
        content="Let me look. It has shipped.",
        token_count=30,
    )
    usage = Usage(input_tokens=20, output_tokens=10)
    assert completed == events.RunCompleted(trace_id=trace(), at=LATER, usage=usage, rounds=2)


def test_a_run_that_has_more_to_do_is_not_concluded() -> None:
    for stored in ((), build_delta("Hi")[:1], build_tool_called([use("c1")])):
        assert conclude(run_after(build_run_started(), *stored), message_id="m", now=AT) == ()


def test_a_run_that_fails_or_is_cancelled_says_what_it_has_cost() -> None:
    run = run_after(build_run_started(), *build_tool_called([use("c1")]))
    (end,) = fail(run, "provider_error", "It broke.", LATER)
    assert end == events.RunFailed(
        trace_id=trace(), at=LATER, code="provider_error", message="It broke.", usage=run.usage
    )
    call = UnfinishedReply(model="m", usage=Usage(output_tokens=1))
    (end,) = cancel(run, LATER, call)
    assert end == events.RunCancelled(
        trace_id=trace(), at=LATER, usage=run.usage + Usage(output_tokens=1), unfinished=call
    )


@pytest.mark.parametrize("streamed", ["", "It is", " "])
def test_text_of_a_run_that_ends_early_is_saved(streamed: str) -> None:
    run = run_after(build_run_started(), *build_tool_called([use("c1")]))
    said = (events.Delta(trace_id=trace(), at=LATER, round=2, text=streamed, cuts=()),) if streamed else ()
    *before, end = save_interrupted_reply(run, said, cancel(run, LATER))
    assert isinstance(end, events.RunCancelled)
    saved = [(each.content, each.interrupted) for each in before if isinstance(each, events.MessageSaved)]
    assert saved == ([("It is", True)] if streamed.strip() else [])
