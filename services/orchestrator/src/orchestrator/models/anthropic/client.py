"""Calls by the SDK: it connects, authenticates and words errors; the bytes of a reply are read by us."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import anthropic
import httpx2

from net_guard import Guard
from orchestrator.models.anthropic.failures import from_sdk
from orchestrator.models.anthropic.reply import AnthropicReply
from orchestrator.models.anthropic.request import body_of
from orchestrator.models.clients import Clients
from orchestrator.models.port import Credentials, ModelCall, ModelFailure
from orchestrator.models.schema import output_format


class AnthropicWire:
    """`streaming.Wire` of the Messages API."""

    faults = (anthropic.AnthropicError,)

    def __init__(self, guard: Guard) -> None:
        self._clients = Clients(anthropic.DefaultAioHttpClient, _client, guard)

    @contextlib.asynccontextmanager
    async def open(self, credentials: Credentials, call: ModelCall) -> AsyncIterator[AsyncIterator[bytes]]:
        """Send the call; inside, the bytes of the answer. Raises AnthropicError."""
        body = body_of(call)
        # All of the body goes as `extra_body`: the SDK would walk through every message of `messages`.
        request = self._clients.of(credentials).messages.with_streaming_response.create(
            model=call.model, max_tokens=body["max_tokens"], messages=(), stream=True, extra_body=body
        )
        async with request as response:
            yield response.iter_bytes()

    def builder(self) -> AnthropicReply:
        """For one stream."""
        return AnthropicReply()

    def failure(self, error: Exception) -> ModelFailure:
        """What the SDK raised comes to."""
        assert isinstance(error, self.faults), "the caller asks for faults alone"
        return from_sdk(error)

    def enforces(self, _base_url: str, _parameters: dict[str, Any], schema: dict[str, Any]) -> bool:
        """Whether structured output has a form for it."""
        return output_format(schema) is not None

    async def aclose(self) -> None:
        """Close the connections."""
        await self._clients.aclose()


def _client(credentials: Credentials, http: httpx2.AsyncClient) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(
        api_key=credentials.api_key,
        base_url=credentials.base_url,
        max_retries=0,
        timeout=http.timeout,
        http_client=http,
        open_telemetry=False,
    )
