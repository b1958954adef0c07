"""Answer health checks of this process at its public port."""

from litestar import MediaType, Request, Response, get
from litestar.datastructures import State

from agentchat.console.services import get_services


@get("/healthz", media_type=MediaType.JSON, role=None)
async def get_healthz() -> dict[str, str]:
    """Answer that the process is alive."""
    return {"status": "ok"}


@get("/readyz", role=None)
async def get_readyz(request: Request[None, None, State]) -> Response[bytes]:
    """Answer whether the process can serve, with the checks that fail."""
    status, body = await get_services(request).health.respond()
    return Response(body, status_code=status, media_type=MediaType.JSON)


HANDLERS = (get_healthz, get_readyz)
