"""The clients of these tests speak the wire of the provider `openai`."""

from typing import Any

import pytest

from agentchat.net_guard import Guard
from agentchat.orchestrator.models.openai.client import OpenAIApi
from agentchat.orchestrator.models.provider_api import ProviderApi


@pytest.fixture
async def wire() -> ProviderApi[Any]:
    """Instead of Anthropic's."""
    return OpenAIApi(Guard(()))
