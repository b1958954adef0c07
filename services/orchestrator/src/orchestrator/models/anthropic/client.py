"""Calls as the SDK makes them; the bytes of a reply are read by us."""

from contextlib import AbstractAsyncContextManager
from typing import Any

import anthropic
import httpx2

from net_guard import Guard
from orchestrator.models.anthropic.failures import from_sdk
from orchestrator.models.anthropic.reply import AnthropicReply
from orchestrator.models.anthropic.request import body_of, headers_of, json_of
from orchestrator.models.clients import Clients
from orchestrator.models.port import Credentials, ModelCall, ModelFailure
from orchestrator.models.schema import output_format
from orchestrator.models.sdk_wire import SdkAnswer, SdkWire


class AnthropicWire(SdkWire[anthropic.AsyncAnthropic]):
    """`streaming.Wire` of the Messages API."""

    faults = (anthropic.AnthropicError,)
    connection_error = anthropic.APIConnectionError
    timeout_error = anthropic.APITimeoutError

    def __init__(self, guard: Guard) -> None:
        super().__init__(Clients(_client, guard))

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

    def _body(self, _credentials: Credentials, call: ModelCall) -> dict[str, Any]:
        return body_of(call)

    def _json(self, _credentials: Credentials, call: ModelCall) -> bytes:
        return json_of(call)

    def _headers(self, call: ModelCall) -> dict[str, str]:
        return headers_of(call)

    def _by_sdk(
        self, client: anthropic.AsyncAnthropic, body: dict[str, Any], headers: dict[str, str]
    ) -> AbstractAsyncContextManager[SdkAnswer]:
        # All of the body goes as `extra_body`: the SDK would walk through every message of `messages`.
        return client.messages.with_streaming_response.create(
            model="", max_tokens=0, messages=(), stream=True, extra_body=body, extra_headers=headers
        )


def _client(credentials: Credentials, http: httpx2.AsyncClient) -> anthropic.AsyncAnthropic:
    client = anthropic.AsyncAnthropic(
        api_key=credentials.api_key,
        base_url=credentials.base_url,
        max_retries=0,
        timeout=http.timeout,
        http_client=http,
        open_telemetry=False,
    )
    client._custom_headers = {}  # the process's environment is no agent's
    return client
