"""The clients of these tests speak the wire of the provider `openai`."""

from typing import Any

import pytest

from agentchat.orchestrator.models.openai.client import OpenAIModel
from agentchat.orchestrator.models.provider_model import ProviderModel


@pytest.fixture
def wire() -> type[ProviderModel[Any]]:
    """Instead of Anthropic's."""
    return OpenAIModel
