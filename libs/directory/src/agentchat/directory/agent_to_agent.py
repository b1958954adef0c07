"""Calls of one agent by another: their address in a configuration, and the token of a tool-runner.

A tool server with the address `agent:NAME` is an agent of the same account, which a tool-runner calls at a
gateway (`POST /mcp/v1/agents/NAME`). It has no API key of the account, since only hashes of those are stored:
it seals a token, which a gateway opens with the same secret key.
"""

import base64
import binascii

from agentchat.directory.errors import SealBroken
from agentchat.directory.secret_encryption import Sealer

MAX_DEPTH = 3
"""The most agents below the one that the client has called."""

SCHEME = "agent:"
TOKEN_PREFIX = "sk-agent-"  # noqa: S105 - how a token begins


def read_agent_name(url: str) -> str | None:
    """Return the id or unique name of the agent that an address names; None for a URL."""
    return url[len(SCHEME) :] if url.startswith(SCHEME) else None


def seal_token(sealer: Sealer, account_id: str, expires: str) -> str:
    """Return a token for calls of the account's agents until `expires`, ISO 8601 UTC with microseconds."""
    sealed = base64.urlsafe_b64encode(sealer.seal(expires, owner=_build_owner(account_id)))
    return f"{TOKEN_PREFIX}{account_id}.{sealed.decode()}"


def open_token(sealer: Sealer, token: str) -> tuple[str, str] | None:
    """Return the account of a token and when it expires; None if this service has not sealed it."""
    account_id, _, sealed = token.removeprefix(TOKEN_PREFIX).partition(".")
    try:
        return account_id, sealer.open(base64.urlsafe_b64decode(sealed), owner=_build_owner(account_id))
    except (SealBroken, binascii.Error):
        return None


def _build_owner(account_id: str) -> str:
    return f"{account_id}/agent_calls"
