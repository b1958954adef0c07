"""GET /openai/v1/models and /openai/v1/models/{model}: the account's agents, as OpenAI lists models."""

from typing import Annotated

from litestar import get
from litestar.openapi.spec import Example
from litestar.params import PathParameter

from contracts.examples import AGENT
from directory.agent_names import NamedAgent, agent_of, named_agents
from gateway.access.account_bounds import within_reads_at_once
from gateway.access.admission import within_read_rate
from gateway.gateway_request import GatewayRequest
from gateway.http.problem_responses import Refusal
from gateway.openapi.described import described
from gateway.protocols.openai.wire import Model, ModelList

_EXAMPLE = Model(id="Shop assistant", created=1795253400, name="Shop assistant")
_ModelName = Annotated[
    str,
    PathParameter(
        description="The agent's id, or a name that it alone has.", examples=[Example(value=AGENT)]
    ),
]


@get(
    "/models",
    operation_id="listModels",
    summary="List the account's agents.",
    response_description="The enabled agents of the account.",
    guards=[within_read_rate, within_reads_at_once],
)
@described(examples={"one": ModelList(data=(_EXAMPLE,))})
async def list_models(request: GatewayRequest) -> ModelList:
    agents = await named_agents(request.services.pool, request.auth.account_id)
    return ModelList(data=tuple(map(_model, agents)))


@get(
    "/models/{model:str}",
    operation_id="getModel",
    summary="Get one of them.",
    response_description="The agent.",
    guards=[within_read_rate],
)
@described("agent_not_found", examples={"one": _EXAMPLE})
async def get_model(request: GatewayRequest, model: _ModelName) -> Model:
    """One, by what may stand in `model`. Raises Refusal."""
    agent = agent_of(await named_agents(request.services.pool, request.auth.account_id), model)
    if agent is None:
        raise Refusal("agent_not_found")
    return _model(agent)


def _model(agent: NamedAgent) -> Model:
    return Model(id=agent.called, created=agent.created, name=agent.name)
