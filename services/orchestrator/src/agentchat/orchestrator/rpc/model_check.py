"""Check an agent's provider: make a model call with its key, model and parameters (`chat.models.check`)."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from agentchat.contracts import messages, subjects, wire
from agentchat.contracts.messages import ProviderCheck, ProviderCode
from agentchat.contracts.values import ToolSpec
from agentchat.directory.agent_config import AgentConfig, use_fallback
from agentchat.net_guard.permitted_addresses import look_up_for
from agentchat.orchestrator.models import Credentials, ModelCall, ModelFailure
from agentchat.orchestrator.models.model_interface import clean_provider_message
from agentchat.orchestrator.models.thinking import ask_for_thinking
from agentchat.orchestrator.output.output_spec import OutputSpec
from agentchat.orchestrator.run.retrieval import Retriever
from agentchat.orchestrator.services import WorkerServices
from agentchat.orchestrator.tools.tool_list_cache import ToolsUnavailable

_QUESTION = [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]
_TOOLS_SECONDS = 5.0
_CODES: dict[str, ProviderCode] = {
    "http_400": "bad_parameter",
    "http_422": "bad_parameter",
    "http_401": "authentication",
    "http_402": "billing",
    "http_403": "permission",
    "http_404": "model_not_found",
    "model_not_found": "model_not_found",
    "wrong_base_url": "wrong_base_url",
    "too_many_tools": "bad_parameter",
    "connection": "unreachable",
    "address": "address_refused",
    "no_key": "no_key",
    "key_unreadable": "key_unreadable",
}
# The provider's own words name what to change.
_TELLING = frozenset({"bad_parameter", "model_not_found"})


@asynccontextmanager
async def serve_checks(services: WorkerServices) -> AsyncIterator[None]:
    """Answer CheckModel while the block runs, as one of all orchestrators."""

    async def answer(data: bytes) -> bytes:
        request = wire.decode_message(messages.CheckModel, data)
        with look_up_for(request.account_id):
            return wire.encode(await check_models(services, request))

    serving = await services.bus.rpc.serve(subjects.MODELS_CHECK, "orchestrator", answer)
    try:
        yield
    finally:
        await serving.close()


async def check_models(services: WorkerServices, request: messages.CheckModel) -> messages.ModelChecked:
    """Call the model and its fall-backs as runs of that agent version would. Raises DatabaseUnavailable."""
    agent = await services.agents.load_version(request.account_id, request.agent_id, request.agent_version)
    if agent is None:
        unknown = _make_failed_check("agent_not_found", "The agent or its version does not exist.")
        return messages.ModelChecked(provider=unknown)
    numbers = range(len(agent.fallbacks) + 1)
    checks = (_check_provider(services, use_fallback(agent, number)) for number in numbers)
    own, *others = await asyncio.gather(*checks)
    return messages.ModelChecked(provider=own, fallbacks=tuple(others))


async def _check_provider(services: WorkerServices, agent: AgentConfig) -> ProviderCheck:
    try:
        credentials = services.models.resolve_credentials(agent)
    except ModelFailure as failure:
        return _make_failed_check(_get_code(failure), str(failure))
    return await _call_model(services, ask_for_thinking(agent), credentials)


async def _call_model(
    services: WorkerServices, agent: AgentConfig, credentials: Credentials
) -> ProviderCheck:
    began = time.perf_counter()
    try:
        model = await services.models.get_model(agent.provider)
        output = OutputSpec(agent, services.schema_checks, model, credentials.base_url)
        retriever = Retriever(services.pool, agent)
        call = ModelCall(
            model=agent.model,
            system=output.add_instruction(retriever.add_instruction(agent.system_prompt)),
            messages=_QUESTION,
            parameters=agent.parameters,
            tools=await _list_tools(services, agent),
            output_schema=output.schema,
        )
        await model.check(credentials, call)
    except ModelFailure as failure:
        found = _make_failed_check(_get_code(failure), _describe(failure, credentials.api_key))
    else:
        found = ProviderCheck(ok=True, code="ok")
    return msgspec.structs.replace(found, ms=round((time.perf_counter() - began) * 1000))


async def _list_tools(services: WorkerServices, agent: AgentConfig) -> tuple[ToolSpec, ...]:
    """Return the agent's tools; none if no server lists them, which the check of the servers reports."""
    try:
        async with asyncio.timeout(_TOOLS_SECONDS):
            return await services.listings.get_tools(agent)
    except (ToolsUnavailable, TimeoutError):
        return ()


def _make_failed_check(code: ProviderCode, detail: str) -> ProviderCheck:
    return ProviderCheck(ok=False, code=code, detail=detail)


def _get_code(failure: ModelFailure) -> ProviderCode:
    if failure.kind in _CODES:
        return _CODES[failure.kind]
    match failure.code:
        case "provider_timeout":
            return "timeout"
        case "provider_overloaded":
            return "overloaded"
        case _:
            return "provider_error"


def _describe(failure: ModelFailure, key: str) -> str:
    """Describe a failure, with the provider's own words if they name a parameter or model, never the key."""
    if _get_code(failure) not in _TELLING or not failure.provider_message:
        return str(failure)
    return f"{failure} It said: {clean_provider_message(failure.provider_message, key)}"
