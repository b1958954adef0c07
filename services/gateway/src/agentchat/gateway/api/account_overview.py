"""Show an account its own usage and agents: GET /v1/usage and GET /v1/agents."""

from typing import Annotated

import msgspec
from litestar import get
from litestar.params import QueryParameter

from agentchat.conversations.queries.monthly_usage import UsageLine, sum_usage_of_month
from agentchat.directory.agent_names import list_named_agents
from agentchat.gateway.access.checks import may_read_account
from agentchat.gateway.http.request_context import JsonRequest

Month = Annotated[
    str | None,
    QueryParameter(
        description="Such as 2026-11 (UTC); without it the current one.",
        pattern="^[0-9]{4}-(0[1-9]|1[0-2])$",
    ),
]


class AccountUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens and the cost of the runs that ended in a month, by day, agent and model.

    `tokens` is the sum of the four kinds in `lines`, `limit` the plan's; null is no limit. `cost`, in
    `currency`, lacks that of the `unpriced` runs, whose model has no price; `budget` is the account's.
    """

    month: str
    tokens: int
    limit: int | None
    runs: int
    cost: float
    unpriced: int
    currency: str
    budget: float | None
    lines: tuple[UsageLine, ...]


class AgentEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that can be asked. `name` works as X-Agent-Id if no other agent has it."""

    id: str
    name: str
    created_at: int


class AgentList(msgspec.Struct, frozen=True, kw_only=True):
    """The account's agents, the oldest first."""

    data: tuple[AgentEntry, ...]


@get(
    "/v1/usage",
    operation_id="getUsage",
    summary="Get the account's tokens and cost of a month.",
    guards=[may_read_account],
    opt={"scope": "read"},
)
async def get_usage(request: JsonRequest, month: Month = None) -> AccountUsage:
    """Return the usage, which may lag by a moment."""
    caller = request.auth
    month = month or caller.now[:7]
    services = request.services
    lines = await sum_usage_of_month(services.pool, month, caller.account_id)
    return AccountUsage(
        month=month,
        tokens=sum(line.tokens for line in lines),
        limit=caller.plan.tokens_per_month,
        runs=sum(line.runs for line in lines),
        cost=round(sum(line.cost for line in lines), 10),
        unpriced=sum(line.unpriced for line in lines),
        currency=services.currency,
        budget=caller.monthly_budget,
        lines=tuple(lines),
    )


@get(
    "/v1/agents",
    operation_id="listAgents",
    summary="List the account's agents.",
    guards=[may_read_account],
    opt={"scope": "read"},
)
async def list_agents(request: JsonRequest) -> AgentList:
    """Return the agents that are not disabled."""
    found = await list_named_agents(request.services.pool, request.auth.account_id)
    return AgentList(
        data=tuple(AgentEntry(id=each.agent_id, name=each.name, created_at=each.created) for each in found)
    )


HANDLERS = (get_usage, list_agents)
