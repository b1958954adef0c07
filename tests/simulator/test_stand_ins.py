"""Check that stand-ins have only methods of the real classes: a renamed one would never be called."""

from typing import Any

import pytest

from agentchat.bus.queue_consumer import QueueDelivery
from agentchat.bus.rpc import Rpc
from agentchat.bus.trace_channel import Traces
from agentchat.bus.work_queues import Queues
from agentchat.conversations.event_store.append_writer import Writer
from agentchat.conversations.event_store.event_log import Log
from agentchat.limits.limiter import Limiter
from agentchat.orchestrator.agent_loader import Agents
from agentchat.orchestrator.models import Models
from agentchat.orchestrator.models.model_interface import ModelClient
from agentchat.tool_runner.servers.agent_servers import AgentServers
from agentchat.tool_runner.servers.tool_servers import ServerPool, ToolServer
from tests.simulator import bus, database, model, nats, services

STAND_INS: list[tuple[type[Any], tuple[type[Any], ...]]] = [
    (bus.SimQueues, (Queues,)),
    (bus.SimTraces, (Traces,)),
    (bus.SimRpc, (Rpc,)),
    (nats.Delivery, (QueueDelivery,)),
    (database.SimLog, (Log,)),
    (database.SimWriter, (Writer,)),
    (services.SimLimiter, (Limiter,)),
    (model.SimAgents, (Agents, AgentServers)),
    (model.SimModels, (Models,)),
    (model.SimModel, (ModelClient,)),
    (model.SimToolServer, (ToolServer, ServerPool)),
]


@pytest.mark.parametrize(("stand_in", "real"), STAND_INS, ids=lambda value: getattr(value, "__name__", ""))
def test_stand_in_has_only_methods_of_the_real_one(stand_in: type[Any], real: tuple[type[Any], ...]) -> None:
    theirs = {name for each in real for name in dir(each)}
    assert {name for name in vars(stand_in) if not name.startswith("_")} - theirs == set()
