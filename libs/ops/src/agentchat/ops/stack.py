"""Describe the complete stack as data, for `agentchat up` and for the tests."""

import os
import zlib
from collections.abc import Mapping

import msgspec

from agentchat.bus.nats_users import PROVISIONER
from agentchat.ops import demo, free_ports
from agentchat.ops.demo import Demo
from agentchat.ops.demo_env import Environment
from agentchat.ops.errors import SetupError
from agentchat.ops.folder_secrets import Secrets
from agentchat.ops.free_ports import LOOPBACK, find_free_port
from agentchat.ops.process import Process
from agentchat.ops.run_folder import RunFolder
from agentchat.ops.servers import nats, valkey
from agentchat.ops.servers.postgres_server import OWNER, SUPERUSER, Cluster
from agentchat.ops.service_processes import Rank, Servers, Services, Urls, to_reachable_host
from agentchat.ops.settings import ProcessCounts, UpSettings
from agentchat.runtime.database_roles import ANALYST, OPERATOR, SERVICES, get_role


class Stack(msgspec.Struct, frozen=True):
    """The processes, in the order in which they are shown, and how to reach them."""

    processes: tuple[Process, ...]
    environment: Environment


def describe_servers(
    folder: RunFolder,
    key: str,
    settings: UpSettings = UpSettings(),  # noqa: B008 - frozen
    *,
    fast: bool = False,
) -> Servers:
    """Describe an embedded server for each URL that is not set; all users share a URL that is set.

    Args:
        folder: The run folder.
        key: Key from which passwords are derived.
        settings: URLs of servers that run elsewhere.
        fast: For tests: Postgres without durability, its superuser the owner.
    """
    processes: list[Process] = []
    cluster = Cluster(folder, key, fast=fast)
    database_port, nats_port, redis_port = find_free_port(), find_free_port(), find_free_port()
    users_key = None if fast else key
    if settings.database_url is None:
        processes.append(cluster.process(database_port, stop_rank=Rank.SERVER))
    if settings.nats_url is None:
        processes.append(nats.describe_process(folder, nats_port, key=users_key, stop_rank=Rank.SERVER))
    if settings.redis_url is None:
        processes.append(valkey.describe_process(folder, redis_port, key=users_key, stop_rank=Rank.SERVER))

    def build_urls(role: str, user: str) -> Urls:
        return Urls(
            database=settings.database_url or cluster.url(database_port, role),
            nats=settings.nats_url or nats.build_url(nats_port, users_key, user),
            redis=settings.redis_url or valkey.build_url(redis_port, users_key, user),
        )

    return Servers(
        tuple(processes),
        owner=build_urls(SUPERUSER if fast else OWNER, PROVISIONER),
        operator=build_urls(OPERATOR, "operator"),
        analyst_database=settings.database_url or cluster.url(database_port, ANALYST),
        services={each: build_urls(get_role(each), each.replace("_", "-")) for each in SERVICES},
    )


def describe_stack(
    folder: RunFolder,
    secrets: Secrets,
    settings: UpSettings,
    counts: ProcessCounts,
    environ: Mapping[str, str] = os.environ,
) -> Stack:
    """Choose the ports and describe every process. Raises SetupError if a port is in use."""
    if settings.rehearsal:
        counts = msgspec.structs.replace(counts, orchestrators=0, tool_runners=0)
    gateway_ports = [_choose_gateway_port(settings)]
    gateway_ports += [find_free_port(settings.host) for _ in range(counts.gateways - 1)]
    mcp_port = _choose_lasting_port("AGENTCHAT_MCP_PORT", settings.mcp_port, folder, 20_000)
    console_port = _choose_lasting_port("AGENTCHAT_CONSOLE_PORT", settings.console_port, folder, 10_000)
    model_port = find_free_port()
    host = to_reachable_host(settings.host)
    shown_host = f"[{host}]" if ":" in host else host
    gateway_urls = tuple(f"http://{shown_host}:{port}" for port in gateway_ports)
    model_url, mcp_base_url = f"http://{LOOPBACK}:{model_port}", f"http://{LOOPBACK}:{mcp_port}"
    servers = describe_servers(folder, secrets.servers_key, settings)
    services = Services(folder, settings, secrets, servers, environ)
    serving = (
        services.describe_demo("mcp-demo", "AGENTCHAT_MCP_PORT", mcp_port),
        services.describe_demo("model-demo", "AGENTCHAT_MODEL_PORT", model_port),
        *(services.describe_projector(number) for number in range(1, counts.projectors + 1)),
        *(
            services.describe_tool_runner(number, gateway_urls[0])
            for number in range(1, counts.tool_runners + 1)
        ),
        *(services.describe_orchestrator(number, model_url) for number in range(1, counts.orchestrators + 1)),
        *(services.describe_gateway(number, port) for number, port in enumerate(gateway_ports, 1)),
    )
    watched = tuple(f"{each.name}={each.metrics_url}" for each in serving if each.metrics_url)
    demo_data = Demo(
        api_key=secrets.api_key,
        starter_api_key=secrets.starter_api_key,
        load_api_key=secrets.load_api_key,
        mcp_url=f"{mcp_base_url}/api/mcp",
        anthropic_key=settings.anthropic_api_key,
        openai_key=settings.openai_api_key,
    )
    environment = Environment(
        base_url=gateway_urls[0],
        gateway_urls=gateway_urls,
        mcp_base_url=mcp_base_url,
        console_url=f"http://{LOOPBACK}:{console_port}",
        nats_url=servers.operator.nats,
        database_url=servers.operator.database,
        analyst_database_url=servers.analyst_database,
        redis_url=servers.operator.redis,
        api_key=secrets.api_key,
        agent_id=demo.AGENT_ID,
        retrieval_agent_id=demo.RETRIEVAL_AGENT_ID,
        openai_agent_id=demo.OPENAI_AGENT_ID,
        starter_api_key=secrets.starter_api_key,
        starter_agent_id=demo.STARTER_AGENT_ID,
        load_api_key=secrets.load_api_key,
        load_agent_id=demo.LOAD_AGENT_ID,
        admin_token=settings.admin_token or secrets.admin_token,
        rehearsal="1" if settings.rehearsal else None,
    )
    console = services.describe_console(console_port, watched)
    return Stack((*servers.processes, services.describe_prepare(demo_data), *serving, console), environment)


def _choose_gateway_port(settings: UpSettings) -> int:
    """Return the port that is set; without a setting 8080, or a free port if that is in use."""
    if settings.port is None:
        return find_free_port(settings.host, preferred=free_ports.GATEWAY_PORT)
    return _choose_port("AGENTCHAT_PORT", settings.port, settings.host)


def _choose_port(setting: str, wanted: int, host: str = LOOPBACK) -> int:
    """Return the port; for 0 any free one. Raises SetupError if it is in use."""
    if wanted and not free_ports.is_free(wanted, host):
        raise SetupError(f"port {wanted} on {host} is in use; choose another by {setting} (0: any)")
    return wanted or find_free_port(host)


def _choose_lasting_port(setting: str, wanted: int, folder: RunFolder, lowest: int) -> int:
    """Return the port; for 0 the same free port at each start, from `lowest` on.

    So agents keep the demo tool server's address, and so their version, and bookmarks of the console work.
    """
    if wanted:
        return _choose_port(setting, wanted)
    return find_free_port(preferred=lowest + zlib.crc32(str(folder.path.resolve()).encode()) % 10_000)
