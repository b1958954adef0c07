"""A knowledge base of a new account."""

import pytest

from agentchat.runtime.postgres import Pool
from tests.knowledge.shelf import Shelf


@pytest.fixture
async def shelf(pool: Pool) -> Shelf:
    """Create an empty knowledge base of a new account."""
    return await Shelf.create(pool)
