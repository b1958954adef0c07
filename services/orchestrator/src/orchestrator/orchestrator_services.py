"""What the pieces of a worker are made of, built once in `worker` and handed on."""

import asyncio
from dataclasses import dataclass, field
from functools import partial

from bus import Bus
from contracts.messages import ForkAnswered, ForkConversation
from conversations.aggregate.kept_histories import KeptHistories
from conversations.event_store.load_budget import LoadBudget
from conversations.event_store.log import Log
from conversations.event_store.store import ConversationStore
from conversations.leases.leases import Leases
from conversations.leases.waiting_line import WaitingLine
from knowledge.embedding.embedder import Embedder
from limits.limiter import Limiter
from orchestrator.models import Models
from orchestrator.output.schema_checks import SchemaChecks
from orchestrator.run_agent import Agents
from orchestrator.stages import Register
from orchestrator.tools.listed_tools import ToolListings
from orchestrator.worker_timings import Timings
from runtime.fair_slots import FairSlots
from runtime.postgres import Pool


@dataclass(frozen=True, kw_only=True)
class Parts:
    """`name` is this process's. `stop` is set when this worker is to end. Who reads the
    source of a fork and decides on it holds `fork_decisions`, who stores a piece of it `fork_pieces`: one at
    a time, by account. `forks` are those under way.
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
    embedder: Embedder | None = None
    schema_checks: SchemaChecks
    name: str
    run_slots: int
    stop: asyncio.Event
    timings: Timings = field(default_factory=Timings)
    fork_decisions: FairSlots = field(default_factory=partial(FairSlots, 1))
    fork_pieces: FairSlots = field(default_factory=partial(FairSlots, 1))
    forks: dict[ForkConversation, asyncio.Task[ForkAnswered]] = field(default_factory=dict)
    loads: LoadBudget = field(default_factory=LoadBudget)
    register: Register = field(default_factory=Register)
    histories: KeptHistories = field(default_factory=KeptHistories)
