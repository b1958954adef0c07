"""The tools of a tool server, and one of them called by hand, with a form made of its schema."""

import hashlib
from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.datastructures import FormMultiDict
from litestar.params import FromPath

from administration.admin_tool_calls import subject_of
from administration.admin_values import Agent, ToolCallOutcome
from bus import BusUnavailable, list_tools
from console.console_services import services_of
from console.frame.access import AnyRequest
from console.frame.acting import administer
from console.frame.directory import changes_of
from console.frame.filters import json_text
from console.frame.forms import FormField, SchemaForm
from console.frame.rendering import page
from console.frame.roles import Role
from console.pages.approvals import INPUT, input_of
from contracts.admin_errors import AdminError, Invalid
from contracts.values import ToolSpec

_CONFIRMED = "confirmed"
_MARK_CHARACTERS = 32
_NO_RUNNER = "No tool-runner answers just now, so its tools are not known."


class ListedServer(msgspec.Struct, frozen=True):
    """The tools of a server that the agent may call; `away` is why there are none, "" where there are."""

    tools: tuple[ToolSpec, ...]
    away: str = ""


class ShownOutput(msgspec.Struct, frozen=True, kw_only=True):
    """An output as people read it: words and what came with them, or a structured value, None where it has
    none.
    """

    text: str = ""
    note: str = ""
    attachments: tuple[str, ...] = ()
    value: Any = None


class TriedCall(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a form that was sent: a result, a refusal, or `asks`, the question whether it is meant.

    `input` is what the form gives, `mark` stands for it and the tool: what was confirmed is what is called.
    """

    input: dict[str, Any] = {}
    mark: str = ""
    asks: str = ""
    result: ToolCallOutcome | None = None
    error: AdminError | None = None


@get("/agents/{agent_id:str}/servers/{name:str}/tools", role=Role.OPERATOR)
async def get_tools(
    request: AnyRequest, agent_id: FromPath[str], name: FromPath[str], tool: str = ""
) -> Response[Any]:
    """Its tools as they are now; with `tool`, its form."""
    return await _tools(request, agent_id, name, tool)


@post("/agents/{agent_id:str}/servers/{name:str}/tools", status_code=200, role=Role.OPERATOR)
async def post_call(
    request: AnyRequest, agent_id: FromPath[str], name: FromPath[str], tool: str = ""
) -> Response[Any]:
    """Call it. One that may do harm is called once that was confirmed, with the arguments that were shown."""
    return await _tools(request, agent_id, name, tool, await request.form())


async def _tools(
    request: AnyRequest, agent_id: str, name: str, tool: str, given: FormMultiDict | None = None
) -> Response[Any]:
    agent: Agent = await administer(request, "GET /agents/{agent_id}", agent_id=agent_id)
    route = "GET /agents/{agent_id}/mcp_servers/{name}"
    server = await administer(request, route, agent_id=agent_id, name=name)
    listed = await _listed(request, agent, name)
    spec = next((each for each in listed.tools if each.tool == tool), None)
    form = None if spec is None else SchemaForm(spec.input_schema)
    sent = None if given is None else input_of(given)
    tried = TriedCall()
    if given is not None and sent is not None:
        tried = await _tried(request, agent, name, tool, form, sent, str(given.get(_CONFIRMED, "")))
    return page(
        request,
        "parts/tool_call.html" if request.headers.get("hx-request") else "agent_tools.html",
        title=f"Tools of {name}",
        agent=agent,
        server=server,
        listed=listed,
        tool=tool,
        spec=spec,
        fields=_fields(form, sent, tried),
        prefix=INPUT,
        tried=tried,
        output=None if tried.result is None else shown_output(tried.result.output),
        changes=await changes_of(request, subject_of(agent.id, name, tool)) if spec else (),
    )


async def _listed(request: AnyRequest, agent: Agent, name: str) -> ListedServer:
    try:
        found = await list_tools(services_of(request).bus.rpc, agent.account_id, agent.id, agent.version)
    except BusUnavailable:
        return ListedServer((), _NO_RUNNER)
    away = [each.reason for each in found.unavailable if each.server in (name, "*")]
    return ListedServer(tuple(each for each in found.tools if each.server == name), "".join(away[:1]))


async def _tried(
    request: AnyRequest,
    agent: Agent,
    name: str,
    tool: str,
    form: SchemaForm | None,
    sent: FormMultiDict,
    confirmed: str,
) -> TriedCall:
    """Without its schema the form cannot be read; what was written in it stays in the browser."""
    try:
        read = {} if form is None else form.read(sent)
    except Invalid as error:
        return TriedCall(error=error)
    mark = _mark(agent, name, tool, read)
    call = {"tool": tool, "input": read, "confirmed": confirmed == mark}
    route = "POST /agents/{agent_id}/mcp_servers/{name}/call"
    try:
        result = await administer(request, route, agent_id=agent.id, name=name, call=call)
    except Invalid as error:
        if error.field == _CONFIRMED:
            return TriedCall(input=read, mark=mark, asks=error.reason.partition(": ")[2])
        return TriedCall(input=read, error=Invalid(error.field.removeprefix(INPUT), error.reason))
    except AdminError as error:
        return TriedCall(input=read, error=error)
    return TriedCall(input=read, result=result)


def _mark(agent: Agent, name: str, tool: str, read: dict[str, Any]) -> str:
    called = msgspec.json.encode([agent.id, agent.version, name, tool, read])
    return hashlib.sha256(called).hexdigest()[:_MARK_CHARACTERS]


def _fields(
    form: SchemaForm | None, sent: FormMultiDict | None, tried: TriedCall
) -> tuple[FormField, ...] | None:
    if form is None:
        return None
    return form.fields({}, sent, tried.error if isinstance(tried.error, Invalid) else None)


def shown_output(output: Any) -> ShownOutput:
    """Of what a tool-runner makes of a result (docs/change/design.md 6); any other value is a structured
    one.
    """
    match output:
        case {"error": str(words), **rest} if not rest:
            return ShownOutput(text=words)
        case {"text": str(text), "notice": str(note), **rest} if not rest:
            return ShownOutput(text=text, note=note)
        case {"text": str(text), "attachments": [*found], **rest} if not rest:
            return ShownOutput(text=text, attachments=tuple(_attachment(each) for each in found))
        case {"text": str(text), **rest} if not rest:
            return ShownOutput(text=text)
        case _:
            return ShownOutput(value=output)


def _attachment(found: Any) -> str:
    """Such as `image image/png, 12,345 bytes`."""
    if not isinstance(found, dict):
        return json_text(found)
    size = [f"{found['bytes']:,} bytes"] if isinstance(found.get("bytes"), int) else []
    named = [str(found[key]) for key in ("name", "uri", "text") if key in found]
    kind = " ".join(str(found[key]) for key in ("type", "mime_type") if key in found)
    return ", ".join([kind, *size, *named])


HANDLERS = (get_tools, post_call)
