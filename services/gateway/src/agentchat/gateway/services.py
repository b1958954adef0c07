"""Hold what all handlers of one gateway share. `service` builds it."""

import msgspec

from agentchat.bus.bus import Bus
from agentchat.conversations.claims.claim_writer import Claims
from agentchat.conversations.event_store.log import Log
from agentchat.directory.secrets import Sealer
from agentchat.files.file_store import FileStore
from agentchat.gateway.http.refusals import Refusal
from agentchat.gateway.http.request_context import Connection
from agentchat.gateway.runs.followed_runs import FollowedRuns
from agentchat.limits import Limiter
from agentchat.net_guard import Guard
from agentchat.net_guard.guarded_download import Downloader
from agentchat.runtime.health import HealthChecks
from agentchat.runtime.postgres import Pool


class DemoAccess(msgspec.Struct, frozen=True):
    """The key and the agent of the demo account, which `/docs` fills in where a demo runs."""

    key: str
    agent_id: str


class WebhookAccess(msgspec.Struct, frozen=True):
    """The guard of webhook addresses, and the sealer of secrets, None where no key is set."""

    sealer: Sealer | None
    guard: Guard


class GatewayServices(msgspec.Struct, frozen=True, kw_only=True):
    """The services of a gateway.

    `advisory` checks are shown next to `health`; the gateway is ready without them. `currency` is that of the
    price table.
    """

    pool: Pool
    claims: Claims
    limiter: Limiter
    bus: Bus
    log: Log
    files: FileStore
    runs: FollowedRuns
    health: HealthChecks
    advisory: HealthChecks
    webhooks: WebhookAccess
    downloader: Downloader
    currency: str = ""
    demo: DemoAccess | None = None


def get_services(connection: Connection) -> GatewayServices:
    """Return the services of the application."""
    services = connection.app.state.services
    assert isinstance(services, GatewayServices)
    return services


def get_sealer(services: GatewayServices) -> Sealer:
    """Return the sealer of secrets. Raises Refusal if AGENTCHAT_SECRET_KEY is not set."""
    sealer = services.webhooks.sealer
    if sealer is None:
        raise Refusal("overloaded", "This service has no AGENTCHAT_SECRET_KEY, which secrets need.")
    return sealer
