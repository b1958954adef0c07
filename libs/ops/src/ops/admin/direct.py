"""Runs commands that work on a system's database itself, from the connections to the final error."""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar
from urllib.parse import urlsplit

import msgspec

from administration import Admin
from bus.errors import BusUnavailable
from bus.users import OPERATOR, PROVISIONER, user_of
from contracts.admin_errors import AdminError, Invalid
from directory.secrets import sealer_of
from knowledge.embedding.configured import embedder_of
from knowledge.embedding.vectors import usable
from knowledge.settings import EmbedderSettings
from ops import environment
from ops.admin.api import ADMIN_URL, actor
from ops.connections import DATABASE_URL, connected, failures_in_one_line, reached
from ops.environment import Environment, given
from ops.errors import NotRunningError, RefusedError, SetupError, StoppedError
from ops.folder_secrets import Secrets
from ops.servers import nats
from runtime.postgres import open_pool
from runtime.settings import SettingsError, load

NATS_URL = "AGENTCHAT_NATS_URL"
PROVISIONER_URL = "AGENTCHAT_NATS_PROVISIONER_URL"
SECRET_KEY = "AGENTCHAT_SECRET_KEY"  # noqa: S105 - a name
PREVIOUS_KEYS = "AGENTCHAT_SECRET_KEY_PREVIOUS"

T = TypeVar("T")

Needs = Literal["no", "if known", "needed", "to provision"]
"""Whether the work needs the bus, and as which user. `if known`: it is there where its address is."""


@dataclass(frozen=True, kw_only=True)
class ServerAddresses:
    """Addresses, and the keys that open sealed secrets. None is not known."""

    database_url: str = field(repr=False)
    nats_url: str | None = field(repr=False)
    provisioner_url: str | None = field(repr=False)
    """Of the NATS user that may empty streams."""
    secret_key: str = field(repr=False)
    previous_secret_keys: tuple[str, ...] = field(repr=False, default=())


def run(work: Callable[[Admin], Awaitable[T]], *, bus: Needs = "no", stopped: str = "stopped") -> T:
    """What `work` returns; `stopped` is the message after Ctrl-C. Raises StackError."""
    found = find(os.environ)
    try:
        with failures_in_one_line():
            return asyncio.run(_run(work, found, bus))
    except KeyboardInterrupt:
        raise StoppedError(stopped) from None
    except AdminError as error:
        raise RefusedError(str(error), 2 if isinstance(error, Invalid) else 1) from None
    except BusUnavailable as error:
        raise RefusedError(f"NATS does not answer: {error}") from None
    except SettingsError as error:
        raise SetupError(str(error)) from None


def find(environ: Mapping[str, str]) -> ServerAddresses:
    """The environment has priority; the running stack completes it, if its database is the same.

    So the servers of one system are never mixed with another's. Raises SetupError, NotRunningError.
    """
    own = given(environ, DATABASE_URL)
    if own is None and given(environ, ADMIN_URL) is not None:
        raise SetupError(f"this works on the database itself: set {DATABASE_URL}")
    stack = _stack(environ, own)
    secret_key, previous = _keys(environ, stack)
    nats_url = given(environ, NATS_URL) or (stack.nats_url if stack else None)
    provisioner_url = given(environ, PROVISIONER_URL)
    return ServerAddresses(
        database_url=own or (stack.database_url if stack else ""),
        nats_url=nats_url,
        provisioner_url=provisioner_url or (_provisioner(environ, nats_url) if stack else nats_url),
        secret_key=secret_key,
        previous_secret_keys=previous,
    )


def _stack(environ: Mapping[str, str], database_url: str | None) -> Environment | None:
    """The running stack; None where it is on another database than the environment names, if any."""
    try:
        stack = environment.load(
            environment.run_folder(environ), elsewhere=f"; for another system set {DATABASE_URL}"
        )
    except NotRunningError:
        if database_url is None:
            raise
        return None
    return stack if database_url in (None, stack.database_url) else None


def _keys(environ: Mapping[str, str], stack: Environment | None) -> tuple[str, tuple[str, ...]]:
    key = given(environ, SECRET_KEY)
    if key is not None:
        previous = environ.get(PREVIOUS_KEYS, "").split(",")
        return key, tuple(each.strip() for each in previous if each.strip())
    if stack is None:
        raise SetupError(f"{SECRET_KEY} is not set: give the one that the services have")
    stored = _stored(environ, SECRET_KEY)
    return stored.secret_key, stored.previous_secret_keys


def _provisioner(environ: Mapping[str, str], nats_url: str | None) -> str | None:
    """The running stack's, where its NATS is an embedded one."""
    if nats_url is None or user_of(nats_url) != OPERATOR:
        return nats_url
    port = urlsplit(nats_url).port or 0
    return nats.url(port, _stored(environ, PROVISIONER_URL).servers_key, PROVISIONER)


def _stored(environ: Mapping[str, str], variable: str) -> Secrets:
    """The running stack's secrets. Raises SetupError, which names `variable`."""
    path = environment.run_folder(environ).secrets
    try:
        return msgspec.json.decode(path.read_bytes(), type=Secrets)
    except (OSError, msgspec.DecodeError) as error:
        raise SetupError(f"{path} cannot be read ({error}); set {variable}") from None


async def _run(work: Callable[[Admin], Awaitable[T]], found: ServerAddresses, bus: Needs) -> T:
    sealer = sealer_of(found.secret_key, found.previous_secret_keys)
    nats_url = found.provisioner_url if bus == "to provision" else found.nats_url
    if bus not in ("no", "if known") and nats_url is None:
        raise SetupError(f"this needs {NATS_URL}")
    await reached(found.database_url)
    async with contextlib.AsyncExitStack() as open_:
        pool = await open_.enter_async_context(open_pool(found.database_url))
        embedder = await open_.enter_async_context(embedder_of(load(EmbedderSettings)))
        opened_bus = None
        if bus != "no" and nats_url is not None:
            opened_bus = await open_.enter_async_context(connected(nats_url, "agentchat admin"))
        return await work(
            Admin(
                pool=pool,
                sealer=sealer,
                actor=actor(),
                bus=opened_bus,
                embedder=await usable(pool, embedder),
            )
        )
