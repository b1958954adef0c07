"""The messages by which an agent is authorised at a tool server (docs/tool-servers.md)."""

from contracts.bus_message import BusMessage


class AuthorizeServer(BusMessage, frozen=True, kw_only=True):
    """Ask for the link that authorises an agent at a tool server, on `chat.tools.authorize`."""

    account_id: str
    agent_id: str
    server: str


class FinishAuthorization(BusMessage, frozen=True, kw_only=True):
    """What an authorization server has answered to a link, on `chat.tools.authorized`.

    `code` is of no use without what the link kept. It is None where the authorization was refused.
    """

    state: str
    code: str | None = None
    issuer: str | None = None


class AuthorizationLinked(BusMessage, frozen=True, kw_only=True):
    """The link that was asked for; without one `detail` says what is wrong."""

    url: str = ""
    detail: str = ""


class AuthorizationFinished(BusMessage, frozen=True, kw_only=True):
    """Whether the agent is authorised now; `detail` says why it is not."""

    ok: bool
    detail: str = ""


MESSAGES: tuple[type[BusMessage], ...] = (
    AuthorizeServer,
    AuthorizationLinked,
    FinishAuthorization,
    AuthorizationFinished,
)
