"""Generate users, passwords and certificates for servers that run elsewhere."""

import base64
import hashlib
import secrets
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import msgspec

from agentchat.bus import nats_users
from agentchat.ops.certificates import Authority
from agentchat.ops.errors import SetupError
from agentchat.ops.folder_secrets import derive_password
from agentchat.ops.servers import valkey
from agentchat.ops.servers.postgres_server import DATABASE, OWNER, list_login_statements
from agentchat.runtime.database_roles import ANALYST, OPERATOR, SERVICES, get_role


def _map_urls(name: str, *servers: str) -> dict[str, str]:
    return {f"{server}-url": f"{name}-{server}-url" for server in servers}


def _map_certificate(server: str) -> dict[str, str]:
    return {"tls.crt": f"{server}.crt", "tls.key": f"{server}.key"}


_REPLICATION = "agentchat_replication"
_OTHER_SERVERS = {"gateway": ("nats", "redis"), "orchestrator": ("nats", "redis")}
"""The servers that a service needs in addition to Postgres; only NATS if it is not listed."""


_AUTHORITY = "/run/secrets/ca.crt"
"""The path at which every service finds the authority's certificate."""


class Hosts(msgspec.Struct, frozen=True, kw_only=True):
    """Host names of the servers. `primaries` are those that lead to Postgres's primary."""

    postgres: tuple[str, ...]
    primaries: tuple[str, ...]
    nats: tuple[str, ...]
    valkey: tuple[str, ...] = ("valkey",)


_POSTGRES = ("postgres", "postgres-standby")
COMPOSE = Hosts(postgres=_POSTGRES, primaries=_POSTGRES, nats=("nats-1", "nats-2", "nats-3"))
KUBERNETES = Hosts(
    postgres=tuple(f"agentchat-postgres-{kind}" for kind in ("rw", "r", "ro")),
    primaries=("agentchat-postgres-rw",),
    nats=("nats-0.nats", "nats-1.nats", "nats-2.nats"),
)

SECRETS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "agentchat-gateway": _map_urls("gateway", "database", "nats", "redis")
        | {"admin-token": "admin-token"},
        "agentchat-orchestrator": _map_urls("orchestrator", "database", "nats", "redis"),
        "agentchat-tool-runner": _map_urls("tool-runner", "database", "nats"),
        "agentchat-projector": _map_urls("projector", "database", "nats", "nats-provisioner"),
        "agentchat-console": _map_urls("console", "database", "nats") | {"admin-token": "admin-token"},
        "agentchat-owner": _map_urls("owner", "database"),
        "agentchat-secret-key": {"secret-key": "secret-key"},
        "agentchat-authority": {"ca.crt": "ca.crt"},
        "agentchat-nats": {"users.conf": "nats-users.conf"} | _map_certificate("nats"),
        "agentchat-valkey": {"users.conf": "valkey-users.conf"} | _map_certificate("valkey"),
        "agentchat-postgres-tls": _map_certificate("postgres"),
        "agentchat-postgres-owner": {"username": "owner-name", "password": "owner-password"},
        "agentchat-postgres-logins": {"logins.sql": "postgres-logins.sql"},
    }
)
"""The Secrets of deploy/kubernetes: for each its keys, and the file of the folder that a key has."""

_TYPES = {
    "agentchat-postgres-tls": "kubernetes.io/tls",
    "agentchat-postgres-owner": "kubernetes.io/basic-auth",
}


def render_users(server: Literal["nats", "redis"]) -> str:
    """Return the users' lines for the server's settings file, with new passwords."""
    if server == "nats":
        return nats_users.render_accounts(lambda _: f'"{secrets.token_urlsafe(32)}"')
    return valkey.render_users({user: f">{secrets.token_urlsafe(32)}" for user in valkey.USERS})


def write_all(folder: Path, hosts: Hosts, now: datetime) -> None:
    """Fill a new folder with the files that `deploy/compose.yaml` mounts and that Kubernetes' Secrets hold.

    Its `kustomization.yaml` makes the Secrets. Other users cannot enter the folder; its files are readable
    by all, since each container has its own user.

    Raises:
        SetupError: The folder is not empty: credentials in use would stop working.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        if any(folder.iterdir()):
            raise SetupError(f"{folder} is not empty; choose a new folder")
        for name, content in _build_files(secrets.token_urlsafe(32), hosts, now).items():
            (folder / name).write_bytes(content)
        (folder / "ca.key").chmod(0o600)
    except OSError as error:
        raise SetupError(f"{folder} cannot be written: {error.strerror}") from None


def _build_files(key: str, hosts: Hosts, now: datetime) -> dict[str, bytes]:
    authority = Authority(now)
    files = {"ca.crt": authority.certificate, "ca.key": authority.key}
    for server, names in (("nats", hosts.nats), ("postgres", hosts.postgres), ("valkey", hosts.valkey)):
        files[f"{server}.crt"], files[f"{server}.key"] = authority.issue(*names)
    texts = {
        "nats-users.conf": nats_users.render_accounts(lambda user: f'"{derive_password(key, "nats", user)}"'),
        "valkey-users.conf": valkey.render_users({user: _hash(key, user) for user in valkey.USERS}),
        "postgres-logins.sql": _render_logins(key),
        "postgres-superuser": derive_password(key, "postgres", "superuser"),
        "postgres-replication": derive_password(key, "postgres", _REPLICATION),
        "secret-key": base64.b64encode(secrets.token_bytes(32)).decode(),
        "admin-token": secrets.token_urlsafe(32),
        "grafana-admin": secrets.token_urlsafe(32),
        "owner-name": OWNER,
        "owner-password": derive_password(key, "postgres", OWNER),
        "kustomization.yaml": msgspec.json.format(msgspec.json.encode(_build_kustomization())).decode(),
        **_build_addresses(key, hosts),
    }
    return files | {name: text.encode() for name, text in texts.items()}


def _build_addresses(key: str, hosts: Hosts) -> dict[str, str]:
    """Build each user's address of each server, by the name of its file."""
    found = {"owner-database-url": _build_postgres_url(key, hosts, OWNER)}
    found["operator-database-url"] = _build_postgres_url(key, hosts, OPERATOR)
    found["analyst-database-url"] = _build_postgres_url(key, hosts, ANALYST, target="any")
    found["operator-nats-url"] = _build_nats_urls(key, hosts, nats_users.OPERATOR)
    found["operator-redis-url"] = _build_redis_url(key, hosts, "operator")
    found["projector-nats-provisioner-url"] = _build_nats_urls(key, hosts, nats_users.PROVISIONER)
    for service in SERVICES:
        name = service.replace("_", "-")
        found[f"{name}-database-url"] = _build_postgres_url(key, hosts, get_role(service))
        servers = _OTHER_SERVERS.get(service, ("nats",))
        if "nats" in servers:
            found[f"{name}-nats-url"] = _build_nats_urls(key, hosts, name)
        if "redis" in servers:
            found[f"{name}-redis-url"] = _build_redis_url(key, hosts, name)
    return found


def _build_postgres_url(key: str, hosts: Hosts, role: str, *, target: str = "read-write") -> str:
    login = f"{role}:{derive_password(key, 'postgres', role)}"
    tls = f"sslmode=verify-full&sslrootcert={_AUTHORITY}"
    addresses = ",".join(f"{host}:5432" for host in hosts.primaries)
    return f"postgresql://{login}@{addresses}/{DATABASE}?{tls}&target_session_attrs={target}"


def _build_nats_urls(key: str, hosts: Hosts, user: str) -> str:
    login = f"{user}:{derive_password(key, 'nats', user)}"
    return ",".join(f"tls://{login}@{host}:4222?ca={_AUTHORITY}" for host in hosts.nats)


def _build_redis_url(key: str, hosts: Hosts, user: str) -> str:
    login = f"{user}:{derive_password(key, 'valkey', user)}"
    return f"rediss://{login}@{hosts.valkey[0]}:6379/0?ssl_ca_certs={_AUTHORITY}"


def _build_kustomization() -> dict[str, Any]:
    """Build the kustomization that makes a Secret of each group of files."""
    generated = [
        {
            "name": name,
            "type": _TYPES.get(name, "Opaque"),
            "files": [f"{key}={file}" for key, file in files.items()],
        }
        for name, files in SECRETS.items()
    ]
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": "agentchat",
        "generatorOptions": {"disableNameSuffixHash": True},
        "secretGenerator": generated,
    }


def _hash(key: str, user: str) -> str:
    return "#" + hashlib.sha256(derive_password(key, "valkey", user).encode()).hexdigest()


def _render_logins(key: str) -> str:
    """Return SQL for a superuser: the owner, a login for each service, one for the standby."""
    password = derive_password(key, "postgres", _REPLICATION)
    replication = f"CREATE ROLE {_REPLICATION} REPLICATION LOGIN PASSWORD '{password}'"
    return "".join(f"{statement};\n" for statement in (*list_login_statements(key, DATABASE), replication))
