"""List the account's agents as models: GET /openai/v1/models."""

from typing import Annotated

from litestar import get
from litestar.params import PathParameter

from agentchat.directory.agent_names import NamedAgent, find_named_agent, list_named_agents
from agentchat.gateway.access.checks import may_read_as_openai
from agentchat.gateway.http.problems import Refusal
from agentchat.gateway.http.request_context import JsonRequest
from agentchat.gateway.protocols.openai.completion_types import ModelEntry, ModelList

ModelName = Annotated[str, PathParameter(description="The agent's id, or its name if no other agent has it.")]


@get(
    "/models",
    operation_id="listModels",
    summary="List the account's agents.",
    guards=[may_read_as_openai],
)
async def list_models(request: JsonRequest) -> ModelList:
    """Return the account's agents."""
    agents = await list_named_agents(request.services.pool, request.auth.account_id)
    return ModelList(data=tuple(map(_to_model, agents)))


@get(
    "/models/{model:str}",
    operation_id="getModel",
    summary="Get one of them.",
    guards=[may_read_as_openai],
)
async def get_model(request: JsonRequest, model: ModelName) -> ModelEntry:
    """Return one agent."""
    agents = await list_named_agents(request.services.pool, request.auth.account_id)
    agent = find_named_agent(agents, model)
    if agent is None:
        raise Refusal("agent_not_found")
    return _to_model(agent)


def _to_model(agent: NamedAgent) -> ModelEntry:
    return ModelEntry(id=agent.public_name, created=agent.created, name=agent.name)
