"""Choose the recorded runs of an experiment, and estimate what replaying them costs."""

from collections.abc import AsyncIterator, Iterable

import msgspec
from msgspec.structs import replace

from agentchat.contracts.admin_errors import Conflict, Invalid, NotFound
from agentchat.contracts.ids import is_uuid
from agentchat.contracts.values import Usage
from agentchat.conversations.aggregate.conversation import Conversation, Run
from agentchat.conversations.aggregate.model_calls import RecordedCall
from agentchat.conversations.errors import UnreadableEvent
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.queries.find_by_trace import find_run
from agentchat.conversations.queries.sample_conversations import RunSelection, sample_conversations
from agentchat.evals.compared_run import MESSAGE_CHARACTERS, compute_recorded_cost, measure_seconds
from agentchat.runtime.postgres import Pool
from agentchat.runtime.prices import Prices

ENDS = ("completed", "failed", "cancelled")
MOST = 10_000
"""The most conversations of one experiment."""


class RunChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of an account to take.

    The runs of `traces` and of `conversations`; without either, the runs of `sample` conversations (0: MOST),
    drawn by `seed`. Except for `traces`, only runs that `runs` matches.
    """

    traces: tuple[str, ...] = ()
    conversations: tuple[str, ...] = ()
    sample: int = 0
    seed: int = 0
    runs: RunSelection = RunSelection()


class ChosenRun(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded run that has ended: the beginning of its message, and its cost."""

    conversation_id: str
    trace_id: str
    message: str
    model: str
    requested_at: str
    usage: Usage
    model_calls: tuple[RecordedCall, ...]
    seconds: float


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """The expected use of an experiment whose runs go as recorded.

    `cost` is None if a price is unknown.
    """

    runs: int
    tokens: int
    cost: float | None
    seconds: float


async def choose_runs(pool: Pool, account_id: str, agent_id: str, choice: RunChoice) -> list[ChosenRun]:
    """Return the chosen runs, at least one. Without names and an agent: those that `agent_id` answered.

    Raises NotFound, Invalid for anything that is not an ended run of the account, Conflict for a conversation
    that cannot be read, DatabaseUnavailable.
    """
    log = Log(pool)
    if choice.traces or choice.conversations:
        chosen = [await _load_run(pool, log, account_id, each) for each in dict.fromkeys(choice.traces)]
        chosen += [
            run
            for each in dict.fromkeys(choice.conversations)
            for run in _select_runs(await _load_named(log, account_id, each), choice.runs)
        ]
        whose = "these conversations have"
    else:
        wanted = choice.runs if choice.runs.agent_id else replace(choice.runs, agent_id=agent_id)
        chosen = [run async for run in _sample_runs(pool, log, account_id, choice, wanted)]
        whose = f"agent {wanted.agent_id} has"
    if not chosen:
        raise Invalid("", f"{whose} no such run that could be replayed")
    return list({each.trace_id: each for each in chosen}.values())


def estimate(chosen: Iterable[ChosenRun], prices: Prices, model: str | None, at_once: int) -> Estimate:
    """Estimate by today's price of `model`, or of the model of each recorded call if None.

    `seconds` is the total with `at_once` runs at a time.
    """
    runs, tokens, seconds = 0, 0, 0.0
    total: float | None = 0.0
    for each in chosen:
        runs, tokens, seconds = runs + 1, tokens + each.usage.total, seconds + each.seconds
        cost = compute_recorded_cost(each.model_calls, prices, model)
        total = None if total is None or cost is None else total + cost
    seconds = round(seconds / max(1, min(at_once, runs)), 3)
    return Estimate(runs=runs, tokens=tokens, cost=total, seconds=seconds)


async def load_conversation(log: Log, conversation_id: str) -> Conversation:
    """Load a conversation. Raises Conflict if it cannot be decoded, DatabaseUnavailable."""
    try:
        return await log.load_conversation(conversation_id)
    except UnreadableEvent as error:
        raise Conflict(f"conversation {conversation_id} cannot be read: {error}") from None


async def _load_run(pool: Pool, log: Log, account_id: str, trace_id: str) -> ChosenRun:
    found = await find_run(pool, trace_id)
    if found is None or found.account_id != account_id:
        raise NotFound("run", trace_id)
    run = (await load_conversation(log, found.conversation_id)).run(trace_id)
    if run is None or run.state not in ENDS:
        raise Invalid("", f"run {trace_id} has not ended")
    return describe_run(found.conversation_id, run)


async def _load_named(log: Log, account_id: str, conversation_id: str) -> Conversation:
    if not is_uuid(conversation_id.lower()):
        raise Invalid("", f"not a conversation id: {conversation_id}")
    conversation = await load_conversation(log, conversation_id.lower())
    if conversation.version == 0:
        raise NotFound("conversation", conversation_id)
    if conversation.erased:
        raise Invalid("", f"conversation {conversation_id} was deleted")
    if conversation.account_id != account_id:
        raise Invalid("", f"conversation {conversation_id} and the agent belong to different accounts")
    return conversation


async def _sample_runs(
    pool: Pool, log: Log, account_id: str, choice: RunChoice, wanted: RunSelection
) -> AsyncIterator[ChosenRun]:
    for each in await sample_conversations(pool, account_id, wanted, choice.sample or MOST, choice.seed):
        for run in _select_runs(await load_conversation(log, each), wanted):
            yield run


def _select_runs(conversation: Conversation, wanted: RunSelection) -> list[ChosenRun]:
    if not conversation.metadata.items() >= wanted.metadata.items():
        return []
    return [
        describe_run(conversation.conversation_id, run) for run in conversation.runs if wanted.matches(run)
    ]


def describe_run(conversation_id: str, run: Run) -> ChosenRun:
    """Return what an experiment needs to know of a run."""
    return ChosenRun(
        conversation_id=conversation_id,
        trace_id=run.trace_id,
        message=run.user_text[:MESSAGE_CHARACTERS],
        model=run.model,
        requested_at=run.requested_at,
        usage=run.usage,
        model_calls=run.model_calls,
        seconds=measure_seconds(run),
    )
