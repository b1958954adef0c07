"""The complete stack as data: one description of its processes, for `agentchat up` and for the tests."""

import os
import zlib
from collections.abc import Mapping

import msgspec

from bus.users import PROVISIONER
from ops import demo
from ops.demo import Demo
from ops.environment import Environment
from ops.errors import SetupError
from ops.folder import RunFolder
from ops.folder_secrets import Secrets
from ops.ports import ANY_LOOPBACK, LOOPBACK, Ports
from ops.process import Process
from ops.servers import nats, valkey
from ops.servers.postgres_server import OWNER, SUPERUSER, Cluster
from ops.services import Addresses, ModelServer, Rank, Services, Wiring, numbered, reachable
from ops.settings import CONSOLE_PORT, GATEWAY_PORT, MCP_PORT, Counts, UpSettings
from runtime.roles import OPERATOR, SERVICES, Service, role_of


class Stack(msgspec.Struct, frozen=True):
    """The processes in the order in which they are shown, and how to reach them when all are ready."""

    processes: tuple[Process, ...]
    environment: Environment


class Servers(msgspec.Struct, frozen=True):
    """The embedded servers, and how each user reaches these and those that run elsewhere."""

    processes: tuple[Process, ...]
    owner: Addresses
    """Migrates the database and makes streams; in tests the database's superuser."""
    operator: Addresses
    services: dict[Service, Addresses]

    @property
    def database_url(self) -> str:
        return self.owner.database_url

    @property
    def nats_url(self) -> str:
        return self.owner.nats_url

    @property
    def redis_url(self) -> str:
        return self.owner.redis_url


def describe_servers(
    folder: RunFolder,
    ports: Ports,
    key: str,
    settings: UpSettings = UpSettings(),  # noqa: B008 - frozen
    *,
    fast: bool = False,
    nats_nodes: int = 1,
) -> Servers:
    """An embedded server for each URL that is not set; a URL that is set is used by all users.

    `key` makes the passwords. `fast` is for tests: Postgres without durability, its superuser the owner.
    Raises SetupError for a number of `nats_nodes` that cannot work.
    """
    processes: list[Process] = []
    cluster, port = Cluster(folder, key, fast=fast), 0
    nats_ports: tuple[int, ...] = ()
    redis_port, users_key = 0, None if fast else key
    if settings.database_url is None:
        port = ports.free()
        processes.append(cluster.process(port, stop_rank=Rank.SERVER))
    if settings.nats_url is None:
        nodes, nats_ports = nats.processes(folder, ports, nats_nodes, key=users_key, stop_rank=Rank.SERVER)
        processes += nodes
    elif nats_nodes > 1:
        raise SetupError("AGENTCHAT_NATS_URL is set: there are no embedded NATS nodes then")
    if settings.redis_url is None:
        redis_port = ports.free()
        processes.append(valkey.process(folder, redis_port, key=users_key, stop_rank=Rank.SERVER))

    def addresses(role: str, user: str) -> Addresses:
        return Addresses(
            database_url=settings.database_url or cluster.url(port, role),
            nats_url=settings.nats_url or nats.urls(nats_ports, users_key, user),
            redis_url=settings.redis_url or valkey.url(redis_port, users_key, user),
        )

    return Servers(
        tuple(processes),
        owner=addresses(SUPERUSER if fast else OWNER, PROVISIONER),
        operator=addresses(OPERATOR, "operator"),
        services={each: addresses(role_of(each), each.replace("_", "-")) for each in SERVICES},
    )


def describe(
    folder: RunFolder,
    ports: Ports,
    secrets: Secrets,
    settings: UpSettings,
    counts: Counts,
    environ: Mapping[str, str] = os.environ,
) -> Stack:
    """Takes the ports. Raises SetupError where one is taken, or a program is missing."""
    first_port = ports.take(GATEWAY_PORT, settings.port, settings.host)
    gateway_ports = [first_port, *(ports.free(settings.host) for _ in range(counts.gateways - 1))]
    model_port = ports.free()
    mcp_port = _kept_port(ports, MCP_PORT, settings.mcp_port, folder, 20_000)
    console_port = _kept_port(ports, CONSOLE_PORT, settings.console_port, folder, 10_000)
    servers = describe_servers(folder, ports, secrets.servers_key, settings, nats_nodes=counts.nats_nodes)
    mcp_base_url = f"http://{LOOPBACK}:{mcp_port}"
    model_url = f"http://{LOOPBACK}:{model_port}"
    host = reachable(settings.host)
    shown_host = f"[{host}]" if ":" in host else host
    gateway_urls = tuple(f"http://{shown_host}:{port}" for port in gateway_ports)
    wiring = Wiring(
        owner=servers.owner,
        services=servers.services,
        secret_key=settings.secret_key or secrets.secret_key,
        previous_secret_keys=_previous_keys(secrets, settings),
        admin_token=settings.admin_token or secrets.admin_token,
        demo_key=secrets.api_key,
        mcp_allow=(*settings.mcp_allow, *ANY_LOOPBACK),
        model_allow=(*settings.model_allow, *ANY_LOOPBACK),
        webhook_allow=(*settings.webhook_allow, *ANY_LOOPBACK),
        anthropic=_model_server(settings.anthropic_base_url, settings.anthropic_api_key, model_url),
        openai=_model_server(settings.openai_base_url, settings.openai_api_key, f"{model_url}/v1"),
        host=settings.host,
        public_url=gateway_urls[0],
        nats_replicas=counts.nats_nodes,
        after=tuple(process.name for process in servers.processes),
    )
    services = Services(folder, wiring, environ)
    demo_data = Demo(
        api_key=secrets.api_key,
        starter_api_key=secrets.starter_api_key,
        load_api_key=secrets.load_api_key,
        mcp_url=f"{mcp_base_url}/api/mcp",
        anthropic_key=settings.anthropic_api_key,
        openai_key=settings.openai_api_key,
    )
    serving = (
        services.mcp_demo(mcp_port),
        services.model_demo(model_port),
        *numbered(counts.projectors, services.projector, ports.free),
        *numbered(counts.notifiers, services.notifier, ports.free),
        *numbered(counts.tool_runners, services.tool_runner, ports.free),
        *numbered(counts.orchestrators, services.orchestrator, ports.free),
        *numbered(
            counts.gateways,
            lambda number, port: services.gateway(number, port, ports.free()),
            iter(gateway_ports).__next__,
        ),
    )
    watched = tuple(f"{each.name}={each.metrics_url}" for each in serving if each.metrics_url)
    processes = (
        *servers.processes,
        services.prepare(demo_data),
        *serving,
        services.console(console_port, ports.free(), watched),
    )
    addresses = gateway_urls, mcp_base_url, f"http://{LOOPBACK}:{console_port}"
    return Stack(processes, _environment(*addresses, servers.operator, wiring, secrets))


def _model_server(base_url: str, api_key: str | None, offline_url: str) -> ModelServer:
    """The provider, where there is a key for it, else the offline model."""
    return ModelServer(base_url, api_key) if api_key else ModelServer(offline_url, demo.OFFLINE_KEY)


def _previous_keys(secrets: Secrets, settings: UpSettings) -> tuple[str, ...]:
    """Those of the run folder count only with its own key."""
    kept = () if settings.secret_key else secrets.previous_secret_keys
    return (*settings.previous_secret_keys, *kept)


def _environment(
    gateway_urls: tuple[str, ...],
    mcp_base_url: str,
    console_url: str,
    operator: Addresses,
    wiring: Wiring,
    secrets: Secrets,
) -> Environment:
    return Environment(
        base_url=gateway_urls[0],
        gateway_urls=gateway_urls,
        mcp_base_url=mcp_base_url,
        console_url=console_url,
        nats_url=operator.nats_url,
        database_url=operator.database_url,
        redis_url=operator.redis_url,
        api_key=secrets.api_key,
        agent_id=demo.AGENT_ID,
        retrieval_agent_id=demo.RETRIEVAL_AGENT_ID,
        openai_agent_id=demo.OPENAI_AGENT_ID,
        starter_api_key=secrets.starter_api_key,
        starter_agent_id=demo.STARTER_AGENT_ID,
        load_api_key=secrets.load_api_key,
        load_agent_id=demo.LOAD_AGENT_ID,
        admin_token=wiring.admin_token,
    )


def _kept_port(ports: Ports, setting: str, wanted: int, folder: RunFolder, lowest: int) -> int:
    """The port that is wanted; for 0 the same free one at each start, from `lowest` on.

    So agents keep the demo tool server's address, and their version; and a bookmark of the console stays.
    """
    if wanted:
        return ports.take(setting, wanted)
    return ports.free(first=lowest + zlib.crc32(str(folder.path.resolve()).encode()) % 10_000)
