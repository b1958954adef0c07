"""Open the embedder that a deployment's settings name."""

import contextlib
from collections.abc import AsyncIterator
from typing import TypeVar

from agentchat.knowledge.documents import parse_web_address
from agentchat.knowledge.embedding.embedder import Embedder
from agentchat.knowledge.settings import EmbedderSettings
from agentchat.runtime.settings import SettingsError

T = TypeVar("T")


@contextlib.asynccontextmanager
async def open_embedder(settings: EmbedderSettings) -> AsyncIterator[Embedder | None]:
    """Open the embedder while the block runs; None if the settings name none. It connects at its first use.

    Raises:
        SettingsError: Names the setting that is missing.
    """
    if settings.embedder == "none":
        yield None
    else:
        from agentchat.knowledge.embedding.remote_embedder import (
            RemoteEmbedder,  # brings a client library that others need not load
        )

        remote = RemoteEmbedder(
            _require_address(settings.embeddings_url),
            _require(settings.embeddings_model, "AGENTCHAT_EMBEDDINGS_MODEL"),
            _require(settings.embeddings_dimensions, "AGENTCHAT_EMBEDDINGS_DIMENSIONS"),
            key=settings.embeddings_key,
            least_similarity=settings.embeddings_least_similarity,
            prefixes=(settings.embeddings_passage_prefix, settings.embeddings_question_prefix),
        )
        async with contextlib.aclosing(remote):
            yield remote


def _require_address(url: str | None) -> str:
    name = "AGENTCHAT_EMBEDDINGS_URL"
    address = parse_web_address(_require(url, name))
    if address is None:
        raise SettingsError(f"{name} cannot be used: must be an http or https address")
    return address


def _require(value: T | None, name: str) -> T:
    if value is None:
        raise SettingsError(f"{name} is not set, and AGENTCHAT_EMBEDDER=http needs it")
    return value
