"""One piece of work with an `Admin`, from the connections to the error that ends the command."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Literal, TypeVar

from administration import Admin
from bus import Bus, BusUnavailable
from contracts.admin_errors import AdminError
from directory.known_key import refuse_unknown_key
from directory.secrets import sealer_of
from knowledge.embedding.configured import embedder_of
from knowledge.embedding.vectors import usable
from knowledge.settings import EmbedderSettings
from limits import Limiter
from net_guard.settings import guard_of
from ops.admin import target
from ops.admin.errors import RefusedError, refused
from ops.admin.target import Target
from ops.bus import connected
from ops.database import failures_in_one_line, reached
from ops.errors import SetupError
from runtime.postgres import open_pool
from runtime.settings import SettingsError, load

T = TypeVar("T")

_REDIS_SECONDS = 2.0

Needs = Literal["no", "optional", "needed", "to provision"]
"""Whether a piece of work takes the bus, and as whom; "optional": where there is an address for it."""


def run(
    work: Callable[[Admin], Awaitable[T]],
    *,
    bus: Needs = "no",
    seals: bool = False,
) -> T:
    """What `work` returns. Raises StackError.

    Work that `seals` secrets is not begun under a key that opens none of those that are there.
    """
    found = target.find(os.environ)
    try:
        with failures_in_one_line():
            return asyncio.run(_run(work, found, bus=bus, seals=seals))
    except AdminError as error:
        raise refused(error) from None
    except BusUnavailable as error:
        raise RefusedError(f"NATS does not answer: {error}") from None
    except SettingsError as error:
        raise SetupError(str(error)) from None


async def _run(
    work: Callable[[Admin], Awaitable[T]],
    found: Target,
    *,
    bus: Needs,
    seals: bool,
) -> T:
    sealer = sealer_of(found.secret_key, found.previous_secret_keys)
    await reached(found.database_url)
    async with contextlib.AsyncExitStack() as open_:
        pool = await open_.enter_async_context(open_pool(found.database_url))
        if seals:
            await refuse_unknown_key(pool, sealer)
        embedder = await open_.enter_async_context(embedder_of(load(EmbedderSettings)))
        return await work(
            Admin(
                pool=pool,
                sealer=sealer,
                actor=target.actor(),
                bus=await open_.enter_async_context(_bus(found, bus)),
                limiter=await open_.enter_async_context(_limiter(found)),
                embedder=await usable(pool, embedder),
                model_hosts=guard_of(found.model_allow, target.MODEL_ALLOW),
                tool_hosts=guard_of(found.mcp_allow, target.MCP_ALLOW),
            )
        )


@contextlib.asynccontextmanager
async def _bus(found: Target, needs: Needs) -> AsyncIterator[Bus | None]:
    """Raises SetupError, RefusedError."""
    url = found.provisioner_url if needs == "to provision" else found.nats_url
    if needs == "no" or (needs == "optional" and url is None):
        yield None
        return
    if url is None:
        raise SetupError(f"this needs {target.NATS_URL}")
    async with connected(url, "agentchat admin") as bus:
        yield bus


@contextlib.asynccontextmanager
async def _limiter(found: Target) -> AsyncIterator[Limiter | None]:
    """None without Redis: then what it holds is not compared."""
    if found.redis_url is None:
        yield None
        return
    async with contextlib.aclosing(
        Limiter(found.redis_url, instance="admin", timeout=_REDIS_SECONDS)
    ) as limiter:
        yield limiter
