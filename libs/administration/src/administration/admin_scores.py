"""What an agent's judged live runs scored."""

from typing import Annotated

from msgspec import Meta

from administration.admin import Admin
from administration.admin_rows import fetch_all
from administration.agent_rows import found
from conversations.judged.run_scores import BY_DAY, DayScores

Days = Annotated[int, Meta(ge=1, le=366, description="Of so many days, until now.")]


async def by_day(admin: Admin, agent_id: str, *, days: Days = 14) -> tuple[DayScores, ...]:
    """List an agent's scores of live runs by day, version and evaluator.

    The newest day first. Raises NotFound.
    """
    async with admin.connection() as conn:
        named = {"agent": (await found(conn, agent_id)).agent_id, "days": days}
        return tuple(await fetch_all(conn, DayScores, BY_DAY, named))
