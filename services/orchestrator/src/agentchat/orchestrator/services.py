"""Services of an orchestrator worker, built once in `worker`, and its timings."""

import asyncio
from dataclasses import dataclass, field
from functools import partial

from agentchat.bus.bus import Bus
from agentchat.contracts.messages import ForkAnswered, ForkConversation
from agentchat.contracts.timings import (
    ALIVE_SECONDS,
    RENEW_AGAIN_SECONDS,
    RENEW_SECONDS,
    TOOL_MOST_SECONDS,
    TOOL_SLACK_SECONDS,
)
from agentchat.conversations.aggregate.model_messages import HistoryCache
from agentchat.conversations.event_store.conversation_store import ConversationStore
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.leases.leases import Leases, LeaseTimings
from agentchat.conversations.leases.waiting_line import WaitingLine
from agentchat.files.file_store import FileStore
from agentchat.knowledge.embedding.embedder import Embedder
from agentchat.limits.limiter import Limiter
from agentchat.orchestrator.agent_loader import Agents
from agentchat.orchestrator.models import Models
from agentchat.orchestrator.models.circuit_breaker import FailingModels
from agentchat.orchestrator.output.validation_processes import SchemaChecks
from agentchat.orchestrator.request_stages import Register
from agentchat.orchestrator.tools.tool_list_cache import ToolListings
from agentchat.runtime.fair_slots import FairSlots
from agentchat.runtime.postgres import Pool


@dataclass(frozen=True, kw_only=True)
class Timings:
    """Timings in seconds; tests use shorter ones.

    `contracts.timings` has the timings that other processes rely on.
    """

    leases: LeaseTimings = field(default_factory=LeaseTimings)
    renew_seconds: float = RENEW_SECONDS
    renew_again_seconds: float = RENEW_AGAIN_SECONDS
    """Delay before a renewal is repeated if Postgres did not answer."""
    alive_seconds: float = ALIVE_SECONDS
    alive_look_seconds: float = 1.0
    """Interval at which runs are checked for silence of `alive_seconds`."""
    load_seconds: float = 5.0
    """Interval at which the worker reports its load."""
    tool_seconds: float = TOOL_MOST_SECONDS
    tool_slack_seconds: float = TOOL_SLACK_SECONDS
    tools_listed_seconds: float = 20.0
    """Time-out of an agent's tool list; a tool-runner can restart within it."""
    erase_cancel_seconds: float = 3.0
    """Time for a worker to end its run before the conversation is erased all the same."""
    put_back_seconds: tuple[float, ...] = (1.0, 2.0, 5.0, 10.0)
    """Delays before the next delivery while a dependency is unavailable."""
    limits_seconds: float = 0.2
    """Time-out of a call to Redis; then the worker counts by itself."""
    drain_seconds: float = 4.0
    """Time that runs get at shutdown to finish their step before they are handed over."""


DEFAULT = Timings()


@dataclass(frozen=True, kw_only=True)
class WorkerServices:
    """The services that a worker's functions share.

    `name` is the process's. `stop` is set when the worker is to end. `conversions` are the slots for files
    that become text. `fork_decisions` lets one fork at a time, by turns of the accounts, read its source.
    `forks` are those under way.
    """

    bus: Bus
    store: ConversationStore
    log: Log
    leases: Leases
    line: WaitingLine
    limiter: Limiter
    agents: Agents
    listings: ToolListings
    models: Models
    pool: Pool
    files: FileStore
    embedder: Embedder | None = None
    schema_checks: SchemaChecks
    name: str
    run_slots: int
    stop: asyncio.Event
    timings: Timings = field(default_factory=Timings)
    conversions: FairSlots = field(default_factory=partial(FairSlots, 2))
    fork_decisions: FairSlots = field(default_factory=partial(FairSlots, 1))
    forks: dict[ForkConversation, asyncio.Task[ForkAnswered]] = field(default_factory=dict)
    register: Register = field(default_factory=Register)
    histories: HistoryCache = field(default_factory=HistoryCache)
    failing_models: FailingModels = field(default_factory=FailingModels)
