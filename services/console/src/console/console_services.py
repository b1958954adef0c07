"""What the pages of one console share; put together in `service`."""

from typing import TYPE_CHECKING, Any

import msgspec
from jinja2 import Environment
from litestar.connection import ASGIConnection

from administration import Admin
from bus.bus import Bus
from console.frame.assets import Assets
from console.frame.looks import Looks
from console.frame.sessions import Sessions
from console.frame.sign_in_limit import SignInLimit
from console.live.badges import Badges
from console.live.monitor import Monitor
from console.live.open_streams import OpenStreams
from console.pages.now.now_view import Boards
from console.pages.now.open_runs import OpenRuns
from console.settings import ConsoleSettings
from evals.prices import Prices
from ops.folder import RunFolder
from runtime.health import HealthChecks
from runtime.postgres import Pool

if TYPE_CHECKING:  # loads authlib
    from console.frame.oidc import OidcProvider

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
