"""Agents: the list, one with its versions and what differs between them, its tool servers, edits."""

import difflib
from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath
from litestar.response import Redirect

from agentchat.administration import Admin, admin_accounts, admin_agents, admin_canary, admin_mcp_servers
from agentchat.administration.admin_canary import CanaryShares
from agentchat.administration.admin_values import Agent, NewAgent, ServerBody
from agentchat.bus.commands import list_tools
from agentchat.bus.errors import BusUnavailable
from agentchat.console.console_services import services_of
from agentchat.console.frame.access import AnyRequest
from agentchat.console.frame.acting import admin_of
from agentchat.console.frame.directory import account_choices, account_names, changes_of
from agentchat.console.frame.filters import json_text
from agentchat.console.frame.forms import BodyForm, RefusedForm, whole_number
from agentchat.console.frame.rendering import page
from agentchat.console.frame.roles import Role
from agentchat.contracts.admin_errors import AdminError, Conflict, Invalid
from agentchat.contracts.tool_messages import ToolsListed
from agentchat.directory.agent_config import McpServer
from agentchat.directory.agent_draft import AgentChanges

_EDIT = BodyForm(AgentChanges, leave_out=("mcp_servers",), secrets=("provider_key",), blank_is_empty=True)
_NEW = BodyForm(NewAgent, leave_out=("mcp_servers", "account_id", "id"), secrets=("provider_key",))
_NEW_SERVER = BodyForm(McpServer)
_SERVER = BodyForm(ServerBody, secrets=("headers",))
_IDENTITY = ("id", "account_id", "version", "disabled", "created_at", "changed_at")


class DiffLine(msgspec.Struct, frozen=True):
    """A line of what differs; `kind` is same, old or new."""

    kind: str
    text: str


@get("/agents", role=Role.VIEWER)
async def get_agents(
    request: AnyRequest, account_id: str | None = None, cursor: str | None = None
) -> Response[Any]:
    """The list, of all accounts or of one."""
    found = await admin_agents.page(admin_of(request), account_id=account_id or None, after=cursor, limit=50)
    return page(
        request,
        "agents.html",
        title="Agents",
        agents=found.items,
        names=await account_names(request, {each.account_id for each in found.items}),
        choices=await account_choices(request),
        account_id=account_id or "",
        next_cursor=found.after,
    )


@get("/agents/new", role=Role.OPERATOR)
async def get_new_agent(request: AnyRequest, account_id: str = "") -> Response[Any]:
    return await _new_agent(request, account_id)


@post("/agents/new", status_code=200, role=Role.OPERATOR)
async def post_new_agent(request: AnyRequest) -> Response[Any]:
    """Make one; where it is not taken, the form comes back as it was filled."""
    given = await request.form()
    account_id = str(given.get("account_id", ""))
    try:
        made = await admin_agents.create(admin_of(request), _NEW.body(given, account_id=account_id))
    except AdminError as error:
        return await _new_agent(request, account_id, RefusedForm(given, error))
    return Redirect(f"/agents/{made.id}", status_code=303)


async def _new_agent(
    request: AnyRequest, account_id: str, refused: RefusedForm | None = None
) -> Response[Any]:
    return page(
        request,
        "agent_new.html",
        title="New agent",
        choices=await account_choices(request),
        account_id=account_id,
        fields=_NEW.filled(None, refused),
        refused=refused,
    )


@get("/agents/{agent_id:str}", role=Role.VIEWER)
async def get_agent(request: AnyRequest, agent_id: FromPath[str]) -> Response[Any]:
    """Its configuration as a form, its versions, its tool servers, who changed it."""
    return await _agent(request, agent_id)


@post("/agents/{agent_id:str}", status_code=200, role=Role.OPERATOR)
async def post_agent(request: AnyRequest, agent_id: FromPath[str]) -> Response[Any]:
    """Change what differs: a new version."""
    given, admin = await request.form(), admin_of(request)
    current = await admin_agents.current(admin, agent_id)
    try:
        changes = _EDIT.changes(given, current)
        if changes.to_dict():
            await admin_agents.change(admin, agent_id, changes)
    except AdminError as error:
        return await _agent(request, agent_id, RefusedForm(given, error))
    return Redirect(f"/agents/{agent_id}", status_code=303)


async def _agent(request: AnyRequest, agent_id: str, refused: RefusedForm | None = None) -> Response[Any]:
    admin = admin_of(request)
    current = await admin_agents.current(admin, agent_id)
    account = await admin_accounts.get(admin, current.account_id)
    versions = await admin_agents.versions(admin, agent_id)
    return page(
        request,
        "agent.html",
        title=current.name,
        agent=current,
        account=account,
        versions=versions.items,
        fields=_EDIT.filled(current, refused),
        refused=refused,
        changes=await changes_of(request, current.id),
    )


@get("/agents/{agent_id:str}/diff", role=Role.VIEWER)
async def get_diff(request: AnyRequest, agent_id: FromPath[str], old: int, new: int) -> Response[Any]:
    """What two versions differ in."""
    before, after = [await admin_agents.get(admin_of(request), agent_id, each) for each in (old, new)]
    return page(
        request,
        "agent_diff.html",
        title=f"{after.name}: version {old} to {new}",
        agent=after,
        old=old,
        new=new,
        lines=differences(_settings(before), _settings(after)),
    )


@post("/agents/{agent_id:str}/restore", status_code=303, role=Role.OPERATOR)
async def post_restore(request: AnyRequest, agent_id: FromPath[str]) -> Redirect:
    """Make a new version of an old one."""
    given = await request.form()
    await admin_agents.restore(admin_of(request), agent_id, whole_number("version", given.get("version")))
    return Redirect(f"/agents/{agent_id}", status_code=303)


@get("/agents/{agent_id:str}/canary", role=Role.VIEWER)
async def get_canary(request: AnyRequest, agent_id: FromPath[str]) -> Response[Any]:
    """How its versions do, and which share each answers. It reads all their runs of a month."""
    return await _canary(request, agent_id)


@post("/agents/{agent_id:str}/canary", status_code=200, role=Role.OPERATOR)
async def post_canary(request: AnyRequest, agent_id: FromPath[str]) -> Response[Any]:
    """Set the shares of its versions, or let one of them answer all conversations."""
    given, admin = await request.form(), admin_of(request)
    try:
        if "promote" in given:
            await admin_canary.promote(admin, agent_id, whole_number("promote", given["promote"]))
        else:
            shares = CanaryShares(versions=_shares(str(given.get("shares", ""))))
            await admin_canary.put(admin, agent_id, shares)
    except AdminError as error:
        return await _canary(request, agent_id, RefusedForm(given, error))
    return Redirect(f"/agents/{agent_id}/canary", status_code=303)


async def _canary(request: AnyRequest, agent_id: str, refused: RefusedForm | None = None) -> Response[Any]:
    current = await admin_agents.current(admin_of(request), agent_id)
    compared = await admin_canary.get(admin_of(request), agent_id)
    return page(
        request,
        "agent_canary.html",
        title=f"Versions of {current.name}",
        agent=current,
        compared=compared,
        refused=refused,
    )


def _shares(text: str) -> dict[str, int]:
    """Of "12=95, 13=5". Raises Invalid."""
    pairs = [each.partition("=") for each in text.replace(",", " ").split()]
    if not all(share.isdecimal() and len(share) < 9 for _, _, share in pairs):
        raise Invalid("shares", "must be versions with their shares, such as 12=95, 13=5")
    return {version: int(share) for version, _, share in pairs}


@post("/agents/{agent_id:str}/check", status_code=200, role=Role.OPERATOR)
async def post_check(request: AnyRequest, agent_id: FromPath[str]) -> Response[Any]:
    """Its provider and its tool servers as they are now, and their tools."""
    current = await admin_agents.current(admin_of(request), agent_id)
    checked = await admin_agents.check(admin_of(request), agent_id)
    try:
        tools = await list_tools(
            services_of(request).bus.rpc, current.account_id, current.id, current.version
        )
    except BusUnavailable:
        tools = ToolsListed(tools=())
    template = "parts/agent_check.html" if request.headers.get("hx-request") else "agent_check.html"
    return page(
        request, template, title=f"Check of {current.name}", agent=current, checked=checked, tools=tools.tools
    )


@post("/agents/{agent_id:str}/delete", status_code=200, role=Role.OWNER)
async def post_delete(request: AnyRequest, agent_id: FromPath[str]) -> Response[Any]:
    """Delete it, where its name was typed."""
    given = await request.form()
    current = await admin_agents.current(admin_of(request), agent_id)
    try:
        if str(given.get("typed", "")) != current.name:
            raise Invalid("typed", "is not the agent's name: nothing was deleted")
        await admin_agents.delete(admin_of(request), agent_id, force="force" in given)
    except AdminError as error:
        return await _agent(request, agent_id, RefusedForm(given, error))
    return Redirect("/agents", status_code=303)


@get("/agents/{agent_id:str}/servers/{name:str}", role=Role.OPERATOR)
async def get_server(request: AnyRequest, agent_id: FromPath[str], name: FromPath[str]) -> Response[Any]:
    """A tool server as a form; `new` is one that is to be added."""
    return await _server(request, agent_id, name)


@post("/agents/{agent_id:str}/servers/{name:str}", status_code=200, role=Role.OPERATOR)
async def post_server(request: AnyRequest, agent_id: FromPath[str], name: FromPath[str]) -> Response[Any]:
    given, admin = await request.form(), admin_of(request)
    try:
        if name == "new":
            await _add_server(admin, agent_id, _NEW_SERVER.body(given))
        elif "remove" in given:
            await admin_mcp_servers.remove(admin, agent_id, name)
        else:
            present = await admin_mcp_servers.get(admin, agent_id, name)
            await admin_mcp_servers.put(admin, agent_id, name, _SERVER.replacement(given, present))
    except AdminError as error:
        return await _server(request, agent_id, name, RefusedForm(given, error))
    return Redirect(f"/agents/{agent_id}#servers", status_code=303)


async def _add_server(admin: Admin, agent_id: str, new: McpServer) -> None:
    """Raises Conflict if the agent has a server of this name."""
    if any(each.name == new.name for each in await admin_mcp_servers.all(admin, agent_id)):
        raise Conflict.from_existing("MCP server", new.name)
    fields = msgspec.structs.asdict(new)
    await admin_mcp_servers.put(admin, agent_id, fields.pop("name"), ServerBody(**fields))


async def _server(
    request: AnyRequest, agent_id: str, name: str, refused: RefusedForm | None = None
) -> Response[Any]:
    admin = admin_of(request)
    agent = await admin_agents.current(admin, agent_id)
    server = None if name == "new" else await admin_mcp_servers.get(admin, agent_id, name)
    form = _NEW_SERVER if server is None else _SERVER
    return page(
        request,
        "agent_server.html",
        title=f"Tool server {name}" if server else "New tool server",
        agent=agent,
        server=server,
        name=name,
        fields=form.filled(server, refused),
        refused=refused,
    )


def differences(old: str, new: str) -> tuple[DiffLine, ...]:
    """The lines of both, three of those that are the same around each that differs."""
    kinds = {" ": "same", "-": "old", "+": "new", "@": "same"}
    lines = list(difflib.unified_diff(old.split("\n"), new.split("\n"), lineterm="", n=3))[2:]
    return tuple(DiffLine(kinds[line[0]], "…" if line[0] == "@" else line[1:]) for line in lines)


def _settings(agent: Agent) -> str:
    """As text, the prompt line by line."""
    settings: dict[str, Any] = msgspec.to_builtins(agent)
    prompt = settings.pop("system_prompt")
    for name in _IDENTITY:
        settings.pop(name)
    return f"{json_text(settings)}\n\nsystem prompt:\n{prompt}"


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
