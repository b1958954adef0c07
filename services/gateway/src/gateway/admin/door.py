"""The admin API of one gateway, if its token is set."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
from litestar import Request
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp

from administration import Admin
from bus import Bus
from gateway.admin.answering import answer
from gateway.admin.route import Route
from gateway.admin.routes import ROUTES
from gateway.exchange import Exchange
from gateway.settings import Settings
from knowledge.embedders import embedder_of
from limits import Limiter
from runtime import postgres

ACTOR = "admin-api"
_CONNECTIONS = 4

AnyRequest = Request[Any, Any, Any]
Endpoint = Callable[[Callable[[Exchange], Awaitable[None]]], ASGIApp]


class AdminDoor(msgspec.Struct, frozen=True, kw_only=True):
    """What opens it, and what is behind it."""

    token: bytes
    admin: Admin

    def __repr__(self) -> str:
        """Without the token."""
        return f"AdminDoor(admin={self.admin!r})"


@contextlib.asynccontextmanager
async def opened(settings: Settings, bus: Bus, limiter: Limiter) -> AsyncIterator[AdminDoor | None]:
    """The door, on connections of its own: administration takes none from the chats. None where it is off.

    Raises SettingsError.
    """
    if settings.admin_token is None:
        yield None
        return
    sealer = settings.sealer()
    async with (
        postgres.open_pool(settings.database_url, min_size=0, max_size=_CONNECTIONS) as pool,
        embedder_of(settings) as embedder,
    ):
        admin = Admin(
            pool=pool,
            sealer=sealer,
            actor=ACTOR,
            bus=bus,
            limiter=limiter,
            embedder=embedder,
            model_hosts=settings.model_hosts(),
        )
        yield AdminDoor(token=settings.admin_token.encode(), admin=admin)


def handlers(door: AdminDoor, endpoint: Endpoint) -> list[HTTPRouteHandler]:
    """A handler for each route; `endpoint` makes an ASGI application of what answers."""
    return [_handler(door, route, endpoint) for route in ROUTES]


def _handler(door: AdminDoor, route: Route, endpoint: Endpoint) -> HTTPRouteHandler:
    path = route.address.replace("}", ":str}")

    async def handle(request: AnyRequest) -> ASGIApp:
        parts = {name: str(value) for name, value in request.path_params.items()}
        return endpoint(lambda exchange: answer(exchange, route, parts, door.admin, door.token))

    made: Any = HTTPRouteHandler(path, http_method=[route.method], status_code=200)  # type: ignore[list-item]
    handler: HTTPRouteHandler = made(handle)
    return handler
