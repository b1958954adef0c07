"""The clients of these tests speak the wire of the provider `openai`."""

import pytest

from net_guard import Guard
from orchestrator.models.call_retries import Wire
from orchestrator.models.openai.client import OpenAIWire


@pytest.fixture
async def wire() -> Wire:
    """Instead of Anthropic's."""
    return OpenAIWire(Guard(()))
