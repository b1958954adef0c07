"""The messages by which an agent is authorised at a tool server (docs/operate/tool-servers.md)."""

import base64
import hashlib

from agentchat.contracts.bus_message import BusMessage

CALLBACK_PATTERN = "[A-Za-z0-9_-]{22}"


def callback_of(issuer: str) -> str:
    """The end of the redirect URI of an issuer, which is its own: CALLBACK_PATTERN.

    So an answer shows which issuer it was requested of, also where it names none (RFC 9700 4.4.2.2).
    """
    root = issuer.count("/") == 3 and issuer.endswith("/")  # the same issuer as without the slash
    digest = hashlib.sha256((issuer[:-1] if root else issuer).encode()).digest()
    return base64.urlsafe_b64encode(digest[:16]).decode().rstrip("=")


class AuthorizeServer(BusMessage, frozen=True, kw_only=True):
    """Ask for the link that authorises an agent at a tool server, on `chat.tools.authorize`."""

    account_id: str
    agent_id: str
    server: str


class FinishAuthorization(BusMessage, frozen=True, kw_only=True):
    """What an authorization server has answered to a link, on `chat.tools.authorized`.

    `code` is of no use without what the link kept. It is None where the authorization was refused. `callback`
    is the end of the redirect URI at which it came: `callback_of` an issuer.
    """

    state: str
    code: str | None = None
    issuer: str | None = None
    callback: str = ""


class AuthorizationLinked(BusMessage, frozen=True, kw_only=True):
    """The link that was requested; without one `detail` is what is wrong."""

    url: str = ""
    detail: str = ""


class AuthorizationFinished(BusMessage, frozen=True, kw_only=True):
    """Whether the agent is authorised now; `detail` is why it is not."""

    ok: bool
    detail: str = ""
