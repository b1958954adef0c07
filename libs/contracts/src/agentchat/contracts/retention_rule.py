"""Define how long conversations are kept."""

from datetime import datetime, timedelta
from typing import Annotated

import msgspec

RetentionDays = Annotated[
    int,
    msgspec.Meta(
        ge=1,
        le=36_500,
        description="Days without a message after which a conversation is deleted with its files and"
        " feedback. Blank keeps it; an agent's number has precedence over its account's.",
    ),
]


class RetentionRule(msgspec.Struct, frozen=True, kw_only=True):
    """A number of days for the conversations that one agent answered last.

    Without `agent_id` it is for those of all agents except `other_agents`.
    """

    account_id: str
    agent_id: str | None = None
    other_agents: tuple[str, ...] = ()
    days: int

    def calculate_cutoff(self, now: str) -> str:
        """Return the time of the last message that is too old; times are as events have them."""
        cutoff = datetime.fromisoformat(now) - timedelta(days=self.days)
        return cutoff.isoformat(timespec="microseconds").replace("+00:00", "Z")
