"""Questions find passages by full text."""

import pytest

from agentchat.administration import admin_knowledge
from agentchat.administration.admin_values import KnowledgeBase, KnowledgeBaseChanges
from agentchat.contracts.admin_errors import NotFound
from agentchat.knowledge.errors import Disabled
from agentchat.knowledge.importing.document_drafts import derive_document_id
from agentchat.knowledge.search import passage_search
from tests.administrator import administrator
from tests.knowledge.shelf import Shelf

RETURNS = "You may return goods unused within 30 days of delivery."
SHIPPING = "Parcels leave the warehouse in Utrecht and arrive in two to five days."
PAYMENT = "Pay by card, by PayPal or on invoice."


@pytest.fixture
async def shop(shelf: Shelf) -> Shelf:
    await shelf.put("returns.txt", RETURNS, title="Returns", url="https://shop.example/returns")
    await shelf.put("shipping.md", f"# Shipping\n{SHIPPING}", kind="markdown")
    await shelf.put("payment.txt", PAYMENT, title="Payment")
    return shelf


async def test_a_question_in_whole_sentences_finds_its_passage_first(shop: Shelf) -> None:
    found = await shop.ask("Hello, how many days do I have for returning them?")
    assert [passage.text for passage in found] == [RETURNS]
    source = found[0].source
    assert source.index == 1
    assert source.title == "Returns"
    assert source.url == "https://shop.example/returns"
    assert source.source_type == "text"
    assert source.document == ""
    (unlinked,) = await shop.ask("invoice")
    assert (unlinked.source.url, unlinked.source.document) == ("", "payment.txt")
    assert unlinked.source.document_id == derive_document_id(shop.id, "payment.txt")
    assert source.snippet == RETURNS
    assert 0 < source.score <= 1


async def test_the_snippet_of_a_long_passage_is_around_the_match(shelf: Shelf) -> None:
    filler = "Nothing of interest is said in this sentence. " * 12
    await shelf.put("long.txt", f"{filler}Zebras may be returned. {filler}")
    [passage] = await shelf.ask("returning a zebra")
    assert "Zebras may be returned." in passage.source.snippet
    assert passage.source.snippet.startswith("…")
    assert passage.source.snippet.endswith("…")
    assert len(passage.source.snippet) <= 500


async def test_disabled_knowledge_base_is_searched_by_admins_only(shop: Shelf) -> None:
    async def set_disabled(given: bool) -> KnowledgeBase:
        changes = KnowledgeBaseChanges(disabled=given)
        return await admin_knowledge.change(administrator(shop.pool), shop.id, changes)

    assert (await set_disabled(True)).disabled
    for question in ("returning goods", "xyzzy"):
        with pytest.raises(Disabled, match=shop.id):
            await shop.ask(question)
    asked = (shop.pool, shop.account, shop.id, "returning goods", 5)
    assert [found.text for found in await passage_search.search(*asked, disabled_too=True)] == [RETURNS]
    await shop.put("more.txt", "Goods for the kitchen.")
    assert not (await set_disabled(False)).disabled
    assert len(await shop.ask("goods")) == 2
    actions = await shop.read_rows("SELECT action FROM audit_log WHERE subject = %s ORDER BY id", shop.id)
    assert [action for (action,) in actions][-2:] == ["disable", "enable"]


async def test_a_question_of_other_things_finds_nothing(shop: Shelf) -> None:
    for question in ("Who painted the ceiling?", "what is it", "", " ", "?!", '"', "''", "#1", "日本語"):
        assert await shop.ask(question) == []


async def test_at_most_as_many_as_asked_for_are_found(shop: Shelf) -> None:
    assert [len(await shop.ask("days card", top_k)) for top_k in (0, 1, 2, 50, 10_000)] == [0, 1, 2, 3, 3]
    found = [passage.source for passage in await shop.ask("days card")]
    assert [source.index for source in found] == [1, 2, 3]
    assert 1 >= found[0].score > found[1].score >= found[2].score > 0


async def test_a_word_of_the_title_counts_for_more(shelf: Shelf) -> None:
    await shelf.put("a.txt", "A tent is mentioned.", title="Boots")
    await shelf.put("b.txt", "Here it is mentioned.", title="Tent")
    assert await shelf.find_texts("tent") == ["Here it is mentioned.", "A tent is mentioned."]


async def test_words_in_quotes_have_to_stand_together_if_they_do_anywhere(shelf: Shelf) -> None:
    await shelf.put("a.txt", "A gift card holds for years.")
    await shelf.put("b.txt", "A card, and a gift, a gift, a gift.")
    assert await shelf.find_texts('a "gift card" please') == ["A gift card holds for years."]
    assert len(await shelf.find_texts('a "card gift card" please')) == 2


async def test_phrase_ranks_above_more_matching_words(shelf: Shelf) -> None:
    await shelf.put("a.txt", "A gift card.")
    await shelf.put(
        "b.txt", "Card, gift: kayak, paddle, helmet, spraydeck, wetsuit, throw bag, pump, compass."
    )
    question = 'kayak paddle helmet spraydeck wetsuit pump compass "gift card"'
    assert await shelf.find_texts(question) == ["A gift card."]


async def test_words_are_found_whatever_their_ending_marks_and_case(shelf: Shelf) -> None:
    await shelf.put("a.txt", "He said \u201cReturned!\u201d at the CAFÉ\u2026 PRD-101 weighs 10\u00a0kg")
    for question in ("returning", "cafe\u0301", "prd 101", "PRD-101", "weigh 10kg kg"):
        assert len(await shelf.ask(question)) == 1, question


async def test_scripts_without_blanks_are_found_by_parts_of_words(shelf: Shelf) -> None:
    japanese = await Shelf.create(shelf.pool, language="simple")
    await japanese.put("a.txt", "商品到着後三十日以内に返品できます。")
    await japanese.put("b.txt", "送料は無料です。")
    assert await japanese.find_texts("返品はできますか") == ["商品到着後三十日以内に返品できます。"]


async def test_a_message_of_any_length_is_a_question(shop: Shelf) -> None:
    padding = "lorem ipsum dolor sit amet " * 10_000
    assert (await shop.find_texts(f"{padding} how long may I return goods?"))[0] == RETURNS


async def test_words_that_could_be_search_syntax_are_words(shop: Shelf) -> None:
    hostile = ("return & | ! ( <-> :*", "return'); DROP TABLE chunks; --", "re\\'turn return %s", "return\0")
    for question in hostile:
        assert (await shop.find_texts(question))[0] == RETURNS


async def test_another_account_finds_nothing_and_no_knowledge_base(shop: Shelf) -> None:
    foreign = await Shelf.create(shop.pool)
    assert await foreign.ask("return") == []
    with pytest.raises(NotFound):
        await passage_search.search(shop.pool, foreign.account, shop.id, "return", 5)
    with pytest.raises(NotFound):
        await passage_search.search(shop.pool, shop.account, "no such", "return", 5)


async def test_passages_can_be_had_again_for_a_run_that_is_taken_up(shop: Shelf) -> None:
    found = await shop.ask("days card")
    sources = [passage.source for passage in found]
    assert await passage_search.load_passages(shop.pool, shop.account, shop.id, sources) == found
    assert await passage_search.load_passages(shop.pool, shop.account, shop.id, []) == []


async def test_deleted_or_foreign_passage_leaves_only_its_snippet(shelf: Shelf) -> None:
    filler = "Nothing of interest is said in this sentence. " * 20
    await shelf.put("a.txt", f"Returns. {filler}")
    [found] = await shelf.ask("returns")
    foreign = await Shelf.create(shelf.pool)
    hidden = await passage_search.load_passages(shelf.pool, foreign.account, shelf.id, [found.source])
    await shelf.put("a.txt", "Changed.")
    changed = await passage_search.load_passages(shelf.pool, shelf.account, shelf.id, [found.source])
    assert [passage.source for passage in changed] == [found.source]
    assert [passage.text for passage in (*hidden, *changed)] == [found.source.snippet] * 2


@pytest.mark.parametrize(
    ("language", "stored", "asked"),
    [
        ("simple", "환불은 언제 됩니까?", "환불"),
        ("simple", "환불 정책", "환불은 되나요?"),
        ("english", "환불을 받으려면", "환불"),
        ("simple", "집은 어디", "집"),
        ("simple", "İade koşullar", "iade"),
        ("simple", "iade koşullar", "İADE"),
        ("german", "Die Straße ist gesperrt", "STRASSE"),
        ("simple", "Große Größe", "GROSSE"),
        ("simple", "Re\u00adfund the ti\u200bcket", "refund"),
        ("english", "A refund is paid", "refunds"),
        ("english", "Refunded at once", "refunding"),
        *((language, "Your refund was paid", "refunds") for language in ("german", "simple", "french")),
        *((language, "Stoppages are shipped", "shipping") for language in ("german", "simple")),
        *(
            (language, "Die Rückerstattungen dauern", "Rückerstattung")
            for language in ("english", "german", "simple", "french")
        ),
        ("english", "Kostenlose Wanderschuhe", "Wie gebe ich einen Wanderschuh zurück?"),
        ("german", "Die Rückgabe in jeder GRÖßE", "größen"),
        ("french", "Les remboursements", "remboursement"),
    ],
)
async def test_other_forms_of_a_word_are_found(shelf: Shelf, language: str, stored: str, asked: str) -> None:
    shelf = await Shelf.create(shelf.pool, language=language)
    await shelf.put("a.txt", stored)
    assert len(await shelf.ask(asked)) == 1


async def test_stop_words_of_the_base_are_not_searched(shelf: Shelf) -> None:
    await shelf.put("a.txt", "Where is the kettle, and who has it?")
    await shelf.put("b.txt", "Boots are in stock.")
    assert await shelf.find_texts("where is the boot, and who has it?") == ["Boots are in stock."]
