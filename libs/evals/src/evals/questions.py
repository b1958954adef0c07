"""A case as a question for the orchestrators, and their answer to it."""

from typing import Any

import msgspec

from bus import MessageTooLarge
from contracts.replay_messages import WhatIf, WhatIfAnswered
from contracts.values import ToolSpec
from directory.agents import AgentSettings
from evals.cases import Case
from evals.errors import QuestionTooLarge
from evals.suite import SuiteAgent, SuiteTools
from experiments.reruns import Reruns

_OLD_WORKER = "A worker of release 0.9.0 answered, which knows no cases; upgrade all orchestrators."


def question_of(case: Case, agent: SuiteAgent, tools: SuiteTools, seconds: float) -> WhatIf:
    """The case, to be done again by the agent within so many seconds."""
    return WhatIf(
        account_id=agent.account_id,
        agent_id=agent.agent_id,
        agent_version=agent.version,
        conversation_id=case.origin.conversation_id,
        trace_id=case.origin.trace_id,
        seconds=seconds,
        record=case.events,
        passages=case.passages,
        offered=offered_to(agent.settings, case.offered),
        agent=configuration_of(agent.settings),
        unrecorded=tools.unrecorded,
        harmless=tools.harmless,
    )


def offered_to(settings: AgentSettings, collected: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
    """Of the tools that were offered then, those that the settings' servers still let the agent use.

    A tool that only the new settings have is not known here, and not offered.
    """
    servers = {server.name: server for server in settings.mcp_servers if not server.disabled}
    return tuple(
        spec
        for spec in collected
        if (server := servers.get(spec.server)) is not None
        and (server.allowed_tools is None or spec.tool in server.allowed_tools)
    )


def configuration_of(settings: AgentSettings) -> dict[str, Any]:
    """The settings as a question carries them, without what no rerun uses: the servers' headers."""
    fields: dict[str, Any] = msgspec.to_builtins(settings)
    for server in fields["mcp_servers"]:
        server["headers"] = {}
    return fields


async def answer_to(reruns: Reruns, question: WhatIf) -> WhatIfAnswered:
    """Raises QuestionTooLarge, and BusUnavailable where no orchestrator has ever answered."""
    try:
        answer = await reruns.answer(question)
    except MessageTooLarge as error:
        raise QuestionTooLarge(str(error)) from None
    if answer.unrecorded is None and answer.outcome != "unavailable":
        return WhatIfAnswered(outcome="unavailable", detail=_OLD_WORKER)
    return answer
