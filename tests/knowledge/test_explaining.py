"""A search with its reasons."""

from knowledge.search.explaining import Explanation, explain
from tests.knowledge.shelf import Shelf
from tests.knowledge.test_hybrid_search import FEET, MONEY, Topics


async def explained(shelf: Shelf, query: str, embedder: Topics | None = None) -> Explanation:
    return await explain(shelf.pool, shelf.account, shelf.id, query, 5, embedder)


async def test_it_finds_what_a_search_does_and_says_which_words_count_for_how_much(shelf: Shelf) -> None:
    await shelf.put("tents.md", "# Tents\n\nA tent may be returned within a month.", kind="markdown")
    await shelf.put("stoves.md", "# Stoves\n\nA stove may not be returned.", kind="markdown")
    question = "Can I return a tent, or a stove, or pitch it?"
    why = await explained(shelf, question)
    assert [each.passage for each in why.found] == await shelf.ask(question)
    assert {word.word: word.passages for word in why.words} == {
        "pitch": 0,
        "return": 2,
        "stove": 1,
        "tent": 1,
    }
    weights = {word.word: word.weight for word in why.words}
    assert weights["pitch"] > weights["tent"] == weights["stove"] > weights["return"] > 0
    held = {each.passage.source.title: (set(each.words), each.in_title) for each in why.found}
    assert held == {"Tents": ({"return", "tent"}, ("tent",)), "Stoves": ({"return", "stove"}, ("stove",))}
    assert [each.place_by_text for each in why.found] == [1, 2]
    assert why.by_text == 2
    first = why.found[0]
    assert first.share == first.passage.source.score
    assert (why.embedder, why.by_meaning, first.place_by_meaning) == (None, 0, None)


async def test_it_says_what_was_found_by_meaning_alone(shelf: Shelf) -> None:
    embedder = Topics(FEET, MONEY)
    await shelf.put("boots.txt", "Boots dry slowly.", embedder)
    await shelf.put("tents.txt", "Trainer jackets and tents.", embedder)
    why = await explained(shelf, "wet shoe", embedder)
    assert (why.embedder, why.by_text, why.by_meaning) == ("topics", 0, 1)
    (only,) = why.found
    assert (only.place_by_text, only.share, only.place_by_meaning, only.words) == (None, None, 1, ())
    embedder.broken = True
    assert (await explained(shelf, "wet shoe", embedder)).embedder is None


async def test_words_in_quotes_are_told(shelf: Shelf) -> None:
    await shelf.put("a.txt", "Tents are returned within a month.")
    assert (await explained(shelf, 'is it "within a month"?')).phrases == ("within a month",)
