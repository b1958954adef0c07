import math

import pytest

from knowledge.embedding.hashing import HashingEmbedder

pytestmark = pytest.mark.requirement("RETRIEVAL")


def cosine(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


async def test_vectors_are_of_unit_length_and_always_the_same() -> None:
    embedder = HashingEmbedder()
    [vector] = await embedder.embed(["Guarantee and repairs"])
    assert len(vector) == embedder.dimensions
    assert math.isclose(sum(value * value for value in vector), 1)
    assert await HashingEmbedder().embed(["Guarantee and repairs"]) == [vector]
    first = [(place, round(value, 6)) for place, value in enumerate(vector) if value][:3]
    assert first == [(14, 0.169031), (15, 0.169031), (19, 0.169031)], "other vectors need another name"


async def test_words_that_are_spelt_alike_are_near_and_others_are_not() -> None:
    embedder = HashingEmbedder(1024)
    meant, misspelt, other = await embedder.embed(["guarantee", "guarrantee", "shipping"])
    assert cosine(meant, misspelt) > 0.6
    assert cosine(meant, other) < embedder.least_similarity


async def test_a_text_without_words_is_near_to_nothing() -> None:
    [vector] = await HashingEmbedder().embed(["?!"])
    assert not any(vector)
