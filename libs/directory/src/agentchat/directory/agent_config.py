"""An agent's configuration, version by version. A version never changes, so callers may cache it."""

from typing import TYPE_CHECKING, Annotated, Any, Literal, LiteralString

import msgspec

from agentchat.contracts.values import Approvers, OnExpiry, OnNewMessage
from agentchat.directory.approval_policy import ApprovalPolicy
from agentchat.directory.canary import choose_version
from agentchat.directory.compaction_settings import Compaction
from agentchat.directory.errors import RunEnded
from agentchat.directory.model_parameters import DEFAULT_PROVIDER
from agentchat.runtime.postgres import Pool, acquire_connection

if TYPE_CHECKING:
    from agentchat.directory.secrets import Sealer

MAX_NAME = 200
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME)]
BaseUrl = Annotated[str, msgspec.Meta(max_length=2048)]
SystemPrompt = Annotated[str, msgspec.Meta(max_length=65_536)]
MaxToolRounds = Annotated[int, msgspec.Meta(ge=0, le=100)]
OutputType = Literal["text", "markdown", "json"]
OnInterruption = Literal["continue", "fail"]
ApprovalSeconds = Annotated[int, msgspec.Meta(ge=1, le=31_536_000)]
MaxCallSeconds = Annotated[int, msgspec.Meta(ge=1, le=600)]
ServerName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]{1,32}$(?!\n)")]


class McpServer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool server. `headers` are empty unless unsealed; `allowed_tools` None allows every tool.

    One that is `disabled` is neither listed nor called. `require_approval`: which of its tools a person has
    to allow, call by call. `elicitation`: they may ask a person for input in the middle of a call.
    `max_call_seconds`: its calls time out after so long.
    """

    name: ServerName
    url: BaseUrl
    headers: dict[str, str] = {}
    allowed_tools: tuple[str, ...] | None = None
    disabled: bool = False
    require_approval: ApprovalPolicy = "never"
    elicitation: bool = True
    max_call_seconds: MaxCallSeconds = 30

    def __repr__(self) -> str:
        """Without the headers' values: they are credentials, and a repr ends in logs."""
        return f"{type(self).__name__}(url={self.url!r}, headers={sorted(self.headers)})"


McpServers = Annotated[tuple[McpServer, ...], msgspec.Meta(max_length=16)]


class Retrieval(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where an agent looks before it answers, and how many passages it takes."""

    knowledge_base_id: str
    top_k: Annotated[int, msgspec.Meta(ge=1, le=50)] = 5


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an agent is told to be, without its provider key.

    `base_url` None: the deployment's own for the provider. `parameters` go to the provider as they are
    (max_tokens, temperature, stop_sequences, thinking, ...).

    Of tool calls that need approval: `approvers` may do so, for `approval_seconds`; then the run goes
    on without them, or fails. A message that comes meanwhile is refused, or ends the run.

    `allow_request_schema`: a request may ask for JSON by a schema of its own.

    `compaction` None: a thread that has grown too long for the model fails.
    """

    name: Name
    provider: str = DEFAULT_PROVIDER
    model: Name
    base_url: BaseUrl | None = None
    system_prompt: SystemPrompt = ""
    parameters: dict[str, Any] = {}
    max_tool_rounds: MaxToolRounds = 8
    output_type: OutputType = "text"
    output_schema: dict[str, Any] | None = None
    allow_request_schema: bool = True
    mcp_servers: McpServers = ()
    on_interruption: OnInterruption = "continue"
    retrieval: Retrieval | None = None
    approvers: Approvers = "account"
    approval_seconds: ApprovalSeconds = 7 * 24 * 3600
    on_expiry: OnExpiry = "continue"
    on_new_message: OnNewMessage = "refuse"
    compaction: Compaction | None = Compaction()


class AgentConfig(AgentSettings, frozen=True, kw_only=True):
    """One version of an agent. `created_at` tells it from that of a deleted agent of the same id.

    `sealed_key`: its provider key, as it is stored. `authorizations` are found with its headers alone: the id
    of each tool server's, by the server's name. `canary`: the shares of the agent's versions, none where the
    current one answers all.
    """

    agent_id: str
    account_id: str
    version: int
    created_at: str = ""
    sealed_key: bytes | None = None
    authorizations: dict[str, str] = {}
    canary: dict[str, int] = {}

    @property
    def key(self) -> tuple[str, int, str]:
        """What to cache under: no other version of any agent has the same, whatever was deleted meanwhile."""
        return self.agent_id, self.version, self.created_at

    @property
    def facts(self) -> tuple[str, str, int, str, bytes | None]:
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
    """A version of the account's agent; None where there is none.

    With `conversation_id` and without `version` it is the one that answers this conversation (`canary`).

    Without `version` it is the current one, and a disabled agent has none; a run that has begun names its
    version and keeps it. With `sealer`, the MCP servers' headers are unsealed, and `run` may be the trace of
    one that the agent is needed for.
    Raises DatabaseUnavailable, SealBroken, and RunEnded where that run has not begun, or has ended.
    """
    row = await _load_version_row(
        pool, _VERSION if sealer is None else _UNSEALED, account_id, agent_id, version, run
    )
    if row is None:
        return None
    number, config, sealed_key, sealed_headers, created_at, shares, authorizations, is_wanted = row
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
    own = {"sealed_key": sealed_key, "authorizations": authorizations or {}, "canary": shares or {}}
    return msgspec.convert(settings | identity | own, AgentConfig)


async def load_provider_key(
    pool: Pool, sealer: "Sealer", account_id: str, agent_id: str, version: int
) -> str | None:
    """The provider key of an agent's version, unsealed; None where it has none of its own.

    Raises DatabaseUnavailable, SealBroken.
    """
    agent = await load_agent(pool, account_id, agent_id, version)
    return None if agent is None else unseal_provider_key(sealer, agent)


def unseal_provider_key(sealer: "Sealer", agent: AgentConfig) -> str | None:
    """The provider key of an agent that was loaded. Raises SealBroken."""
    if agent.sealed_key is None:
        return None
    return sealer.open(agent.sealed_key, owner=seal_owner(agent.account_id, agent.agent_id, "provider_key"))


def seal_owner(account_id: str, agent_id: str, purpose: str) -> str:
    """What a secret of an agent is bound to: its bytes do not open elsewhere, nor as another secret."""
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
SELECT v.version, v.config::text, v.provider_key, v.mcp_headers, v.created_at::text, g.canary,
       {authorizations}, {wanted}
FROM agents g JOIN agent_versions v ON v.agent_id = g.agent_id
WHERE g.agent_id = %(agent)s AND g.account_id = %(account)s
  AND v.version = coalesce(%(version)s::integer, g.current_version)
  AND (%(version)s::integer IS NOT NULL OR g.disabled_at IS NULL)
"""

# Whether a run is open is the log's to say, by a view of the library `conversations`.
_VERSION: LiteralString = _ROW.format(authorizations="NULL", wanted="true")
_UNSEALED: LiteralString = _ROW.format(
    authorizations="(SELECT json_object_agg(a.server, a.authorization_id) "
    "FROM mcp_authorizations a WHERE a.agent_id = g.agent_id)",
    wanted="%(run)s::text IS NULL OR EXISTS (SELECT FROM open_run_traces WHERE trace_id = %(run)s)",
)

UNCHANGED: LiteralString = "agents_unchanged(%b::text[], %b::text[], %b::integer[], %b::text[], %b::bytea[])"
"""SQL for a boolean[]: whether each is its account's agent still, not disabled, at this current version,
which answers all conversations, and with this key. The parameters are the columns of `AgentConfig.facts`.
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
