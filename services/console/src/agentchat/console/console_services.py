"""What the pages of one console share; put together in `service`."""

from typing import TYPE_CHECKING, Any

import msgspec
from jinja2 import Environment
from litestar.connection import ASGIConnection

from agentchat.administration import Admin
from agentchat.bus.bus import Bus
from agentchat.console.frame.assets import Assets
from agentchat.console.frame.looks import Looks
from agentchat.console.frame.sessions import Sessions
from agentchat.console.frame.sign_in_limit import SignInLimit
from agentchat.console.live.badges import Badges
from agentchat.console.live.monitor import Monitor
from agentchat.console.live.open_streams import OpenStreams
from agentchat.console.pages.now.now_view import Boards
from agentchat.console.pages.now.open_runs import OpenRuns
from agentchat.console.settings import ConsoleSettings
from agentchat.evals.prices import Prices
from agentchat.ops.folder import RunFolder
from agentchat.runtime.health import HealthChecks
from agentchat.runtime.postgres import Pool

if TYPE_CHECKING:  # loads authlib
    from agentchat.console.frame.oidc import OidcProvider

Connection = ASGIConnection[Any, Any, Any, Any]


class ConsoleServices(msgspec.Struct, frozen=True, kw_only=True):
    """`name` is the process's. `admin` has the console itself as actor; see `frame.acting.admin_of`.
    `provider` is where people sign in; None: here, or nowhere.
    """

    name: str
    settings: ConsoleSettings
    pool: Pool
    bus: Bus
    admin: Admin
    assets: Assets
    sessions: Sessions
    sign_in_limit: SignInLimit
    provider: "OidcProvider | None"
    looks: Looks
    streams: OpenStreams
    templates: Environment
    badges: Badges
    boards: Boards
    open_runs: OpenRuns
    monitor: Monitor
    run_folder: RunFolder | None
    health: HealthChecks
    prices: Prices


def services_of(connection: Connection) -> ConsoleServices:
    services = connection.app.state.services
    assert isinstance(services, ConsoleServices)
    return services
