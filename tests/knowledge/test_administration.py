"""Knowledge bases and documents, managed by hand."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from directory.administration import create_account
from knowledge import administration
from knowledge.errors import Conflict, Invalid, NotFound
from runtime.postgres import Connection
from tests.knowledge.conftest import AUDIT
from tests.knowledge.shelf import Shelf

pytestmark = pytest.mark.requirement("RETRIEVAL")


async def audit_of(shelf: Shelf, subject: str) -> list[tuple[str, str | None, str | None]]:
    return await shelf.rows(
        "SELECT action, before ->> 'name', after ->> 'name' FROM audit_log WHERE subject = %s ORDER BY id",
        subject,
    )


async def test_a_knowledge_base_is_made_renamed_listed_and_deleted(shelf: Shelf, conn: Connection) -> None:
    await shelf.put("a.txt", "text")
    named = await administration.rename_knowledge_base(
        conn, shelf.account, shelf.id, name=" Shop\n help ", audit=AUDIT
    )
    assert (named.name, named.language, named.documents, named.chunks) == ("Shop help", "english", 1, 1)
    assert await administration.list_knowledge_bases(conn, shelf.account) == [named]
    assert await administration.find_knowledge_base(conn, shelf.account, shelf.id) == named
    await administration.delete_knowledge_base(conn, shelf.account, shelf.id, audit=AUDIT)
    assert await administration.list_knowledge_bases(conn, shelf.account) == []
    assert await audit_of(shelf, shelf.id) == [
        ("create", None, "Help"),
        ("change", "Help", "Shop help"),
        ("delete", "Shop help", None),
    ]


async def test_a_deleted_knowledge_base_is_gone_from_every_table(shelf: Shelf, conn: Connection) -> None:
    canary = "canary-e7f3"
    for number in range(30):
        await shelf.put(f"{number}.txt", f"{canary} {number}. " * 300)
    await administration.delete_knowledge_base(conn, shelf.account, shelf.id, audit=AUDIT)
    names = await shelf.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    for (name,) in names:
        found = await shelf.rows(f"SELECT 1 FROM {name} t WHERE t::text LIKE %s LIMIT 1", f"%{canary}%")
        assert found == [], name
    with pytest.raises(NotFound):
        await shelf.ask("canary")


async def test_a_deleted_document_is_found_no_more_and_the_others_are(shelf: Shelf, conn: Connection) -> None:
    one = await shelf.put("1.txt", "first text")
    await shelf.put("2.txt", "second text")
    await administration.delete_document(conn, shelf.account, shelf.id, one.document_id, audit=AUDIT)
    assert await shelf.texts("text") == ["second text"]
    assert await audit_of(shelf, one.document_id) == [("create", None, "1.txt"), ("delete", "1.txt", None)]
    with pytest.raises(NotFound):
        await administration.delete_document(conn, shelf.account, shelf.id, one.document_id, audit=AUDIT)


async def test_documents_are_listed_page_by_page(shelf: Shelf, conn: Connection) -> None:
    for name in ("c", "a", "b"):
        await shelf.put(name, "text")
    page = await administration.list_documents(conn, shelf.account, shelf.id, limit=2)
    rest = await administration.list_documents(conn, shelf.account, shelf.id, after=page[-1].name)
    assert [document.name for document in (*page, *rest)] == ["a", "b", "c"]
    found = await administration.find_document(conn, shelf.account, shelf.id, page[0].document_id)
    assert found == page[0]


Call = Callable[[Connection, str, Shelf, str], Awaitable[object]]
LOOKS: dict[str, Call] = {
    "find": lambda c, a, s, d: administration.find_knowledge_base(c, a, s.id),
    "list": lambda c, a, s, d: administration.list_knowledge_bases(c, a),
    "documents": lambda c, a, s, d: administration.list_documents(c, a, s.id),
    "document": lambda c, a, s, d: administration.find_document(c, a, s.id, d),
    "chunks": lambda c, a, s, d: administration.list_chunks(c, a, s.id, d),
}
CHANGES: dict[str, Call] = {
    "rename": lambda c, a, s, d: administration.rename_knowledge_base(c, a, s.id, name="x", audit=AUDIT),
    "delete": lambda c, a, s, d: administration.delete_knowledge_base(c, a, s.id, audit=AUDIT),
    "delete document": lambda c, a, s, d: administration.delete_document(c, a, s.id, d, audit=AUDIT),
}


@pytest.mark.parametrize("name", LOOKS)
async def test_another_account_sees_none_of_it(shelf: Shelf, conn: Connection, name: str) -> None:
    document = (await shelf.put("a.txt", "text")).document_id
    foreign = (await create_account(conn, name="Other", plan="Pro", actor="test")).account_id
    assert await LOOKS[name](conn, shelf.account, shelf, document)
    assert not await LOOKS[name](conn, foreign, shelf, document)


@pytest.mark.parametrize("name", CHANGES)
async def test_another_account_changes_none_of_it(shelf: Shelf, conn: Connection, name: str) -> None:
    document = (await shelf.put("a.txt", "text")).document_id
    foreign = (await create_account(conn, name="Other", plan="Pro", actor="test")).account_id
    with pytest.raises(NotFound):
        await CHANGES[name](conn, foreign, shelf, document)
    assert await shelf.texts("text") == ["text"]


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
        {"knowledge_base_id": "x"},
    ],
    ids=["blank", "long", "nul", "surrogate", "escape", "C1", "DEL", "language", "quoting", "id"],
)
async def test_what_cannot_be_a_knowledge_base_is_refused(
    shelf: Shelf, conn: Connection, more: dict[str, Any]
) -> None:
    given: dict[str, Any] = {"name": "Help", "audit": AUDIT} | more
    with pytest.raises(Invalid):
        await administration.create_knowledge_base(conn, shelf.account, **given)
    assert len(await administration.list_knowledge_bases(conn, shelf.account)) == 1


async def test_a_taken_id_and_an_unknown_account_are_told(shelf: Shelf, conn: Connection) -> None:
    with pytest.raises(Conflict):
        await administration.create_knowledge_base(
            conn, shelf.account, name="Help", audit=AUDIT, knowledge_base_id=shelf.id
        )
    with pytest.raises(NotFound, match="no such account: nobody"):
        await administration.create_knowledge_base(conn, "nobody", name="Help", audit=AUDIT)


async def test_the_languages_are_those_of_postgres_and_simple(conn: Connection) -> None:
    known = await administration.languages(conn)
    assert {"english", "german", "simple"} <= set(known)
