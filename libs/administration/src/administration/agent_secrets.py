"""An agent's secrets in its versions: sealed for the agent, so that its next version may take them over."""

from collections.abc import Mapping

import msgspec

from directory.agents import McpServer, seal_owner
from directory.secrets import Sealer

Headers = Mapping[str, dict[str, str]]
"""The headers of each server, by its name; servers without any are left out."""


class Sealed(msgspec.Struct, frozen=True):
    """As the columns hold them; None where there is nothing to seal."""

    provider_key: bytes | None
    mcp_headers: bytes | None

    def __repr__(self) -> str:
        """Which there are."""
        return f"Sealed({self.provider_key is not None}, {self.mcp_headers is not None})"


def seal_key(sealer: Sealer, account_id: str, agent_id: str, key: str | None) -> bytes | None:
    """A provider key for its column."""
    return sealer.seal(key, owner=seal_owner(account_id, agent_id, "provider_key")) if key else None


def open_key(sealer: Sealer, account_id: str, agent_id: str, sealed: bytes | None) -> str | None:
    """What `seal_key` sealed. Raises SealBroken."""
    owner = seal_owner(account_id, agent_id, "provider_key")
    return None if sealed is None else sealer.open(sealed, owner=owner)


def seal_headers(
    sealer: Sealer, account_id: str, agent_id: str, servers: tuple[McpServer, ...]
) -> bytes | None:
    """The headers of all servers for their column."""
    headers = {server.name: server.headers for server in servers if server.headers}
    owner = seal_owner(account_id, agent_id, "mcp_headers")
    return sealer.seal(msgspec.json.encode(headers).decode(), owner=owner) if headers else None


def open_headers(sealer: Sealer, account_id: str, agent_id: str, sealed: bytes | None) -> Headers:
    """What `seal_headers` sealed. Raises SealBroken."""
    if sealed is None:
        return {}
    owner = seal_owner(account_id, agent_id, "mcp_headers")
    return msgspec.json.decode(sealer.open(sealed, owner=owner), type=dict[str, dict[str, str]])
