"""The clients of these tests speak the wire of the provider `openai`."""

from typing import Any

import pytest

from agentchat.net_guard import Guard
from agentchat.orchestrator.models.openai.client import OpenAIWire
from agentchat.orchestrator.models.provider_calls import ProviderWire


@pytest.fixture
async def wire() -> ProviderWire[Any]:
    """Instead of Anthropic's."""
    return OpenAIWire(Guard(()))
