"""The embedder behind HTTP: what it asks for, and what becomes of every way in which a server fails."""

import contextlib
from collections.abc import AsyncIterator

import pytest

from agentchat.knowledge.embedding import vectors
from agentchat.knowledge.embedding.configured_embedder import open_embedder
from agentchat.knowledge.embedding.embedder import Embedder
from agentchat.knowledge.embedding.remote_embedder import RemoteEmbedder
from agentchat.knowledge.errors import EmbedderUnavailable
from agentchat.knowledge.settings import EmbedderSettings
from agentchat.runtime.settings import SettingsError, load
from tests.knowledge.embedding_server import EmbeddingServer, Reply, answer, run_embedding_server
from tests.knowledge.shelf import Shelf

FEET = ("boot", "shoe", "trainers")
MONEY = ("refund", "money")
COUNT = "SELECT embedder, count(*) FROM chunk_embeddings WHERE knowledge_base_id = %s GROUP BY 1 ORDER BY 1"


def answer_topics(texts: list[str]) -> Reply:
    return answer(
        [[float(any(word in text.lower() for word in topic)) for topic in (FEET, MONEY)] for text in texts]
    )


@pytest.fixture
async def server() -> AsyncIterator[EmbeddingServer]:
    async with run_embedding_server(answer_topics) as running:
        yield running


@contextlib.asynccontextmanager
async def connect_embedder(
    server: EmbeddingServer, model: str = "topics-1", size: int = 2, rest_seconds: float = 0.0
) -> AsyncIterator[RemoteEmbedder]:
    embedder = RemoteEmbedder(
        server.url,
        model,
        size,
        key="pa-secret-key",
        least_similarity=0.5,
        rest_seconds=rest_seconds,
    )
    async with contextlib.aclosing(embedder):
        yield embedder


async def test_texts_are_embedded_in_portions_and_in_order(
    server: EmbeddingServer,
) -> None:
    async with connect_embedder(server) as embedder:
        vectors = await embedder.embed([("boots", "refund")[number % 2] for number in range(40)])
    assert vectors == [[1.0, 0.0], [0.0, 1.0]] * 20
    assert [len(texts) for texts in server.asked] == [32, 8]
    assert server.headers["authorization"] == "Bearer pa-secret-key"
    assert server.bodies[0]["model"] == "topics-1"


async def test_models_that_want_a_word_before_questions_and_passages_get_it(
    shelf: Shelf, server: EmbeddingServer
) -> None:
    prefixes = ("passage:", "query:")
    embedder = RemoteEmbedder(server.url, "e5", 2, least_similarity=0.5, prefixes=prefixes)
    async with contextlib.aclosing(embedder):
        await shelf.put("a.txt", "Boots are waxed.", embedder)
        assert await shelf.find_texts("trainers", embedder=embedder) == ["Boots are waxed."]
    assert server.asked == [["passage: a\n\nBoots are waxed."], ["query: trainers"]]
    assert await shelf.read_rows(COUNT, shelf.id) == [("e5 passage:/2", 1)], "other vectors than without it"


async def test_transient_failures_are_retried(server: EmbeddingServer) -> None:
    server.more = "Retry-After-Ms: 1\r\n"
    server.script = lambda texts: (429, {}) if len(server.asked) < 3 else answer_topics(texts)
    async with connect_embedder(server) as embedder:
        assert await embedder.embed(["boots"]) == [[1.0, 0.0]]
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    "reply",
    [
        (401, {"error": {"message": "wrong key pa-secret-key"}}),
        (200, "no embeddings"),
        (200, {"data": [{"index": 1, "embedding": [1.0, 0.0]}]}),
        (200, {"data": [{"index": 0, "embedding": [1.0, 0.0, 0.0]}]}),
        (422, {"error": "never"}),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_a_failure_does_not_repeat_the_servers_words(server: EmbeddingServer, reply: Reply) -> None:
    server.script = lambda texts: reply
    async with connect_embedder(server) as embedder:
        with pytest.raises(EmbedderUnavailable, match="topics-1") as caught:
            await embedder.embed(["boots"])
    assert len(server.asked) == 1
    assert "pa-secret" not in f"{caught.value!r} {embedder!r}"


async def test_after_a_failure_nothing_is_asked_until_the_backoff_is_over(server: EmbeddingServer) -> None:
    server.script = lambda texts: (401, {})
    async with connect_embedder(server, rest_seconds=60.0) as embedder:
        for _ in range(3):
            with pytest.raises(EmbedderUnavailable):
                await embedder.embed(["boots"])
    assert len(server.asked) == 1


async def test_a_text_too_long_for_the_model_is_embedded_by_its_beginning(
    shelf: Shelf, server: EmbeddingServer
) -> None:
    def answer_script(texts: list[str]) -> Reply:
        return (
            (400, {"error": "too long"}) if any(len(text) > 900 for text in texts) else answer_topics(texts)
        )

    server.script = answer_script
    async with connect_embedder(server) as embedder:
        vectors = await embedder.embed(["refund", "boots " * 200, "refund"])
    assert vectors == [[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]


async def test_what_was_imported_without_vectors_gets_them_later(
    shelf: Shelf, server: EmbeddingServer
) -> None:
    for name in ("a", "b", "c"):
        await shelf.put(f"{name}.txt", f"Boots {name} are waxed.")
    seen: list[tuple[int, int]] = []
    async with connect_embedder(server) as embedder:
        assert await shelf.find_texts("trainers", embedder=embedder) == []
        embedded = await vectors.embed_missing(
            shelf.pool, embedder, knowledge_base_id=shelf.id, progress=lambda *done: seen.append(done)
        )
        assert embedded == 3
        assert seen == [(1, 3), (2, 3), (3, 3)]
        assert len(await shelf.find_texts("trainers", embedder=embedder)) == 3
        assert await vectors.embed_missing(shelf.pool, embedder, knowledge_base_id=shelf.id) == 0


async def test_a_new_model_embeds_again_and_the_old_vectors_go(shelf: Shelf, server: EmbeddingServer) -> None:
    async with connect_embedder(server, "topics-1") as old:
        await shelf.put("a.txt", "Boots are waxed.", old)
    async with connect_embedder(server, "topics-2") as new:
        assert await shelf.find_texts("trainers", embedder=new) == []
        server.script = lambda texts: (401, {})
        with pytest.raises(EmbedderUnavailable):
            await vectors.embed_missing(shelf.pool, new, knowledge_base_id=shelf.id)
        assert await shelf.read_rows(COUNT, shelf.id) == [("topics-1/2", 1)], "kept until there are others"
        server.script = answer_topics
        assert await vectors.embed_missing(shelf.pool, new, knowledge_base_id=shelf.id) == 1
        assert await shelf.find_texts("trainers", embedder=new) == ["Boots are waxed."]
    assert await shelf.read_rows(COUNT, shelf.id) == [("topics-2/2", 1)]


async def test_a_model_of_another_length_than_was_set_says_both(server: EmbeddingServer) -> None:
    async with connect_embedder(server, size=768) as embedder:
        with pytest.raises(EmbedderUnavailable, match="gives vectors of 2 numbers; it is set to give 768"):
            await embedder.embed(["boots"])


HTTP = {
    "AGENTCHAT_EMBEDDER": "http",
    "AGENTCHAT_EMBEDDINGS_URL": "http://127.0.0.1:1/v1",
    "AGENTCHAT_EMBEDDINGS_MODEL": "m",
    "AGENTCHAT_EMBEDDINGS_DIMENSIONS": "768",
}


async def _load_embedder(environ: dict[str, str]) -> Embedder | None:
    async with open_embedder(load(EmbedderSettings, environ)) as embedder:
        return embedder


async def test_the_settings_choose_the_embedder() -> None:
    assert await _load_embedder({}) is None
    http = await _load_embedder(HTTP)
    assert http is not None
    assert http.name == "m"
    assert http.dimensions == 768


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AGENTCHAT_EMBEDDER", "magic"),
        ("AGENTCHAT_EMBEDDINGS_URL", ""),
        ("AGENTCHAT_EMBEDDINGS_URL", "ftp://user:pa-secret@host"),
        ("AGENTCHAT_EMBEDDINGS_MODEL", ""),
        ("AGENTCHAT_EMBEDDINGS_DIMENSIONS", ""),
        ("AGENTCHAT_EMBEDDINGS_DIMENSIONS", "4096"),
    ],
)
async def test_a_missing_or_wrong_setting_is_named(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=name) as caught:
        await _load_embedder(HTTP | {name: value})
    assert "pa-secret" not in str(caught.value)
