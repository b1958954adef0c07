"""The recorded runs that an experiment takes, and what doing them again may cost."""

from collections.abc import AsyncIterator, Iterable

import msgspec
from msgspec.structs import replace

from agentchat.contracts.admin_errors import Conflict, Invalid, NotFound
from agentchat.contracts.ids import is_uuid
from agentchat.contracts.values import Usage
from agentchat.conversations.aggregate.conversation import Conversation, Run
from agentchat.conversations.errors import UnreadableEvent
from agentchat.conversations.event_store.log import Log
from agentchat.conversations.queries.find_run import find_run
from agentchat.conversations.queries.sample_conversations import RunFilter, sample_conversations
from agentchat.evals.compared_run import MESSAGE_CHARACTERS, seconds_of
from agentchat.evals.prices import Prices
from agentchat.runtime.postgres import Pool

ENDS = ("completed", "failed", "cancelled")
MOST = 10_000
"""Conversations of one experiment."""


class RunChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs of an account.

    Those of `traces`, and those of `conversations`; where there are neither, those of `sample` conversations
    of all with such a run, picked by `seed` (0: MOST). But for `traces`, such alone as `runs` takes.
    """

    traces: tuple[str, ...] = ()
    conversations: tuple[str, ...] = ()
    sample: int = 0
    seed: int = 0
    runs: RunFilter = RunFilter()


class ChosenRun(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded run that has ended: what it was asked (its beginning), and what it cost."""

    conversation_id: str
    trace_id: str
    message: str
    model: str
    requested_at: str
    usage: Usage
    seconds: float


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """What an experiment would take if its runs went as they were recorded; `cost` None: no price is known
    of some.
    """

    runs: int
    tokens: int
    cost: float | None
    seconds: float


async def choose(pool: Pool, account_id: str, agent_id: str, choice: RunChoice) -> list[ChosenRun]:
    """The runs, some at least. Without names and an agent: those that `agent_id` answered.

    Raises NotFound, Invalid for what is no run of the account's that has ended, Conflict for a conversation
    that cannot be read, DatabaseUnavailable.
    """
    log = Log(pool)
    if choice.traces or choice.conversations:
        chosen = [await _by_trace(pool, log, account_id, each) for each in dict.fromkeys(choice.traces)]
        chosen += [
            run
            for each in dict.fromkeys(choice.conversations)
            for run in _runs_of(await _named(log, account_id, each), choice.runs)
        ]
        whose = "these conversations have"
    else:
        wanted = choice.runs if choice.runs.agent_id else replace(choice.runs, agent_id=agent_id)
        chosen = [run async for run in _sampled(pool, log, account_id, choice, wanted)]
        whose = f"agent {wanted.agent_id} has"
    if not chosen:
        raise Invalid("", f"{whose} no such run that could be replayed")
    return list({each.trace_id: each for each in chosen}.values())


def estimate(chosen: Iterable[ChosenRun], prices: Prices, model: str | None, at_once: int) -> Estimate:
    """By the price of the `model` that is to answer; None: the one that answered each. `seconds` are those of
    all with `at_once` at a time.
    """
    runs, tokens, seconds = 0, 0, 0.0
    total: float | None = 0.0
    for each in chosen:
        runs, tokens, seconds = runs + 1, tokens + each.usage.total, seconds + each.seconds
        cost = prices.cost(model or each.model, each.usage)
        total = None if total is None or cost is None else total + cost
    seconds = round(seconds / max(1, min(at_once, runs)), 1)
    return Estimate(runs=runs, tokens=tokens, cost=total, seconds=seconds)


async def read(log: Log, conversation_id: str) -> Conversation:
    """A conversation. Raises Conflict where it cannot be decoded, DatabaseUnavailable."""
    try:
        return await log.load_conversation(conversation_id)
    except UnreadableEvent as error:
        raise Conflict(f"conversation {conversation_id} cannot be read: {error}") from None


async def _by_trace(pool: Pool, log: Log, account_id: str, trace_id: str) -> ChosenRun:
    found = await find_run(pool, trace_id)
    if found is None or found.account_id != account_id:
        raise NotFound("run", trace_id)
    run = (await read(log, found.conversation_id)).run(trace_id)
    if run is None or run.state not in ENDS:
        raise Invalid("", f"run {trace_id} has not ended")
    return chosen_run(found.conversation_id, run)


async def _named(log: Log, account_id: str, conversation_id: str) -> Conversation:
    if not is_uuid(conversation_id.lower()):
        raise Invalid("", f"this is no conversation's id: {conversation_id}")
    conversation = await read(log, conversation_id.lower())
    if conversation.version == 0:
        raise NotFound("conversation", conversation_id)
    if conversation.erased:
        raise Invalid("", f"conversation {conversation_id} was deleted")
    if conversation.account_id != account_id:
        raise Invalid("", f"conversation {conversation_id} is another account's than the agent")
    return conversation


async def _sampled(
    pool: Pool, log: Log, account_id: str, choice: RunChoice, wanted: RunFilter
) -> AsyncIterator[ChosenRun]:
    for each in await sample_conversations(pool, account_id, wanted, choice.sample or MOST, choice.seed):
        for run in _runs_of(await read(log, each), wanted):
            yield run


def _runs_of(conversation: Conversation, wanted: RunFilter) -> list[ChosenRun]:
    if not conversation.metadata.items() >= wanted.metadata.items():
        return []
    return [chosen_run(conversation.conversation_id, run) for run in conversation.runs if wanted.matches(run)]


def chosen_run(conversation_id: str, run: Run) -> ChosenRun:
    """What an experiment knows of a run that it takes."""
    return ChosenRun(
        conversation_id=conversation_id,
        trace_id=run.trace_id,
        message=run.user_text[:MESSAGE_CHARACTERS],
        model=run.model,
        requested_at=run.requested_at,
        usage=run.usage,
        seconds=seconds_of(run),
    )
