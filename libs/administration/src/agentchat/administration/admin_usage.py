"""Report what accounts have used in a month, and what they have stored."""

import re
from itertools import groupby

import msgspec

from agentchat.administration import admin_accounts, admin_plans
from agentchat.administration.admin import Admin, translate_errors
from agentchat.administration.admin_values import Account
from agentchat.administration.query_parameters import Month, WithLines
from agentchat.contracts.admin_errors import Invalid, NotFound
from agentchat.contracts.values import TOKEN_KINDS
from agentchat.conversations.projections.conversations_table import (
    NOTHING,
    AccountStorage,
    sum_stored_by_account,
)
from agentchat.conversations.queries.monthly_usage import UsageLine, sum_usage_of_month
from agentchat.conversations.queries.quota_figures import read_current_month
from agentchat.conversations.queries.user_summaries import UserInMonth, list_users_of_month
from agentchat.directory.plans import Plan
from agentchat.files.file_store import sum_file_bytes

_SUMS = ("tokens", *TOKEN_KINDS, "runs", "failed", "cancelled", "unpriced")
_MONTH = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])")


class MonthUsage(msgspec.Struct, frozen=True, kw_only=True):
    """An account's usage by runs that ended in `month` ("2026-11", UTC), and its present storage.

    `tokens` is the sum of the four kinds (`contracts.values.Usage`). `lines` are by day, agent and model;
    `limit` and `storage_limit` are the plan's. `cost`, in `currency`, lacks that of the `unpriced` runs;
    `budget` is the account's. `stored_events` and `conversations` are those in
    the log now, whatever the month; `stored_bytes` are theirs and those of files.
    """

    account_id: str
    month: str
    tokens: int
    input_tokens: int
    cache_read_tokens: int
    cache_creation_tokens: int
    output_tokens: int
    limit: int | None
    runs: int
    failed: int
    cancelled: int
    cost: float
    unpriced: int
    currency: str
    budget: float | None
    lines: tuple[UsageLine, ...]
    conversations: int = 0
    stored_events: int = 0
    stored_bytes: int = 0
    storage_limit: int | None = None


async def get_month(admin: Admin, account_id: str, month: Month | None = None) -> MonthUsage:
    """Get an account's usage of a month by day, agent and model; None is the current month.

    Raises NotFound, Invalid, Unavailable.
    """
    account = await admin_accounts.get(admin, account_id)
    with translate_errors():
        month = await _resolve_month(admin, month)
        lines = await sum_usage_of_month(admin.pool, month, account.id)
        stored = (await sum_stored_by_account(admin.pool, account.id)).get(account.id, NOTHING)
        in_files = (await sum_file_bytes(admin.pool, account.id)).get(account.id, 0)
    plan, budget = await _find_plan(admin, account), account.monthly_budget
    return _sum_up(admin, account.id, month, lines, stored, in_files, plan, budget, listed=True)


async def list_accounts(
    admin: Admin, month: Month | None = None, *, with_lines: WithLines = False
) -> tuple[MonthUsage, ...]:
    """List what each account has spent in a month and has stored, the one with the most tokens first.

    Lists every account that has spent or stored something, deleted ones too. Raises Invalid, Unavailable.
    """
    with translate_errors():
        month = await _resolve_month(admin, month)
        lines = await sum_usage_of_month(admin.pool, month, with_lines=with_lines)
        stored, in_files = await sum_stored_by_account(admin.pool), await sum_file_bytes(admin.pool)
    spent = {account_id: list(own) for account_id, own in groupby(lines, key=lambda line: line.account_id)}
    plans = await admin_plans.load_plans_by_account(admin)
    budgets = await admin_accounts.load_budgets(admin)
    found = [
        _sum_up(
            *(admin, each, month, spent.get(each, []), stored.get(each, NOTHING)),
            *(in_files.get(each, 0), plans.get(each), budgets.get(each)),
            listed=with_lines,
        )
        for each in spent.keys() | stored.keys() | in_files.keys()
        if admin.account_ids is None or each in admin.account_ids
    ]
    return tuple(sorted(found, key=lambda each: (-each.tokens, each.account_id)))


async def list_lines(admin: Admin, month: Month | None = None) -> tuple[str, list[UsageLine]]:
    """List what accounts have spent in a month by account, day, agent and model, with the month.

    Raises Invalid, Unavailable.
    """
    with translate_errors():
        month = await _resolve_month(admin, month)
        lines = await sum_usage_of_month(admin.pool, month)
    return month, [
        line for line in lines if admin.account_ids is None or line.account_id in admin.account_ids
    ]


async def list_users(
    admin: Admin, account_id: str, month: str | None = None, *, limit: int
) -> list[UserInMonth]:
    """List what each end user of an account has used in a month, the one with the most tokens first.

    Raises NotFound, Invalid, Unavailable.
    """
    account = await admin_accounts.get(admin, account_id)
    with translate_errors():
        month = await _resolve_month(admin, month)
        return await list_users_of_month(admin.pool, account.id, month, limit=limit)


async def _find_plan(admin: Admin, account: Account) -> Plan | None:
    try:
        return await admin_plans.get(admin, account.plan)
    except NotFound:
        return None


def _sum_up(
    admin: Admin,
    account_id: str,
    month: str,
    lines: list[UsageLine],
    stored: AccountStorage,
    in_files: int,
    plan: Plan | None,
    budget: float | None,
    *,
    listed: bool,
) -> MonthUsage:
    return MonthUsage(
        **{name: sum(getattr(line, name) for line in lines) for name in _SUMS},
        account_id=account_id,
        month=month,
        limit=None if plan is None else plan.tokens_per_month,
        cost=round(sum(line.cost for line in lines), 10),
        currency=admin.currency,
        budget=budget,
        lines=tuple(lines) if listed else (),
        conversations=stored.conversations,
        stored_events=stored.events,
        stored_bytes=stored.bytes + in_files,
        storage_limit=None if plan is None else plan.storage_bytes,
    )


async def _resolve_month(admin: Admin, month: str | None) -> str:
    """Return the month, or the current one; "" is refused like any other text. Raises Invalid."""
    if month is None:
        return await read_current_month(admin.pool)
    if not _MONTH.fullmatch(month):
        raise Invalid("month", "must be a month such as 2026-11")
    return month
