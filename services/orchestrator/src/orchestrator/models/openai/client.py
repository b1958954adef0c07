"""Calls by the SDK: it connects, authenticates and words errors; the bytes of a reply are read by us."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import openai

from net_guard import Guard
from orchestrator.models.clients import Clients
from orchestrator.models.openai.failures import from_sdk
from orchestrator.models.openai.reply import OpenAIReply
from orchestrator.models.openai.request import body_of, enforces
from orchestrator.models.port import Credentials, ModelCall, ModelFailure


class OpenAIWire:
    """`streaming.Wire` of the Chat Completions API."""

    faults = (openai.OpenAIError,)

    def __init__(self, guard: Guard) -> None:
        self._clients = Clients(openai.DefaultAioHttpClient, _client, guard)

    @contextlib.asynccontextmanager
    async def open(self, credentials: Credentials, call: ModelCall) -> AsyncIterator[AsyncIterator[bytes]]:
        """Send the call; inside, the bytes of the answer. Raises OpenAIError."""
        body = body_of(call, credentials.base_url)
        # All of the body goes as `extra_body`: the SDK would walk through every message of `messages`.
        request = self._clients.of(credentials).chat.completions.with_streaming_response.create(
            model=call.model, messages=(), stream=True, extra_body=body
        )
        async with request as response:
            yield response.iter_bytes()

    def builder(self) -> OpenAIReply:
        """For one stream."""
        return OpenAIReply()

    def failure(self, error: Exception) -> ModelFailure:
        """What the SDK raised comes to."""
        assert isinstance(error, self.faults), "the caller asks for faults alone"
        return from_sdk(error)

    def enforces(self, base_url: str, parameters: dict[str, Any], schema: dict[str, Any]) -> bool:
        """Whether the dialect's structured output has a form for it."""
        return enforces(base_url, parameters, schema)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._clients.aclose()


def _client(credentials: Credentials, http: httpx2.AsyncClient) -> openai.AsyncOpenAI:
    client = openai.AsyncOpenAI(
        api_key=credentials.api_key,
        base_url=credentials.base_url,
        max_retries=0,
        timeout=http.timeout,
        http_client=http,
    )
    # Those of the process's environment are no agent's, and no business of other servers.
    client.organization = client.project = None
    return client
