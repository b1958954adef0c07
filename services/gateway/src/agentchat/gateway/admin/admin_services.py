"""Open what the handlers of the admin API work on, if its token is set."""

import contextlib
from collections.abc import AsyncIterator

import msgspec

from agentchat.administration import Admin
from agentchat.bus.bus import Bus
from agentchat.directory.named_tokens import ENVIRONMENT_ACTOR
from agentchat.gateway.settings import GatewaySettings
from agentchat.knowledge.embedding.configured_embedder import open_embedder
from agentchat.runtime import postgres
from agentchat.runtime.prices import load_prices

_CONNECTIONS = 4


class AdminAccess(msgspec.Struct, frozen=True, kw_only=True):
    """The token of the admin API, and what its handlers work on."""

    token: bytes
    admin: Admin

    def __repr__(self) -> str:
        return f"AdminAccess(admin={self.admin!r})"


@contextlib.asynccontextmanager
async def open_admin_access(settings: GatewaySettings, bus: Bus) -> AsyncIterator[AdminAccess | None]:
    """Open the admin API on database connections of its own; None if it is off. Raises SettingsError."""
    if settings.admin_token is None:
        yield None
        return
    sealer = settings.make_sealer()
    async with (
        postgres.open_pool(settings.database_url, min_size=0, max_size=_CONNECTIONS) as pool,
        open_embedder(settings) as embedder,
    ):
        admin = Admin(
            pool=pool,
            sealer=sealer,
            actor=ENVIRONMENT_ACTOR,
            bus=bus,
            currency=load_prices(settings.prices).currency,
            embedder=embedder,
            model_hosts=settings.build_model_guard(),
            tool_hosts=settings.build_tool_guard(),
        )
        yield AdminAccess(token=settings.admin_token.encode(), admin=admin)
