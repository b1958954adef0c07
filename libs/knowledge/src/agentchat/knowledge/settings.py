"""Define a deployment's embedder settings, which the services' settings inherit."""

from typing import Annotated, Literal

import msgspec

from agentchat.runtime.settings import ServiceSettings, Setting

Embedders = Literal["none", "http"]
Dimensions = Annotated[int, msgspec.Meta(ge=1, le=2000)]
Similarity = Annotated[float, msgspec.Meta(ge=-1, le=1)]


class EmbedderSettings(ServiceSettings, frozen=True, kw_only=True):
    """Settings of the embedder. `none`: full-text search only. `http` needs URL, model and dimensions."""

    embedder: Annotated[Embedders, Setting("AGENTCHAT_EMBEDDER")] = "none"
    embeddings_url: Annotated[str | None, Setting("AGENTCHAT_EMBEDDINGS_URL", secret=True)] = None
    embeddings_model: Annotated[str | None, Setting("AGENTCHAT_EMBEDDINGS_MODEL")] = None
    embeddings_dimensions: Annotated[Dimensions | None, Setting("AGENTCHAT_EMBEDDINGS_DIMENSIONS")] = None
    embeddings_key: Annotated[str | None, Setting("AGENTCHAT_EMBEDDINGS_KEY", secret=True)] = None
    embeddings_passage_prefix: Annotated[str, Setting("AGENTCHAT_EMBEDDINGS_PASSAGE_PREFIX")] = ""
    embeddings_question_prefix: Annotated[str, Setting("AGENTCHAT_EMBEDDINGS_QUESTION_PREFIX")] = ""
    embeddings_least_similarity: Annotated[Similarity, Setting("AGENTCHAT_EMBEDDINGS_LEAST_SIMILARITY")] = 0.3
