"""The clients of these tests speak the wire of the provider `openai`."""

import pytest

from net_guard import Guard
from orchestrator.models.openai.client import OpenAIWire
from orchestrator.models.streaming import Wire


@pytest.fixture
async def wire() -> Wire:
    """Instead of Anthropic's."""
    return OpenAIWire(Guard(()))
