"""Find where a response continues: after another response, in a conversation, or in a new one.

Ids of responses are traces, ids of conversations are ours, each in OpenAI's form.
"""

import re
from collections.abc import Callable

import msgspec

from agentchat.contracts.values import ShownMessage
from agentchat.conversations.aggregate.conversation import Conversation, Run, evolve_all
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.queries.find_by_trace import FoundRun
from agentchat.directory.api_keys import Caller
from agentchat.gateway.http.problems import Refusal, build_field_refusal
from agentchat.gateway.http.request_context import MAX_BODY_BYTES, JsonRequest
from agentchat.gateway.runs.after_pause import AfterPause, PausePoint
from agentchat.gateway.runs.decide_approval import find_owned_approval
from agentchat.gateway.runs.owned_run import find_owned_run
from agentchat.gateway.runs.run_request import Fork
from agentchat.runtime.postgres import Pool

_PAGE = 200
_RESPONSE = re.compile(r"resp_([0-9a-f]{32})(?:_([1-9][0-9]{0,8})(?:_([1-9][0-9]?))?)?\Z")
_CONVERSATION = re.compile(r"conv_([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})\Z")


class ConversationPlace(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of `RunRequest` that say where. With a `fork` or a `history` a new conversation begins."""

    conversation_id: str | None = None
    after: str | None = None
    fork: Fork | None = None
    history: tuple[ShownMessage, ...] = ()


class Named(msgspec.Struct, frozen=True):
    """The run that a response id names, or the part of it after one of its pauses."""

    trace_id: str
    pause: PausePoint | None


def build_response_id(trace_id: str, pause: PausePoint | None = None) -> str:
    """Return the id of a run's response, or of the part after one of its pauses."""
    if pause is None:
        return f"resp_{trace_id}"
    return f"resp_{trace_id}_{pause.round}" + (f"_{pause.number}" if pause.number else "")


def parse_response_id(given: str) -> Named | None:
    """Parse the id of a response; None if it is not ours."""
    found = _RESPONSE.match(given)
    if found is None:
        return None
    return Named(found[1], None if found[2] is None else PausePoint(int(found[2]), int(found[3] or 0)))


def encode_conversation_id(conversation_id: str) -> str:
    """Return the conversation's id in OpenAI's form."""
    return f"conv_{conversation_id.replace('-', '')}"


async def find_response(pool: Pool, caller: Caller, given: str) -> tuple[Named, FoundRun]:
    """Find a response, and its run or queued request. Raises Refusal: 404; DatabaseUnavailable."""
    named = parse_response_id(given)
    if named is None:
        raise make_response_not_found()
    try:
        return named, await find_owned_run(pool, caller, named.trace_id)
    except Refusal:
        raise make_response_not_found() from None


def make_response_not_found() -> Refusal:
    """Build the refusal of an unknown response."""
    return Refusal("not_found", "There is no such response.")


def find_pause(run: Run, named: Named) -> AfterPause | None:
    """Find the pause after which a response begins; None for a whole run. Raises Refusal: 404 if unknown."""
    if named.pause is None:
        return None
    waited = (
        PausePoint(each.number, approval.wait)
        for each in run.rounds
        for call in each.calls
        for approval in call.approvals
    )
    if named.pause not in waited:
        raise make_response_not_found()
    return AfterPause(run, named.pause)


def locate_in_conversation(given: str) -> ConversationPlace:
    """Parse the id of a conversation, whose owner the run checks. Raises Refusal: 400."""
    found = _CONVERSATION.match(given)
    if found is None:
        raise build_field_refusal("conversation", "This must be a conversation id from a response.")
    return ConversationPlace(conversation_id="-".join(found.groups()))


async def place_after(request: JsonRequest, previous: str, unknown: Refusal) -> ConversationPlace:
    """Find the place after a response: in its conversation, or in a fork if that has continued since.

    A response without a reply is half a run: a new conversation then begins with the texts.

    Raises:
        Refusal: `unknown` if the account has no such response.
        DatabaseUnavailable, UnreadableEvent
    """
    services, caller = request.services, request.auth
    try:
        named, found = await find_response(services.pool, caller, previous)
    except Refusal:
        raise unknown from None
    if found.begun_at is None:
        raise Refusal("conversation_busy")
    async with request.services.account_bounds.hold_read(caller):
        since = await _load_pages(services.log, found, found.begun_at - 1, lambda read: len(read.runs) > 1)
        run, *later = since.runs
        if run.state == "running" and not run.pending:
            raise Refusal("conversation_busy")
        if not later:
            after = None if run.reply is None else run.reply.id
            return ConversationPlace(conversation_id=found.conversation_id, after=after)
        if run.reply is not None:
            place = Fork(source_id=found.conversation_id, at=run.reply.id, trace_id=run.trace_id)
            return ConversationPlace(fork=place)
        complete = await _load_pages(services.log, found, 0, lambda read: _has_ended(read, named.trace_id))
        return ConversationPlace(history=_list_messages_until(complete, named.trace_id))


async def find_response_of_approval(request: JsonRequest, approval_id: str, unknown: Refusal) -> str:
    """Return the id of the response whose run asked for an approval.

    Raises Refusal (`unknown` if the account has no such approval), DatabaseUnavailable.
    """
    try:
        found = await find_owned_approval(request.services.pool, request.auth, approval_id)
    except Refusal:
        raise unknown from None
    return build_response_id(found.approval.trace_id)


async def _load_pages(
    log: Log, found: FoundRun, after_version: int, is_enough: Callable[[Conversation], bool]
) -> Conversation:
    """Load a conversation after a version, page by page, so that others are served between."""
    conversation = Conversation(conversation_id=found.conversation_id)
    while True:
        page = await log.read_events(found.conversation_id, after_version, after_version + _PAGE)
        conversation = evolve_all(conversation, page)
        if len(page) < _PAGE or is_enough(conversation):
            return conversation
        after_version += _PAGE


def _has_ended(conversation: Conversation, trace_id: str) -> bool:
    run = conversation.run(trace_id)
    return run is not None and run.state != "running"


def _list_messages_until(conversation: Conversation, trace_id: str) -> tuple[ShownMessage, ...]:
    """List the messages until the end of a run. Raises Refusal: 413."""
    messages = [*conversation.seed]
    for run in conversation.runs:
        text = run.text if run.reply is None else run.reply.content
        if text:
            messages += (
                ShownMessage("user", run.user_text, run.attachments),
                ShownMessage("assistant", text),
            )
        if run.trace_id == trace_id:
            break
    if sum(len(each.content) for each in messages) > MAX_BODY_BYTES:
        raise Refusal("message_too_large", "The conversation is too long to begin another one with it.")
    return tuple(messages)
