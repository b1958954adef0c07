"""The stack of a run: the processes of `agentchat up` with a proxy on each of their links."""

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import httpx
import msgspec

from agentchat.ops import folder_secrets
from agentchat.ops.demo_env import Environment
from agentchat.ops.free_ports import LOOPBACK, find_free_port
from agentchat.ops.probes import HttpProbe, TcpProbe
from agentchat.ops.process import Process
from agentchat.ops.run_folder import RunFolder
from agentchat.ops.settings import ProcessCounts, UpSettings
from agentchat.ops.stack import describe_stack
from tests.chaos.load import Access
from tests.chaos.model_log import ModelLog, provider_key
from tests.chaos.nats_nodes import NatsCluster, client_port
from tests.chaos.plan import (
    ACCOUNTS,
    CONCURRENT_RUNS,
    LIMITED,
    MODELS,
    RATE_PER_MINUTE,
    SERVICES,
    WRITES,
)
from tests.chaos.postgres_pair import PostgresPair
from tests.chaos.processes import Kin
from tests.chaos.records import Clock
from tests.chaos.tail import Tail
from tests.chaos.tool_log import ToolLog, list_tools, server_key
from tests.support.proxy import Proxy
from tests.tool_runner.scripted import ScriptedServer

_START_SECONDS = 60.0
_PLAN = "Chaos"


class Rig:
    """A running stack and everything around it."""

    def __init__(self, folder: RunFolder, environment: Environment, kin: Kin, clock: Clock) -> None:
        self.folder = folder
        self.environment = environment
        self.kin = kin
        self.clock = clock
        self.proxies: dict[str, Proxy] = {}
        self.tail = Tail(environment.database_url, clock)
        self.tools = ToolLog(clock)
        self.pair: PostgresPair | None = None
        """Where Postgres has a standby."""
        self.access: dict[str, Access] = {}
        self.client_ports: list[int] = []
        self.model: ModelLog

    @property
    def log(self) -> Path:
        """A log of the run that is no process's own."""
        return self.folder.log("rig")


@contextlib.asynccontextmanager
async def running_rig(
    path: Path,
    *,
    links: bool = True,
    added: Mapping[str, str] | None = None,
    spares: bool = False,
    nats_cluster: bool = False,
    standby: bool = False,
) -> AsyncIterator[Rig]:
    """The processes of `agentchat up`, two of each service, up and with accounts, while the block runs.

    Without `links` the processes reach each other directly, and only the model and the tools are recorded.
    `added` is added to the environment of each service.
    With `spares` there is a second projector; with `standby` a second Postgres.
    With `nats_cluster` there are three nodes of NATS, which reach each other by proxies too.
    """
    folder = RunFolder(path)
    folder.create()
    with folder.lock():
        tools_port = find_free_port()
        settings = UpSettings(port=0, mcp_allow=(f"{LOOPBACK}:{tools_port}",))
        kept = folder_secrets.load_or_create_secrets(folder.secrets)
        counts = ProcessCounts(gateways=2, orchestrators=2, tool_runners=2, projectors=2 if spares else 1)
        environ = {name: value for name, value in os.environ.items() if not name.startswith("AGENTCHAT_")}
        stack = describe_stack(folder, kept, settings, counts, environ | dict(added or {}))
        found = {process.name: process for process in stack.processes if process.name != "mcp-demo"}
        pair = _pair_postgres(found, folder, kept.servers_key) if standby else None
        environment = stack.environment
        wiring = _Wiring(found, links=links)
        if nats_cluster:
            cluster = NatsCluster(found["nats"], folder, kept.servers_key, wiring.link)
            found = cluster.join_cluster(found)
            environment = msgspec.structs.replace(
                environment, nats_url=cluster.replace_address(environment.nats_url)
            )
            wiring.retarget(found)
        processes = [wiring.route_process(process) for process in found.values()]
        clock = Clock()
        if pair is not None:
            url = pair.replace_address(environment.database_url)
            environment = msgspec.structs.replace(environment, database_url=url)
        rig = Rig(folder, environment, Kin(processes, clock), clock)
        rig.pair = pair
        rig.log.touch()
        rig.client_ports = wiring.client_ports
        rig.model = ModelLog(wiring.model_log_port, f"http://{LOOPBACK}:{wiring.model_port}", rig.tail, clock)
        tool_server = ScriptedServer(rig.tools.on_call, list_tools())
        await tool_server.start()
        rig.proxies = wiring.proxies | {"tool-runner>tools": Proxy(tool_server.port, tools_port)}
        async with contextlib.AsyncExitStack() as opened:
            opened.push_async_callback(tool_server.stop)
            for proxy in (*rig.proxies.values(), *([pair.link] if pair else [])):
                await proxy.open()
                opened.push_async_callback(proxy.close)
            await opened.enter_async_context(rig.model.serve())
            opened.push_async_callback(rig.tail.close)
            await opened.enter_async_context(rig.kin)
            await rig.kin.wait_ready(_START_SECONDS)
            rig.access = await _accounts(environment, f"http://{LOOPBACK}:{tools_port}/mcp")
            following = asyncio.create_task(rig.tail.follow())
            opened.callback(following.cancel)
            yield rig


def _pair_postgres(found: dict[str, Process], folder: RunFolder, key: str) -> PostgresPair:
    """Adds the standby, and names both to the others."""
    pair = PostgresPair(found["postgres"], folder, key)
    for name, process in found.items():
        env = {variable: pair.replace_address(value) for variable, value in process.env.items()}
        found[name] = msgspec.structs.replace(process, env=env)
    found |= pair.processes
    return pair


class _Wiring:
    """Gives each process addresses of its own proxies: host:port is replaced throughout its environment."""

    def __init__(self, processes: Mapping[str, Process], *, links: bool) -> None:
        self.proxies: dict[str, Proxy] = {}
        self._links = links
        self.model_port = _port(processes["model-demo"])
        self.model_log_port = find_free_port()
        self._targets: dict[int, tuple[str, int]] = {}
        self.retarget(processes)
        self.client_ports = [
            self.link(f"client>{name}", _port(processes[name])) for name in ("gateway-1", "gateway-2")
        ]

    def retarget(self, processes: Mapping[str, Process]) -> None:
        """Know the servers by their ports, before any service is wired to them."""
        servers = [each for each in processes.values() if each.is_server]
        self._targets = {_port(each): (each.name, _port(each)) for each in servers}
        self._targets[self.model_port] = ("model", self.model_log_port)

    def route_process(self, process: Process) -> Process:
        if process.name not in SERVICES:
            return process
        env = {name: self._rewrite_address(process.name, value) for name, value in process.env.items()}
        return msgspec.structs.replace(process, env=env)

    def _rewrite_address(self, service: str, value: str) -> str:
        for port, (server, target) in self._targets.items():
            address = re.compile(rf"\b{re.escape(LOOPBACK)}:{port}\b")
            if address.search(value):
                value = address.sub(f"{LOOPBACK}:{self.link(f'{service}>{server}', target)}", value)
        return value

    def link(self, name: str, target: int) -> int:
        """The port by which it is reached."""
        if not self._links:
            return target
        if name not in self.proxies:
            self.proxies[name] = Proxy(target, find_free_port())
        return self.proxies[name].port


def _port(process: Process) -> int:
    if process.name.startswith("nats"):
        return client_port(process)
    assert isinstance(process.probe, HttpProbe | TcpProbe)
    return process.probe.port


async def _accounts(environment: Environment, tools_url: str) -> dict[str, Access]:
    """Makes the accounts and their agents, by the admin API."""
    async with admin_of(environment) as admin:
        plan = {
            "name": _PLAN,
            "requests_per_minute": RATE_PER_MINUTE,
            "concurrent_runs": CONCURRENT_RUNS,
            "tokens_per_month": None,
            "form2_streaming": True,
        }
        await post(admin, "/plans", plan)
        return {name: await _account(admin, name, tools_url) for name in (*ACCOUNTS, LIMITED)}


async def lift_limits(environment: Environment) -> None:
    """Of the account that has some."""
    async with admin_of(environment) as admin:
        none = {"requests_per_minute": None, "concurrent_runs": None}
        (await admin.patch(f"/plans/{_PLAN}", json=none)).raise_for_status()


def admin_of(environment: Environment) -> httpx.AsyncClient:
    """A client of the admin API."""
    headers = {"Authorization": f"Bearer {environment.admin_token}"}
    return httpx.AsyncClient(
        base_url=f"{environment.base_url}/admin/v1", headers=headers, trust_env=False, timeout=20
    )


async def _account(admin: httpx.AsyncClient, name: str, tools_url: str) -> Access:
    plan = _PLAN if name == LIMITED else "Unlimited"
    account = await post(admin, "/accounts", {"name": name, "plan": plan})
    key = await post(admin, f"/accounts/{account['id']}/keys", {"name": "load"})
    agents = {}
    for kind, draft in _drafts(name, tools_url):
        made = await post(admin, "/agents", {"account_id": account["id"], "name": kind, **draft})
        agents[kind] = made["id"]
    return Access(account["id"], key["key"], agents)


def _drafts(account: str, tools_url: str) -> Iterator[tuple[str, dict[str, object]]]:
    for kind, model in MODELS.items():
        draft: dict[str, object] = {
            "model": model,
            "system_prompt": f"You work for [[acct:{account}]].",
            "provider_key": provider_key(account),
        }
        if kind in ("tools", "asking"):
            authorization = {"Authorization": f"Bearer {server_key(account)}"}
            asks = {"always": {"tool_names": [WRITES]}} if kind == "asking" else "never"
            server = {"name": "rig", "url": tools_url, "headers": authorization, "require_approval": asks}
            draft["mcp_servers"] = [server]
        yield kind, draft


async def post(admin: httpx.AsyncClient, path: str, body: dict[str, object]) -> dict[str, str]:
    """What was made. Raises HTTPStatusError."""
    response = await admin.post(path, json=body)
    response.raise_for_status()
    made: dict[str, str] = response.json()
    return made
