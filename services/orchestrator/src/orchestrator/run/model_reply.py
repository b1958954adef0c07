"""The reply of a model: its text is said as it comes, and one that is broken off is gone on with."""

import asyncio

import msgspec

from orchestrator.models import Credentials, Meter, Model, ModelCall, ModelFailure, OnText, Reply
from orchestrator.models.continuation import Seam
from orchestrator.output.final_output import OutputSpec
from orchestrator.run import model_span
from orchestrator.run.channel import TraceChannel
from runtime import logs

_BEFORE_GOING_ON_SECONDS = 0.25
_PAUSED = "The model provider paused its reply and left it unfinished."


class Replies:
    """Asks `model`, of the provider of that name, for the replies of one attempt."""

    def __init__(
        self, model: Model, provider: str, credentials: Credentials, channel: TraceChannel, output: OutputSpec
    ) -> None:
        self._model = model
        self._provider = provider
        self._credentials = credentials
        self._channel = channel
        self._output = output

    async def whole(self, call: ModelCall, meter: Meter, *, go_on: bool) -> Reply:
        """A whole reply. With `go_on`, one that breaks off after some text is gone on with, once.

        Raises ModelFailure.
        """
        try:
            return await self._streamed(call, meter)
        except ModelFailure as failure:
            if not (failure.transient and self._channel.text and go_on):
                raise
            logs.get_logger("run").warning("reply_broke_off", kind=failure.kind, round=self._channel.round)
        await asyncio.sleep(_BEFORE_GOING_ON_SECONDS)
        return await self._streamed(call, meter)

    async def unsaid(self, call: ModelCall, meter: Meter) -> Reply:
        """A reply that no reader is told. Raises ModelFailure."""
        reply = await self._request(call, None, meter)
        _refuse_unfit(reply)
        return reply

    async def _streamed(self, call: ModelCall, meter: Meter) -> Reply:
        if self._output.is_json:
            return await self._streamed_json(call, meter)
        sent = self._channel.text
        seam = Seam(sent)

        async def say(text: str) -> None:
            await self._channel.send_text(seam.join(text))

        if sent:
            reply = await self._request(msgspec.structs.replace(call, already_sent=sent), say, meter)
            await self._channel.send_text(seam.rest())
        else:
            reply = await self._request(call, self._channel.send_text, meter)
        _refuse_unfit(reply)
        return reply

    async def _streamed_json(self, call: ModelCall, meter: Meter) -> Reply:
        """JSON is sent when it is whole, and only if it is the answer (docs/change/design.md 6)."""
        reply = await self._request(call, None, meter)
        _refuse_unfit(reply)
        if not any(block["type"] == "tool_use" for block in reply.blocks):
            text = "".join(block["text"] for block in reply.blocks if block["type"] == "text")
            await self._output.check(reply, text)
            sent = self._channel.text  # by an attempt before this one
            if not text.startswith(sent):
                raise ModelFailure("generation_interrupted", "The reply was interrupted.")
            await self._channel.send_text(text[len(sent) :])
        return reply

    async def _request(self, call: ModelCall, on_text: OnText | None, meter: Meter) -> Reply:
        with model_span.opened(self._provider, call, meter) as span:
            reply = await self._model.stream(self._credentials, call, on_text, meter)
            model_span.describe(span, reply)
            return reply


def _refuse_unfit(reply: Reply) -> None:
    """A reply that is none. One that was cut by a limit is one as far as it goes, and one with a stop reason
    that is new to us is taken as it is.
    """
    if reply.stop_reason == "refusal":
        raise ModelFailure("provider_refused")
    if reply.stop_reason == "model_context_window_exceeded" and not reply.blocks:
        raise ModelFailure("context_too_long")
    if reply.stop_reason == "pause_turn":  # of the provider's own tools, which no agent here has
        raise ModelFailure("provider_error", _PAUSED, kind="pause_turn")
