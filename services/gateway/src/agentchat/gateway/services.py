"""Hold what all handlers of one gateway share. `service` builds it."""

import asyncio
from typing import Literal

import msgspec

from agentchat.bus.bus import Bus
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.idempotency.claim_writer import Claims
from agentchat.directory.api_keys import Callers
from agentchat.directory.secret_encryption import Sealer
from agentchat.files.file_store import FileStore
from agentchat.gateway.access.quotas import FigureCache
from agentchat.gateway.access.reads_and_streams import AccountBounds
from agentchat.gateway.access.wrong_key_limit import WrongKeys
from agentchat.gateway.http.problems import Refusal
from agentchat.gateway.runs.follow_frames import FollowedRuns
from agentchat.limits import Limiter
from agentchat.net_guard import Guard
from agentchat.net_guard.guarded_download import Downloader
from agentchat.runtime.client_address import Network
from agentchat.runtime.health_and_metrics import HealthChecks
from agentchat.runtime.postgres import Pool


class DemoAccess(msgspec.Struct, frozen=True):
    """The key and the agent of the demo account, which `/docs` fills in if a demo runs."""

    key: str
    agent_id: str


class GatewayServices(msgspec.Struct, frozen=True, kw_only=True):
    """The services of a gateway.

    `sealer` seals secrets and opens the tokens of tool-runners, None if no key is set. `stream_form` is
    the default form; `stop` is set when the process ends. `advisory` checks are shown next to `health`; the
    gateway is ready without them. `currency` is that of the price table.
    """

    pool: Pool
    callers: Callers
    wrong_keys: WrongKeys
    trusted_proxies: tuple[Network, ...]
    limiter: Limiter
    figures: FigureCache
    account_bounds: AccountBounds
    sealer: Sealer | None
    stream_form: Literal[1, 2]
    stop: asyncio.Event
    claims: Claims
    bus: Bus
    log: Log
    files: FileStore
    runs: FollowedRuns
    health: HealthChecks
    advisory: HealthChecks
    webhook_guard: Guard
    downloader: Downloader
    currency: str = ""
    demo: DemoAccess | None = None

    def get_sealer(self) -> Sealer:
        """Return the sealer of secrets. Raises Refusal if AGENTCHAT_SECRET_KEY is not set."""
        if self.sealer is None:
            raise Refusal("overloaded", "This service has no AGENTCHAT_SECRET_KEY, which secrets need.")
        return self.sealer
