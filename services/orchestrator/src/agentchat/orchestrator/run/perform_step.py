"""Perform the steps of a run: each returns the events to append for it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from msgspec.structs import replace

from agentchat.contracts import events
from agentchat.contracts.ids import derive_reply_id, find_request_id, make_id
from agentchat.contracts.values import InputAsked, ToolSpec, Usage
from agentchat.conversations.aggregate import next_step
from agentchat.conversations.aggregate.approval_rules import ApprovalTerms, request_approval
from agentchat.conversations.aggregate.compaction_rules import find_opening, find_run_index
from agentchat.conversations.aggregate.conversation import Run, evolve_all
from agentchat.conversations.aggregate.model_messages import HistoryCache, Prompt, build_prompt
from agentchat.conversations.aggregate.rounds import Call
from agentchat.directory.agent_config import AgentConfig
from agentchat.directory.prompt_variables import RenderedPrompt, render_prompt
from agentchat.directory.request_parameters import override_parameters
from agentchat.orchestrator.models import ModelCall, ModelFailure, ModelReply
from agentchat.orchestrator.models.continue_reply import replace_text
from agentchat.orchestrator.models.model_interface import PromptHashes, hash_prompt
from agentchat.orchestrator.output.output_spec import OutputSpec
from agentchat.orchestrator.run.channel import TraceChannel
from agentchat.orchestrator.run.interrupted_text import SentOutput
from agentchat.orchestrator.run.model_files import ModelFiles
from agentchat.orchestrator.run.model_reply import ReplyStreamer, RoundCost
from agentchat.orchestrator.run.retrieval import Retriever
from agentchat.orchestrator.run.run_clock import RunClock
from agentchat.orchestrator.run.run_log import RunRecorder, get_run
from agentchat.orchestrator.tools.offered_tools import OfferedTools
from agentchat.orchestrator.tools.tool_calls import ToolInputRequired
from agentchat.runtime import failpoints

_MISSING = (
    "These tool servers cannot be reached at the moment, so their tools are missing: {}. If the user "
    "needs one of them, say so."
)


class ToolExecutor(Protocol):
    """Runs the calls of a run: `tool_calls.RunToolCalls`, or `recorded_tools.RecordedTools` in a replay."""

    async def run(
        self, round_number: int, calls: tuple[Call, ...], offered: Mapping[str, ToolSpec]
    ) -> tuple[events.Event | ToolInputRequired, ...]:
        """Run the calls of a round. Return their events, in order, or requests for input."""

    def forget_recorded(self, run: Run) -> None:
        """Drop the results that the log of `run` has."""


@dataclass(kw_only=True)
class Performer:
    """Performs the steps of one attempt at the log's run.

    `already` is what earlier attempts have sent of the next round. For replays, `recorded_summary` is reused
    where it covers the same runs. A run keeps the tools and documents of its first reply: newer models
    refuse thinking that follows others.
    """

    log: RunRecorder
    agent: AgentConfig
    replies: ReplyStreamer
    offered: OfferedTools
    histories: HistoryCache
    tools: ToolExecutor
    channel: TraceChannel
    clock: RunClock
    cost: RoundCost
    already: SentOutput
    retriever: Retriever
    files: ModelFiles
    output: OutputSpec
    recorded_summary: events.ContextCompacted | None = None

    async def perform(self, step: next_step.Step) -> Sequence[events.Event]:
        """Perform one step. Raises ModelFailure, ToolsUnavailable."""
        run = self.log.run
        match step:
            case next_step.CallModel():
                self.tools.forget_recorded(run)
                return await self._call_model(run, step)
            case next_step.RunTools():
                return await self._run_tools(run, step)
            case next_step.RequestApproval():
                return await self._request_approvals(run, step.round, [(call, None) for call in step.calls])
            case next_step.Retrieve():
                found = await self.retriever.find(run.user_text)
                return (events.SourcesRetrieved(trace_id=run.trace_id, at=self.clock.now(), sources=found),)

    async def _run_tools(self, run: Run, step: next_step.RunTools) -> Sequence[events.Event]:
        """Run the calls. If a tool asks for input, request all approvals of the round with it."""
        await self.offered.look_up_unknown(call.name for call in step.calls)
        outcomes = await self.tools.run(step.round, step.calls, await self.offered.load())
        returned = tuple(each for each in outcomes if not isinstance(each, ToolInputRequired))
        asking = [each for each in outcomes if isinstance(each, ToolInputRequired)]
        if not asking:
            return returned
        asked: list[tuple[Call, InputAsked | None]] = [
            *((each.call, asks) for each in asking for asks in each.asked),
            *((call, None) for call in next_step.list_held_calls(run.rounds[-1])),
        ]
        return (*returned, *await self._request_approvals(run, step.round, asked))

    async def _request_approvals(
        self, run: Run, number: int, about: Iterable[tuple[Call, InputAsked | None]]
    ) -> Sequence[events.Event]:
        """Build the approval requests. A tool that is no longer listed is shown by its name."""
        agent, offered = self.agent, await self.offered.load()
        questions = []
        for call, asks in about:
            spec = offered.get(call.name)
            terms = ApprovalTerms(
                agent_id=agent.agent_id,
                server="" if spec is None else spec.server,
                tool=call.name if spec is None else spec.tool,
                expires_at=self.clock.after(agent.approval_seconds),
                approvers="account" if call.is_client else agent.approvers,
                on_expiry=agent.on_expiry,
                on_new_message="supersede" if call.is_client else agent.on_new_message,
            )
            approval_id = (find_request_id(call.call_id) if call.is_client else None) or make_id()
            now = self.clock.now()
            questions.append(
                request_approval(
                    run, number, call, terms, approval_id=approval_id, now=now, asked=asks, offered_tool=spec
                )
            )
        return questions

    async def _call_model(self, run: Run, step: next_step.CallModel) -> Sequence[events.Event]:
        already, self.already = self.already, SentOutput()
        has_reasoning = already.reasoned_round == step.round
        self.channel.begin_round(step.round, already.text, already.cuts, has_reasoning=has_reasoning)
        if already.text and run.on_interruption == "fail":
            raise ModelFailure("generation_interrupted", "The reply was interrupted.")
        offered = await self.offered.load()
        documents = run.documents
        if documents is None:
            documents = await self.retriever.load_documents(run.sources)
        system = self._build_system_prompt(run)
        files = await self.files.load(self.log.conversation, run, self.agent)
        hashes = self._hash_prompt(run, system.text, offered, documents, files.changes)
        prompt = build_prompt(
            self.log.conversation,
            run.trace_id,
            tools_offered=bool(offered),
            documents=documents,
            provider=self.agent.provider,
            histories=self.histories,
            prefix_sha256=hashes.prefix if _binds_thinking(self.agent) else None,
        )
        call = replace(
            await self.build_call(run, files.put_into(prompt), system),
            use_tools=step.tools,
            tool_choice=run.tool_choice if step.round == 1 else None,
            output_schema=self.output.schema,
        )
        warnings = self.offered.build_warnings(self.clock.now())
        await self.channel.send_warnings(each.to_warning() for each in warnings)
        failpoints.reach("orchestrator-before-model")
        meter = self.cost.begin(step.round)
        reply = await self.replies.stream_reply(call, meter, go_on=run.on_interruption != "fail")
        if _has_tool_use(reply.blocks):
            reply = replace(reply, blocks=self.offered.fit_blocks(reply.blocks))
        problems = {reply.blocks[place]["id"]: problem for place, problem in reply.bad_inputs.items()}
        replied = self._build_reply(run, step, call, reply, meter.usage, hashes)
        if _has_tool_use(replied.blocks):
            replied = self._record_prefix(replied, run, call.tools, documents)
        return await self._build_reply_events(run, replied, problems)

    async def build_summary_call(self, run: Run, prompt: Prompt) -> ModelCall:
        """Build the call of a prompt for a summary: with the files, tools and system prompt of the run."""
        files = await self.files.load(self.log.conversation, run, self.agent)
        return await self.build_call(run, files.put_into(prompt), self._build_system_prompt(run))

    async def build_call(self, run: Run, prompt: Prompt, system: RenderedPrompt) -> ModelCall:
        """Build the call of a prompt, which has its files, with the agent's tools and a system prompt."""
        return ModelCall(
            model=run.model,
            system=system.text,
            shared_system=system.shared,
            messages=prompt.messages,
            earlier=prompt.earlier,
            settled=prompt.settled,
            parameters=override_parameters(self.agent, run.parameters),
            tools=tuple((await self.offered.load()).values()),
            account_id=self.agent.account_id,
        )

    def _build_system_prompt(self, run: Run) -> RenderedPrompt:
        """Build the run's system prompt. Its date is that of the message, so it is the same in all rounds."""
        agent = self.agent
        rendered = render_prompt(
            agent.system_prompt if run.prompt_override is None else run.prompt_override,
            *(agent.variables, agent.time_zone, run.context, run.requested_at),
        )
        system = "\n\n".join(filter(None, (rendered.text, run.instructions)))
        if self.offered.missing_servers:
            note = _MISSING.format(", ".join(self.offered.missing_servers))
            system = f"{system}\n\n{note}".lstrip()
        return replace(rendered, text=self.output.add_instruction(self.retriever.add_instruction(system)))

    def _hash_prompt(
        self, run: Run, system: str, offered: Mapping[str, ToolSpec], documents: str, changes: tuple[str, ...]
    ) -> PromptHashes:
        conversation = self.log.conversation
        opening, _ = find_opening(conversation, find_run_index(run.trace_id, conversation.runs))
        covered = opening.through_version if isinstance(opening, events.ContextCompacted) else 0
        return hash_prompt(system, tuple(offered.values()), documents, covered, changes)

    def _build_reply(
        self,
        run: Run,
        step: next_step.CallModel,
        call: ModelCall,
        reply: ModelReply,
        usage: Usage,
        hashes: PromptHashes,
    ) -> events.ModelReplied:
        said = self.channel.text
        # The order to continue or to repair a reply is in no later prompt.
        is_continued = not self.output.is_json and _get_text(reply.blocks) != said
        return events.ModelReplied(
            trace_id=run.trace_id,
            at=self.clock.now(),
            round=step.round,
            blocks=_select_blocks(reply.blocks, said, tools=step.tools, as_said=not self.output.is_json),
            stop_reason=reply.stop_reason,
            usage=usage,
            provider=self.agent.provider,
            model=call.model,
            prompt_sha256=hashes.system,
            tools_sha256=hashes.tools,
            repaired=reply.repaired,
            prefix_sha256=hashes.prefix if reply.repaired is None and not is_continued else None,
            first_token_ms=self.channel.measure_first_token(self.clock.seconds_since(run.requested_at)),
        )

    def _record_prefix(
        self, replied: events.ModelReplied, run: Run, tools: tuple[ToolSpec, ...], documents: str
    ) -> events.ModelReplied:
        """Add the tools and documents that the run's later calls must repeat, unless they are recorded."""
        known = self.log.conversation.tool_lists.get(replied.tools_sha256 or "")
        return replace(
            replied,
            offered_tools=tools if self.offered.are_needed_later(replied.blocks) and tools != known else None,
            documents=documents if run.documents is None else None,
        )

    async def _build_reply_events(
        self, run: Run, replied: events.ModelReplied, problems: Mapping[str, str]
    ) -> Sequence[events.Event]:
        calls = await self.offered.build_reply_calls(replied, problems)
        done: list[events.Event] = [
            *self.offered.build_warnings(self.clock.now()),
            *self.channel.build_text_events(replied.at),
            replied,
            *calls,
        ]
        after = get_run(evolve_all(self.log.conversation, done), run.trace_id)
        done += next_step.conclude(after, message_id=derive_reply_id(run.trace_id), now=replied.at)
        return done


def _select_blocks(
    blocks: tuple[dict[str, Any], ...], said: str, *, tools: bool, as_said: bool
) -> tuple[dict[str, Any], ...]:
    """Return the blocks that go back to the model.

    Without calls if none were allowed, and with the text that was sent, which is more than the reply's own if
    the reply continued an interrupted one.
    """
    if not tools:
        blocks = tuple(block for block in blocks if block["type"] != "tool_use")
    if not as_said or _get_text(blocks) == said:
        return blocks
    return replace_text(blocks, said)


def _has_tool_use(blocks: Iterable[dict[str, Any]]) -> bool:
    return any(block["type"] == "tool_use" for block in blocks)


def _get_text(blocks: Iterable[dict[str, Any]]) -> str:
    return "".join(block["text"] for block in blocks if block["type"] == "text")


def _binds_thinking(agent: AgentConfig) -> bool:
    """Return True if the model may check what precedes a thinking block.

    Older Claude models, which have `budget_tokens`, do not check but require the thinking of a run's calls.
    """
    thinking = agent.parameters.get("thinking")
    return agent.provider == "anthropic" and not (isinstance(thinking, dict) and "budget_tokens" in thinking)
