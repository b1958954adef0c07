"""The scope that a tool server wants of a token (RFC 6750 3.1, as MCP has it), as far as it is one."""

import re
from collections.abc import Sequence

import httpx2
from mcp.client.auth.utils import (
    extract_field_from_www_auth,
    extract_scope_from_www_auth,
    union_scopes,
)

from directory.tool_authorizations import SCOPE, SCOPE_CHARS
from tool_runner.faults import ToolFailed
from tool_runner.redaction import redacted

_TOGETHER_CHARS = 2048
_CHALLENGE_CHARS = 4096
_SCOPE = re.compile(SCOPE)


def wanted_scope(status: int, received: httpx2.Headers, secrets: Sequence[str]) -> str | None:
    """The scope of a 403 with `insufficient_scope`; None for another answer, or where that names no scope.

    What holds one of `secrets`, which the server was sent, is none: it is shown, and goes to another server.
    """
    challenge = received.get("www-authenticate", "")
    if status != 403 or not challenge.isascii() or len(challenge) > _CHALLENGE_CHARS:
        return None
    answer = httpx2.Response(status, headers={"www-authenticate": challenge})
    scope = extract_scope_from_www_auth(answer)
    if extract_field_from_www_auth(answer, "error") != "insufficient_scope" or scope is None:
        return None
    if len(scope) > SCOPE_CHARS or not _SCOPE.match(scope) or redacted(scope, secrets) != scope:
        return None
    return scope


def advertised_scope(named: str | None) -> str | None:
    """The scope that servers' metadata name, a space between two parts; None for none. Raises ToolFailed."""
    scope = " ".join(part for part in (named or "").split(" ") if part)
    if not scope:
        return None
    if len(scope) > _TOGETHER_CHARS or not _SCOPE.match(scope):
        raise ToolFailed("authorization", "the servers' metadata name a scope that is none: set one")
    return scope


def together(*scopes: str | None) -> str | None:
    """All of what is a scope of these, each part once; None where that is too long to be requested."""
    all_of_them: str | None = None
    for scope in scopes:
        if scope is not None and _SCOPE.match(scope):
            all_of_them = union_scopes(all_of_them, scope)
    return None if all_of_them is None or len(all_of_them) > _TOGETHER_CHARS else all_of_them


def beyond(granted: str | None, wanted: str) -> str:
    """The parts of `wanted` that were not granted; all, where all were, as far as that was stated."""
    had = (granted or "").split(" ")
    return " ".join(part for part in wanted.split(" ") if part not in had) or wanted
