"""The services as processes: the environment and the health address of each."""

import enum
import os
import sys
from collections.abc import Callable, Mapping
from importlib import metadata

import msgspec

from ops.demo import AGENT_ID, Demo
from ops.folder import RunFolder
from ops.ports import LOOPBACK
from ops.probes import HttpProbe
from ops.process import Process
from runtime.roles import Service
from runtime.settings import FILE_SUFFIX

PREPARE = "database"
_EMBEDDINGS_KEY = "AGENTCHAT_EMBEDDINGS_KEY"
_DATABASE_URL, _NATS_URL, _REDIS_URL = "AGENTCHAT_DATABASE_URL", "AGENTCHAT_NATS_URL", "AGENTCHAT_REDIS_URL"
_MODEL_ALLOW = "AGENTCHAT_MODEL_ALLOW"
_MCP_ALLOW = "AGENTCHAT_MCP_ALLOW"
_WEBHOOK_ALLOW = "AGENTCHAT_WEBHOOK_ALLOW"
_PROVISIONER_URL = "AGENTCHAT_NATS_PROVISIONER_URL"
_SECRETS = {
    _PROVISIONER_URL,
    _DATABASE_URL,
    _NATS_URL,
    _REDIS_URL,
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "AGENTCHAT_SECRET_KEY",
    "AGENTCHAT_SECRET_KEY_PREVIOUS",
    "AGENTCHAT_ADMIN_TOKEN",
    _EMBEDDINGS_KEY,
}
"""Given only to those who need them."""
_SIGN_IN = "AGENTCHAT_CONSOLE_OIDC_"
"""Begins the names of settings that nobody is given: the console of a stack is open on loopback."""

_COUNTS = ("gateway", "orchestrator")
_SLOWS_STARTS = {"PYTHONDONTWRITEBYTECODE"}


class Rank(enum.IntEnum):
    """Stop order: who takes requests first, who serves the others last."""

    GATEWAY = 0
    ORCHESTRATOR = 1
    TOOL_RUNNER = 2
    PROJECTOR = 3
    DEMO = 4
    SERVER = 5


class Addresses(msgspec.Struct, frozen=True, kw_only=True):
    """How one user reaches the servers."""

    database_url: str
    nats_url: str
    redis_url: str

    def __repr__(self) -> str:
        """Without them: each holds a password."""
        return "Addresses()"


class ModelServer(msgspec.Struct, frozen=True):
    """Where agents of one provider find it that name no place, and the key of those that have none."""

    base_url: str
    api_key: str

    def __repr__(self) -> str:
        """Without the key."""
        return f"ModelServer(base_url={self.base_url!r})"


class Wiring(msgspec.Struct, frozen=True, kw_only=True):
    """What the services have to know of each other and of the servers."""

    owner: Addresses
    services: dict[Service, Addresses]
    secret_key: str
    previous_secret_keys: tuple[str, ...]
    admin_token: str
    demo_key: str
    mcp_allow: tuple[str, ...]
    model_allow: tuple[str, ...]
    webhook_allow: tuple[str, ...]
    anthropic: ModelServer
    openai: ModelServer
    host: str
    """Where gateways listen; everything else is on loopback."""
    public_url: str
    """Where browsers reach the first of them."""
    after: tuple[str, ...]
    """The embedded servers."""
    nats_replicas: int = 1
    """Of each stream."""

    def __repr__(self) -> str:
        """Without secrets, of which addresses may hold one."""
        return f"Wiring(host={self.host!r}, after={self.after!r})"


class Services:
    """Makes the services' processes for one run folder and one wiring."""

    def __init__(self, folder: RunFolder, wiring: Wiring, environ: Mapping[str, str] = os.environ) -> None:
        self._folder = folder
        self._wiring = wiring
        dropped = _SECRETS | _SLOWS_STARTS
        inherited = {
            name: value
            for name, value in environ.items()
            if name.removesuffix(FILE_SUFFIX) not in dropped and not name.startswith(_SIGN_IN)
        }
        # A proxy for the outside world must not get what passes between the processes of this machine.
        outside = environ.get("no_proxy", "") or environ.get("NO_PROXY", "")
        bypass = ",".join(filter(None, (LOOPBACK, "localhost", outside)))
        self._inherited = inherited | {"NO_PROXY": bypass, "no_proxy": bypass, "AGENTCHAT_HOST": LOOPBACK}
        self._secret = {
            "AGENTCHAT_SECRET_KEY": wiring.secret_key,
            "AGENTCHAT_SECRET_KEY_PREVIOUS": ",".join(wiring.previous_secret_keys),
        }
        names = (_EMBEDDINGS_KEY, _EMBEDDINGS_KEY + FILE_SUFFIX)
        self._embeddings = {name: environ.get(name, "") for name in names}

    def prepare(self, demo: Demo | None) -> Process:
        """The job that brings the database up to date, before any service starts; with the `demo`'s data."""
        after = tuple(name for name in self._wiring.after if name == "postgres")
        own = {
            "AGENTCHAT_DEMO": "" if demo is None else msgspec.json.encode(demo).decode(),
        }
        env = {_DATABASE_URL: self._wiring.owner.database_url} | self._secret | self._embeddings | own
        return self._process(PREPARE, "ops.prepare", env, None, Rank.SERVER, after)

    def gateway(self, number: int, port: int, health_port: int) -> Process:
        own = {
            "AGENTCHAT_HOST": self._wiring.host,
            "AGENTCHAT_PORT": str(port),
            "AGENTCHAT_HEALTH_PORT": str(health_port),
            "AGENTCHAT_ADMIN_TOKEN": self._wiring.admin_token,
            _MODEL_ALLOW: ",".join(self._wiring.model_allow),
            _MCP_ALLOW: ",".join(self._wiring.mcp_allow),
            _WEBHOOK_ALLOW: ",".join(self._wiring.webhook_allow),
        }
        if self._wiring.host == LOOPBACK:  # `/docs` shows them to everybody
            own |= {"AGENTCHAT_DEMO_KEY": self._wiring.demo_key, "AGENTCHAT_DEMO_AGENT_ID": AGENT_ID}
        host = reachable(self._wiring.host)
        env = self._servers("gateway") | self._secret | self._embeddings | own
        return self._process(
            *(f"gateway-{number}", "gateway", env, HttpProbe(port, host=host), Rank.GATEWAY),
            metrics=HttpProbe(health_port, "/metrics", host),
        )

    def orchestrator(self, number: int, port: int) -> Process:
        own = (
            self._secret
            | self._embeddings
            | {
                _MODEL_ALLOW: ",".join(self._wiring.model_allow),
                "ANTHROPIC_BASE_URL": self._wiring.anthropic.base_url,
                "ANTHROPIC_API_KEY": self._wiring.anthropic.api_key,
                "OPENAI_BASE_URL": self._wiring.openai.base_url,
                "OPENAI_API_KEY": self._wiring.openai.api_key,
            }
        )
        return self._worker(f"orchestrator-{number}", "orchestrator", own, port, Rank.ORCHESTRATOR)

    def tool_runner(self, number: int, port: int) -> Process:
        own = self._secret | {
            _MCP_ALLOW: ",".join(self._wiring.mcp_allow),
            "AGENTCHAT_PUBLIC_URL": self._inherited.get("AGENTCHAT_PUBLIC_URL") or self._wiring.public_url,
        }
        return self._worker(f"tool-runner-{number}", "tool_runner", own, port, Rank.TOOL_RUNNER)

    def projector(self, number: int, port: int) -> Process:
        own = {_PROVISIONER_URL: self._wiring.owner.nats_url}
        if self._wiring.nats_replicas > 1:
            own["AGENTCHAT_NATS_REPLICAS"] = str(self._wiring.nats_replicas)
        return self._worker(f"projector-{number}", "projector", own, port, Rank.PROJECTOR)

    def notifier(self, number: int, port: int) -> Process:
        """It needs no server but Postgres."""
        own = {
            _DATABASE_URL: self._wiring.services["notifier"].database_url,
            _WEBHOOK_ALLOW: ",".join(self._wiring.webhook_allow),
            "AGENTCHAT_HEALTH_PORT": str(port),
        }
        after = (*(name for name in self._wiring.after if name == "postgres"), PREPARE)
        name, env = f"notifier-{number}", self._secret | own
        metrics = HttpProbe(port, "/metrics")
        return self._process(name, "notifier", env, HttpProbe(port), Rank.PROJECTOR, after, metrics)

    def console(self, port: int, health_port: int, services: tuple[str, ...]) -> Process:
        """On loopback it is open to everybody there; `services` are what its health page looks at."""
        own = {
            "AGENTCHAT_CONSOLE_PORT": str(port),
            "AGENTCHAT_HEALTH_PORT": str(health_port),
            "AGENTCHAT_CONSOLE_SERVICES": ",".join(services),
            "AGENTCHAT_CONSOLE_URL": "",
            _MODEL_ALLOW: ",".join(self._wiring.model_allow),
            _MCP_ALLOW: ",".join(self._wiring.mcp_allow),
            _WEBHOOK_ALLOW: ",".join(self._wiring.webhook_allow),
        }
        env = self._servers("console") | self._secret | self._embeddings | own
        return self._process(
            *("console-1", "console", env, HttpProbe(port), Rank.GATEWAY),
            metrics=HttpProbe(health_port, "/metrics"),
        )

    def mcp_demo(self, port: int) -> Process:
        return self._demo("mcp-demo", "mcp_demo", {"AGENTCHAT_MCP_PORT": str(port)}, port)

    def model_demo(self, port: int) -> Process:
        return self._demo("model-demo", "model_demo", {"AGENTCHAT_MODEL_PORT": str(port)}, port)

    def _worker(self, name: str, package: Service, own: dict[str, str], port: int, rank: int) -> Process:
        env = self._servers(package) | {"AGENTCHAT_HEALTH_PORT": str(port)} | own
        metrics = HttpProbe(port, "/metrics")
        return self._process(name, package, env, HttpProbe(port), rank, metrics=metrics)

    def _servers(self, service: Service) -> dict[str, str]:
        """Its own logins; only those that count requests are given Redis."""
        own = self._wiring.services[service]
        counters = {_REDIS_URL: own.redis_url} if service in _COUNTS else {}
        return {_DATABASE_URL: own.database_url, _NATS_URL: own.nats_url} | counters

    def _demo(self, name: str, package: str, own: dict[str, str], port: int) -> Process:
        """The demos know nothing of the rest, and need no server."""
        return self._process(name, package, own, HttpProbe(port), Rank.DEMO, ())

    def _process(
        self,
        name: str,
        module: str,
        env: dict[str, str],
        probe: HttpProbe | None,
        rank: int,
        after: tuple[str, ...] | None = None,
        metrics: HttpProbe | None = None,
    ) -> Process:
        return Process(
            name=name,
            argv=(sys.executable, "-m", module, "--name", name, "--run-dir", str(self._folder.path)),
            env=self._inherited | env,
            log=self._folder.log(name),
            probe=probe,
            metrics_url=None if metrics is None else metrics.url,
            version=metadata.version("agentchat"),
            after=(*self._wiring.after, PREPARE) if after is None else after,
            stop_rank=rank,
        )


def numbered(count: int, make: Callable[[int, int], Process], ports: Callable[[], int]) -> list[Process]:
    """`count` processes, numbered from 1, each on a port of its own."""
    return [make(number, ports()) for number in range(1, count + 1)]


def reachable(host: str) -> str:
    """An address to reach a server by that listens on `host`."""
    return {"0.0.0.0": LOOPBACK, "::": "::1", "": LOOPBACK}.get(host, host)  # noqa: S104 - compared, not bound
