"""GET /openai/v1/models and /openai/v1/models/{model}: the account's agents, as OpenAI lists models."""

from typing import Annotated, Any

from litestar import Request, get
from litestar.di import NamedDependency, Provide
from litestar.openapi.spec import Example
from litestar.params import PathParameter

from contracts.examples import AGENT
from directory.caller import Caller
from directory.named import NamedAgent, agent_of, named_agents
from gateway.access.account_bounds import within_reads_at_once
from gateway.access.admission import within_read_rate
from gateway.access.auth import provide_caller
from gateway.gateway_services import parts_of
from gateway.http.problem_responses import Refusal
from gateway.openapi.described import described
from gateway.protocols.openai.completions import has_bearer_key
from gateway.protocols.openai.completions_openapi import SECURITY, TAG
from gateway.protocols.openai.wire import Model, ModelList

_EXAMPLE = Model(id="Shop assistant", created=1795253400, name="Shop assistant")
_ModelName = Annotated[
    str,
    PathParameter(
        description="The agent's id, or a name that it alone has.",
        examples=[Example(value=AGENT)],
    ),
]


@get(
    "/openai/v1/models",
    operation_id="listModels",
    summary="List the account's agents.",
    response_description="The enabled agents of the account.",
    guards=[has_bearer_key, within_read_rate, within_reads_at_once],
    dependencies={"caller": Provide(provide_caller, sync_to_thread=False)},
    security=[SECURITY],
    tags=[TAG["name"]],
)
@described(examples={"one": ModelList(data=(_EXAMPLE,))})
async def list_models(request: Request[Any, Any, Any], caller: NamedDependency[Caller]) -> ModelList:
    """All of them."""
    agents = await named_agents(parts_of(request).pool, caller.account_id)
    return ModelList(data=tuple(map(_model, agents)))


@get(
    "/openai/v1/models/{model:str}",
    operation_id="getModel",
    summary="Get one of them.",
    response_description="The agent.",
    guards=[has_bearer_key, within_read_rate],
    dependencies={"caller": Provide(provide_caller, sync_to_thread=False)},
    security=[SECURITY],
    tags=[TAG["name"]],
)
@described("agent_not_found", examples={"one": _EXAMPLE})
async def get_model(
    request: Request[Any, Any, Any], caller: NamedDependency[Caller], model: _ModelName
) -> Model:
    """One, by what may stand in `model`. Raises Refusal."""
    agent = agent_of(await named_agents(parts_of(request).pool, caller.account_id), model)
    if agent is None:
        raise Refusal("agent_not_found")
    return _model(agent)


def _model(agent: NamedAgent) -> Model:
    return Model(id=agent.called, created=agent.created, name=agent.name)
