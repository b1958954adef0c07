"""Request the model's replies: stream their text, continue one that broke off, record span and cost.

No text is put into a span.
"""

import asyncio
import contextlib
import time
from collections.abc import Iterator

import msgspec
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from agentchat.contracts.values import Usage
from agentchat.conversations.aggregate.conversation import Run
from agentchat.orchestrator.models import (
    Credentials,
    Meter,
    ModelCall,
    ModelClient,
    ModelFailure,
    ModelReply,
    OnText,
)
from agentchat.orchestrator.models.continue_reply import Seam, replace_text
from agentchat.orchestrator.models.model_interface import clean_provider_message
from agentchat.orchestrator.output.output_spec import OutputSpec, strip_fence
from agentchat.orchestrator.run.channel import TraceChannel
from agentchat.runtime import genai_attributes, logs, metrics, tracing

_BEFORE_GOING_ON_SECONDS = 0.25
_REPAIR = (
    "Your reply is not valid: {}. Reply again with the complete, corrected JSON document and nothing else, "
    "without a code fence."
)
_PAUSED = "The model provider paused its reply and left it unfinished."


@contextlib.contextmanager
def _call_span(provider: str, call: ModelCall, meter: Meter) -> Iterator[Span]:
    """Trace one call as `chat <model>`, with its cost and its failure."""
    before, began, outcome = meter.usage, time.perf_counter(), "ok"
    with tracing.open_span(
        f"{genai_attributes.CHAT} {call.model}",
        kind=SpanKind.CLIENT,
        attributes={
            genai_attributes.OPERATION_NAME: genai_attributes.CHAT,
            genai_attributes.PROVIDER_NAME: provider,
            genai_attributes.REQUEST_MODEL: call.model,
            genai_attributes.REQUEST_STREAM: True,
        },
    ) as span:
        try:
            yield span
        except ModelFailure as failure:
            outcome = failure.code
            span.set_attribute(genai_attributes.ERROR_TYPE, failure.kind)
            span.set_status(Status(StatusCode.ERROR, failure.code))
            raise
        except BaseException:
            outcome = "interrupted"
            raise
        finally:
            metrics.MODEL_CALLS.labels(provider=provider, outcome=outcome).observe(
                time.perf_counter() - began
            )
            spent = meter.usage
            cached = spent.cache_read_tokens - before.cache_read_tokens
            created = spent.cache_creation_tokens - before.cache_creation_tokens
            fresh = spent.input_tokens - before.input_tokens
            written = spent.output_tokens - before.output_tokens
            kinds = {"input": fresh, "output": written, "cache_read": cached, "cache_write": created}
            for kind, tokens in kinds.items():
                if tokens:
                    metrics.TOKENS.labels(provider=provider, model=call.model, kind=kind).inc(tokens)
            span.set_attribute(genai_attributes.USAGE_INPUT_TOKENS, fresh + cached + created)
            span.set_attribute(genai_attributes.USAGE_OUTPUT_TOKENS, written)
            span.set_attribute(genai_attributes.USAGE_CACHE_READ_INPUT_TOKENS, cached)
            span.set_attribute(genai_attributes.USAGE_CACHE_CREATION_INPUT_TOKENS, created)


def _describe(span: Span, reply: ModelReply) -> None:
    span.set_attribute(genai_attributes.RESPONSE_ID, reply.message_id)
    span.set_attribute(genai_attributes.RESPONSE_MODEL, reply.model)
    span.set_attribute(genai_attributes.RESPONSE_FINISH_REASONS, [reply.stop_reason])


class RoundCost:
    """Cost of the round under way, which the log does not have yet."""

    def __init__(self) -> None:
        self._round = 0
        self._meter = Meter()

    def begin(self, number: int) -> Meter:
        """Return a meter for the calls of a round, with the cost of its failed calls."""
        if number != self._round:
            self._round, self._meter = number, Meter()
        return self._meter

    def mark_recorded(self) -> None:
        """Start again at zero: the log has the cost."""
        self._meter = Meter()

    def get_unrecorded(self, run: Run) -> Usage:
        """Return the cost that `run`, as the log has it, lacks."""
        recorded = any(each.number == self._round and each.blocks is not None for each in run.rounds)
        return Usage() if recorded else self._meter.usage


class ReplyStreamer:
    """Requests the replies of one attempt from the model of one provider.

    `user` is the pseudonym of the end user. `shows_reasoning`: readers get the reasoning of each round, by
    the first call that has any.
    """

    def __init__(
        self,
        model: ModelClient,
        provider: str,
        credentials: Credentials,
        channel: TraceChannel,
        output: OutputSpec,
        user: str | None = None,
        *,
        shows_reasoning: bool = False,
    ) -> None:
        self._model = model
        self._provider = provider
        self._credentials = credentials
        self._channel = channel
        self._output = output
        self._user = user
        self._shows_reasoning = shows_reasoning

    async def stream_reply(self, call: ModelCall, meter: Meter, *, go_on: bool) -> ModelReply:
        """Stream one reply. With `go_on`, a reply that breaks off after some text is continued once.

        Raises:
            ModelFailure
        """
        try:
            return await self._stream_text(call, meter)
        except ModelFailure as failure:
            if not (failure.transient and self._channel.text and go_on):
                raise
            logs.get_logger("run").warning("reply_broke_off", kind=failure.kind, round=self._channel.round)
        await asyncio.sleep(_BEFORE_GOING_ON_SECONDS)
        return await self._stream_text(call, meter)

    async def request_without_streaming(self, call: ModelCall, meter: Meter) -> ModelReply:
        """Request a reply that no reader sees. Raises ModelFailure."""
        reply = await self._request(call, None, meter)
        _raise_if_unusable(reply)
        return reply

    async def _stream_text(self, call: ModelCall, meter: Meter) -> ModelReply:
        if self._output.is_json:
            return await self._send_checked_json(call, meter)
        sent = self._channel.text
        seam = Seam(sent)

        async def send_joined(text: str) -> None:
            await self._channel.send_text(seam.join(text))

        if sent:
            reply = await self._request(msgspec.structs.replace(call, already_sent=sent), send_joined, meter)
            await self._channel.send_text(seam.flush())
        else:
            reply = await self._request(call, self._channel.send_text, meter, self._choose_reasoning_sink())
        _raise_if_unusable(reply)
        return reply

    async def _send_checked_json(self, call: ModelCall, meter: Meter) -> ModelReply:
        """Send a JSON reply when it is complete, and only if it is valid (docs/change/rules.md 5).

        An invalid reply is repaired once: the model gets the validator's message and replies again.
        """
        reply, problem = await self._request_json(call, meter)
        if problem:
            log, first = logs.get_logger("run"), problem
            reply, problem = await self._request_json(_ask_for_repair(call, reply, first), meter)
            metrics.OUTPUT_REPAIRS.labels(outcome="failed" if problem else "ok").inc()
            log.warning("output_repaired", round=self._channel.round, succeeded=not problem)
            if problem:
                raise ModelFailure(
                    "output_invalid", f"The model's reply is not valid: {problem}.", kind="schema"
                )
            reply = msgspec.structs.replace(reply, repaired=first)
        if not _has_calls(reply):
            text = _get_text(reply)
            sent = self._channel.text  # by an earlier attempt
            if not text.startswith(sent):
                raise ModelFailure("generation_interrupted", "The reply was interrupted.")
            await self._channel.send_text(text[len(sent) :])
        return reply

    async def _request_json(self, call: ModelCall, meter: Meter) -> tuple[ModelReply, str]:
        """Return a reply, without a code fence around its JSON, and what is wrong with its text."""
        reply = await self._request(call, None, meter, self._choose_reasoning_sink())
        _raise_if_unusable(reply)
        if _has_calls(reply):
            return reply, ""
        text = _get_text(reply)
        if (inner := strip_fence(text)) != text:
            reply = msgspec.structs.replace(reply, blocks=replace_text(reply.blocks, inner))
        return reply, await self._output.find_problem(reply, inner)

    def _choose_reasoning_sink(self) -> OnText | None:
        channel = self._channel
        is_wanted = self._shows_reasoning and not channel.text and not channel.has_reasoning
        return channel.send_reasoning if is_wanted else None

    async def _request(
        self, call: ModelCall, on_text: OnText | None, meter: Meter, on_reasoning: OnText | None = None
    ) -> ModelReply:
        with _call_span(self._provider, call, meter) as span:
            named = call if self._user is None else msgspec.structs.replace(call, user=self._user)
            try:
                reply = await self._model.stream(self._credentials, named, on_text, meter, on_reasoning)
            except ModelFailure as failure:
                said, key = failure.provider_message, self._credentials.api_key
                failure.provider_message = clean_provider_message(said, key)
                raise
            _describe(span, reply)
            return reply


def _has_calls(reply: ModelReply) -> bool:
    return any(block["type"] == "tool_use" for block in reply.blocks)


def _get_text(reply: ModelReply) -> str:
    return "".join(block["text"] for block in reply.blocks if block["type"] == "text")


def _ask_for_repair(call: ModelCall, reply: ModelReply, problem: str) -> ModelCall:
    """Append the invalid reply and the validator's message to the call."""
    said = _get_text(reply) or "(nothing)"
    answer = {"role": "assistant", "content": [{"type": "text", "text": said}]}
    order = {"role": "user", "content": [{"type": "text", "text": _REPAIR.format(problem)}]}
    return msgspec.structs.replace(call, messages=[*call.messages, answer, order])


def _raise_if_unusable(reply: ModelReply) -> None:
    """Raise ModelFailure for a reply that is none.

    A reply that a limit cut short counts as far as it goes; an unknown stop reason is accepted.
    """
    if reply.stop_reason == "refusal":
        raise ModelFailure("provider_refused")
    if reply.stop_reason == "model_context_window_exceeded" and not reply.blocks:
        raise ModelFailure("context_too_long")
    if reply.stop_reason == "pause_turn":  # only for the provider's own tools, which no agent has
        raise ModelFailure("provider_error", _PAUSED, kind="pause_turn")
