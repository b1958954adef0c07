"""What the pieces of a worker are made of, built once in `worker` and handed on."""

import asyncio
from dataclasses import dataclass, field

from bus import Bus
from conversations.leases import Leases
from conversations.store import ConversationStore
from conversations.waiting import WaitingLine
from knowledge.embedding import Embedder
from limits.limiter import Limiter
from orchestrator.agents import Agents
from orchestrator.assignment import Assignments
from orchestrator.listing import ToolListings
from orchestrator.models import Models
from orchestrator.schema_checks import SchemaChecks
from runtime.postgres import Pool


@dataclass(frozen=True, kw_only=True)
class Parts:
    """`name` is this process's. `stop` is set when this worker is to end."""

    bus: Bus
    store: ConversationStore
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
    assignments: Assignments = field(default_factory=Assignments)
