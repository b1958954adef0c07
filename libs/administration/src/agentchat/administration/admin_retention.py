"""Count the conversations that retention deletes: those of an account or an agent, now or with other days."""

from collections.abc import Iterable

import msgspec

from agentchat.administration.admin import Admin, translate_errors
from agentchat.administration.agent_rows import find_agent
from agentchat.administration.checked_input import parse_id
from agentchat.administration.query_parameters import WithDays
from agentchat.contracts.admin_errors import NotFound
from agentchat.contracts.retention_rule import RetentionRule
from agentchat.conversations.postgres_sessions import read_server_time
from agentchat.conversations.queries.expired_conversations import count_expired
from agentchat.directory.account_retention import AccountRetention, list_retention


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """The days that conversations are kept, None for ever, and how many conversations are past them now.

    These are deleted within minutes. `oldest` is the time of the last message in the oldest of them.
    """

    retention_days: int | None
    conversations: int
    oldest: str | None


async def get_of_account(
    admin: Admin, account_id: str, *, retention_days: WithDays | None = None
) -> Retention:
    """Count the account's conversations that are past their retention, also its agents' own.

    Raises NotFound, Unavailable.
    """
    account = await _load(admin, parse_id("account", account_id))
    if retention_days is not None:
        account = msgspec.structs.replace(account, days=retention_days)
    return await _count(admin, account.days, account.iterate_rules())


async def get_of_agent(admin: Admin, agent_id: str, *, retention_days: WithDays | None = None) -> Retention:
    """Count the conversations that this agent answered last and that are past their retention.

    Raises NotFound, Unavailable.
    """
    async with admin.connection() as conn:
        agent = await find_agent(conn, agent_id)
    account = await _load(admin, agent.account_id)
    if retention_days is not None:
        account = msgspec.structs.replace(account, agents={agent.agent_id: retention_days})
    rule = account.build_agent_rule(agent.agent_id)
    return await _count(admin, rule.days if rule else None, [rule] if rule else [])


async def _load(admin: Admin, account_id: str) -> AccountRetention:
    with translate_errors():
        found = await list_retention(admin.pool, account_id)
    if not found:
        raise NotFound("account", account_id)
    return found[0]


async def _count(admin: Admin, days: int | None, rules: Iterable[RetentionRule]) -> Retention:
    with translate_errors():
        now = await read_server_time(admin.pool)
        counts = [await count_expired(admin.pool, rule, rule.calculate_cutoff(now)) for rule in rules]
    return Retention(
        retention_days=days,
        conversations=sum(each.conversations for each in counts),
        oldest=min((each.oldest for each in counts if each.oldest), default=None),
    )
