"""One piece of work with an `Admin`, from the connections to the error that ends the command."""

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Literal, TypeVar

import psycopg

from administration import Admin
from administration.errors import AdminError
from administration.values import Page
from bus import Bus, BusUnavailable
from directory.known_key import refuse_unknown_key
from directory.secrets import sealer_of
from knowledge.embedders import embedder_of
from knowledge.embeddings import usable
from knowledge.settings import EmbedderSettings
from limits import Limiter
from net_guard.settings import guard_of
from ops.admin import reach as reaching
from ops.admin.errors import RefusedError, refused
from ops.admin.reach import Reach
from ops.database import reached
from ops.errors import SetupError
from runtime.postgres import DatabaseUnavailable, open_pool
from runtime.settings import SettingsError, load

T = TypeVar("T")

_LARGEST_PAGE = 100
_REDIS_SECONDS = 2.0
_BUS_SECONDS = 8.0

Wanted = Literal["no", "if told", "needed", "to provision"]
"""Whether a piece of work takes the bus, and as whom; "if told": where there is an address for it."""


def run(
    work: Callable[[Admin], Awaitable[T]],
    *,
    bus: Wanted = "no",
    limiter: bool = False,
    embedder: bool = False,
    seals: bool = False,
) -> T:
    """What `work` returns; the bus, Redis and the embedder are for those that ask. Raises StackError.

    Work that `seals` secrets is not begun under a key that opens none of those that are there.
    """
    reach = reaching.find(os.environ)
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)  # what it says is said below, once
    try:
        return asyncio.run(_run(work, reach, bus=bus, limiter=limiter, embedder=embedder, seals=seals))
    except AdminError as error:
        raise refused(error) from None
    except (DatabaseUnavailable, BusUnavailable) as error:
        raise RefusedError(f"the servers do not answer: {error}") from None
    except SettingsError as error:
        raise SetupError(str(error)) from None
    except psycopg.errors.InsufficientPrivilege as error:
        raise RefusedError(f"the database's user may not do that: {error}") from None
    except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn):
        raise SetupError("the database's tables are missing or old: run `agentchat migrate`") from None


async def pages(fetch: Callable[[str | None, int], Awaitable[Page[T]]], most: int | None) -> list[T]:
    """The items of a list, page after page; `fetch` takes `after` and a page's size."""
    items: list[T] = []
    after: str | None = None
    while most is None or len(items) < most:
        size = _LARGEST_PAGE if most is None else min(_LARGEST_PAGE, most - len(items))
        page = await fetch(after, size)
        items += page.items
        after = page.after
        if after is None:
            break
    return items


async def _run(
    work: Callable[[Admin], Awaitable[T]],
    reach: Reach,
    *,
    bus: Wanted,
    limiter: bool,
    embedder: bool,
    seals: bool,
) -> T:
    sealer = sealer_of(reach.secret_key, reach.previous_secret_keys)
    await reached(reach.database_url)
    async with contextlib.AsyncExitStack() as open_:
        pool = await open_.enter_async_context(open_pool(reach.database_url))
        if seals:
            await refuse_unknown_key(pool, sealer)
        embeds = await open_.enter_async_context(embedder_of(load(EmbedderSettings))) if embedder else None
        return await work(
            Admin(
                pool=pool,
                sealer=sealer,
                actor=reaching.actor(),
                bus=await open_.enter_async_context(_bus(reach, bus)),
                limiter=await open_.enter_async_context(_limiter(reach)) if limiter else None,
                embedder=await usable(pool, embeds) if embeds else None,
                model_hosts=guard_of(reach.model_allow, reaching.MODEL_ALLOW),
            )
        )


@contextlib.asynccontextmanager
async def _bus(reach: Reach, wanted: Wanted) -> AsyncIterator[Bus | None]:
    """Raises SetupError, RefusedError."""
    url = reach.provisioner_url if wanted == "to provision" else reach.nats_url
    if wanted == "no" or (wanted == "if told" and url is None):
        yield None
        return
    if url is None:
        raise SetupError(f"this needs {reaching.NATS_URL}")
    async with contextlib.AsyncExitStack() as open_:
        try:
            async with asyncio.timeout(_BUS_SECONDS):
                bus = await open_.enter_async_context(Bus.connect(url, name="agentchat admin"))
        except TimeoutError:
            raise RefusedError("NATS cannot be reached") from None
        yield bus


@contextlib.asynccontextmanager
async def _limiter(reach: Reach) -> AsyncIterator[Limiter | None]:
    """None without Redis: then what it holds is not compared."""
    if reach.redis_url is None:
        yield None
        return
    limiter = Limiter(reach.redis_url, instance="admin", timeout=_REDIS_SECONDS)
    async with contextlib.aclosing(limiter):
        yield limiter
