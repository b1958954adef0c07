"""An agent's configuration, version by version. A version never changes, so callers may cache it."""

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from directory.caller import OnInterruption, OutputType
from directory.parameters import DEFAULT_PROVIDER
from runtime.postgres import Pool, connection

if TYPE_CHECKING:
    from directory.secrets import Sealer

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
ServerName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]{1,32}$")]


class McpServer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool server. `headers` are empty unless unsealed; `allowed_tools` None allows every tool.

    One that is `disabled` is neither listed nor called.
    """

    name: ServerName
    url: Annotated[str, msgspec.Meta(max_length=2048)]
    headers: dict[str, str] = {}
    allowed_tools: tuple[str, ...] | None = None
    disabled: bool = False

    def __repr__(self) -> str:
        """Without the headers' values: they are credentials, and a repr ends in logs."""
        return f"McpServer(name={self.name!r}, url={self.url!r}, headers={sorted(self.headers)})"


class Retrieval(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where an agent looks before it answers, and how many passages it takes."""

    knowledge_base_id: str
    top_k: Annotated[int, msgspec.Meta(ge=1, le=50)] = 5


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an agent is told to be, without its provider key.

    `base_url` None: the deployment's own for the provider. `parameters` go to the provider as they are
    (max_tokens, temperature, stop_sequences, thinking, ...).
    """

    name: Name
    provider: str = DEFAULT_PROVIDER
    model: Name
    base_url: Annotated[str, msgspec.Meta(max_length=2048)] | None = None
    system_prompt: Annotated[str, msgspec.Meta(max_length=65_536)] = ""
    parameters: dict[str, Any] = {}
    max_tool_rounds: Annotated[int, msgspec.Meta(ge=0, le=100)] = 8
    output_type: OutputType = "text"
    output_schema: dict[str, Any] | None = None
    mcp_servers: Annotated[tuple[McpServer, ...], msgspec.Meta(max_length=16)] = ()
    on_interruption: OnInterruption = "continue"
    retrieval: Retrieval | None = None


class AgentConfig(AgentSettings, frozen=True, kw_only=True):
    """One version of an agent."""

    agent_id: str
    account_id: str
    version: int


async def load_agent(
    pool: Pool, account_id: str, agent_id: str, version: int | None = None, sealer: "Sealer | None" = None
) -> AgentConfig | None:
    """A version of the account's agent; None where there is none.

    Without `version` it is the current one, and a disabled agent has none; a run that has begun names its
    version and keeps it. With `sealer`, the MCP servers' headers are unsealed.
    Raises DatabaseUnavailable, SealBroken.
    """
    row = await _version_row(pool, account_id, agent_id, version)
    if row is None:
        return None
    number, config, _, sealed_headers = row
    settings: dict[str, Any] = msgspec.json.decode(config)
    if sealer is not None and sealed_headers is not None:
        owner = seal_owner(account_id, agent_id, "mcp_headers")
        headers = msgspec.json.decode(sealer.open(sealed_headers, owner=owner))
        for server in settings["mcp_servers"]:
            server["headers"] = headers.get(server["name"], {})
    identity = {"agent_id": agent_id, "account_id": account_id, "version": number}
    return msgspec.convert(settings | identity, AgentConfig)


async def provider_key(
    pool: Pool, sealer: "Sealer", account_id: str, agent_id: str, version: int
) -> str | None:
    """The provider key of an agent's version, unsealed; None where it has none of its own.

    Raises DatabaseUnavailable, SealBroken.
    """
    row = await _version_row(pool, account_id, agent_id, version)
    if row is None or row[2] is None:
        return None
    return sealer.open(row[2], owner=seal_owner(account_id, agent_id, "provider_key"))


def seal_owner(account_id: str, agent_id: str, purpose: str) -> str:
    """What a secret of an agent is bound to: its bytes do not open elsewhere, nor as another secret."""
    return f"{account_id}/{agent_id}/{purpose}"


async def _version_row(
    pool: Pool, account_id: str, agent_id: str, version: int | None
) -> tuple[int, str, bytes | None, bytes | None] | None:
    async with connection(pool) as conn:
        cursor = await conn.execute(
            _VERSION, {"agent": agent_id, "account": account_id, "version": version}, prepare=True
        )
        return await cursor.fetchone()


_VERSION = """
SELECT v.version, v.config::text, v.provider_key, v.mcp_headers
FROM agents g JOIN agent_versions v ON v.agent_id = g.agent_id
WHERE g.agent_id = %(agent)s AND g.account_id = %(account)s
  AND v.version = coalesce(%(version)s::integer, g.current_version)
  AND (%(version)s::integer IS NOT NULL OR g.disabled_at IS NULL)
"""
