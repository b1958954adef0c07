"""Define the services that the pages of one console share. `service.run` creates them."""

from typing import TYPE_CHECKING, Any

import msgspec
from jinja2 import Environment
from litestar.connection import ASGIConnection

from agentchat.administration import Admin
from agentchat.bus.bus import Bus
from agentchat.console.live.badges import Badges
from agentchat.console.live.metrics_history import Monitor
from agentchat.console.live.stream_limit import OpenStreams
from agentchat.console.pages.now.now_board import Boards
from agentchat.console.pages.now.open_runs import OpenRuns
from agentchat.console.settings import ConsoleSettings
from agentchat.console.shared.assets import Assets
from agentchat.console.shared.recent_views import RecentViews
from agentchat.console.shared.sessions import Sessions
from agentchat.console.shared.sign_in_limit import SignInLimit
from agentchat.files.file_store import FileStore
from agentchat.ops.run_folder import RunFolder
from agentchat.runtime.client_address import Network
from agentchat.runtime.health_and_metrics import HealthChecks
from agentchat.runtime.postgres import Pool
from agentchat.runtime.prices import Prices

if TYPE_CHECKING:  # loads authlib
    from agentchat.console.shared.oidc import OidcProvider

Connection = ASGIConnection[Any, Any, Any, Any]


class ConsoleServices(msgspec.Struct, frozen=True, kw_only=True):
    """The services of a console process.

    `name` is the name of the process. `admin` has the console itself as actor; pages use
    `frame.access.get_admin`. `provider` is the OpenID Connect provider; None if people sign in with the
    administrator's token or do not sign in.
    """

    name: str
    settings: ConsoleSettings
    pool: Pool
    bus: Bus
    admin: Admin
    assets: Assets
    sessions: Sessions
    sign_in_limit: SignInLimit
    trusted_proxies: tuple[Network, ...]
    provider: "OidcProvider | None"
    recent_views: RecentViews
    streams: OpenStreams
    templates: Environment
    badges: Badges
    boards: Boards
    open_runs: OpenRuns
    monitor: Monitor
    files: FileStore | None
    run_folder: RunFolder | None
    health: HealthChecks
    prices: Prices


def get_services(connection: Connection) -> ConsoleServices:
    """Return the services of the application that a request belongs to."""
    services = connection.app.state.services
    assert isinstance(services, ConsoleServices)
    return services
