"""Which servers the commands work on: those of the environment, or of the running stack."""

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import msgspec

from bus.users import OPERATOR, PROVISIONER, user_of
from ops import environment
from ops.database import DATABASE_URL
from ops.environment import Environment
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


@dataclass(frozen=True, kw_only=True)
class Reach:
    """Addresses, and the keys that open what is sealed. What is None was not told."""

    database_url: str = field(repr=False)
    nats_url: str | None = field(repr=False)
    provisioner_url: str | None = field(repr=False)
    """Of the user of NATS who may empty streams."""
    redis_url: str | None = field(repr=False)
    secret_key: str = field(repr=False)
    previous_secret_keys: tuple[str, ...] = field(repr=False, default=())
    model_allow: tuple[str, ...] = ()


def find(environ: Mapping[str, str]) -> Reach:
    """The environment goes first, and the running stack fills in what lacks, where the database is its own.

    So the servers of one system are never mixed with another's. Raises SetupError, NotRunningError.
    """
    own = _given(environ, DATABASE_URL)
    stack = _stack(environ, needed=own is None)
    if own is not None and stack is not None and stack.database_url != own:
        stack = None
    secret_key, previous = _keys(environ, stack)
    nats_url = _given(environ, NATS_URL) or (stack.nats_url if stack else None)
    return Reach(
        database_url=own or _of(stack).database_url,
        nats_url=nats_url,
        provisioner_url=_given(environ, PROVISIONER_URL)
        or (_provisioner(environ, nats_url) if stack else nats_url),
        redis_url=_given(environ, REDIS_URL) or (stack.redis_url if stack else None),
        secret_key=secret_key,
        previous_secret_keys=previous,
        model_allow=(*_list(environ.get(MODEL_ALLOW, "")), *(ANY_LOOPBACK if stack else ())),
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
            raise NotRunningError(f"{error}; for other servers set {DATABASE_URL}") from None
        return None


def _keys(environ: Mapping[str, str], stack: Environment | None) -> tuple[str, tuple[str, ...]]:
    key = _given(environ, SECRET_KEY)
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


def _given(environ: Mapping[str, str], name: str) -> str | None:
    return environ.get(name, "").strip() or None
