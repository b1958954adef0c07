"""Another version of a suite's agent: its settings with another prompt, model or provider."""

from typing import Any

import msgspec

from contracts.admin_errors import Invalid
from directory.agent_draft import AgentDraft, checked
from directory.agents import AgentSettings
from directory.model_parameters import check_parameters
from evals.errors import UnfitSuite
from evals.suite import AGENT, SuiteAgent


class Overrides(msgspec.Struct, frozen=True, kw_only=True):
    """None: as the agent has it."""

    system_prompt: str | None = None
    model: str | None = None
    provider: str | None = None


def overridden(agent: SuiteAgent, given: Overrides) -> SuiteAgent:
    """The agent with these in place of its own. Raises UnfitSuite where no agent can be like that.

    With another provider it has no address of its own, and those of its parameters that this one has too.
    """
    fields: dict[str, Any] = {
        name: value for name, value in msgspec.structs.asdict(given).items() if value is not None
    }
    if given.provider not in (None, agent.settings.provider):
        fields |= {"base_url": None, "parameters": _common(agent.settings, given.provider)}
    settings = msgspec.structs.replace(agent.settings, **fields)
    try:
        checked(AgentDraft(**msgspec.structs.asdict(settings)))
    except Invalid as error:
        raise UnfitSuite(AGENT, str(error)) from None
    return msgspec.structs.replace(agent, settings=settings)


def _common(settings: AgentSettings, provider: str) -> dict[str, Any]:
    """The parameters that the provider takes, each by itself."""
    taken = {}
    for name, value in settings.parameters.items():
        try:
            check_parameters(provider, {name: value})
        except Invalid:
            continue
        taken[name] = value
    return taken
