"""Delete conversations that are older than their account or agent keeps them, some at a time.

Nothing is written down in between: the conversations that are not erased are the remaining work. The worker
that erases a conversation checks again that nobody has written in it meanwhile.
"""

from datetime import datetime

from agentchat.bus.bus import Bus
from agentchat.bus.errors import BusUnavailable
from agentchat.conversations.postgres_sessions import read_server_time
from agentchat.conversations.queries.expired_conversations import list_expired
from agentchat.directory.account_retention import list_retention
from agentchat.projector.delete_users_and_accounts import erase_conversations
from agentchat.runtime import metrics
from agentchat.runtime.logs import get_logger
from agentchat.runtime.postgres import Pool

POLL_SECONDS = 10.0
CONVERSATIONS_AT_ONCE = 200


class RetentionStep:
    """Deletes conversations past their retention, some of each account and agent at each step.

    `lag`: seconds since the oldest remaining conversation was due, 0 if there is none.
    """

    def __init__(self, bus: Bus, pool: Pool) -> None:
        self._bus, self._pool = bus, pool
        self.lag = 0.0
        self._logger = get_logger("agentchat.projector.retention_step")

    async def step(self) -> bool:
        """Advance each deletion; return True if more can be done at once.

        Raises BusUnavailable if a conversation was not erased, DatabaseUnavailable.
        """
        now, lags, has_more, failed = await read_server_time(self._pool), [0.0], False, None
        for account in await list_retention(self._pool):
            for rule in account.iterate_rules():
                before = rule.calculate_cutoff(now)
                found = await list_expired(self._pool, rule, before, limit=CONVERSATIONS_AT_ONCE)
                if not found:
                    continue
                overdue = _measure_seconds(min(each.updated_at for each in found), before)
                self.lag = max(self.lag, overdue)
                ids = [each.conversation_id for each in found]
                try:
                    erased = await erase_conversations(self._bus, rule.account_id, ids, idle_since=before)
                except BusUnavailable as error:  # the other rules do not wait for it
                    failed = error
                    lags.append(overdue)
                    continue
                metrics.RETENTION_DELETED.inc(erased)
                self._logger.info("retention_deleted", account_id=rule.account_id, erased=erased)
                if erased < len(found) or erased == CONVERSATIONS_AT_ONCE:
                    lags.append(overdue)
                    has_more = has_more or erased > 0
        self.lag = max(lags)
        if failed is not None:
            raise failed
        return has_more


def _measure_seconds(start: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
