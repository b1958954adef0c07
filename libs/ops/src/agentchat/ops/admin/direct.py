"""Run commands that work on a system's database directly, with their connections and error messages."""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar
from urllib.parse import urlsplit

from agentchat.administration import Admin
from agentchat.bus.errors import BusUnavailable
from agentchat.bus.users import OPERATOR, PROVISIONER, parse_user
from agentchat.contracts.admin_errors import AdminError, Invalid
from agentchat.directory.secrets import build_sealer
from agentchat.knowledge.embedding.configured_embedder import open_embedder
from agentchat.knowledge.embedding.vectors import check_usable
from agentchat.knowledge.settings import EmbedderSettings
from agentchat.ops import environment, folder_secrets
from agentchat.ops.admin.api import ADMIN_URL, name_actor
from agentchat.ops.connections import DATABASE_URL, check_reachable, connect_bus, translate_database_errors
from agentchat.ops.environment import Environment, get_variable
from agentchat.ops.errors import NotRunningError, RefusedError, SetupError, StoppedError
from agentchat.ops.folder import RunFolder
from agentchat.ops.servers import nats
from agentchat.runtime.postgres import open_pool
from agentchat.runtime.settings import SettingsError, load

NATS_URL = "AGENTCHAT_NATS_URL"
PROVISIONER_URL = "AGENTCHAT_NATS_PROVISIONER_URL"
SECRET_KEY = "AGENTCHAT_SECRET_KEY"  # noqa: S105 - a name
PREVIOUS_KEYS = "AGENTCHAT_SECRET_KEY_PREVIOUS"

T = TypeVar("T")

Needs = Literal["no", "if known", "needed", "to provision"]
"""Need for the bus, and as which user. `if known`: connect if the address is known."""


@dataclass(frozen=True, kw_only=True)
class ServerAddresses:
    """Addresses of a system's servers, and the keys that open sealed secrets; None if unknown."""

    database_url: str = field(repr=False)
    nats_url: str | None = field(repr=False)
    provisioner_url: str | None = field(repr=False)
    """Of the NATS user that may empty streams."""
    secret_key: str = field(repr=False)
    previous_secret_keys: tuple[str, ...] = field(repr=False, default=())


def run_on_database(
    work: Callable[[Admin], Awaitable[T]], *, bus: Needs = "no", stopped: str = "stopped"
) -> T:
    """Run `work` with connections of the system and return its result. Raises StackError.

    `stopped` is the message after Ctrl-C.
    """
    found = find_servers(os.environ)
    try:
        with translate_database_errors():
            return asyncio.run(_run_connected(work, found, bus))
    except KeyboardInterrupt:
        raise StoppedError(stopped) from None
    except AdminError as error:
        raise RefusedError(str(error), 2 if isinstance(error, Invalid) else 1) from None
    except BusUnavailable as error:
        raise RefusedError(f"NATS does not answer: {error}") from None
    except SettingsError as error:
        raise SetupError(str(error)) from None


def find_servers(environ: Mapping[str, str]) -> ServerAddresses:
    """Return the addresses and keys of the environment, completed by the running stack's.

    Only a stack on the same database completes them, so that the servers of two systems are never mixed.

    Raises:
        SetupError, NotRunningError
    """
    own = get_variable(environ, DATABASE_URL)
    if own is None and get_variable(environ, ADMIN_URL) is not None:
        raise SetupError(f"this command works on the database directly: set {DATABASE_URL}")
    folder = environment.find_run_folder(environ)
    stack = _find_stack(folder, own)
    secrets = folder_secrets.load_or_create_secrets(folder.secrets) if stack else None
    secret_key = get_variable(environ, SECRET_KEY)
    if secret_key is not None:
        previous = tuple(filter(None, map(str.strip, environ.get(PREVIOUS_KEYS, "").split(","))))
    elif secrets is not None:
        secret_key, previous = secrets.secret_key, secrets.previous_secret_keys
    else:
        raise SetupError(f"{SECRET_KEY} is not set: set it to the key of the services")
    nats_url = get_variable(environ, NATS_URL) or (stack.nats_url if stack else None)
    provisioner_url = get_variable(environ, PROVISIONER_URL) or nats_url
    if provisioner_url and secrets and parse_user(provisioner_url) == OPERATOR:  # of the embedded NATS
        port = urlsplit(provisioner_url).port or 0
        provisioner_url = nats.build_url(port, secrets.servers_key, PROVISIONER)
    return ServerAddresses(
        database_url=own or (stack.database_url if stack else ""),
        nats_url=nats_url,
        provisioner_url=provisioner_url,
        secret_key=secret_key,
        previous_secret_keys=previous,
    )


def _find_stack(folder: RunFolder, database_url: str | None) -> Environment | None:
    """Return the running stack; None if `database_url` is given and names another database."""
    try:
        stack = environment.load(folder, elsewhere=f"; for another system set {DATABASE_URL}")
    except NotRunningError:
        if database_url is None:
            raise
        return None
    return stack if database_url in (None, stack.database_url) else None


async def _run_connected(work: Callable[[Admin], Awaitable[T]], found: ServerAddresses, bus: Needs) -> T:
    sealer = build_sealer(found.secret_key, found.previous_secret_keys)
    nats_url = found.provisioner_url if bus == "to provision" else found.nats_url
    if bus not in ("no", "if known") and nats_url is None:
        raise SetupError(f"this command needs NATS: set {NATS_URL}")
    await check_reachable(found.database_url)
    async with contextlib.AsyncExitStack() as open_:
        pool = await open_.enter_async_context(open_pool(found.database_url))
        embedder = await open_.enter_async_context(open_embedder(load(EmbedderSettings)))
        opened_bus = None
        if bus != "no" and nats_url is not None:
            opened_bus = await open_.enter_async_context(connect_bus(nats_url, "agentchat admin"))
        return await work(
            Admin(
                pool=pool,
                sealer=sealer,
                actor=name_actor(),
                bus=opened_bus,
                embedder=await check_usable(pool, embedder),
            )
        )
