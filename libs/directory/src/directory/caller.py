"""Who calls: one look-up a request takes an API key to its account, plan and agent.

Nothing is cached, so a rotated key or a changed plan counts from the next request on, on every gateway
(docs/specification.md 3).
"""

from typing import Any, Literal

import msgspec

from contracts.ids import is_uuid
from directory.keys import hash_key
from directory.last_used import LastUsed
from directory.plans import Plan, plan_from
from runtime.postgres import Pool, connection

OutputType = Literal["text", "markdown", "json"]
OnInterruption = Literal["continue", "fail"]


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """`now` is the clock of Postgres at the look-up: ISO 8601 UTC with microseconds."""

    account_id: str
    plan: Plan
    key_id: str
    now: str


class AgentSummary(msgspec.Struct, frozen=True, kw_only=True):
    """An agent's current version, as far as the door needs it. `retrieves`: it has a knowledge base."""

    agent_id: str
    version: int
    name: str
    model: str
    output_type: OutputType
    on_interruption: OnInterruption
    retrieves: bool


async def resolve(
    pool: Pool, api_key: str, agent_id: str | None, *, last_used: LastUsed | None = None
) -> tuple[Caller, AgentSummary | None] | None:
    """The caller behind `api_key`, and the agent if it is an enabled one of the same account.

    None for a key that is unknown, revoked or disabled, or whose account is disabled. One round trip.
    `last_used` is told of the key. Raises DatabaseUnavailable within 3 s.
    """
    agent = agent_id.lower() if agent_id is not None else ""
    async with connection(pool) as conn:
        cursor = await conn.execute(
            _RESOLVE, {"hash": hash_key(api_key), "agent": agent if is_uuid(agent) else None}, prepare=True
        )
        row = await cursor.fetchone()
    if row is None:
        return None
    caller = _caller(row)
    if last_used is not None:
        last_used.note(caller.key_id)
    return caller, _agent(row[9:])


async def enabled_keys(pool: Pool, key_hashes: list[bytes]) -> frozenset[bytes]:
    """Those of `key_hashes` (`hash_key`) that `resolve` knows. Raises DatabaseUnavailable within 3 s."""
    async with connection(pool) as conn:
        cursor = await conn.execute(_ENABLED, [key_hashes])
        return frozenset(key_hash for (key_hash,) in await cursor.fetchall())


def _caller(row: tuple[Any, ...]) -> Caller:
    account_id, key_id, now = row[:3]
    return Caller(account_id=account_id, plan=plan_from(row[3:9]), key_id=key_id, now=now)


def _agent(row: tuple[Any, ...]) -> AgentSummary | None:
    agent_id, version, name, model, output_type, on_interruption, retrieves = row
    if agent_id is None:
        return None
    return AgentSummary(
        agent_id=agent_id,
        version=version,
        name=name,
        model=model,
        output_type=output_type,
        on_interruption=on_interruption,
        retrieves=retrieves,
    )


_RESOLVE = """
SELECT a.account_id, k.key_id,
       to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
       p.name, p.requests_per_minute, p.concurrent_runs, p.tokens_per_month,
       p.form2_streaming, p.max_message_bytes,
       g.agent_id, v.version, v.name, v.model, v.output_type, v.on_interruption, v.retrieves
FROM api_keys k
JOIN accounts a ON a.account_id = k.account_id
JOIN plans p ON p.name = a.plan
LEFT JOIN agents g
    ON g.agent_id = %(agent)s::text AND g.account_id = a.account_id AND g.disabled_at IS NULL
LEFT JOIN agent_versions v ON v.agent_id = g.agent_id AND v.version = g.current_version
WHERE k.key_hash = %(hash)s AND k.revoked_at IS NULL AND k.disabled_at IS NULL AND a.disabled_at IS NULL
"""

_ENABLED = """
SELECT k.key_hash FROM api_keys k JOIN accounts a ON a.account_id = k.account_id
WHERE k.key_hash = ANY(%s) AND k.revoked_at IS NULL AND k.disabled_at IS NULL AND a.disabled_at IS NULL
"""
