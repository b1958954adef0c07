"""A text put to a model by the orchestrators, with an agent's provider, key and parameters.

For judges, and for whatever else of a suite needs a model:

    reply = await ask_model(reruns, agent, "Which one is better?", system="You judge ...", schema={...})
    reply.text, reply.usage

It is a rerun of a conversation of one message (`contracts.replay_messages.WhatIf`): nothing is stored,
published or counted. `agent.settings` say the provider, its address, the model and the parameters; its
tools, knowledge and prompt are left out.
"""

from typing import Any

import msgspec
from msgspec.structs import replace

from contracts import events, wire
from contracts.ids import new_id, new_trace_id
from contracts.replay_messages import WhatIf
from contracts.values import Usage
from directory.model_parameters import summary_parameters
from evals.questions import answer_to, configuration_of
from evals.suite import SuiteAgent
from experiments.reruns import Reruns

_ASKED_AT = "2026-01-01T00:00:00.000000Z"
"""No model is shown it."""


class ModelReply(msgspec.Struct, frozen=True, kw_only=True):
    """`text` is JSON by the schema, where one was asked for. `ms` is how long the model took."""

    text: str
    model: str
    usage: Usage
    ms: int


class ModelUnavailable(Exception):  # noqa: N818 - a state of things
    """There is no reply. `code` is one of `contracts.errors` or "unavailable", `usage` what it cost so far.

    `transient`: the same text may well have one later.
    """

    def __init__(self, code: str, detail: str, usage: Usage, *, transient: bool) -> None:
        super().__init__(detail or code)
        self.code = code
        self.usage = usage
        self.transient = transient


async def ask_model(
    reruns: Reruns,
    agent: SuiteAgent,
    text: str,
    *,
    system: str,
    schema: dict[str, Any] | None = None,
    model: str | None = None,
    seconds: float = 120.0,
) -> ModelReply:
    """The reply of the agent's model, or of another `model` of its provider, to one message.

    With `schema` (JSON Schema) it is JSON that fits; a reply that does not is `output_invalid`. Raises
    ModelUnavailable, QuestionTooLarge, and BusUnavailable where no orchestrator has ever answered.
    """
    trace_id = new_trace_id()
    settings = replace(
        agent.settings,
        model=model or agent.settings.model,
        system_prompt=system,
        parameters=summary_parameters(agent.settings.provider, agent.settings.parameters),
        output_type="text" if schema is None else "json",
        output_schema=schema,
        mcp_servers=(),
        retrieval=None,
        compaction=None,
    )
    question = WhatIf(
        account_id=agent.account_id,
        agent_id=agent.agent_id,
        agent_version=agent.version,
        conversation_id=new_id(),
        trace_id=trace_id,
        seconds=seconds,
        record=_conversation_of(agent.account_id, trace_id, text),
        offered=(),
        agent=configuration_of(settings),
    )
    answer = await answer_to(reruns, question)
    if answer.outcome != "completed":
        code = answer.code or answer.outcome
        transient = answer.transient or answer.outcome == "unavailable"
        raise ModelUnavailable(code, answer.detail or "", answer.usage, transient=transient)
    return ModelReply(text=answer.content, model=answer.model, usage=answer.usage, ms=answer.ms)


def _conversation_of(account_id: str, trace_id: str, text: str) -> tuple[msgspec.Raw, ...]:
    """The events of a conversation with one message, and of a run about it that has ended."""
    asked = events.MessageSaved(
        trace_id=trace_id, at=_ASKED_AT, message_id=new_id(), role="user", agent_id="", content=text
    )
    stored: tuple[events.Event, ...] = (
        events.ConversationStarted(trace_id=trace_id, at=_ASKED_AT, account_id=account_id),
        asked,
        events.RunCompleted(trace_id=trace_id, at=_ASKED_AT, usage=Usage(), rounds=0),
    )
    return tuple(msgspec.Raw(wire.encode(event)) for event in stored)
