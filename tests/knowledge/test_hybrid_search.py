"""Search by embeddings next to full text, with an embedder whose meaning the tests decide."""

import asyncio
from collections.abc import Sequence

import pytest

from agentchat.knowledge.embedding import vectors
from agentchat.knowledge.errors import EmbedderUnavailable
from tests.knowledge.shelf import Shelf


class Topics:
    """A vector of topics: a text has one for each group of words that it holds a word of."""

    least_similarity = 0.5

    def __init__(self, *topics: set[str], name: str = "topics") -> None:
        self.name = name
        self.dimensions = len(topics)
        self.asked: list[str] = []
        self.broken = False
        self._topics = topics

    async def embed(self, texts: Sequence[str], *, question: bool = False) -> list[list[float]]:
        if self.broken:
            raise EmbedderUnavailable("out of order")
        assert len(texts) <= vectors.BATCH
        self.asked += texts
        return [self._embed_text(text.lower()) for text in texts]

    def _embed_text(self, text: str) -> list[float]:
        return [float(any(word in text for word in topic)) for topic in self._topics]


class Hanging(Topics):
    async def embed(self, texts: Sequence[str], *, question: bool = False) -> list[list[float]]:
        await asyncio.Event().wait()
        raise AssertionError


class Lying(Topics):
    def __init__(self, *answer: list[float]) -> None:
        super().__init__(FEET, MONEY)
        self._answer = answer

    async def embed(self, texts: Sequence[str], *, question: bool = False) -> list[list[float]]:
        return list(self._answer)


FEET = {"boot", "shoe", "trainers"}
MONEY = {"refund", "money"}


async def test_what_is_meant_is_found_though_no_word_is_the_same(shelf: Shelf) -> None:
    embedder = Topics(FEET, MONEY)
    await shelf.put("a.txt", "Boots are waxed.", embedder)
    await shelf.put("b.txt", "Refunds take five days.", embedder)
    assert await shelf.find_texts("trainers") == []
    [passage] = await shelf.ask("trainers", embedder=embedder)
    assert passage.text == "Boots are waxed."
    assert passage.source.score == 0.5


async def test_what_both_rankings_find_comes_first(shelf: Shelf) -> None:
    embedder = Topics(FEET, MONEY)
    await shelf.put("a.txt", "Wax makes wood shine, says the wax maker: wax, wax.", embedder)
    await shelf.put("b.txt", "Shoes take wax.", embedder)
    await shelf.put("c.txt", "Trainers are washed.", embedder)
    assert (await shelf.find_texts("boots wax"))[0].startswith("Wax makes")
    found = await shelf.ask("boots wax", embedder=embedder)
    assert found[0].text == "Shoes take wax."
    assert {passage.text[:5] for passage in found[1:]} == {"Wax m", "Train"}
    assert found[0].source.score > 0.9 > found[1].source.score


async def test_a_passage_that_is_not_similar_enough_is_not_found(shelf: Shelf) -> None:
    embedder = Topics(FEET, MONEY)
    await shelf.put("a.txt", "Boots are waxed.", embedder)
    assert await shelf.ask("money", embedder=embedder) == []
    assert await shelf.ask("nothing at all", embedder=embedder) == [], "zeros are like nothing"


async def test_only_chunks_that_are_new_are_embedded(shelf: Shelf) -> None:
    embedder = Topics(FEET, MONEY)
    await shelf.put("a.md", "# A\n## One\nboots\n## Two\nrefund", embedder, kind="markdown")
    assert len(embedder.asked) == 2
    assert embedder.asked[0].endswith("One\n\nboots"), "headings are part of the meaning"
    await shelf.put("a.md", "# A\n## One\nboots\n## Two\nrefund", embedder, kind="markdown")
    assert len(embedder.asked) == 2
    await shelf.put("a.md", "# A\n## One\nboots\n## Two\nno refund", embedder, kind="markdown")
    assert len(embedder.asked) == 3


async def test_a_document_is_found_by_text_until_its_embeddings_can_be_had(shelf: Shelf) -> None:
    embedder = Topics(FEET, MONEY)
    embedder.broken = True
    done = await shelf.put("a.txt", "Boots are waxed.", embedder)
    assert done.outcome == "added"
    assert done.lacking == "out of order"
    assert await shelf.find_texts("boots", embedder=embedder) == ["Boots are waxed."]
    embedder.broken = False
    done = await shelf.put("a.txt", "Boots are waxed.", embedder)
    assert done.outcome == "unchanged"
    assert done.lacking is None
    assert await shelf.find_texts("trainers", embedder=embedder) == ["Boots are waxed."]


@pytest.mark.parametrize(
    "embedder",
    [Hanging(FEET, MONEY), Lying([1.0]), Lying([1.0, float("nan")]), Lying()],
    ids=["hangs", "wrong length", "not a number", "too few"],
)
async def test_an_embedder_that_times_out_or_lies_is_done_without(shelf: Shelf, embedder: Topics) -> None:
    await shelf.put("a.txt", "Boots are waxed.")
    [found] = await shelf.ask("boots", embedder=embedder, embed_seconds=0.05)
    assert found.text == "Boots are waxed."


async def test_what_is_replaced_takes_its_vectors_along(shelf: Shelf) -> None:
    embedder = Topics(FEET, MONEY)
    await shelf.put("a.md", "# A\n## One\nboots\n## Two\nrefund", embedder, kind="markdown")
    await shelf.put("a.md", "# A\n## One\nboots", embedder, kind="markdown")
    count = "SELECT count(*) FROM chunk_embeddings WHERE knowledge_base_id = %s"
    assert await shelf.read_rows(count, shelf.id) == [(1,)]


async def test_a_document_of_many_chunks_is_embedded_in_portions(shelf: Shelf) -> None:
    embedder = Topics(FEET, MONEY)
    text = "\n\n".join(f"# Part {number}\nboots" for number in range(150))
    assert (await shelf.put("a.md", text, embedder, kind="markdown")).chunks == 150
    assert len(embedder.asked) == 150
