"""Define the messages that authorise an agent at a tool server (docs/operate/tool-servers.md).

Sent by `administration`; answered by `tool_runner.authorization`.
"""

import base64
import hashlib

from agentchat.contracts.message_base import BusMessage

CALLBACK_PATTERN = "[A-Za-z0-9_-]{22}"


def derive_callback(issuer: str) -> str:
    """Return the last part of an issuer's own redirect URI; it matches CALLBACK_PATTERN.

    So an answer shows which issuer it belongs to even if it names none (RFC 9700, 4.4.2.2).
    """
    root = issuer.count("/") == 3 and issuer.endswith("/")  # then the slash does not make it another issuer
    digest = hashlib.sha256((issuer[:-1] if root else issuer).encode()).digest()
    return base64.urlsafe_b64encode(digest[:16]).decode().rstrip("=")


class AuthorizeServer(BusMessage, frozen=True, kw_only=True):
    """Ask for the link that authorises an agent at a tool server, on `chat.tools.authorize`."""

    account_id: str
    agent_id: str
    server: str


class FinishAuthorization(BusMessage, frozen=True, kw_only=True):
    """Pass on an authorization server's answer to a link, on `chat.tools.authorized`.

    `code` is useless without what the link kept, and None if the authorization was refused. `callback` is the
    last part of the redirect URI that received the answer (`derive_callback`).
    """

    state: str
    code: str | None = None
    issuer: str | None = None
    callback: str = ""


class AuthorizationLinked(BusMessage, frozen=True, kw_only=True):
    """The requested link; without a `url`, `detail` says what is wrong."""

    url: str = ""
    detail: str = ""


class AuthorizationFinished(BusMessage, frozen=True, kw_only=True):
    """The outcome of an authorization; if it is not `ok`, `detail` says why."""

    ok: bool
    detail: str = ""
