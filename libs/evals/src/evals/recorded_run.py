"""The conversation and the run that a case recorded."""

from collections.abc import Iterator

from contracts.values import ShownMessage
from conversations.aggregate.conversation import Conversation, Run, fold
from conversations.event_store import mapper
from evals.cases import Case

MOST_EARLIER = 8_000
"""Characters of the earlier messages together, for a judge; a message has a quarter of it at most."""


def conversation_of(case: Case) -> Conversation:
    """As it was at the end of the case's run, which is the last one. Raises UnreadableEvent."""
    return fold(case.origin.conversation_id, (mapper.event_in(bytes(each)) for each in case.events))


def run_of_case(case: Case) -> Run:
    """Raises UnreadableEvent; LookupError where the events hold no such run that has ended."""
    run = conversation_of(case).run(case.id)
    if run is None or run.state == "running":
        raise LookupError(f"the events of case {case.id} hold no such run that has ended")
    return run


def earlier_messages(conversation: Conversation, trace_id: str) -> tuple[ShownMessage, ...]:
    """What was said before a run's message: the newest that fit into MOST_EARLIER, in their order, long ones
    without their middle.
    """
    kept: list[ShownMessage] = []
    left = MOST_EARLIER
    for each in reversed([*_earlier(conversation, trace_id)]):
        content = _shortened(each.content, MOST_EARLIER // 4)
        left -= len(content)
        if left < 0:
            break
        kept.append(ShownMessage(each.role, content))
    return tuple(reversed(kept))


def _earlier(conversation: Conversation, trace_id: str) -> Iterator[ShownMessage]:
    yield from conversation.seed
    for run in conversation.runs:
        if run.trace_id == trace_id:
            return
        yield ShownMessage("user", run.user_text)
        answer = run.text if run.reply is None else run.reply.content
        if answer:
            yield ShownMessage("assistant", answer)


def _shortened(text: str, most: int) -> str:
    half = most // 2
    return text if len(text) <= most else f"{text[: half - 1]}…{text[-half:]}"
