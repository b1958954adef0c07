"""Queue `budget.warning` and `budget.exceeded` for accounts and users who have spent that much this month.

Run by `projector.worker`. The id of a delivery follows from its endpoint, month, budget, user and type, so
each is queued once, however often it is checked.
"""

from datetime import datetime, timedelta

import msgspec

from agentchat.contracts.webhooks import BudgetData, EventType, derive_webhook_id
from agentchat.conversations.postgres_sessions import read_server_time
from agentchat.runtime.postgres import Pool, acquire_connection
from agentchat.webhooks.delivery_queue import INSERT_READY
from agentchat.webhooks.webhook_bodies import encode_body, format_time

POLL_SECONDS = 10.0
SHARES: dict[EventType, float] = {"budget.warning": 0.8, "budget.exceeded": 1.0}
_SECONDS = 60.0
_LOOK_BACK = timedelta(minutes=10)
"""Users with a run that ended within it are checked; for a new budget or endpoint, all of the month."""


class _Spending(msgspec.Struct, frozen=True, array_like=True):
    """A budget and the cost of the month, of an account or (`user_id`) of a user, for one endpoint."""

    endpoint_id: str
    events: list[str]
    user_id: str | None
    budget: float
    cost: float


class BudgetNotices:
    """Looks at the spending of accounts that have a budget and an endpoint for its events."""

    def __init__(self, pool: Pool, currency: str) -> None:
        self._pool, self._currency = pool, currency
        self._seen: set[tuple[str, ...]] = set()

    async def step(self) -> bool:
        """Queue what is due; always False, there is no more. Raises DatabaseUnavailable."""
        now = await read_server_time(self._pool)
        recent = format_time(datetime.fromisoformat(now) - _LOOK_BACK)
        named = {"month": now[:7], "recent": recent, "types": list(SHARES), "share": min(SHARES.values())}
        async with acquire_connection(self._pool, seconds=_SECONDS) as conn, conn.transaction():
            watched = set(await (await conn.execute(_WATCHED, named)).fetchall())
            named["new"] = [row[0] for row in watched - self._seen]
            rows = await (await conn.execute(_SPENDING, named)).fetchall()
            for each in msgspec.convert(rows, list[_Spending]):
                for type_, share in SHARES.items():
                    if type_ in each.events and each.cost >= share * each.budget:
                        await conn.execute(INSERT_READY, self._build_delivery(each, type_, now))
        self._seen = watched
        return False

    def _build_delivery(self, spending: _Spending, type_: EventType, now: str) -> tuple[str, str, str, str]:
        key = f"{type_} {now[:7]} {spending.budget} {spending.user_id or ''}"
        delivery_id = derive_webhook_id(spending.endpoint_id, key)
        data = BudgetData(
            month=now[:7],
            budget=spending.budget,
            cost=spending.cost,
            currency=self._currency,
            user_id=spending.user_id,
        )
        return delivery_id, spending.endpoint_id, type_, encode_body(delivery_id, type_, now, data).decode()


# Users' budgets, with what a notice of them depends on.
_WATCHED = """
SELECT endpoint_id, events::text, user_monthly_budget::text
  FROM webhook_endpoints JOIN accounts USING (account_id)
 WHERE events && %(types)s::text[] AND user_monthly_budget IS NOT NULL
"""

_SPENDING = """
WITH watched AS (
    SELECT account_id, endpoint_id, events, monthly_budget, user_monthly_budget
      FROM webhook_endpoints JOIN accounts USING (account_id)
     WHERE events && %(types)s::text[] AND coalesce(monthly_budget, user_monthly_budget) IS NOT NULL
       FOR KEY SHARE OF webhook_endpoints  -- so that none is deleted before its row is queued
), spending AS (
    SELECT endpoint_id, events, NULL AS user_id, monthly_budget AS budget,
           (SELECT coalesce(sum(cost), 0) FROM usage_by_day AS used
             WHERE used.account_id = watched.account_id AND day >= %(month)s) AS cost
      FROM watched WHERE monthly_budget IS NOT NULL
     UNION ALL
    SELECT endpoint_id, events, user_id, user_monthly_budget,
           (SELECT coalesce(sum(cost), 0) FROM runs AS spent
             WHERE spent.account_id = watched.account_id AND spent.user_id = recent.user_id
               AND ended_at >= %(month)s)
      FROM watched, LATERAL (
           SELECT DISTINCT user_id FROM runs
            WHERE runs.account_id = watched.account_id AND user_id IS NOT NULL
              AND ended_at >= CASE WHEN endpoint_id = ANY (%(new)s) THEN %(month)s
                                   ELSE greatest(%(month)s, %(recent)s) END
           ) AS recent
     WHERE user_monthly_budget IS NOT NULL
)
SELECT endpoint_id, events, user_id, budget::float8, cost::float8 FROM spending
 WHERE cost >= budget * %(share)s::numeric
"""
