"""Calls of the Chat Completions API."""

from collections.abc import Mapping
from typing import Any

import httpx2
import msgspec
import openai

from orchestrator.models.openai.failures import from_status
from orchestrator.models.openai.reply import OpenAIReply
from orchestrator.models.openai.request import body_of, enforces
from orchestrator.models.port import Credentials, ModelCall, ModelFailure
from orchestrator.models.provider_http import ProviderWire


class OpenAIWire(ProviderWire):
    """`streaming.Wire` of the Chat Completions API."""

    path = b"/chat/completions"

    def builder(self) -> OpenAIReply:
        """For one stream."""
        return OpenAIReply()

    def enforces(self, base_url: str, parameters: dict[str, Any], schema: dict[str, Any]) -> bool:
        """Whether the dialect's structured output has a form for it."""
        return enforces(base_url, parameters, schema)

    def _client(self, credentials: Credentials, http: httpx2.AsyncClient) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(
            api_key=credentials.api_key, base_url=credentials.base_url, http_client=http
        )

    def _json(self, credentials: Credentials, call: ModelCall) -> bytes:
        return msgspec.json.encode(body_of(call, credentials.base_url))

    def _status_failure(self, status: int, headers: Mapping[str, str], body: Any) -> ModelFailure:
        return from_status(status, headers, body)
