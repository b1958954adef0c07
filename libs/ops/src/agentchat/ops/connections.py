"""Connect a command to a system's database and NATS; failures are one line on stderr."""

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal, TypeVar
from urllib.parse import urlsplit

import msgspec
import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from agentchat.bus.bus import Bus
from agentchat.bus.errors import BusUnavailable
from agentchat.bus.nats_users import OPERATOR, PROVISIONER, parse_user
from agentchat.contracts.admin_errors import AdminError, Invalid
from agentchat.conversations.errors import ConversationsError, UnreadableEvent
from agentchat.ops import demo_env, folder_secrets
from agentchat.ops.demo_env import Environment, get_variable
from agentchat.ops.errors import NotRunningError, RefusedError, SetupError, StackError, StoppedError
from agentchat.ops.run_folder import RunFolder
from agentchat.ops.servers import nats
from agentchat.runtime.database_roles import OPERATOR as OPERATOR_LOGIN
from agentchat.runtime.database_roles import SERVICE_ROLE
from agentchat.runtime.postgres import DatabaseUnavailable, Pool, connect_options, open_pool
from agentchat.runtime.settings import SettingsError, load

if TYPE_CHECKING:
    from agentchat.administration import Admin
    from agentchat.conversations.eventsourcing_application import ConversationLog

ADMIN_URL = "AGENTCHAT_ADMIN_URL"
DATABASE_URL = "AGENTCHAT_DATABASE_URL"
NATS_URL = "AGENTCHAT_NATS_URL"
PROVISIONER_URL = "AGENTCHAT_NATS_PROVISIONER_URL"
SECRET_KEY = "AGENTCHAT_SECRET_KEY"  # noqa: S105 - a name
PREVIOUS_KEYS = "AGENTCHAT_SECRET_KEY_PREVIOUS"
_BUS_SECONDS = 8.0
T = TypeVar("T")

Needs = Literal["no", "if known", "needed", "to provision"]
"""The need for the bus, and the user to connect as. `if known`: connect if the address is known."""

_OLD_TABLES = (
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedColumn,
    psycopg.errors.UndefinedFunction,
    psycopg.errors.InvalidSchemaName,
)


class NoneSuchError(StackError):
    """The thing that the command names does not exist."""

    exit_code = 2


class ServerAddresses(msgspec.Struct, frozen=True, kw_only=True):
    """Addresses of a system's servers, and the keys that open sealed secrets; None if unknown.

    `provisioner_url` is that of the NATS user that may empty streams.
    """

    database_url: str
    nats_url: str | None
    provisioner_url: str | None
    secret_key: str
    previous_secret_keys: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Leave out the secrets."""
        return "ServerAddresses()"


def run_with_pool(
    work: Callable[[str, Pool], Awaitable[T]], *, stopped: str = "stopped", reads_views_only: bool = False
) -> T:
    """Run `work` with the database's address and a pool; return its result. Raises StackError.

    `stopped` is the message after Ctrl-C. With `reads_views_only` an analyst may run it, and on a standby.
    """

    async def run() -> T:
        url, role = find_database_url(), None if reads_views_only else SERVICE_ROLE
        if reads_views_only and "target_session_attrs" not in conninfo_to_dict(url):
            url = make_conninfo(url, target_session_attrs="any")
        await check_reachable(url, role=role)
        async with open_pool(url, role=role) as pool:
            return await work(url, pool)

    with _translate_errors(stopped):
        return asyncio.run(run())


def run_on_database(
    work: Callable[["Admin"], Awaitable[T]], *, bus: Needs = "no", stopped: str = "stopped"
) -> T:
    """Run `work` as an administrator on the system's database; return its result. Raises StackError."""
    found = find_servers(os.environ)
    with _translate_errors(stopped):
        return asyncio.run(_run_as_admin(work, found, bus))


def read_log(work: Callable[["ConversationLog"], T]) -> T:
    """Run `work` with the log and return its result. Raises StackError.

    It runs outside an event loop, so that Ctrl-C ends it.
    """
    from agentchat.conversations.eventsourcing_application import ConversationLog

    with _translate_errors("stopped"):
        url = find_database_url()
        asyncio.run(check_reachable(url))
        with ConversationLog({DATABASE_URL: url}) as log:
            return work(log)


async def check_reachable(url: str, *, role: str | None = SERVICE_ROLE) -> None:
    """Connect once, since a pool would retry without reporting the reason. Raises StackError."""
    try:
        connection = await psycopg.AsyncConnection.connect(url, **connect_options(url, role=role))
    except psycopg.OperationalError as error:
        if f'set role "{role}"' in str(error):
            raise SetupError(
                f"this command needs an operator's login in {DATABASE_URL}: {OPERATOR_LOGIN}, the owner,"
                f" or a member of {role}"
            ) from None
        raise StackError(f"the database cannot be reached: {error}") from None
    except psycopg.Error as error:
        raise SetupError(f"{DATABASE_URL} cannot be used: {error}") from None
    await connection.close()


@contextlib.contextmanager
def translate_database_errors() -> Iterator[None]:
    """Turn the database's errors in the block into StackErrors of one line."""
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)  # its errors are reported here, once
    try:
        yield
    except DatabaseUnavailable as error:
        raise StackError(f"the database does not answer: {error}") from None
    except _OLD_TABLES:
        raise SetupError("the database's tables are missing or old: run `agentchat migrate`") from None
    except psycopg.errors.InsufficientPrivilege as error:
        raise StackError(f"the database user lacks the right: {error.diag.message_primary}") from None


@contextlib.contextmanager
def _translate_errors(stopped: str) -> Iterator[None]:
    try:
        with translate_database_errors():
            yield
    except KeyboardInterrupt:
        raise StoppedError(stopped) from None
    except UnreadableEvent as error:
        raise StackError(f"an event in the log cannot be read: {error}") from None
    except ConversationsError as error:
        raise StackError(str(error)) from None
    except AdminError as error:
        raise RefusedError(str(error), 2 if isinstance(error, Invalid) else 1) from None
    except BusUnavailable as error:
        raise RefusedError(f"NATS does not answer: {error}") from None
    except SettingsError as error:
        raise SetupError(str(error)) from None


@contextlib.asynccontextmanager
async def connect_bus(url: str, name: str) -> AsyncIterator[Bus]:
    """Connect to NATS within 8 s. Raises RefusedError."""
    async with contextlib.AsyncExitStack() as stack:
        try:
            async with asyncio.timeout(_BUS_SECONDS):
                bus = await stack.enter_async_context(Bus.connect(url, name=name))
        except (TimeoutError, BusUnavailable):
            raise RefusedError("NATS cannot be reached") from None
        yield bus


def find_database_url() -> str:
    """Return the database's address from the environment, or the running stack's. Raises NotRunningError."""
    own = get_variable(os.environ, DATABASE_URL)
    return own or demo_env.load(elsewhere=f"; for another database set {DATABASE_URL}").database_url


def find_servers(environ: Mapping[str, str]) -> ServerAddresses:
    """Return the addresses and keys of the environment, completed by the running stack's.

    Only a stack on the same database completes them, so that the servers of two systems are never mixed.

    Raises:
        SetupError, NotRunningError
    """
    own = get_variable(environ, DATABASE_URL)
    if own is None and get_variable(environ, ADMIN_URL) is not None:
        raise SetupError(f"this command works on the database directly: set {DATABASE_URL}")
    folder = demo_env.find_run_folder(environ)
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
        stack = demo_env.load(folder, elsewhere=f"; for another system set {DATABASE_URL}")
    except NotRunningError:
        if database_url is None:
            raise
        return None
    return stack if database_url in (None, stack.database_url) else None


async def _run_as_admin(work: Callable[["Admin"], Awaitable[T]], found: ServerAddresses, bus: Needs) -> T:
    from agentchat.administration import Admin
    from agentchat.directory.secret_encryption import build_sealer
    from agentchat.knowledge.embedding.configured_embedder import open_embedder
    from agentchat.knowledge.embedding.vectors import check_usable
    from agentchat.knowledge.settings import EmbedderSettings
    from agentchat.ops.admin.admin_client import name_actor

    sealer = build_sealer(found.secret_key, found.previous_secret_keys)
    nats_url = found.provisioner_url if bus == "to provision" else found.nats_url
    if bus not in ("no", "if known") and nats_url is None:
        raise SetupError(f"this command needs NATS: set {NATS_URL}")
    await check_reachable(found.database_url)
    async with contextlib.AsyncExitStack() as opened:
        pool = await opened.enter_async_context(open_pool(found.database_url))
        embedder = await opened.enter_async_context(open_embedder(load(EmbedderSettings)))
        connected = None
        if bus != "no" and nats_url is not None:
            connected = await opened.enter_async_context(connect_bus(nats_url, "agentchat admin"))
        embedder = await check_usable(pool, embedder)
        return await work(
            Admin(pool=pool, sealer=sealer, actor=name_actor(), bus=connected, embedder=embedder)
        )
