"""Apply an agent's output type to its prompt and its reply (docs/change/rules.md 5).

`text`: nothing is added. `markdown`: the model is asked for it. `json`: the provider enforces the schema as
far as it can, and the reply is saved only if it is valid JSON of the schema.
"""

import re
from typing import Any

import msgspec
from msgspec.structs import replace

from agentchat.directory.agent_config import AgentConfig
from agentchat.directory.model_parameters import get_max_tokens
from agentchat.orchestrator.models import ModelClient, ModelFailure, ModelReply
from agentchat.orchestrator.output.validation_processes import SchemaChecks

_MARKDOWN = "Format your reply in Markdown (CommonMark, with tables where they help)."
_JSON = (
    "Your reply is read by a program: reply with one JSON document and nothing else, without a code fence, "
    "that satisfies this JSON Schema:\n"
)
_FENCED = re.compile(r"\s*```[\w+-]*[ \t]*\r?\n(?P<inner>.*?)\s*```\s*", re.DOTALL)
_CUTS = {
    "max_tokens": "reached {limit}",
    "model_context_window_exceeded": "reached the end of the model's context window",
    "stop_sequence": "was ended by a stop sequence",
}


def strip_fence(text: str) -> str:
    """Return what is in a code fence if the text is nothing else, else the text."""
    fenced = _FENCED.fullmatch(text)
    return text if fenced is None or "```" in fenced["inner"] else fenced["inner"]


class OutputSpec:
    """The output that a run requires. `schema` is that of its JSON, None for other types.

    `requested` is a schema from the request, which replaces the agent's output type.
    """

    def __init__(
        self,
        agent: AgentConfig,
        checks: SchemaChecks,
        model: ModelClient,
        base_url: str,
        requested: dict[str, Any] | None = None,
    ) -> None:
        if requested is not None:
            agent = replace(agent, output_type="json", output_schema=requested)
        self._agent = agent
        self._checks = checks
        self.schema = agent.output_schema if agent.output_type == "json" else None
        self._instructs = self.schema is not None and not model.can_enforce(
            base_url, agent.parameters, self.schema
        )

    @property
    def is_json(self) -> bool:
        """True if the reply must be JSON."""
        return self._agent.output_type == "json"

    def add_instruction(self, system_prompt: str) -> str:
        """Return the system prompt, with an instruction if the provider does not enforce the form."""
        if self._agent.output_type == "markdown":
            return f"{system_prompt}\n\n{_MARKDOWN}".lstrip()
        if self._instructs:
            return f"{system_prompt}\n\n{_JSON}{msgspec.json.encode(self.schema).decode()}".lstrip()
        return system_prompt

    async def find_problem(self, reply: ModelReply, text: str) -> str:
        """Return what is wrong with `text`, which is to be saved; "" if nothing is.

        Raises:
            ModelFailure: A limit cut the reply, so that asking again would not help.
        """
        problem = await self._checks.find_problem(self._agent, text, schema=self.schema)
        if problem and reply.stop_reason in _CUTS:
            cut = _CUTS[reply.stop_reason].format(limit=self._describe_token_limit())
            raise ModelFailure("output_invalid", f"The reply {cut} before its JSON was complete.", kind="cut")
        return problem

    def _describe_token_limit(self) -> str:
        limit = get_max_tokens(self._agent.provider, self._agent.parameters)
        return "the model's limit" if limit is None else f"max_tokens ({limit})"
