"""Show and change agents: the list, versions and their differences, tool servers, canary."""

import difflib
from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath
from litestar.response import Redirect

from agentchat.administration import (
    Admin,
    admin_accounts,
    admin_agents,
    admin_canary,
    admin_mcp_servers,
    admin_retention,
)
from agentchat.administration.admin_canary import CanaryShares
from agentchat.administration.admin_values import Agent, ServerBody
from agentchat.bus.commands import list_tools
from agentchat.bus.errors import BusUnavailable
from agentchat.console.pages.agent_form import EDIT, NEW, build_sections
from agentchat.console.pages.retention_question import ask_about_retention
from agentchat.console.pages.tool_choice import SHOWN, build_choice, read_choice
from agentchat.console.services import get_services
from agentchat.console.shared.access_check import AnyRequest, get_admin
from agentchat.console.shared.confirmation import Question, ask, describe_uses
from agentchat.console.shared.console_roles import Role
from agentchat.console.shared.directory_lists import list_account_choices, list_changes, load_account_names
from agentchat.console.shared.rendering import render_page
from agentchat.console.shared.schema_forms import BodyForm, RefusedForm, SchemaForm, parse_whole_number
from agentchat.console.shared.template_filters import format_json
from agentchat.contracts.admin_errors import AdminError, Conflict, Invalid
from agentchat.contracts.text_checks import format_count
from agentchat.contracts.values import ToolSpec
from agentchat.directory.agent_config import McpServer

_NEW_SERVER = BodyForm(McpServer)
_SERVER = BodyForm(ServerBody, secrets=("headers",))
_SERVER_WITH_CHOICE = BodyForm(
    ServerBody, secrets=("headers",), leave_out=("allowed_tools", "require_approval")
)
_IDENTITY = ("id", "account_id", "version", "disabled", "retention_days", "created_at", "changed_at")


class DiffLine(msgspec.Struct, frozen=True):
    """A line of a comparison; `kind` is same, old or new."""

    kind: str
    text: str


@get("/agents", role=Role.VIEWER, filtered=True)
async def get_agents(
    request: AnyRequest, account_id: str | None = None, cursor: str | None = None
) -> Response[Any]:
    """List the agents of all accounts or of one."""
    found = await admin_agents.page(get_admin(request), account_id=account_id or None, after=cursor, limit=50)
    return render_page(
        request,
        "agents.html",
        title="Agents",
        agents=found.items,
        names=await load_account_names(request, {each.account_id for each in found.items}),
        choices=await list_account_choices(request),
        account_id=account_id or "",
        next_cursor=found.after,
    )


@get("/agents/new", role=Role.OPERATOR, filtered=True)
async def get_new_agent(request: AnyRequest, account_id: str = "") -> Response[Any]:
    """Show the form of a new agent."""
    return await _render_new_agent(request, account_id)


@post("/agents/new", status_code=200, role=Role.OPERATOR, filtered=True)
async def post_new_agent(request: AnyRequest) -> Response[Any]:
    """Create an agent. A refused form comes back as it was filled in."""
    given = await request.form()
    account_id = str(given.get("account_id", ""))
    try:
        made = await admin_agents.create(get_admin(request), NEW.read_new(given, account_id))
    except AdminError as error:
        return await _render_new_agent(request, account_id, RefusedForm(given, error))
    return Redirect(f"/agents/{made.id}", status_code=303)


async def _render_new_agent(
    request: AnyRequest, account_id: str, refused: RefusedForm | None = None
) -> Response[Any]:
    return render_page(
        request,
        "agent_new.html",
        title="New agent",
        choices=await list_account_choices(request),
        account_id=account_id,
        sections=await build_sections(request, account_id, NEW.fill_agent(None, refused)),
        refused=refused,
    )


@get("/agents/{agent_id:str}", role=Role.VIEWER)
async def get_agent(request: AnyRequest, agent_id: FromPath[str]) -> Response[Any]:
    """Show an agent: its configuration as a form, its versions, tool servers and changes."""
    return await _render_agent(request, agent_id)


@post("/agents/{agent_id:str}", status_code=200, role=Role.OPERATOR)
async def post_agent(request: AnyRequest, agent_id: FromPath[str]) -> Response[Any]:
    """Save the changed fields as a new version."""
    given, admin = await request.form(), get_admin(request)
    current = await admin_agents.get_current(admin, agent_id)
    try:
        changes = EDIT.read_changes_of(given, current)
        days = changes.retention_days
        if days is None:
            days = (await admin_accounts.get(admin, current.account_id)).retention_days
        if asked := await ask_about_retention(
            request,
            given,
            days,
            lambda days: admin_retention.get_of_agent(admin, agent_id, retention_days=days),
        ):
            return asked
        if changes.to_dict():
            await admin_agents.change(admin, agent_id, changes)
    except AdminError as error:
        return await _render_agent(request, agent_id, RefusedForm(given, error))
    return Redirect(f"/agents/{agent_id}", status_code=303)


async def _render_agent(
    request: AnyRequest, agent_id: str, refused: RefusedForm | None = None
) -> Response[Any]:
    admin = get_admin(request)
    current = await admin_agents.get_current(admin, agent_id)
    account = await admin_accounts.get(admin, current.account_id)
    versions = await admin_agents.list_versions(admin, agent_id)
    return render_page(
        request,
        "agent.html",
        title=current.name,
        agent=current,
        account=account,
        versions=versions.items,
        sections=await build_sections(request, account.id, EDIT.fill_agent(current, refused)),
        refused=refused,
        changes=await list_changes(request, current.id),
        retention=await admin_retention.get_of_agent(admin, agent_id),
    )


@get("/agents/{agent_id:str}/diff", role=Role.VIEWER)
async def get_diff(request: AnyRequest, agent_id: FromPath[str], old: int, new: int) -> Response[Any]:
    """Show the differences of two versions."""
    before, after = [await admin_agents.get(get_admin(request), agent_id, each) for each in (old, new)]
    return render_page(
        request,
        "agent_diff.html",
        title=f"{after.name}: version {old} to {new}",
        agent=after,
        old=old,
        new=new,
        lines=diff_lines(_format_settings(before), _format_settings(after)),
    )


@post("/agents/{agent_id:str}/restore", status_code=303, role=Role.OPERATOR)
async def post_restore(request: AnyRequest, agent_id: FromPath[str]) -> Redirect:
    """Save an old version again as the newest."""
    given = await request.form()
    await admin_agents.restore(
        get_admin(request), agent_id, parse_whole_number("version", given.get("version"))
    )
    return Redirect(f"/agents/{agent_id}", status_code=303)


@get("/agents/{agent_id:str}/canary", role=Role.VIEWER)
async def get_canary(request: AnyRequest, agent_id: FromPath[str]) -> Response[Any]:
    """Show the results of the versions and the share of traffic of each."""
    return await _render_canary(request, agent_id)


@post("/agents/{agent_id:str}/canary", status_code=200, role=Role.OPERATOR)
async def post_canary(request: AnyRequest, agent_id: FromPath[str]) -> Response[Any]:
    """Set the traffic shares of the versions, or send all traffic to one."""
    given, admin = await request.form(), get_admin(request)
    try:
        if "promote" in given:
            version = parse_whole_number("promote", given["promote"])
            if asked := ask(request, given, _build_promotion_question(agent_id, version)):
                return asked
            await admin_canary.promote(admin, agent_id, version)
        else:
            shares = CanaryShares(versions=_parse_shares(str(given.get("shares", ""))))
            await admin_canary.put(admin, agent_id, shares)
    except AdminError as error:
        return await _render_canary(request, agent_id, RefusedForm(given, error))
    return Redirect(f"/agents/{agent_id}/canary", status_code=303)


def _build_promotion_question(agent_id: str, version: int) -> Question:
    return Question(
        title=f"Send all traffic to version {version}?",
        text=f"Version {version} answers every conversation from its next message on, also those of other "
        "versions. The traffic shares end. A version that is not the newest is saved again as the newest.",
        button=f"Send all traffic to version {version}",
        back=f"/agents/{agent_id}/canary",
    )


async def _render_canary(
    request: AnyRequest, agent_id: str, refused: RefusedForm | None = None
) -> Response[Any]:
    current = await admin_agents.get_current(get_admin(request), agent_id)
    compared = await admin_canary.get(get_admin(request), agent_id)
    return render_page(
        request,
        "agent_canary.html",
        title=f"Versions of {current.name}",
        agent=current,
        compared=compared,
        refused=refused,
    )


def _parse_shares(text: str) -> dict[str, int]:
    """Parse shares such as "12=95, 13=5". Raises Invalid."""
    pairs = [each.partition("=") for each in text.replace(",", " ").split()]
    if not all(share.isdecimal() and len(share) < 9 for _, _, share in pairs):
        raise Invalid("shares", "must be versions with their shares, such as 12=95, 13=5")
    return {version: int(share) for version, _, share in pairs}


@post("/agents/{agent_id:str}/check", status_code=200, role=Role.OPERATOR)
async def post_check(request: AnyRequest, agent_id: FromPath[str]) -> Response[Any]:
    """Check whether the provider and the tool servers answer, and list the tools."""
    current = await admin_agents.get_current(get_admin(request), agent_id)
    checked = await admin_agents.check(get_admin(request), agent_id)
    tools = await _list_tools(request, current)
    template = "parts/agent_check.html" if request.headers.get("hx-request") else "agent_check.html"
    return render_page(
        request, template, title=f"Check of {current.name}", agent=current, checked=checked, tools=tools
    )


@post("/agents/{agent_id:str}/delete", status_code=200, role=Role.OWNER)
async def post_delete(request: AnyRequest, agent_id: FromPath[str]) -> Response[Any]:
    """Delete an agent if its name was typed."""
    given, admin = await request.form(), get_admin(request)
    current = await admin_agents.get_current(admin, agent_id)
    going = await admin_agents.delete(admin, agent_id, dry_run=True)
    left = f" {describe_uses(going.used_by)} stay without it." if going.used_by else ""
    days = (await admin_accounts.get(admin, current.account_id)).retention_days
    if current.retention_days is not None and days is not None:
        left += " Its conversations are then kept as the account's others are, for "
        left += f"{format_count(days, 'day')}."
    question = Question(
        title=f"Delete the agent {current.name}?",
        text=f"This deletes {describe_uses(going.goes)} and cannot be undone.{left} Open runs of it may fail."
        f" The audit log keeps a row for {current.id}.",
        button="Delete the agent",
        back=f"/agents/{agent_id}",
        typed=current.name,
    )
    if asked := ask(request, given, question):
        return asked
    await admin_agents.delete(admin, agent_id, force=True)
    return Redirect("/agents", status_code=303)


@get("/agents/{agent_id:str}/servers/{name:str}", role=Role.OPERATOR)
async def get_server(request: AnyRequest, agent_id: FromPath[str], name: FromPath[str]) -> Response[Any]:
    """Show the form of a tool server; the name `new` is for a new one."""
    return await _render_server(request, agent_id, name)


@post("/agents/{agent_id:str}/servers/{name:str}", status_code=200, role=Role.OPERATOR)
async def post_server(request: AnyRequest, agent_id: FromPath[str], name: FromPath[str]) -> Response[Any]:
    """Add, change or remove a tool server. The page of a new one has its tools to choose from."""
    given, admin = await request.form(), get_admin(request)
    try:
        if name == "new":
            added = _NEW_SERVER.read_body(given)
            await _add_server(admin, agent_id, added)
            return Redirect(f"/agents/{agent_id}/servers/{added.name}", status_code=303)
        if "remove" in given:
            question = Question(
                title=f"Remove the tool server {name}?",
                text="The agent loses its tools from the next run on. This is saved as a new version; "
                "restore the present one to bring the server back.",
                button="Remove the tool server",
                back=f"/agents/{agent_id}/servers/{name}",
            )
            if asked := ask(request, given, question):
                return asked
            await admin_mcp_servers.remove(admin, agent_id, name)
        else:
            present = await admin_mcp_servers.get(admin, agent_id, name)
            form, chosen = (
                (_SERVER_WITH_CHOICE, read_choice(given, present)) if SHOWN in given else (_SERVER, {})
            )
            body = form.read_replacement(given, present, **chosen)
            await admin_mcp_servers.put(admin, agent_id, name, body)
    except AdminError as error:
        return await _render_server(request, agent_id, name, RefusedForm(given, error))
    return Redirect(f"/agents/{agent_id}#servers", status_code=303)


async def _add_server(admin: Admin, agent_id: str, new: McpServer) -> None:
    """Add a tool server. Raises Conflict if the agent already has one of this name."""
    if any(each.name == new.name for each in await admin_mcp_servers.list_servers(admin, agent_id)):
        raise Conflict.from_existing("MCP server", new.name)
    fields = msgspec.structs.asdict(new)
    await admin_mcp_servers.put(admin, agent_id, fields.pop("name"), ServerBody(**fields))


async def _render_server(
    request: AnyRequest, agent_id: str, name: str, refused: RefusedForm | None = None
) -> Response[Any]:
    admin = get_admin(request)
    agent = await admin_agents.get_current(admin, agent_id)
    server = None if name == "new" else await admin_mcp_servers.get(admin, agent_id, name)
    form: SchemaForm = _NEW_SERVER
    choice = None
    if server is not None:
        listed = await _list_tools(request, agent)
        choice = build_choice(server, listed, None if refused is None else refused.given)
        form = _SERVER if choice is None else _SERVER_WITH_CHOICE
    return render_page(
        request,
        "agent_server.html",
        title=f"Tool server {name}" if server else "New tool server",
        agent=agent,
        server=server,
        name=name,
        fields=form.fill(server, refused),
        choice=choice,
        refused=refused,
    )


async def _list_tools(request: AnyRequest, agent: Agent) -> tuple[ToolSpec, ...]:
    """List the tools of an agent; none if no tool-runner answers."""
    try:
        rpc = get_services(request).bus.rpc
        return (await list_tools(rpc, agent.account_id, agent.id, agent.version)).tools
    except BusUnavailable:
        return ()


def diff_lines(old: str, new: str) -> tuple[DiffLine, ...]:
    """Compare two texts by line, with three unchanged lines around each difference."""
    kinds = {" ": "same", "-": "old", "+": "new", "@": "same"}
    lines = list(difflib.unified_diff(old.split("\n"), new.split("\n"), lineterm="", n=3))[2:]
    return tuple(DiffLine(kinds[line[0]], "…" if line[0] == "@" else line[1:]) for line in lines)


def _format_settings(agent: Agent) -> str:
    """Format an agent's settings as text, with the prompt line by line."""
    settings: dict[str, Any] = msgspec.to_builtins(agent)
    prompt = settings.pop("system_prompt")
    for name in _IDENTITY:
        settings.pop(name)
    return f"{format_json(settings)}\n\nsystem prompt:\n{prompt}"


HANDLERS = (
    get_agents,
    get_new_agent,
    post_new_agent,
    get_agent,
    post_agent,
    get_diff,
    post_restore,
    get_canary,
    post_canary,
    post_check,
    post_delete,
    get_server,
    post_server,
)
