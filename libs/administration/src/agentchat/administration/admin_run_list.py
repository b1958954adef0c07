"""List the runs of all accounts, sorted and filtered."""

from typing import TypedDict, Unpack

from agentchat.administration.admin import Admin, translate_errors
from agentchat.administration.admin_values import Page
from agentchat.administration.checked_input import WAITING, check_filters, parse_order
from agentchat.administration.query_parameters import (
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
from agentchat.administration.row_pages import build_sorted_page, count_rows
from agentchat.contracts.admin_errors import Invalid
from agentchat.conversations.queries.find_runs import RUNS, RunFilter, RunRow, find_runs


class RunQuery(TypedDict, total=False):
    """The filters of a list of runs."""

    account_id: OfAccount | None
    user: OfUser | None
    agent_id: OfAgentOfRun | None
    agent_version: OfVersion | None
    model: OfModel | None
    state: OfState | None
    code: OfCode | None
    rating: OfRating | None
    since: ActiveSince | None
    until: ActiveUntil | None
    min_cost: MinCost | None
    min_tokens: MinTokens | None
    min_duration_ms: MinDuration | None


async def page(
    admin: Admin,
    *,
    sort: SortRunsBy | None = None,
    after: After | None = None,
    limit: Limit = 20,
    **filters: Unpack[RunQuery],
) -> Page[RunRow]:
    """List runs of all accounts, also of deleted conversations. Raises Invalid, Unavailable."""
    wanted = build_run_filter(admin, **filters)
    order, rows = parse_order(RUNS, sort), count_rows(limit)
    with translate_errors():
        try:
            found = await find_runs(
                admin.pool, wanted, order=order, after=after, limit=rows, counts=after is None
            )
        except ValueError:
            raise Invalid("cursor", "is not a cursor of this list") from None
    return build_sorted_page(found, limit)


def build_run_filter(admin: Admin, **filters: Unpack[RunQuery]) -> RunFilter:
    """Check query parameters and build the filter, of the accounts that the caller may see.

    Raises Invalid.
    """
    checked = check_filters(filters)
    if checked.get("state") == WAITING:
        checked |= {"state": None, "is_waiting": True}
    return RunFilter(account_ids=admin.limit["limited"], **checked)
