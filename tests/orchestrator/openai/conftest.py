"""The clients of these tests speak the wire of the provider `openai`."""

from typing import Any

import pytest

from net_guard import Guard
from orchestrator.models.openai.client import OpenAIWire
from orchestrator.models.provider_calls import ProviderWire


@pytest.fixture
async def wire() -> ProviderWire[Any]:
    """Instead of Anthropic's."""
    return OpenAIWire(Guard(()))
