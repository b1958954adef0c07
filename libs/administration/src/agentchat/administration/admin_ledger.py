"""List the runs of all accounts, sorted and filtered."""

from agentchat.administration.admin import Admin, translate_errors
from agentchat.administration.admin_conversations import ENDS
from agentchat.administration.admin_rows import count_rows
from agentchat.administration.admin_values import Page
from agentchat.administration.checked_input import check_storable, parse_order, parse_time
from agentchat.administration.parameters import (
    ActiveSince,
    ActiveUntil,
    After,
    Limit,
    MinCost,
    MinDuration,
    MinTokens,
    OfAccount,
    OfAgentOfRun,
    OfCode,
    OfModel,
    OfRating,
    OfState,
    OfUser,
    OfVersion,
    SortRunsBy,
)
from agentchat.contracts.admin_errors import Invalid
from agentchat.conversations.projections.feedback_table import RATINGS
from agentchat.conversations.queries.find_runs import RUNS, RunFilter, RunRow, find_runs


async def page(
    admin: Admin,
    *,
    account_id: OfAccount | None = None,
    user: OfUser | None = None,
    agent_id: OfAgentOfRun | None = None,
    agent_version: OfVersion | None = None,
    model: OfModel | None = None,
    state: OfState | None = None,
    code: OfCode | None = None,
    rating: OfRating | None = None,
    since: ActiveSince | None = None,
    until: ActiveUntil | None = None,
    min_cost: MinCost | None = None,
    min_tokens: MinTokens | None = None,
    min_duration_ms: MinDuration | None = None,
    sort: SortRunsBy | None = None,
    after: After | None = None,
    limit: Limit = 20,
) -> Page[RunRow]:
    """List runs of all accounts, also of deleted conversations. Raises Invalid, Unavailable."""
    wanted = build_run_filter(
        account_ids=admin.limit["limited"],
        account_id=account_id,
        user_id=user,
        agent_id=agent_id,
        agent_version=agent_version,
        model=model,
        state=state,
        code=code,
        rating=rating,
        since=since,
        until=until,
        min_cost=min_cost,
        min_tokens=min_tokens,
        min_duration_ms=min_duration_ms,
    )
    order = parse_order(RUNS, sort)
    with translate_errors():
        try:
            rows = await find_runs(admin.pool, wanted, order=order, after=after, limit=count_rows(limit))
        except ValueError:
            raise Invalid("cursor", "is not a cursor of this list") from None
    more = rows[limit - 1][1] if len(rows) > limit else None
    return Page(items=tuple(row for row, _ in rows[:limit]), after=more)


def build_run_filter(
    *, state: str | None, rating: str | None, since: str | None, until: str | None, **others: object
) -> RunFilter:
    """Check query parameters and build the filter; `others` are its other fields. Raises Invalid."""
    if state not in (None, *ENDS):
        raise Invalid("state", f"must be one of {', '.join(ENDS)}")
    if rating not in (None, *RATINGS):
        raise Invalid("rating", f"must be one of {', '.join(RATINGS)}")
    for name, value in others.items():
        if isinstance(value, str):
            check_storable(name, value)
    return RunFilter(
        state=state,
        rating=rating,
        since=None if since is None else parse_time("since", since),
        until=None if until is None else parse_time("until", until),
        **others,  # type: ignore[arg-type] # fields of it
    )
