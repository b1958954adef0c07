"""Where the commands work: at an admin API or on servers, of the environment or of the running stack."""

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import msgspec

from bus.users import OPERATOR, PROVISIONER, user_of
from ops import environment
from ops.database import DATABASE_URL
from ops.environment import Environment, given
from ops.errors import NotRunningError, SetupError
from ops.ports import ANY_LOOPBACK
from ops.secrets import Secrets
from ops.servers import nats

NATS_URL = "AGENTCHAT_NATS_URL"
PROVISIONER_URL = "AGENTCHAT_NATS_PROVISIONER_URL"
REDIS_URL = "AGENTCHAT_REDIS_URL"
SECRET_KEY = "AGENTCHAT_SECRET_KEY"  # noqa: S105 - a name
PREVIOUS_KEYS = "AGENTCHAT_SECRET_KEY_PREVIOUS"

MODEL_ALLOW = "AGENTCHAT_MODEL_ALLOW"
MCP_ALLOW = "AGENTCHAT_MCP_ALLOW"
ADMIN_URL = "AGENTCHAT_ADMIN_URL"
ADMIN_TOKEN = "AGENTCHAT_ADMIN_TOKEN"  # noqa: S105 - a name


@dataclass(frozen=True)
class AdminApi:
    """A gateway's admin API; `is_given` by the environment, not found."""

    url: str
    token: str = field(repr=False)
    is_given: bool


def admin_api(environ: Mapping[str, str]) -> AdminApi | None:
    """That of the environment, else that of the running stack; None where a database is named instead.

    Raises SetupError, NotRunningError.
    """
    url = given(environ, ADMIN_URL)
    if url is not None:
        token = given(environ, ADMIN_TOKEN)
        if token is None:
            raise SetupError(f"{ADMIN_TOKEN} is not set: give the one that the gateways have")
        return AdminApi(url.rstrip("/"), token, is_given=True)
    if given(environ, DATABASE_URL) is not None:
        return None
    stack = _of(_stack(environ, needed=True))
    return AdminApi(stack.base_url, stack.admin_token, is_given=False)


@dataclass(frozen=True, kw_only=True)
class Target:
    """Addresses, and the keys that open what is sealed. What is None is not known."""

    database_url: str = field(repr=False)
    nats_url: str | None = field(repr=False)
    provisioner_url: str | None = field(repr=False)
    """Of the user of NATS who may empty streams."""
    redis_url: str | None = field(repr=False)
    secret_key: str = field(repr=False)
    previous_secret_keys: tuple[str, ...] = field(repr=False, default=())
    model_allow: tuple[str, ...] = ()
    mcp_allow: tuple[str, ...] = ()


def find(environ: Mapping[str, str]) -> Target:
    """The environment goes first, and the running stack fills in what lacks, where the database is its own.

    So the servers of one system are never mixed with another's. Raises SetupError, NotRunningError.
    """
    own = given(environ, DATABASE_URL)
    if own is None and given(environ, ADMIN_URL) is not None:
        raise SetupError(f"this works on the database itself: set {DATABASE_URL}")
    stack = _stack(environ, needed=own is None)
    if own is not None and stack is not None and stack.database_url != own:
        stack = None
    secret_key, previous = _keys(environ, stack)
    nats_url = given(environ, NATS_URL) or (stack.nats_url if stack else None)
    return Target(
        database_url=own or _of(stack).database_url,
        nats_url=nats_url,
        provisioner_url=given(environ, PROVISIONER_URL)
        or (_provisioner(environ, nats_url) if stack else nats_url),
        redis_url=given(environ, REDIS_URL) or (stack.redis_url if stack else None),
        secret_key=secret_key,
        previous_secret_keys=previous,
        model_allow=(*_list(environ.get(MODEL_ALLOW, "")), *(ANY_LOOPBACK if stack else ())),
        mcp_allow=(*_list(environ.get(MCP_ALLOW, "")), *(ANY_LOOPBACK if stack else ())),
    )


def actor() -> str:
    """Who stands in the audit rows: the user that the process runs as, whatever variables say."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's user without a name
        name = str(os.getuid())
    return f"{name}@cli"


def _stack(environ: Mapping[str, str], *, needed: bool) -> Environment | None:
    try:
        return environment.load(environment.run_folder(environ))
    except NotRunningError as error:
        if needed:
            raise NotRunningError(f"{error}; elsewhere set {ADMIN_URL}, or set {DATABASE_URL}") from None
        return None


def _keys(environ: Mapping[str, str], stack: Environment | None) -> tuple[str, tuple[str, ...]]:
    key = given(environ, SECRET_KEY)
    if key is not None:
        return key, _list(environ.get(PREVIOUS_KEYS, ""))
    if stack is None:
        raise SetupError(f"{SECRET_KEY} is not set: give the one that the services have")
    kept = _kept(environ, SECRET_KEY)
    return kept.secret_key, kept.previous_secret_keys


def _list(text: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in text.split(",") if each.strip())


def _provisioner(environ: Mapping[str, str], nats_url: str | None) -> str | None:
    """The running stack's, where its NATS is an embedded one."""
    if nats_url is None or user_of(nats_url) != OPERATOR:
        return nats_url
    return nats.url(urlsplit(nats_url).port or 0, _kept(environ, PROVISIONER_URL).servers_key, PROVISIONER)


def _kept(environ: Mapping[str, str], instead: str) -> Secrets:
    path = environment.run_folder(environ).secrets
    try:
        return msgspec.json.decode(path.read_bytes(), type=Secrets)
    except (OSError, msgspec.DecodeError) as error:
        raise SetupError(f"{path} cannot be read ({error}); set {instead}") from None


def _of(stack: Environment | None) -> Environment:
    assert stack is not None
    return stack
