"""Calls of the Messages API."""

from collections.abc import Mapping
from typing import Any

import anthropic
import httpx2

from orchestrator.models.anthropic.failures import from_status
from orchestrator.models.anthropic.reply import AnthropicReply
from orchestrator.models.anthropic.request import headers_of, json_of
from orchestrator.models.port import Credentials, ModelCall, ModelFailure
from orchestrator.models.provider_http import ProviderWire
from orchestrator.models.schema import output_format


class AnthropicWire(ProviderWire):
    """`streaming.Wire` of the Messages API."""

    path = b"/v1/messages"

    def builder(self) -> AnthropicReply:
        """For one stream."""
        return AnthropicReply()

    def enforces(self, _base_url: str, _parameters: dict[str, Any], schema: dict[str, Any]) -> bool:
        """Whether structured output has a form for it."""
        return output_format(schema) is not None

    def _client(self, credentials: Credentials, http: httpx2.AsyncClient) -> anthropic.AsyncAnthropic:
        return anthropic.AsyncAnthropic(
            api_key=credentials.api_key,
            base_url=credentials.base_url,
            http_client=http,
            open_telemetry=False,
        )

    def _json(self, _credentials: Credentials, call: ModelCall) -> bytes:
        return json_of(call)

    def _headers(self, call: ModelCall) -> dict[str, str]:
        return headers_of(call)

    def _status_failure(self, status: int, headers: Mapping[str, str], body: Any) -> ModelFailure:
        return from_status(status, headers, body)
