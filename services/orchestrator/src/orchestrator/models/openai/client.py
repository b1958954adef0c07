"""Calls as the SDK makes them; the bytes of a reply are read by us."""

from contextlib import AbstractAsyncContextManager
from typing import Any

import httpx2
import openai

from net_guard import Guard
from orchestrator.models.clients import Clients
from orchestrator.models.openai.failures import from_sdk
from orchestrator.models.openai.reply import OpenAIReply
from orchestrator.models.openai.request import body_of, enforces
from orchestrator.models.port import Credentials, ModelCall, ModelFailure
from orchestrator.models.sdk_wire import SdkAnswer, SdkWire


class OpenAIWire(SdkWire[openai.AsyncOpenAI]):
    """`streaming.Wire` of the Chat Completions API."""

    faults = (openai.OpenAIError,)
    connection_error = openai.APIConnectionError
    timeout_error = openai.APITimeoutError

    def __init__(self, guard: Guard) -> None:
        super().__init__(Clients(_client, guard))

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

    def _body(self, credentials: Credentials, call: ModelCall) -> dict[str, Any]:
        return body_of(call, credentials.base_url)

    def _by_sdk(
        self, client: openai.AsyncOpenAI, body: dict[str, Any], headers: dict[str, str]
    ) -> AbstractAsyncContextManager[SdkAnswer]:
        # All of the body goes as `extra_body`: the SDK would walk through every message of `messages`.
        return client.chat.completions.with_streaming_response.create(
            model="", messages=(), stream=True, extra_body=body, extra_headers=headers
        )


def _client(credentials: Credentials, http: httpx2.AsyncClient) -> openai.AsyncOpenAI:
    client = openai.AsyncOpenAI(
        api_key=credentials.api_key,
        base_url=credentials.base_url,
        max_retries=0,
        timeout=http.timeout,
        http_client=http,
    )
    # Those of the process's environment are no agent's, and no business of other servers.
    client.organization = client.project = client.admin_api_key = None
    client._custom_headers = {}
    return client
