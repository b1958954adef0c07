"""Knowledge bases and documents, managed by hand."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from agentchat.administration import Admin, admin_documents, admin_knowledge
from agentchat.administration.admin_values import DocumentBody, KnowledgeBaseChanges, NewKnowledgeBase
from agentchat.contracts.admin_errors import Conflict, Invalid, NotFound
from tests.administrator import administrator
from tests.knowledge.shelf import Shelf


@pytest.fixture
def admin(shelf: Shelf) -> Admin:
    return administrator(shelf.pool)


async def read_audit(shelf: Shelf, subject: str) -> list[tuple[str, str | None, str | None]]:
    return await shelf.read_rows(
        "SELECT action, before ->> 'name', after ->> 'name' FROM audit_log WHERE subject = %s ORDER BY id",
        subject,
    )


async def test_a_knowledge_base_is_made_renamed_listed_and_deleted(shelf: Shelf, admin: Admin) -> None:
    await shelf.put("a.txt", "text")
    named = await admin_knowledge.change(admin, shelf.id, KnowledgeBaseChanges(name=" Shop\n help "))
    assert named.name == "Shop help"
    assert named.language == "english"
    assert named.documents == 1
    assert named.chunks == 1
    assert (await admin_knowledge.page(admin, shelf.account)).items == (named,)
    assert await admin_knowledge.get(admin, shelf.id) == named
    await admin_knowledge.delete(admin, shelf.id)
    assert (await admin_knowledge.page(admin, shelf.account)).items == ()
    assert await read_audit(shelf, shelf.id) == [
        ("create", None, "Help"),
        ("change", "Help", "Shop help"),
        ("delete", "Shop help", None),
    ]


async def test_a_deleted_knowledge_base_is_gone_from_every_table(shelf: Shelf, admin: Admin) -> None:
    canary = "canary-e7f3"
    for number in range(30):
        await shelf.put(f"{number}.txt", f"{canary} {number}. " * 300)
    await admin_knowledge.delete(admin, shelf.id)
    names = await shelf.read_rows("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    for (name,) in names:
        found = await shelf.read_rows(f"SELECT 1 FROM {name} t WHERE t::text LIKE %s LIMIT 1", f"%{canary}%")
        assert found == [], name
    with pytest.raises(NotFound):
        await shelf.ask("canary")


async def test_a_deleted_document_is_found_no_more_and_the_others_are(shelf: Shelf, admin: Admin) -> None:
    one = await shelf.put("1.txt", "first text")
    await shelf.put("2.txt", "second text")
    await admin_documents.delete(admin, shelf.id, one.document_id)
    assert await shelf.find_texts("text") == ["second text"]
    assert await read_audit(shelf, one.document_id) == [("create", None, "1.txt"), ("delete", "1.txt", None)]
    with pytest.raises(NotFound):
        await admin_documents.delete(admin, shelf.id, one.document_id)


async def test_documents_are_listed_page_by_page(shelf: Shelf, admin: Admin) -> None:
    for name in ("c", "a", "b"):
        await shelf.put(name, "text")
    page = await admin_documents.page(admin, shelf.id, limit=2)
    rest = await admin_documents.page(admin, shelf.id, after=page.after)
    assert [document.name for document in (*page.items, *rest.items)] == ["a", "b", "c"]
    assert await admin_documents.get(admin, shelf.id, page.items[0].id) == page.items[0]


Call = Callable[[Admin, str, str], Awaitable[object]]
CALLS: dict[str, Call] = {
    "get": admin_documents.get,
    "chunks": admin_documents.list_chunks,
    "replace": lambda a, b, d: admin_documents.replace(a, b, d, DocumentBody(text="x")),
    "delete": admin_documents.delete,
}


@pytest.mark.parametrize("name", CALLS)
async def test_a_document_is_in_its_own_knowledge_base_alone(shelf: Shelf, admin: Admin, name: str) -> None:
    document = (await shelf.put("a.txt", "text")).document_id
    foreign = await Shelf.create(shelf.pool)
    with pytest.raises(NotFound):
        await CALLS[name](admin, foreign.id, document)
    assert (await admin_documents.page(admin, foreign.id)).items == ()
    assert await shelf.find_texts("text") == ["text"]
    assert await CALLS[name](admin, shelf.id, document)


@pytest.mark.parametrize(
    "more",
    [
        {"name": " "},
        {"name": "x" * 201},
        {"name": "a\0"},
        {"name": "a\ud800"},
        {"name": "a\x1b[31m"},
        {"name": "a\x9b31m"},
        {"name": "a\x7f"},
        {"language": "klingon"},
        {"language": "english; --"},
        {"id": "x"},
    ],
    ids=["blank", "long", "nul", "surrogate", "escape", "C1", "DEL", "language", "quoting", "id"],
)
async def test_an_invalid_knowledge_base_is_refused(shelf: Shelf, admin: Admin, more: dict[str, Any]) -> None:
    given = {"account_id": shelf.account, "name": "Help"} | more
    with pytest.raises(Invalid):
        await admin_knowledge.create(admin, NewKnowledgeBase(**given))
    assert len((await admin_knowledge.page(admin, shelf.account)).items) == 1


async def test_a_taken_id_and_an_unknown_account_are_named(shelf: Shelf, admin: Admin) -> None:
    with pytest.raises(Conflict):
        await admin_knowledge.create(
            admin, NewKnowledgeBase(account_id=shelf.account, name="Help", id=shelf.id)
        )
    unknown = NewKnowledgeBase(account_id="01a1fdef-0000-7000-8000-000000000000", name="Help")
    with pytest.raises(Invalid, match="there is no such account"):
        await admin_knowledge.create(admin, unknown)


async def test_the_languages_are_those_of_postgres_and_simple(shelf: Shelf, admin: Admin) -> None:
    for language in ("german", "simple"):
        new = NewKnowledgeBase(account_id=shelf.account, name="Help", language=language)
        assert (await admin_knowledge.create(admin, new)).language == language
