"""`agentchat eval run --embedded`: a private service for one run of a suite, as in a customer's CI.

Postgres, NATS, Redis and an orchestrator, and a tool-runner where tools may be called, in a temporary folder
on free ports of loopback. The agent is the suite's own, the provider key the environment's. All of it ends,
and is removed, with the run.
"""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from administration import Admin, admin_accounts
from administration.admin_values import NewAccount
from administration.admin_versions import create_agent
from bus import Bus, BusUnavailable
from contracts.replay_messages import NO_VERSION
from directory.agent_draft import AgentDraft
from directory.agents import AgentSettings
from directory.secrets import sealer_of
from evals.running import RunPlan, SuiteRun
from evals.suite import SuiteAgent
from ops.errors import SetupError, StackError, StoppedError
from ops.evals.show_suite import suite_errors
from ops.evals.suite_session import STOPPED, SuiteSession
from ops.folder import RunFolder
from ops.folder_secrets import Secrets
from ops.services import Services
from ops.settings import UpSettings
from ops.stack import Servers, describe_servers
from ops.stack_report import QuietReport
from ops.supervisor import Supervisor
from ops.up import ending_signals
from runtime import logs
from runtime.postgres import open_pool
from runtime.settings import SettingsError, load

_START_SECONDS = 90.0
_KEYS = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}


def run_embedded(session: SuiteSession, plan: RunPlan) -> SuiteRun:
    """Start, run, stop. Raises StackError."""
    logs.configure("eval", "critical")  # what goes wrong is reported here, in a line
    try:
        settings = load(UpSettings)
    except SettingsError as error:
        raise SetupError(str(error)) from None
    models = _models(settings, plan.agent.settings)
    try:
        return asyncio.run(_run(session, plan, settings, models))
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise StoppedError(STOPPED) from None
    except BusUnavailable as error:
        raise StackError(f"the embedded service does not answer: {error}") from None


async def _run(
    session: SuiteSession, plan: RunPlan, settings: UpSettings, models: dict[str, tuple[str, str]]
) -> SuiteRun:
    working = asyncio.current_task()
    assert working is not None, "it is the task of the command"

    def end() -> None:
        working.cancel()

    with ending_signals(end, end), suite_errors():
        async with _service(plan, settings, models) as (bus, agent):
            return await session.run(bus, msgspec.structs.replace(plan, agent=agent))


@contextlib.asynccontextmanager
async def _service(
    plan: RunPlan, settings: UpSettings, models: dict[str, tuple[str, str]]
) -> AsyncIterator[tuple[Bus, SuiteAgent]]:
    """A connection to it, and the agent as it is known there. Raises StackError."""
    calls_tools = plan.tools.unrecorded == "live"
    with tempfile.TemporaryDirectory(prefix="agentchat-eval-") as path:
        folder, secrets = RunFolder(Path(path)), Secrets()
        folder.path.chmod(0o711)  # Postgres may be run by another user, who has to pass through it
        folder.create()
        servers = describe_servers(folder, secrets.servers_key)
        services = Services(
            folder,
            _with_models(settings, models),
            secrets,
            servers.owner,
            servers.services,
            after=tuple(process.name for process in servers.processes),
            model_url="",
            public_url="",
        )
        processes = [*servers.processes, services.prepare(None), services.orchestrator(1)]
        if calls_tools:
            processes.append(services.tool_runner(1))
        async with (
            Supervisor(folder, processes, QuietReport()) as supervisor,
            # As the provisioner it makes the streams, without which no worker is ready.
            Bus.connect(servers.nats_url, name="agentchat eval streams"),
            Bus.connect(servers.operator.nats, name="agentchat eval") as bus,
        ):
            await supervisor.wait_up(_START_SECONDS)
            agent = msgspec.structs.replace(plan.agent, version=NO_VERSION)
            if calls_tools:
                agent = await _stored(servers, secrets, agent)
            yield bus, _at_default_address(agent)


def _models(settings: UpSettings, agent: AgentSettings) -> dict[str, tuple[str, str]]:
    """The providers; the agent's at its own address, if it has one. Raises SetupError without its key."""
    found = {
        "anthropic": (settings.anthropic_base_url, settings.anthropic_api_key),
        "openai": (settings.openai_base_url, settings.openai_api_key),
    }
    if found[agent.provider][1] is None:
        raise SetupError(f"{_KEYS[agent.provider]} is not set: the suite's agent needs the provider's key")
    if agent.base_url is not None:
        found[agent.provider] = (agent.base_url, found[agent.provider][1])
    return {name: (url, key or "") for name, (url, key) in found.items()}


def _with_models(settings: UpSettings, models: dict[str, tuple[str, str]]) -> UpSettings:
    (anthropic_url, anthropic_key), (openai_url, openai_key) = models["anthropic"], models["openai"]
    return msgspec.structs.replace(
        settings,
        anthropic_base_url=anthropic_url,
        anthropic_api_key=anthropic_key or None,
        openai_base_url=openai_url,
        openai_api_key=openai_key or None,
    )


async def _stored(servers: Servers, secrets: Secrets, agent: SuiteAgent) -> SuiteAgent:
    """The agent in the service's directory, by which the tool-runner finds its servers."""
    sealer = sealer_of(secrets.secret_key)
    async with open_pool(servers.database_url, role=None) as pool:
        admin = Admin(pool=pool, sealer=sealer, actor="agentchat eval")
        account = await admin_accounts.create(admin, NewAccount(name="Suite", plan="Unlimited"))
        draft = AgentDraft(**msgspec.structs.asdict(_at_default_address(agent).settings))
        async with admin.transaction() as conn:
            agent_id = await create_agent(conn, sealer, account.id, draft, actor=admin.actor)
    return msgspec.structs.replace(agent, agent_id=agent_id, account_id=account.id, version=1)


def _at_default_address(agent: SuiteAgent) -> SuiteAgent:
    """Its own address is the service's default here, whose key is the environment's."""
    return msgspec.structs.replace(agent, settings=msgspec.structs.replace(agent.settings, base_url=None))
