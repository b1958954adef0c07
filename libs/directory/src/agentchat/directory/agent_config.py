"""Load versions of an agent's configuration.

A version never changes, so callers may cache it.
"""

from typing import TYPE_CHECKING, Annotated, Any, Literal, LiteralString

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from agentchat.contracts.values import Approvers, OnBusy, OnExpiry, OnNewMessage
from agentchat.directory.approval_policy import ApprovalPolicy
from agentchat.directory.canary_split import choose_version
from agentchat.directory.compaction_settings import Compaction
from agentchat.directory.errors import RunEnded
from agentchat.directory.model_parameters import DEFAULT_PROVIDER
from agentchat.directory.prompt_variables import TimeZone, VariableName, Variables
from agentchat.directory.request_parameters import DEFAULT_NAMES, ParameterName
from agentchat.runtime.postgres import Pool, acquire_connection

if TYPE_CHECKING:
    from agentchat.directory.secret_encryption import Sealer

MAX_NAME = 200
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME)]
BaseUrl = Annotated[str, msgspec.Meta(max_length=2048)]
SystemPrompt = Annotated[str, msgspec.Meta(max_length=65_536)]
MaxToolRounds = Annotated[int, msgspec.Meta(ge=0, le=100)]
OutputType = Literal["text", "markdown", "json"]
OnInterruption = Literal["continue", "fail"]
OnToolServerError = Literal["continue", "fail"]
ClientToolsPolicy = Literal["allowed", "refused"]
Reasoning = Literal["hidden", "summary"]
ApprovalSeconds = Annotated[int, msgspec.Meta(ge=1, le=31_536_000)]
MaxCallSeconds = Annotated[
    int,
    msgspec.Meta(ge=1, le=600, description="A call that takes longer is stopped."),
]
RequestParameters = Annotated[tuple[ParameterName, ...], msgspec.Meta(max_length=7)]
HeadersFromRequest = Annotated[
    dict[str, VariableName],
    msgspec.Meta(
        max_length=8,
        description='Headers whose values are secrets of the request: {"Authorization": "customer_token"}.',
    ),
]
ServerName = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[A-Za-z0-9_-]{1,32}$(?!\n)",
        description="Up to 32 letters, digits, _ and -; it stays as it is.",
    ),
]
ServerUrl = Annotated[
    BaseUrl,
    msgspec.Meta(
        title="URL", description="Of its MCP endpoint, or agent:NAME for another agent of the account."
    ),
]
ServerHeaders = Annotated[
    dict[str, str],
    msgspec.Meta(description='Sent with each request, and stored encrypted: {"Authorization": "Bearer …"}.'),
]
AllowedTools = Annotated[
    tuple[str, ...], msgspec.Meta(description="The tools that the agent may call. Blank: all, new ones too.")
]
ServerDisabled = Annotated[bool, msgspec.Meta(description="Its tools are neither listed nor called.")]
Elicitation = Annotated[
    bool,
    msgspec.Meta(
        title="Tools may ask a person", description="In the middle of a call, for input (elicitation)."
    ),
]


class McpServer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool server; with the `url` `agent:NAME` another agent of the account (`agent_calls`).

    `headers` are empty unless unsealed; `allowed_tools` None allows every tool. A `disabled` server is
    neither listed nor called. `require_approval` says for which tools a person must approve each call. With
    `elicitation`, its tools may ask a person for input during a call. `max_call_seconds` is the time-out of
    its calls. `headers_from_request` maps headers of its calls to the names of the request's secrets.
    """

    name: ServerName
    url: ServerUrl
    headers: ServerHeaders = {}
    allowed_tools: AllowedTools | None = None
    disabled: ServerDisabled = False
    require_approval: ApprovalPolicy = "never"
    elicitation: Elicitation = True
    max_call_seconds: MaxCallSeconds = 30
    headers_from_request: HeadersFromRequest = {}

    def __repr__(self) -> str:
        """Return the URL and the headers' names; their values are credentials."""
        return f"{type(self).__name__}(url={self.url!r}, headers={sorted(self.headers)})"


McpServers = Annotated[tuple[McpServer, ...], msgspec.Meta(max_length=16)]


class Retrieval(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The knowledge base that an agent searches, and the number of passages it uses."""

    knowledge_base_id: str
    top_k: Annotated[int, msgspec.Meta(ge=1, le=50)] = 5


FallbackReason = Literal["overloaded", "timeout", "error", "context_too_long", "refused"]


class Fallback(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model that continues a run if the model before it failed for a reason in `on`.

    `parameters` None are the agent's own if it has the same provider, else none. The stored configuration has
    no `provider_key`. In a change, a key that is left out stays.
    """

    provider: str
    model: Name
    base_url: BaseUrl | None = None
    provider_key: str | UnsetType | None = UNSET
    parameters: dict[str, Any] | None = None
    on: Annotated[tuple[FallbackReason, ...], msgspec.Meta(min_length=1)] = ("overloaded", "timeout", "error")

    def __repr__(self) -> str:
        return f"Fallback(provider={self.provider!r}, model={self.model!r})"


MAX_FALLBACKS = 3
Fallbacks = Annotated[tuple[Fallback, ...], msgspec.Meta(max_length=MAX_FALLBACKS)]


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The configuration of an agent, without its provider key.

    `base_url` None means the deployment's URL for the provider. `parameters` are sent to the provider
    unchanged (max_tokens, temperature, stop_sequences, thinking, ...). `variables` are the names that the
    system prompt takes from a request's context; the current date in it is that of `time_zone`.

    `approvers` may approve tool calls within `approval_seconds`. After that the run continues without the
    calls, or fails (`on_expiry`). A message that arrives meanwhile is refused, or ends the run
    (`on_new_message`). `on_busy` is what a message does to a run under way.

    With `allow_request_schema`, a request may ask for JSON with a schema of its own. The
    `request_parameters` are those that a request may set for the model's calls. `client_tools` says whether a
    request may bring tools that its client runs. `vision` says whether the model sees images; None: as
    `model_inputs` knows. With `reasoning` summary the model is asked to think and its readers get what it
    thinks. With `compaction` None, a thread that no longer fits into the model's context fails.
    `fallbacks` are tried in order if the model fails.
    """

    name: Name
    provider: str = DEFAULT_PROVIDER
    model: Name
    base_url: BaseUrl | None = None
    system_prompt: SystemPrompt = ""
    variables: Variables = ()
    time_zone: TimeZone = "UTC"
    parameters: dict[str, Any] = {}
    max_tool_rounds: MaxToolRounds = 8
    output_type: OutputType = "text"
    output_schema: dict[str, Any] | None = None
    allow_request_schema: bool = True
    request_parameters: RequestParameters = DEFAULT_NAMES
    mcp_servers: McpServers = ()
    on_interruption: OnInterruption = "continue"
    on_tool_server_error: OnToolServerError = "continue"
    retrieval: Retrieval | None = None
    approvers: Approvers = "account"
    approval_seconds: ApprovalSeconds = 7 * 24 * 3600
    on_expiry: OnExpiry = "continue"
    on_new_message: OnNewMessage = "refuse"
    on_busy: OnBusy = "queue"
    client_tools: ClientToolsPolicy = "allowed"
    reasoning: Reasoning = "hidden"
    vision: bool | None = None
    compaction: Compaction | None = Compaction()
    fallbacks: Fallbacks = ()


class AgentConfig(AgentSettings, frozen=True, kw_only=True):
    """A version of an agent. `created_at` tells it from a deleted agent with the same id.

    `sealed_key` is the provider key as it is stored, `sealed_fallback_keys` are those of the fall-backs.
    `fallback` is the number of the fall-back that `use_fallback` used instead of the model, from 1.
    `authorizations` are the ids of the tool servers' OAuth
    authorizations by server name; they are only loaded together with the headers. `canary` has the traffic
    shares of the agent's versions, and is empty if the current version answers all conversations.
    """

    agent_id: str
    account_id: str
    version: int
    created_at: str = ""
    sealed_key: bytes | None = None
    sealed_fallback_keys: bytes | None = None
    fallback: int = 0
    authorizations: dict[str, str] = {}
    canary: dict[str, int] = {}

    @property
    def key(self) -> tuple[str, int, str]:
        """The key to cache the version under: unique even if agents are deleted and created again."""
        return self.agent_id, self.version, self.created_at

    @property
    def facts(self) -> tuple[str, str, int, str, bytes | None]:
        """The values that `UNCHANGED` compares with the database."""
        return self.account_id, self.agent_id, self.version, self.created_at, self.sealed_key


async def load_agent(
    pool: Pool,
    account_id: str,
    agent_id: str,
    version: int | None = None,
    sealer: "Sealer | None" = None,
    run: str | None = None,
    *,
    conversation_id: str | None = None,
) -> AgentConfig | None:
    """Return a version of the account's agent; None if there is none.

    Without `version`, return the version that answers `conversation_id` (see `canary`), or the current one;
    a disabled agent has no current version. A run that has started names its version and keeps it.
    With `sealer`, unseal the headers of the MCP servers. `run` is the trace id of the run that needs them.

    Raises:
        DatabaseUnavailable: If Postgres does not answer.
        SealBroken: If the headers cannot be unsealed.
        RunEnded: If `run` has not started, or has ended.
    """
    row = await _load_version_row(
        pool, _VERSION if sealer is None else _UNSEALED, account_id, agent_id, version, run
    )
    if row is None:
        return None
    number, config, *sealed, created_at, shares, authorizations, is_wanted = row
    sealed_key, sealed_fallback_keys, sealed_headers = sealed
    if not is_wanted:
        raise RunEnded(run)
    if version is None and conversation_id is not None and shares:
        answering = choose_version(shares, conversation_id)
        if answering != number:
            return await load_agent(pool, account_id, agent_id, answering, sealer, run)
    settings: dict[str, Any] = msgspec.json.decode(config)
    if sealer is not None and sealed_headers is not None:
        owner = seal_owner(account_id, agent_id, "mcp_headers")
        headers = msgspec.json.decode(sealer.open(sealed_headers, owner=owner))
        for server in settings["mcp_servers"]:
            server["headers"] = headers.get(server["name"], {})
    identity = {"agent_id": agent_id, "account_id": account_id, "version": number, "created_at": created_at}
    keys = {"sealed_key": sealed_key, "sealed_fallback_keys": sealed_fallback_keys}
    own = keys | {"authorizations": authorizations or {}, "canary": shares or {}}
    return msgspec.convert(settings | identity | own, AgentConfig)


def use_fallback(agent: AgentConfig, number: int) -> AgentConfig:
    """Return the agent with the model of a fall-back, counted from 1; with 0 the agent itself.

    A fall-back at the agent's own provider and base URL has the agent's key unless it has one of its own.
    """
    if number == 0:
        return agent
    chosen = agent.fallbacks[number - 1]
    same_provider = chosen.provider == agent.provider
    inherited = agent.parameters if same_provider else {}
    return replace(
        agent,
        provider=chosen.provider,
        model=chosen.model,
        base_url=chosen.base_url,
        parameters=inherited if chosen.parameters is None else chosen.parameters,
        vision=None,  # of the agent's own model
        sealed_key=agent.sealed_key if same_provider and chosen.base_url == agent.base_url else None,
        fallback=number,
    )


async def load_provider_key(
    pool: Pool, sealer: "Sealer", account_id: str, agent_id: str, version: int
) -> str | None:
    """Return the unsealed provider key of a version; None if it has no key of its own.

    Raises:
        DatabaseUnavailable: If Postgres does not answer.
        SealBroken: If the key cannot be unsealed.
    """
    agent = await load_agent(pool, account_id, agent_id, version)
    return None if agent is None else unseal_provider_key(sealer, agent)


async def is_reasoning_shown(pool: Pool, agent_id: str) -> bool:
    """Return True if the agent, as it is now, shows what its model thinks. Raises DatabaseUnavailable."""
    async with acquire_connection(pool) as conn:
        return await (await conn.execute(_SHOWS_REASONING, [agent_id])).fetchone() is not None


def unseal_provider_key(sealer: "Sealer", agent: AgentConfig) -> str | None:
    """Return the provider key of a loaded agent, or of its chosen fall-back, or None. Raises SealBroken."""
    if agent.fallback:
        keys = unseal_fallback_keys(sealer, agent.account_id, agent.agent_id, agent.sealed_fallback_keys)
        if key := dict(enumerate(keys, 1)).get(agent.fallback):
            return key
    if agent.sealed_key is None:
        return None
    return sealer.open(agent.sealed_key, owner=seal_owner(agent.account_id, agent.agent_id, "provider_key"))


def unseal_fallback_keys(
    sealer: "Sealer", account_id: str, agent_id: str, sealed: bytes | None
) -> tuple[str | None, ...]:
    """Return the keys of an agent's fall-backs in their order; () if none has one. Raises SealBroken."""
    if sealed is None:
        return ()
    keys = sealer.open(sealed, owner=seal_owner(account_id, agent_id, "fallback_keys"))
    return msgspec.json.decode(keys, type=tuple[str | None, ...])


def seal_owner(account_id: str, agent_id: str, purpose: str) -> str:
    """Return the owner that an agent's secret is sealed for: it opens nowhere else."""
    return f"{account_id}/{agent_id}/{purpose}"


async def _load_version_row(
    pool: Pool,
    query: LiteralString,
    account_id: str,
    agent_id: str,
    version: int | None,
    run: str | None,
) -> tuple[Any, ...] | None:
    parameters = {"agent": agent_id, "account": account_id, "version": version, "run": run}
    async with acquire_connection(pool) as conn:
        return await (await conn.execute(query, parameters, prepare=True)).fetchone()


_ROW: LiteralString = """
SELECT v.version, v.config::text, v.provider_key, v.fallback_keys, v.mcp_headers, v.created_at::text,
       g.canary, {authorizations}, {wanted}
FROM agents g JOIN agent_versions v ON v.agent_id = g.agent_id
WHERE g.agent_id = %(agent)s AND g.account_id = %(account)s
  AND v.version = coalesce(%(version)s::integer, g.current_version)
  AND (%(version)s::integer IS NOT NULL OR g.disabled_at IS NULL)
"""

# `open_run_traces` is a view of the library `conversations`: the log knows which runs are open.
_VERSION: LiteralString = _ROW.format(authorizations="NULL", wanted="true")
_UNSEALED: LiteralString = _ROW.format(
    authorizations="(SELECT json_object_agg(a.server, a.authorization_id) "
    "FROM mcp_authorizations a WHERE a.agent_id = g.agent_id)",
    wanted="%(run)s::text IS NULL OR EXISTS (SELECT FROM open_run_traces WHERE trace_id = %(run)s)",
)

_SHOWS_REASONING = """
SELECT FROM agents g JOIN agent_versions v ON v.agent_id = g.agent_id AND v.version = g.current_version
 WHERE g.agent_id = %s AND v.config ->> 'reasoning' = 'summary'
"""

UNCHANGED: LiteralString = "agents_unchanged(%b::text[], %b::text[], %b::integer[], %b::text[], %b::bytea[])"
"""SQL for a boolean[]: true for each agent that still has this account, current version and key, is enabled,
and has no canary. The parameters are the columns of `AgentConfig.facts`.
"""

FUNCTION = """
CREATE FUNCTION agents_unchanged(
    account_ids text[], agent_ids text[], versions integer[], created_ats text[], provider_keys bytea[]
) RETURNS boolean[] LANGUAGE sql STABLE AS $$
    SELECT array_agg(EXISTS (
               SELECT FROM agents g JOIN agent_versions v ON v.agent_id = g.agent_id
                WHERE g.agent_id = known.agent_id AND g.account_id = known.account_id
                  AND g.disabled_at IS NULL AND g.canary IS NULL AND g.current_version = known.version
                  AND v.version = known.version AND v.created_at::text = known.created_at
                  AND v.provider_key IS NOT DISTINCT FROM known.provider_key) ORDER BY place)
      FROM unnest(account_ids, agent_ids, versions, created_ats, provider_keys) WITH ORDINALITY
           AS known (account_id, agent_id, version, created_at, provider_key, place)
$$
"""
