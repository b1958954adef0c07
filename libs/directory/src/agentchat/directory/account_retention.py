"""Read how long accounts and agents keep conversations."""

from collections.abc import Iterator

import msgspec

from agentchat.contracts.retention_rule import RetentionRule
from agentchat.runtime.postgres import Pool, acquire_connection


class AccountRetention(msgspec.Struct, frozen=True, kw_only=True):
    """The days of an account, None to keep for ever, and those of its agents that have their own."""

    account_id: str
    days: int | None
    agents: dict[str, int]

    def iterate_rules(self) -> Iterator[RetentionRule]:
        """Yield rules that concern each conversation once at most."""
        if self.days is not None:
            yield RetentionRule(account_id=self.account_id, other_agents=tuple(self.agents), days=self.days)
        for agent_id, days in self.agents.items():
            yield RetentionRule(account_id=self.account_id, agent_id=agent_id, days=days)

    def build_agent_rule(self, agent_id: str) -> RetentionRule | None:
        """Return the rule of one agent's conversations, None to keep them for ever."""
        days = self.agents.get(agent_id, self.days)
        return (
            None if days is None else RetentionRule(account_id=self.account_id, agent_id=agent_id, days=days)
        )


async def list_retention(pool: Pool, account_id: str | None = None) -> list[AccountRetention]:
    """List the days of one account, or of all accounts that delete anything.

    Accounts that are being deleted are left out. Raises DatabaseUnavailable.
    """
    async with acquire_connection(pool) as conn:
        rows = await (await conn.execute(_LIST, {"account": account_id})).fetchall()
    found = (AccountRetention(account_id=row[0], days=row[1], agents=row[2]) for row in rows)
    return [each for each in found if account_id or each.days or each.agents]


_LIST = """
SELECT account_id, a.retention_days,
       coalesce(json_object_agg(agent_id, g.retention_days) FILTER (WHERE g.retention_days IS NOT NULL), '{}')
  FROM accounts a LEFT JOIN agents g USING (account_id)
 WHERE deletion_requested_at IS NULL AND account_id = coalesce(%(account)s, account_id)
 GROUP BY account_id ORDER BY account_id
"""
