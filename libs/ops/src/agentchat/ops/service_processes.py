"""Describe the stack's services as processes, each with its environment and health address."""

import enum
import os
import sys
from collections.abc import Mapping
from importlib import metadata

import msgspec

from agentchat.ops.demo import AGENT_ID, OFFLINE_KEY, Demo
from agentchat.ops.folder_secrets import Secrets
from agentchat.ops.free_ports import ANY_LOOPBACK, LOOPBACK, find_free_port
from agentchat.ops.probes import HttpProbe
from agentchat.ops.process import Process
from agentchat.ops.run_folder import RunFolder
from agentchat.ops.settings import UpSettings
from agentchat.runtime.database_roles import Service
from agentchat.runtime.settings import FILE_SUFFIX

PREPARE = "database"
_NOT_INHERITED = {
    *("AGENTCHAT_DATABASE_URL", "AGENTCHAT_NATS_URL", "AGENTCHAT_REDIS_URL"),
    *("AGENTCHAT_NATS_PROVISIONER_URL", "AGENTCHAT_SECRET_KEY", "AGENTCHAT_SECRET_KEY_PREVIOUS"),
    *("AGENTCHAT_EMBEDDINGS_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "AGENTCHAT_ADMIN_TOKEN"),
    "PYTHONDONTWRITEBYTECODE",  # slows every start
}
"""Variables that only the processes that need them get."""
_SIGN_IN = "AGENTCHAT_CONSOLE_OIDC_"
"""Prefix of settings that no process gets: the console of a stack is open on loopback."""


class Rank(enum.IntEnum):
    """The order in which processes stop: those that receive requests first, servers last."""

    GATEWAY = 0
    ORCHESTRATOR = 1
    TOOL_RUNNER = 2
    PROJECTOR = 3
    DEMO = 4
    SERVER = 5


class Urls(msgspec.Struct, frozen=True, kw_only=True):
    """Addresses of the servers for one user."""

    database: str
    nats: str
    redis: str

    def __repr__(self) -> str:
        """Leave out the addresses: each holds a password."""
        return "Urls()"


class Servers(msgspec.Struct, frozen=True):
    """The embedded servers, and each user's addresses of embedded and external servers.

    `analyst_database` is for analysts, who read only the views of `analytics`.
    """

    processes: tuple[Process, ...]
    owner: Urls
    """Migrates the database and makes streams; in tests the database's superuser."""
    operator: Urls
    analyst_database: str
    services: dict[Service, Urls]

    @property
    def database_url(self) -> str:
        """The database's address for its owner."""
        return self.owner.database

    @property
    def nats_url(self) -> str:
        """The address of NATS for the user that makes streams."""
        return self.owner.nats

    @property
    def redis_url(self) -> str:
        """The address of Valkey for the user that reads all counters."""
        return self.owner.redis


class Services:
    """Builder of the processes of one stack that run our own code."""

    def __init__(
        self,
        folder: RunFolder,
        settings: UpSettings,
        secrets: Secrets,
        servers: Servers,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._folder = folder
        self._settings = settings
        self._secrets = secrets
        self._servers = servers
        files = {"AGENTCHAT_FILES_URL": folder.files.as_uri()}
        self._common = (
            files
            | _build_inherited_environment(environ)
            | {
                "AGENTCHAT_MODEL_ALLOW": ",".join((*settings.model_allow, *ANY_LOOPBACK)),
                "AGENTCHAT_MCP_ALLOW": ",".join((*settings.mcp_allow, *ANY_LOOPBACK)),
                "AGENTCHAT_WEBHOOK_ALLOW": ",".join((*settings.webhook_allow, *ANY_LOOPBACK)),
                "AGENTCHAT_FILES_ALLOW": ",".join((*settings.files_allow, *ANY_LOOPBACK)),
                "AGENTCHAT_REHEARSAL": "true" if settings.rehearsal else "",
            }
        )
        kept_keys = () if settings.secret_key else secrets.previous_secret_keys
        self._keys = {
            "AGENTCHAT_SECRET_KEY": settings.secret_key or secrets.secret_key,
            "AGENTCHAT_SECRET_KEY_PREVIOUS": ",".join((*settings.previous_secret_keys, *kept_keys)),
        }
        names = ("AGENTCHAT_EMBEDDINGS_KEY", "AGENTCHAT_EMBEDDINGS_KEY" + FILE_SUFFIX)
        self._embeddings = {name: environ.get(name, "") for name in names}

    def describe_prepare(self, demo: Demo) -> Process:
        """Describe the job that migrates the database and creates the demo's data."""
        env = self._keys | self._embeddings
        env |= {
            "AGENTCHAT_DATABASE_URL": self._servers.owner.database,
            "AGENTCHAT_DEMO": msgspec.json.encode(demo).decode(),
        }
        after = tuple(each.name for each in self._servers.processes if each.name == "postgres")
        process = self._process(PREPARE, "ops.prepare", env, None, Rank.SERVER, after)
        # Not a fork: it runs while the process that services are forked from still imports their code.
        return msgspec.structs.replace(process, is_module=False)

    def describe_gateway(self, number: int, port: int) -> Process:
        """Describe a gateway; on loopback its `/docs` has the demo's key filled in."""
        host = self._settings.host
        env = self._embeddings | {
            "AGENTCHAT_HOST": host,
            "AGENTCHAT_PORT": str(port),
            # Clients connect directly, and some offer h2c.
            "AGENTCHAT_HTTP_PARSER": self._common.get("AGENTCHAT_HTTP_PARSER") or "h11",
            "AGENTCHAT_ADMIN_TOKEN": self._settings.admin_token or self._secrets.admin_token,
            "AGENTCHAT_REDIS_URL": self._servers.services["gateway"].redis,
        }
        if host == LOOPBACK:  # `/docs` shows them to everybody
            env |= {"AGENTCHAT_DEMO_KEY": self._secrets.api_key, "AGENTCHAT_DEMO_AGENT_ID": AGENT_ID}
        probe = HttpProbe(port, host=to_reachable_host(host))
        return self._describe_service("gateway", number, env, Rank.GATEWAY, probe)

    def describe_orchestrator(self, number: int, model_url: str) -> Process:
        """Describe an orchestrator; the offline model replaces providers whose key is not set."""
        anthropic, openai = self._settings.anthropic_api_key, self._settings.openai_api_key
        env = self._embeddings | {
            "ANTHROPIC_BASE_URL": self._settings.anthropic_base_url if anthropic else model_url,
            "ANTHROPIC_API_KEY": anthropic or OFFLINE_KEY,
            "OPENAI_BASE_URL": self._settings.openai_base_url if openai else f"{model_url}/v1",
            "OPENAI_API_KEY": openai or OFFLINE_KEY,
            "AGENTCHAT_REDIS_URL": self._servers.services["orchestrator"].redis,
        }
        return self._describe_service("orchestrator", number, env, Rank.ORCHESTRATOR)

    def describe_tool_runner(self, number: int, gateway_url: str) -> Process:
        """Describe a tool-runner; without AGENTCHAT_PUBLIC_URL its OAuth redirects lead to `gateway_url`."""
        env = {
            "AGENTCHAT_GATEWAY_URL": gateway_url,
            "AGENTCHAT_PUBLIC_URL": self._common.get("AGENTCHAT_PUBLIC_URL") or gateway_url,
        }
        return self._describe_service("tool_runner", number, env, Rank.TOOL_RUNNER)

    def describe_projector(self, number: int) -> Process:
        """Describe a projector, with the NATS user that may make streams."""
        env = {"AGENTCHAT_NATS_PROVISIONER_URL": self._servers.owner.nats}
        return self._describe_service("projector", number, env, Rank.PROJECTOR)

    def describe_console(self, port: int, watched: tuple[str, ...]) -> Process:
        """Describe the console, which is open on loopback and watches these services."""
        env = self._embeddings | {
            "AGENTCHAT_CONSOLE_PORT": str(port),
            "AGENTCHAT_CONSOLE_SERVICES": ",".join(watched),
            "AGENTCHAT_CONSOLE_URL": "",
        }
        return self._describe_service("console", 1, env, Rank.GATEWAY, HttpProbe(port))

    def describe_demo(self, name: str, port_variable: str, port: int) -> Process:
        """Describe a demo server, which needs no other process."""
        env = {port_variable: str(port)}
        return self._process(name, name.replace("-", "_"), env, HttpProbe(port), Rank.DEMO, ())

    def _describe_service(
        self, service: Service, number: int, env: dict[str, str], rank: Rank, probe: HttpProbe | None = None
    ) -> Process:
        """Describe a service with its own logins. Without `probe` its health address is probed."""
        host = probe.host if probe else LOOPBACK
        health_port = find_free_port(env.get("AGENTCHAT_HOST", LOOPBACK))
        urls = self._servers.services[service]
        env |= self._keys | {
            "AGENTCHAT_DATABASE_URL": urls.database,
            "AGENTCHAT_NATS_URL": urls.nats,
            "AGENTCHAT_HEALTH_PORT": str(health_port),
        }
        process = self._process(
            f"{service.replace('_', '-')}-{number}",
            service,
            env,
            probe or HttpProbe(health_port),
            rank,
            (*(each.name for each in self._servers.processes), PREPARE),
        )
        metrics_url = HttpProbe(health_port, "/metrics", host).url
        return msgspec.structs.replace(process, metrics_url=metrics_url)

    def _process(
        self,
        name: str,
        module: str,
        env: dict[str, str],
        probe: HttpProbe | None,
        rank: Rank,
        after: tuple[str, ...],
    ) -> Process:
        return Process(
            name=name,
            argv=(
                sys.executable,
                "-m",
                f"agentchat.{module}",
                "--name",
                name,
                "--run-dir",
                str(self._folder.path),
            ),
            env=self._common | env,
            log=self._folder.log(name),
            probe=probe,
            is_module=True,
            version=metadata.version("agentchat"),
            after=after,
            stop_rank=rank,
        )


def _build_inherited_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that every service inherits: no secrets, no proxy between services."""
    kept = {
        name: value
        for name, value in environ.items()
        if name.removesuffix(FILE_SUFFIX) not in _NOT_INHERITED and not name.startswith(_SIGN_IN)
    }
    outside = environ.get("no_proxy", "") or environ.get("NO_PROXY", "")
    bypass = ",".join(filter(None, (LOOPBACK, "localhost", outside)))
    return kept | {"NO_PROXY": bypass, "no_proxy": bypass, "AGENTCHAT_HOST": LOOPBACK}


def to_reachable_host(host: str) -> str:
    """Return an address at which a server that listens on `host` can be reached."""
    return {"0.0.0.0": LOOPBACK, "::": "::1", "": LOOPBACK}.get(host, host)  # noqa: S104 - compared, not bound
