"""Show and change accounts and plans: monthly usage, limits, keys, changes."""

from collections.abc import Sequence
from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath
from litestar.response import Redirect

from agentchat.administration import (
    admin_accounts,
    admin_keys,
    admin_plans,
    admin_retention,
    admin_usage,
    admin_users,
)
from agentchat.administration.admin_values import AccountChanges, NewAccount, NewPlan, PlanChanges
from agentchat.administration.checked_input import convert
from agentchat.administration.key_values import IssuedKey, Key, KeyChanges, KeyRotation, NewKey
from agentchat.console.pages.retention_question import ask_about_retention
from agentchat.console.services import get_services
from agentchat.console.shared.access_check import AnyRequest, get_admin
from agentchat.console.shared.confirmation import DropDown, Question, ask, describe_uses
from agentchat.console.shared.console_roles import Role
from agentchat.console.shared.directory_lists import list_all, list_changes
from agentchat.console.shared.rendering import render_page
from agentchat.console.shared.schema_forms import BodyForm, RefusedForm, parse_whole_number
from agentchat.console.shared.table_view import respond_with_csv
from agentchat.contracts.admin_errors import AdminError, Invalid
from agentchat.contracts.values import TOKEN_KINDS, Usage
from agentchat.conversations.queries.monthly_usage import UsageLine
from agentchat.directory.api_keys import SCOPES
from agentchat.directory.display_names import load_display_names

_NEW = BodyForm(NewAccount, leave_out=("id",))
_EDIT = BodyForm(AccountChanges)
_USERS = 10
_NEW_PLAN = BodyForm(NewPlan)
_EDIT_PLAN = BodyForm(PlanChanges)
_OVERLAP = DropDown(
    name="overlap_seconds",
    label="The old key works on for",
    options={"0": "no time", "3600": "1 hour", "86400": "1 day", "259200": "3 days", "604800": "7 days"},
)
_QUESTIONS = {
    "rotate": (
        "Rotate",
        "A new key takes its place and is shown once. The old key fails at the next request, or after the "
        "time that you choose here.",
    ),
    "revoke": ("Revoke", "It fails at the next request, and so does an old key. It cannot be undone."),
}


class DayBar(msgspec.Struct, frozen=True, kw_only=True):
    """A day in a month's chart, in units of its view box: 31 days wide, 100 high."""

    day: str
    tokens: int
    runs: int
    cost: float
    x: int
    y: float
    height: float


class AgentUse(msgspec.Struct, kw_only=True):
    """The usage of one agent with one model in a month."""

    agent_id: str
    model: str
    runs: int = 0
    failed: int = 0
    usage: Usage = Usage()
    cost: float = 0.0
    unpriced: int = 0


@get("/accounts", role=Role.VIEWER, filtered=True)
async def get_accounts(request: AnyRequest, month: str | None = None) -> Response[Any]:
    """Show all accounts with their usage of a month, and the plans."""
    return await _render_accounts(request, month)


@post("/accounts", status_code=200, role=Role.OWNER)
async def post_account(request: AnyRequest) -> Response[Any]:
    """Create an account."""
    given = await request.form()
    try:
        made = await admin_accounts.create(get_admin(request), _NEW.read_body(given))
    except AdminError as error:
        return await _render_accounts(request, None, RefusedForm(given, error))
    return Redirect(f"/accounts/{made.id}", status_code=303)


async def _render_accounts(
    request: AnyRequest, month: str | None, refused: RefusedForm | None = None
) -> Response[Any]:
    usage = await admin_usage.list_accounts(get_admin(request), month=month or None)
    accounts = await list_all(admin_accounts.page, get_admin(request))
    plans = await list_all(admin_plans.page, get_admin(request))
    return render_page(
        request,
        "accounts.html",
        title="Accounts",
        accounts=accounts,
        usage={each.account_id: each for each in usage},
        month=month or (usage[0].month if usage else ""),
        plans=plans,
        limits={each.name: each.tokens_per_month for each in plans},
        fields=_NEW.fill(None, refused),
        refused=refused,
    )


@get("/accounts/{account_id:str}", role=Role.VIEWER)
async def get_account(
    request: AnyRequest, account_id: FromPath[str], month: str | None = None
) -> Response[Any]:
    """Show an account: its plan and usage, its keys, its changes."""
    return await _render_account(request, account_id, month=month)


@get("/accounts/{account_id:str}/usage.csv", role=Role.VIEWER)
async def get_usage_csv(
    request: AnyRequest, account_id: FromPath[str], month: str | None = None
) -> Response[str]:
    """Download an account's usage of a month by day, agent and model."""
    usage = await admin_usage.get_month(get_admin(request), account_id, month or None)
    return await _respond_with_lines(request, usage.month, usage.lines)


@get("/accounts.csv", role=Role.VIEWER, filtered=True)
async def get_all_usage_csv(request: AnyRequest, month: str | None = None) -> Response[str]:
    """Download the usage of all accounts in a month by day, agent and model."""
    shown_month, lines = await admin_usage.list_lines(get_admin(request), month or None)
    return await _respond_with_lines(request, shown_month, lines)


async def _respond_with_lines(request: AnyRequest, month: str, lines: Sequence[UsageLine]) -> Response[str]:
    accounts, agents = {line.account_id for line in lines}, {line.agent_id for line in lines}
    names = await load_display_names(get_services(request).pool, accounts, agents)
    rows = [
        (names.accounts.get(each.account_id), names.agents.get(each.agent_id), *msgspec.structs.astuple(each))
        for each in lines
    ]
    return respond_with_csv(f"usage-{month}", [("account", "agent", *UsageLine.__struct_fields__), *rows])


@post("/accounts/{account_id:str}", status_code=200, role=Role.OWNER)
async def post_change(request: AnyRequest, account_id: FromPath[str]) -> Response[Any]:
    """Change an account."""
    given = await request.form()
    admin = get_admin(request)
    present = await admin_accounts.get(admin, account_id)
    try:
        changes = _EDIT.read_body_changes(given, present)
        if asked := await ask_about_retention(
            request,
            given,
            changes.retention_days,
            lambda days: admin_retention.get_of_account(admin, account_id, retention_days=days),
        ):
            return asked
        await admin_accounts.change(admin, account_id, changes)
    except AdminError as error:
        return await _render_account(request, account_id, RefusedForm(given, error))
    return Redirect(f"/accounts/{account_id}#changes", status_code=303)


@post("/accounts/{account_id:str}/delete", status_code=200, role=Role.OWNER)
async def post_delete(request: AnyRequest, account_id: FromPath[str]) -> Response[Any]:
    """Delete an account with all that belongs to it, if its name was typed."""
    given, admin = await request.form(), get_admin(request)
    account = await admin_accounts.get(admin, account_id)
    going = (await admin_accounts.delete(admin, account_id, dry_run=True)).goes
    question = Question(
        title=f"Delete the account {account.name}?",
        text=f"This also deletes {describe_uses(going)}. It cannot be undone. "
        f"The audit log keeps a row for {account.id}.",
        button="Delete the account",
        back=f"/accounts/{account_id}",
        typed=account.name,
    )
    if asked := ask(request, given, question):
        return asked
    deletion = await admin_accounts.delete(admin, account_id, force=True)
    return Redirect(f"/accounts/{account_id}" if deletion.pending else "/accounts", status_code=303)


@post("/accounts/{account_id:str}/keys", status_code=200, role=Role.OWNER)
async def post_key(request: AnyRequest, account_id: FromPath[str]) -> Response[Any]:
    """Create a key and show it once."""
    given = await request.form()
    try:
        new = convert(NewKey, {"name": str(given.get("key_name", "")), "scopes": given.getall("scopes", [])})
        issued = await admin_keys.create(get_admin(request), account_id, new)
    except AdminError as error:
        return await _render_account(request, account_id, RefusedForm(given, error))
    return await _render_account(request, account_id, issued=issued)


@post("/accounts/{account_id:str}/keys/{key_id:str}", status_code=200, role=Role.OWNER)
async def post_key_change(
    request: AnyRequest, account_id: FromPath[str], key_id: FromPath[str]
) -> Response[Any]:
    """Rotate a key (the new one is shown once), disable, enable or revoke it."""
    given, admin = await request.form(), get_admin(request)
    action, key = str(given.get("action", "")), await admin_keys.get(admin, key_id)
    if action in _QUESTIONS and (asked := ask(request, given, _build_key_question(action, key))):
        return asked
    if action == "rotate":
        overlap = parse_whole_number("overlap_seconds", given.get("overlap_seconds", "0"))
        issued = await admin_keys.rotate(admin, key_id, KeyRotation(overlap_seconds=overlap))
        return await _render_account(request, account_id, issued=issued)
    if action in ("disable", "enable"):
        await admin_keys.change(admin, key_id, KeyChanges(disabled=action == "disable"))
    elif action == "revoke":
        await admin_keys.revoke(admin, key_id)
    else:
        raise Invalid("action", "must be rotate, disable, enable or revoke")
    return Redirect(f"/accounts/{account_id}#keys", status_code=303)


def _build_key_question(action: str, key: Key) -> Question:
    verb, text = _QUESTIONS[action]
    return Question(
        title=f"{verb} the key …{key.last4}{f' ({key.name})' if key.name else ''}?",
        text=text,
        button=f"{verb} the key",
        back=f"/accounts/{key.account_id}#keys",
        about=key.last4,
        choice=_OVERLAP if action == "rotate" else None,
    )


async def _render_account(
    request: AnyRequest,
    account_id: str,
    refused: RefusedForm | None = None,
    *,
    month: str | None = None,
    issued: IssuedKey | None = None,
) -> Response[Any]:
    admin = get_admin(request)
    account = await admin_accounts.get(admin, account_id)
    usage = await admin_usage.get_month(admin, account_id, month or None)
    keys = await list_all(admin_keys.page, admin, account_id)
    users = await admin_users.page(admin, account_id, limit=_USERS)
    rows = sum_by_agent(usage.lines)
    names = await load_display_names(get_services(request).pool, (), {each.agent_id for each in rows})
    plan = await admin_plans.get(admin, account.plan)
    return render_page(
        request,
        "account.html",
        title=account.name,
        account=account,
        plan=plan,
        usage=usage,
        bars=build_bars(usage.lines),
        by_agent=rows,
        keys=keys,
        users=users.items,
        agents=names.agents,
        issued=issued,
        scopes=SCOPES,
        fields=_EDIT.fill(account, refused),
        refused=refused,
        changes=await list_changes(request, account.id),
        retention=None if account.deleting else await admin_retention.get_of_account(admin, account_id),
        left=(await admin_accounts.delete(admin, account_id, dry_run=True)).goes if account.deleting else (),
    )


@get("/plans/{name:str}", role=Role.OWNER)
async def get_plan(request: AnyRequest, name: FromPath[str]) -> Response[Any]:
    """Show the form of a plan; the name `new` is for a new plan."""
    return await _render_plan(request, name)


@post("/plans/{name:str}", status_code=200, role=Role.OWNER)
async def post_plan(request: AnyRequest, name: FromPath[str]) -> Response[Any]:
    """Create or change a plan."""
    given, admin = await request.form(), get_admin(request)
    try:
        if name == "new":
            await admin_plans.create(admin, _NEW_PLAN.read_body(given))
        else:
            present = await admin_plans.get(admin, name)
            await admin_plans.change(admin, name, _EDIT_PLAN.read_body_changes(given, present))
    except AdminError as error:
        return await _render_plan(request, name, RefusedForm(given, error))
    return Redirect("/accounts#plans", status_code=303)


async def _render_plan(request: AnyRequest, name: str, refused: RefusedForm | None = None) -> Response[Any]:
    plan = None if name == "new" else await admin_plans.get(get_admin(request), name)
    form = _NEW_PLAN if plan is None else _EDIT_PLAN
    return render_page(
        request,
        "plan.html",
        title="New plan" if name == "new" else f"Plan {name}",
        name=name,
        fields=form.fill(plan, refused),
        refused=refused,
        changes=await list_changes(request, name),
    )


def build_bars(lines: Sequence[UsageLine]) -> tuple[DayBar, ...]:
    """Return a bar for each day with runs; the highest has the height 100."""
    tokens: dict[str, int] = {}
    runs: dict[str, int] = {}
    costs: dict[str, float] = {}
    for line in lines:
        tokens[line.day] = tokens.get(line.day, 0) + line.tokens
        runs[line.day] = runs.get(line.day, 0) + line.runs
        costs[line.day] = costs.get(line.day, 0.0) + line.cost
    most = max(tokens.values(), default=0) or 1
    return tuple(
        DayBar(
            day=day,
            tokens=count,
            runs=runs[day],
            cost=costs[day],
            x=int(day[-2:]) - 1,
            y=round(100 - 100 * count / most, 2),
            height=round(100 * count / most, 2),
        )
        for day, count in sorted(tokens.items())
    )


def sum_by_agent(lines: Sequence[UsageLine]) -> tuple[AgentUse, ...]:
    """Sum a month's usage by agent and model, the one with the most runs first."""
    sums: dict[tuple[str, str], AgentUse] = {}
    for line in lines:
        each = sums.setdefault(
            (line.agent_id, line.model), AgentUse(agent_id=line.agent_id, model=line.model)
        )
        each.runs += line.runs
        each.failed += line.failed
        each.cost += line.cost
        each.unpriced += line.unpriced
        each.usage += Usage(**{name: getattr(line, name) for name in TOKEN_KINDS})
    return tuple(sorted(sums.values(), key=lambda each: -each.runs))


HANDLERS = (
    get_accounts,
    post_account,
    get_account,
    get_usage_csv,
    get_all_usage_csv,
    post_change,
    post_delete,
    post_key,
    post_key_change,
    get_plan,
    post_plan,
)
