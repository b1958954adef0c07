"""A client of the provider `openai`, on a scripted server."""

from collections.abc import AsyncIterator

import pytest

from net_guard import Guard
from orchestrator.models.openai import open_model
from tests.orchestrator.provider_caller import Caller
from tests.orchestrator.scripted import ScriptedProvider


@pytest.fixture
async def caller(provider: ScriptedProvider) -> AsyncIterator[Caller]:
    """A client of the scripted server."""
    client = open_model(Guard(()))
    yield Caller(client, provider.url)
    await client.aclose()


@pytest.fixture
async def impatient(provider: ScriptedProvider) -> AsyncIterator[Caller]:
    """One that is quick to give up a silent stream."""
    client = open_model(Guard(()), idle_seconds=0.6)
    yield Caller(client, provider.url)
    await client.aclose()
