"""Which recorded runs a replay takes: those of named conversations, or of a sample; filtered alike."""

import msgspec

from administration import Admin
from administration.admin_values import Agent
from contracts.ids import is_uuid
from conversations.aggregate.conversation import Conversation, Run
from conversations.errors import UnreadableEvent
from conversations.event_store.log import Log
from conversations.queries.sampling import RunFilter, sample_conversations
from conversations.queries.time_travel import log_time
from ops.errors import RefusedError, SetupError

ENDS = ("completed", "failed", "cancelled")
MOST = 10_000
"""Conversations of one replay."""


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """Of `conversations`, or of `sample` of all those with such a run, picked by `seed`."""

    conversations: tuple[str, ...]
    sample: int
    seed: int
    runs: RunFilter


class Chosen(msgspec.Struct, frozen=True):
    """One run that is to be done again."""

    conversation_id: str
    trace_id: str


def time_of(option: str, text: str | None) -> str | None:
    """A time as the log has it, of one in ISO 8601; without an offset it is UTC. Raises SetupError."""
    if text is None:
        return None
    try:
        return log_time(text)
    except ValueError:
        raise SetupError(f"{option}: {text!r} is no time in ISO 8601, such as 2026-11-21T09:30:00Z") from None


def tags_of(given: list[str]) -> dict[str, str]:
    """`KEY=VALUE` each. Raises SetupError."""
    found: dict[str, str] = {}
    for each in given:
        key, equals, value = each.partition("=")
        if not equals or not key:
            raise SetupError(f"--tag: {each!r} is not KEY=VALUE")
        found[key] = value
    return found


def ends_of(given: list[str]) -> tuple[str, ...]:
    """How runs ended. Raises SetupError."""
    if unknown := [each for each in given if each not in ENDS]:
        raise SetupError(f"--end: {unknown[0]!r} is none of {', '.join(ENDS)}")
    return tuple(given) or ("completed",)


async def choose(admin: Admin, agent: Agent, choice: Choice) -> list[Chosen]:
    """The runs, of the agent's account. Without names and an agent: those that the agent answered.

    Raises RefusedError (exit code 2) for a conversation that cannot be replayed, and where there is no run.
    """
    log = Log(admin.pool)
    runs = choice.runs
    if choice.conversations:
        named = [await _named(log, agent, each) for each in dict.fromkeys(choice.conversations)]
    else:
        if runs.agent_id is None:
            runs = msgspec.structs.replace(runs, agent_id=agent.id)
        most = choice.sample or MOST
        ids = await sample_conversations(admin.pool, agent.account_id, runs, most, choice.seed)
        named = [await read(log, each) for each in ids]
    chosen = [Chosen(each.conversation_id, run.trace_id) for each in named for run in _runs(each, runs)]
    if not chosen:
        whose = "these conversations have" if choice.conversations else f"agent {runs.agent_id} has"
        raise RefusedError(f"{whose} no such run that could be replayed", 2)
    return chosen


async def read(log: Log, conversation_id: str) -> Conversation:
    """A conversation. Raises RefusedError."""
    try:
        return await log.conversation(conversation_id)
    except UnreadableEvent as error:
        raise RefusedError(f"conversation {conversation_id} cannot be read: {error}") from None


async def _named(log: Log, agent: Agent, conversation_id: str) -> Conversation:
    if not is_uuid(conversation_id.lower()):
        raise RefusedError(f"this is no conversation's id: {conversation_id}", 2)
    conversation = await read(log, conversation_id.lower())
    if conversation.version == 0:
        raise RefusedError(f"no such conversation: {conversation_id}", 2)
    if conversation.erased:
        raise RefusedError(f"conversation {conversation_id} was deleted", 2)
    if conversation.account_id != agent.account_id:
        raise RefusedError(f"conversation {conversation_id} is another account's than the agent", 2)
    return conversation


def _runs(conversation: Conversation, wanted: RunFilter) -> list[Run]:
    tags = conversation.metadata.items() >= wanted.metadata.items()
    return [run for run in conversation.runs if tags and wanted.takes(run)]
