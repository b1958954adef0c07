"""Validate an agent's configuration when it is saved, so that no run meets a bad one."""

import re
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, UnsetType

from agentchat.contracts.admin_errors import Invalid
from agentchat.contracts.retention_rule import RetentionDays
from agentchat.contracts.text_checks import is_line
from agentchat.contracts.values import Approvers, OnBusy, OnExpiry, OnNewMessage
from agentchat.directory.agent_config import (
    AgentSettings,
    ApprovalSeconds,
    BaseUrl,
    ClientToolsPolicy,
    Fallbacks,
    MaxToolRounds,
    McpServer,
    McpServers,
    Name,
    OnInterruption,
    OnToolServerError,
    OutputType,
    Reasoning,
    RequestParameters,
    Retrieval,
    SystemPrompt,
)
from agentchat.directory.agent_to_agent import read_agent_name
from agentchat.directory.approval_policy import ApprovalRules, find_policy_problem
from agentchat.directory.compaction_settings import COMPACTING, Compaction
from agentchat.directory.json_values import check_json, check_text
from agentchat.directory.model_parameters import check_parameters
from agentchat.directory.output_schema import check_output_schema
from agentchat.directory.partial_update import Changes
from agentchat.directory.prompt_variables import TimeZone, Variables, check_variables

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+\Z")  # RFC 9110, token
_VALUE = re.compile(r"[\x20-\x7e\t]*\Z")
_MESSAGE = frozenset(
    {"host", "expect", "user-agent", "accept", "accept-encoding"}
    | {"content-type", "content-length", "content-encoding"}
)
_HOP_BY_HOP = frozenset(  # RFC 9110, 7.6.1
    {"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
    | {"proxy-connection", "proxy-authenticate", "proxy-authorization"}
)
_PROTOCOL = frozenset(  # MCP, Streamable HTTP
    {"mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name", "last-event-id"}
)
_OURS = _MESSAGE | _HOP_BY_HOP | _PROTOCOL
_PARAMETER = "mcp-param-"


def check_headers(headers: Mapping[str, str], field: str) -> None:
    """Check the headers that are sent to a tool server.

    Raises:
        Invalid: With the path of the header below `field`.
    """
    seen: dict[str, str] = {}
    for name, value in headers.items():
        if not _NAME.match(name):
            raise Invalid(field, "has a name that is not a header's")
        if not is_header_value(value):
            raise Invalid(f"{field}.{name}", "holds characters that no header can carry")
        known = name.lower()
        if known in _OURS or known.startswith(_PARAMETER):
            raise Invalid(f"{field}.{name}", "is set by the service, or by the protocols beneath it")
        if known in seen:
            raise Invalid(f"{field}.{name}", f"is the same header as {seen[known]}")
        seen[known] = name


def is_header_value(text: str) -> bool:
    """Return True if `text` can be sent as the value of an HTTP header."""
    return _VALUE.match(text) is not None


class AgentDraft(AgentSettings, frozen=True, kw_only=True):
    """A complete configuration with its secrets: MCP headers and the provider key.

    `provider_key` None means the service's own key.
    """

    provider_key: str | None = None

    def __repr__(self) -> str:
        return f"AgentDraft(name={self.name!r}, model={self.model!r})"


VersionNote = Annotated[str, msgspec.Meta(max_length=500)]


class AgentChanges(Changes, frozen=True, kw_only=True):
    """Changes to an agent.

    Fields that are not given stay; `mcp_servers` and `fallbacks` are replaced as a whole. `note` says why,
    for the list of versions.
    """

    name: Name | UnsetType = UNSET
    provider: str | UnsetType = UNSET
    model: Name | UnsetType = UNSET
    base_url: BaseUrl | UnsetType | None = UNSET
    system_prompt: SystemPrompt | UnsetType = UNSET
    variables: Variables | UnsetType = UNSET
    time_zone: TimeZone | UnsetType = UNSET
    parameters: dict[str, Any] | UnsetType = UNSET
    max_tool_rounds: MaxToolRounds | UnsetType = UNSET
    output_type: OutputType | UnsetType = UNSET
    output_schema: dict[str, Any] | UnsetType | None = UNSET
    allow_request_schema: bool | UnsetType = UNSET
    request_parameters: RequestParameters | UnsetType = UNSET
    mcp_servers: McpServers | UnsetType = UNSET
    on_interruption: OnInterruption | UnsetType = UNSET
    on_tool_server_error: OnToolServerError | UnsetType = UNSET
    retrieval: Retrieval | UnsetType | None = UNSET
    approvers: Approvers | UnsetType = UNSET
    approval_seconds: ApprovalSeconds | UnsetType = UNSET
    on_expiry: OnExpiry | UnsetType = UNSET
    on_new_message: OnNewMessage | UnsetType = UNSET
    on_busy: OnBusy | UnsetType = UNSET
    client_tools: ClientToolsPolicy | UnsetType = UNSET
    reasoning: Reasoning | UnsetType = UNSET
    vision: bool | UnsetType | None = UNSET
    compaction: Compaction | UnsetType | None = UNSET
    fallbacks: Fallbacks | UnsetType = UNSET
    provider_key: str | UnsetType | None = UNSET
    disabled: bool | UnsetType = UNSET
    retention_days: RetentionDays | UnsetType | None = UNSET
    note: VersionNote | UnsetType = UNSET


def validate_draft(draft: AgentDraft) -> AgentDraft:
    """Return the draft if it is a valid configuration.

    Raises:
        Invalid: With the path of the field that is wrong.
    """
    try:
        draft = msgspec.convert(msgspec.to_builtins(draft), AgentDraft)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$")
        if " matching regex " in reason:
            reason = _describe_pattern(path)
        raise Invalid(path.strip("`.") or "agent", reason.replace("`", "")) from None
    _check_line(draft.name, "name")
    _check_line(draft.model, "model")
    check_text(draft.system_prompt, "system_prompt")
    check_variables(draft.system_prompt, draft.variables, draft.time_zone)
    check_json(draft.parameters, "parameters")
    check_parameters(draft.provider, draft.parameters)
    _check_base_url(draft.base_url, "base_url")
    _check_output(draft)
    if draft.compaction is not None:
        _check_prompt(draft.compaction.prompt)
        providers = {draft.provider, *(each.provider for each in draft.fallbacks)}
        if draft.compaction.by == "provider" and not providers <= set(COMPACTING):
            raise Invalid("compaction.by", f"must be own: only {', '.join(COMPACTING)} compacts by itself")
    _check_servers(draft.mcp_servers)
    _check_key(draft.provider_key, "provider_key")
    _check_fallbacks(draft)
    return draft


def _check_key(key: str | UnsetType | None, field: str) -> None:
    if isinstance(key, str) and not is_header_value(key):
        raise Invalid(field, "holds characters that no header can carry")


def _check_fallbacks(draft: AgentDraft) -> None:
    """Check each fall-back as the agent's own model, and that no model is tried twice."""
    before = {(draft.provider, draft.model, _normalize_url(draft.base_url)): "the agent's own model"}
    for place, each in enumerate(draft.fallbacks):
        path = f"fallbacks[{place}]"
        _check_line(each.model, f"{path}.model")
        check_json(each.parameters or {}, f"{path}.parameters")
        try:
            check_parameters(each.provider, each.parameters or {})
        except Invalid as error:
            raise Invalid(f"{path}.{error.field}", error.reason) from None
        _check_base_url(each.base_url, f"{path}.base_url")
        _check_key(each.provider_key, f"{path}.provider_key")
        target = each.provider, each.model, _normalize_url(each.base_url)
        if target in before:
            raise Invalid(path, f"is {before[target]}: give another provider, model or base_url")
        before[target] = path


def _normalize_url(url: str | None) -> str | None:
    return None if url is None else url.rstrip("/")


def _describe_pattern(path: str) -> str:
    """Return what a field with a pattern must be: a name of a variable or a secret, or a server's."""
    if path.startswith(".variables") or "headers_from_request" in path:
        return "must be 1 to 64 letters, digits and underscores, no digit first"
    return "must be 1 to 32 letters, digits, underscores and hyphens"


def _check_prompt(prompt: str) -> None:
    check_text(prompt, "compaction.prompt")
    if not prompt.strip():
        raise Invalid("compaction.prompt", "is blank")


def _check_line(text: str, field: str) -> None:
    if not text.strip() or not is_line(text):
        raise Invalid(field, "is blank, or holds control characters or lone surrogates")


def _check_output(draft: AgentDraft) -> None:
    if draft.output_type == "json" and draft.output_schema is None:
        raise Invalid("output_schema", "is needed where output_type is json")
    if draft.output_type != "json" and draft.output_schema is not None:
        raise Invalid("output_schema", "needs output_type json")
    if draft.output_schema is not None:
        check_json(draft.output_schema, "output_schema")
        check_output_schema(draft.output_schema)


def _check_servers(servers: tuple[McpServer, ...]) -> None:
    names = [server.name for server in servers]
    for position, server in enumerate(servers):
        path = f"mcp_servers[{position}]"
        if server.name in names[:position]:
            raise Invalid(f"{path}.name", "is the name of another server too")
        _check_server_address(server.url, f"{path}.url")
        for tool in server.allowed_tools or ():
            _check_line(tool, f"{path}.allowed_tools")
        check_headers(server.headers, f"{path}.headers")
        check_headers(server.headers_from_request, f"{path}.headers_from_request")
        _check_approval(server, f"{path}.require_approval")


def _check_server_address(url: str, field: str) -> None:
    agent = read_agent_name(url)
    if agent is None:
        check_url(url, field)
    elif not agent.strip() or "/" in agent or not is_line(agent):
        raise Invalid(field, "must be an http or https address, or agent: and the id or name of an agent")


def _check_approval(server: McpServer, field: str) -> None:
    if problem := find_policy_problem(server.require_approval):
        raise Invalid(field, problem)
    if isinstance(server.require_approval, ApprovalRules) and server.allowed_tools is not None:
        unknown = set(server.require_approval.names) - set(server.allowed_tools)
        if unknown:
            raise Invalid(field, f"names a tool that is not in allowed_tools: {min(unknown)}")


def check_url(url: str, field: str) -> None:
    """Check the form of a URL. Each call checks again whether its address may be reached.

    Raises:
        Invalid: If the URL is not http or https, or carries credentials or a fragment.
    """
    try:
        parts = urlsplit(url)
        well_formed = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        well_formed = False
    if not well_formed or not url.isascii() or not url.isprintable():
        raise Invalid(field, "must be an http or https address")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise Invalid(field, "must carry no credentials and no fragment; use headers")


def _check_base_url(url: str | None, field: str) -> None:
    if url is None:
        return
    check_url(url, field)
    if "?" in url:
        raise Invalid(field, "must carry no query: paths are put after it")
