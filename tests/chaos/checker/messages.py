"""I1 to I4: what a client was told is in the event store, once, and was there before he was told."""

from collections.abc import Iterator

from tests.chaos.checker.view import ENDS, SSE, View, events_in, named_conversation, reply_of
from tests.chaos.records import Event, Exchange, Violation


def kept_once(view: View) -> Iterator[Violation]:
    """I1: a message that was accepted is stored once, as it was sent, in the thread that was named."""
    for ask in view.history.asks:
        saved = [event for run in view.runs_of_ask[ask.ask] for event in run.messages("user")]
        accepted = [each for each in view.exchanges_of[ask.ask] if each.accepted]
        if len(saved) > 1:
            yield _i("I1", ask.ask, f"the message is stored {len(saved)} times")
        if accepted and not saved:
            yield _i(
                "I1", ask.ask, f"accepted at {accepted[0].began:.2f} s by {accepted[0].gateway}, and lost"
            )
        for event in saved:
            if event.state["content"] != ask.text:
                yield _i("I1", ask.ask, f"stored as {event.state['content']!r}")
            for each in accepted:
                named = named_conversation(each)
                if named not in (None, event.conversation):
                    yield _i("I1", ask.ask, f"stored in {event.conversation}, and {named} was named")


def saved_before_the_call(view: View) -> Iterator[Violation]:
    """I2: when the model is called, the user's message is committed."""
    for call in view.history.model:
        if call.saved is False:
            yield _i(
                "I2", call.ask, f"the model was called at {call.at:.2f} s, and the message was not saved"
            )


def one_outcome(view: View) -> Iterator[Violation]:
    """I3: every run has one end, and one reply at most."""
    for run in view.runs.values():
        ends, replies = run.of(*ENDS), run.messages("assistant")
        if len(replies) > 1:
            yield _i("I3", run.trace, f"{len(replies)} replies are saved")
        if run.messages("user") and len(ends) != 1:
            yield _i("I3", run.trace, f"it has {len(ends)} ends: {[end.kind for end in ends]}")
        if len(replies) != len(run.of("run_completed")):
            yield _i("I3", run.trace, f"{len(replies)} replies, {len(run.of('run_completed'))} completions")


def done_is_saved(view: View) -> Iterator[Violation]:
    """I4: `done` is said of a reply that is committed, and the text is the one that was streamed."""
    for exchange in view.history.exchanges:
        if not exchange.accepted:
            continue
        told = _find_final_event(exchange)
        if told is None:
            continue
        if exchange.saved_at_done is False:
            yield _i("I4", exchange.ask, "done was said before the reply was committed")
        run = view.runs.get(exchange.headers.get("x-trace-id", ""))
        saved = run.messages("assistant") if run else []
        if not saved:
            yield _i("I4", exchange.ask, "done was said, and no reply is stored")
            continue
        yield from _differences(exchange, told, saved[0])


def _find_final_event(exchange: Exchange) -> SSE | None:
    """What a whole answer says of the reply: the last event, or the JSON."""
    if exchange.form == "json":
        return reply_of(exchange)
    last = events_in(exchange)[-1:]
    return last[0] if last and last[0]["type"] == "done" else None


def _differences(exchange: Exchange, told: SSE, saved: Event) -> Iterator[Violation]:
    content = saved.state["content"]
    if exchange.form != "json":
        streamed = "".join(e["content"] for e in events_in(exchange) if e["type"] == "delta")
        if streamed != content:
            at = next((i for i, (a, b) in enumerate(zip(streamed, content, strict=False)) if a != b), None)
            yield _i(
                "I4",
                exchange.ask,
                f"{len(streamed)} characters streamed, {len(content)} saved, first at {at}",
            )
    message = told.get("message")
    if message is not None:
        shown = (message["id"], message["content"], message["token_count"])
        stored = (saved.state["message_id"], content, saved.state["token_count"])
        if shown != stored:
            yield _i("I4", exchange.ask, f"shown as {shown}, stored as {stored}")


def _i(invariant: str, of: str, evidence: str) -> Violation:
    return Violation(invariant=invariant, of=of, evidence=evidence)
