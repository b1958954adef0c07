"""Health of this process, at the public port too: whoever starts it asks here."""

from litestar import MediaType, Request, Response, get
from litestar.datastructures import State

from agentchat.console.console_services import services_of


@get("/healthz", media_type=MediaType.JSON, role=None)
async def get_healthz() -> dict[str, str]:
    return {"status": "ok"}


@get("/readyz", role=None)
async def get_readyz(request: Request[None, None, State]) -> Response[bytes]:
    status, body = await services_of(request).health.respond()
    return Response(body, status_code=status, media_type=MediaType.JSON)


HANDLERS = (get_healthz, get_readyz)
