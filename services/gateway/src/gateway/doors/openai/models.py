"""GET /openai/v1/models and /openai/v1/models/{model}: the account's agents, as OpenAI lists models."""

from contracts import wire
from directory.named import NamedAgent, agent_called, named_agents
from gateway.admission import reader_of
from gateway.doors.openai.who import api_key_of
from gateway.doors.openai.wire import Model, ModelList
from gateway.exchange import Exchange
from gateway.parts import Parts
from gateway.problems import Refusal


async def list_models(parts: Parts, exchange: Exchange, _name: str) -> None:
    """All of them. Raises Refusal, ClientGone, DatabaseUnavailable."""
    caller = await reader_of(parts, exchange, api_key_of(exchange))
    async with parts.shares.reading(caller):
        agents = await named_agents(parts.pool, caller.account_id)
        await exchange.json(wire.encode(ModelList(data=tuple(map(_model, agents)))))


async def get_model(parts: Parts, exchange: Exchange, name: str) -> None:
    """One, by what may stand in `model`. Raises Refusal, ClientGone, DatabaseUnavailable."""
    caller = await reader_of(parts, exchange, api_key_of(exchange))
    agent = await agent_called(parts.pool, caller.account_id, name.replace("\x00", "\ufffd"))
    if agent is None:
        raise Refusal("agent_not_found", "No agent of the account has this id, or alone has this name.")
    await exchange.json(wire.encode(_model(agent)))


def _model(agent: NamedAgent) -> Model:
    return Model(id=agent.called, created=agent.created, name=agent.name)
