"""What the endpoints of one gateway share; put together in `service`."""

from typing import Literal

import msgspec

from bus import Bus
from conversations.claims.table import Claims
from conversations.event_store.log import Log
from directory.agent_names import AgentNames
from directory.caller import Callers
from directory.secrets import Sealer
from gateway.access.account_bounds import AccountBounds
from gateway.access.storage import StorageBounds
from gateway.access.wrong_keys import KeyChecks, WrongKeys
from gateway.admin.admin_services import AdminAccess
from gateway.http.exchange import Connection
from gateway.http.peers import Network
from gateway.runs.followed_runs import Runs
from limits import Limiter
from net_guard import Guard
from runtime.health import HealthChecks
from runtime.postgres import Pool


class DemoAccess(msgspec.Struct, frozen=True):
    """What `/docs` fills in where a demo runs: a key of the demo account, and an agent of its."""

    key: str
    agent_id: str


class WebhookAccess(msgspec.Struct, frozen=True):
    """What seals the secrets of webhook endpoints, None where no key is set, and judges their addresses."""

    sealer: Sealer | None
    guard: Guard


class GatewayServices(msgspec.Struct, frozen=True, kw_only=True):
    """`stream_form` is the form of streams whose request does not choose one.

    What `advisory` looks at is shown next to `health`, but the gateway is ready without it. `admin` is None
    where the admin API is off, `demo` where no demo runs.
    """

    pool: Pool
    callers: Callers
    agent_names: AgentNames
    claims: Claims
    wrong_keys: WrongKeys
    key_checks: KeyChecks
    trusted_proxies: tuple[Network, ...]
    limiter: Limiter
    storage: StorageBounds
    bus: Bus
    log: Log
    runs: Runs
    account_bounds: AccountBounds
    health: HealthChecks
    advisory: HealthChecks
    stream_form: Literal[1, 2]
    webhooks: WebhookAccess
    admin: AdminAccess | None = None
    demo: DemoAccess | None = None


def services_of(connection: Connection) -> GatewayServices:
    services = connection.app.state.services
    assert isinstance(services, GatewayServices)
    return services
