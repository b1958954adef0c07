"""An administrator for tests that need accounts, plans and keys, and are about something else."""

import contextlib
from typing import Any

import msgspec

from agentchat.administration import Admin, admin_plans
from agentchat.administration.admin_values import NewPlan, PlanChanges
from agentchat.contracts.admin_errors import Conflict
from agentchat.directory.api_keys import Callers, ResolvedCaller
from agentchat.directory.plans import Plan
from agentchat.directory.secret_encryption import Sealer
from agentchat.runtime.postgres import Pool

SEALER = Sealer(b"k" * 32)


def administrator(pool: Pool, actor: str = "test") -> Admin:
    return Admin(pool=pool, sealer=SEALER, actor=actor)


def plan_with(name: str, **bounds: Any) -> Plan:
    """A plan that bounds nothing else."""
    unbounded: dict[str, Any] = {
        "requests_per_minute": None,
        "concurrent_runs": None,
        "tokens_per_month": None,
        "form2_streaming": True,
        "max_message_bytes": None,
    }
    return Plan(name=name, **(unbounded | bounds))


async def put_plan(pool: Pool, plan: Plan) -> None:
    """Have there be this plan, whatever its numbers were."""
    numbers = msgspec.structs.asdict(plan)
    try:
        await admin_plans.create(administrator(pool), NewPlan(**numbers))
    except Conflict:
        await admin_plans.change(administrator(pool), numbers.pop("name"), PlanChanges(**numbers))


async def resolve(pool: Pool, key: str, agent: str | None) -> ResolvedCaller | None:
    async with contextlib.aclosing(Callers(pool)) as callers:
        return await callers.resolve(key, agent)
