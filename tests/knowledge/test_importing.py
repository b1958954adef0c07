"""Documents into the tables: idempotent, whole, and gone when deleted."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agentchat.administration import admin_documents, admin_knowledge
from agentchat.contracts.admin_errors import Invalid, NotFound
from agentchat.knowledge.errors import Unreadable
from agentchat.knowledge.importing import import_files
from agentchat.knowledge.importing.importer import Imported, import_document
from agentchat.knowledge.reading.file_errors import MOST_CHARACTERS
from agentchat.runtime.postgres import Connection
from tests.administrator import administrator
from tests.knowledge.shelf import Shelf

GUIDE = "# Guide\n\n" + "\n\n".join(f"## Part {number}\n\nText of part {number}." for number in range(1, 6))
ROWS = "SELECT xmin, ctid FROM chunks WHERE document_id = %s ORDER BY position"


async def test_a_document_is_stored_with_what_it_says_of_itself(shelf: Shelf, conn: Connection) -> None:
    done = await shelf.put("guide.md", f"---\nurl: https://x.example/g\n---\n{GUIDE}", kind="markdown")
    assert done.outcome == "added"
    assert done.title == "Guide"
    assert done.chunks == 5
    admin = administrator(shelf.pool)
    [document] = (await admin_documents.page(admin, shelf.id)).items
    stored = (document.name, document.title, document.url, document.kind, document.chunks)
    assert stored == ("guide.md", "Guide", "https://x.example/g", "markdown", 5)
    chunks = await admin_documents.list_chunks(admin, shelf.id, document.id, after="3")
    assert [(chunk.position, chunk.title, chunk.text) for chunk in chunks.items] == [
        (4, "Guide \u203a Part 4", "Text of part 4."),
        (5, "Guide \u203a Part 5", "Text of part 5."),
    ]


async def test_what_the_caller_says_comes_before_what_the_document_says(shelf: Shelf) -> None:
    await shelf.put("g.md", "# Guide\nText here.", kind="markdown", title="Mine", url="https://mine.example")
    [passage] = await shelf.ask("text")
    assert passage.source.title == "Mine \u203a Guide"
    assert passage.source.url == "https://mine.example"


async def test_the_same_content_again_changes_nothing(shelf: Shelf) -> None:
    first = await shelf.put("guide.md", GUIDE, kind="markdown")
    before = await shelf.read_rows(ROWS, first.document_id)
    again = await shelf.put("guide.md", GUIDE, kind="markdown")
    assert again.outcome == "unchanged"
    assert again.document_id == first.document_id
    assert again.chunks == 5
    assert before == await shelf.read_rows(ROWS, first.document_id)
    assert len(await shelf.read_rows("SELECT FROM audit_log WHERE subject = %s", first.document_id)) == 1


async def test_changed_content_replaces_only_its_chunks(shelf: Shelf) -> None:
    first = await shelf.put("guide.md", GUIDE, kind="markdown")
    ids = await shelf.list_chunk_ids()
    text = GUIDE.replace("Text of part 2.", "Again.\n## Part 2b\nMore.")
    changed = await shelf.put("guide.md", text, kind="markdown")
    assert changed.outcome == "changed"
    assert changed.document_id == first.document_id
    assert changed.chunks == 6
    after = await shelf.list_chunk_ids()
    assert len(after) == 6
    assert [ids[0], *ids[2:]] == [after[0], *after[3:]]
    assert await shelf.find_texts('"part 2"') == ["Again."]


async def test_ids_are_the_same_after_deletion_and_another_import(shelf: Shelf) -> None:
    first = await shelf.put("guide.md", GUIDE, kind="markdown")
    ids = await shelf.list_chunk_ids()
    await admin_documents.delete(administrator(shelf.pool), shelf.id, first.document_id)
    assert await shelf.list_chunk_ids() == []
    assert (await shelf.put("guide.md", GUIDE, kind="markdown")).outcome == "added"
    assert await shelf.list_chunk_ids() == ids


async def test_imports_of_one_document_at_once_leave_one(shelf: Shelf) -> None:
    texts = [f"version {number} of it" for number in range(6)]
    await asyncio.gather(*(shelf.put("guide.txt", text) for text in texts))
    assert len(await shelf.read_rows("SELECT FROM documents WHERE knowledge_base_id = %s", shelf.id)) == 1
    [text] = await shelf.find_texts("version")
    assert text in texts
    assert len(await shelf.list_chunk_ids()) == 1


@pytest.mark.parametrize(
    ("name", "more", "field"),
    [
        ("a.txt", {"text": " \n"}, "text"),
        ("a.html", {"text": "<script>x</script>", "kind": "html"}, "text"),
        ("a.txt", {"text": "x" * (MOST_CHARACTERS + 1)}, "text"),
        ("", {}, "name"),
        ("x" * 501, {}, "name"),
        ("a\x1b[2J.txt", {}, "name"),
        ("a\x9b31m.txt", {}, "name"),
        ("a\0.txt", {}, "name"),
        ("a.txt", {"url": "javascript:alert(1)"}, "url"),
        ("a.txt", {"url": "ftp://x.example"}, "url"),
    ],
    ids=["blank", "nothing seen", "too long", "no name", "long name", "escape", "C1", "NUL", "script", "ftp"],
)
async def test_an_invalid_document_is_refused_by_field(
    shelf: Shelf, name: str, more: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as caught:
        await shelf.put(name, **({"text": "text"} | more))
    assert caught.value.field == field
    assert await shelf.read_rows("SELECT FROM documents WHERE knowledge_base_id = %s", shelf.id) == []


async def test_text_that_postgres_cannot_hold_is_repaired(shelf: Shelf) -> None:
    await shelf.put("a\ud800.txt", "odd \0 and \ud800 text \x07 here")
    assert await shelf.find_texts("odd") == ["odd \ufffd and \ufffd text   here"]


async def test_another_accounts_knowledge_base_takes_no_document(shelf: Shelf) -> None:
    foreign = await Shelf.create(shelf.pool)
    foreign.id = shelf.id
    with pytest.raises(NotFound):
        await foreign.put("a.txt", "text")
    assert await shelf.list_chunk_ids() == []


async def test_deletion_during_imports_leaves_nothing(shelf: Shelf) -> None:
    await shelf.put("0.txt", "text")

    async def delete() -> None:
        await admin_knowledge.delete(administrator(shelf.pool), shelf.id)

    imports = [shelf.put(f"{number % 4}.txt", f"text {number}") for number in range(8)]
    outcomes = await asyncio.gather(*imports, delete(), return_exceptions=True)
    assert outcomes.pop() is None
    assert all(isinstance(outcome, Imported | NotFound) for outcome in outcomes)
    assert await shelf.list_chunk_ids() == []


async def test_a_failure_on_the_way_leaves_the_document_as_it_was(shelf: Shelf) -> None:
    await shelf.put("guide.md", GUIDE, kind="markdown")
    ids = await shelf.list_chunk_ids()

    async def fail(*args: object, **kwargs: object) -> None:
        raise RuntimeError("no audit, no change")

    good, shelf.note = shelf.note, fail
    with pytest.raises(RuntimeError):
        await shelf.put("guide.md", GUIDE + "\n\nmore", kind="markdown")
    shelf.note = good
    assert await shelf.list_chunk_ids() == ids
    assert (await shelf.put("guide.md", GUIDE, kind="markdown")).outcome == "unchanged"


async def test_each_change_leaves_an_audit_row_without_the_text(shelf: Shelf) -> None:
    first = await shelf.put("a.txt", "secret words")
    await shelf.put("a.txt", "other words")
    rows = await shelf.read_rows(
        "SELECT actor, action, kind, before ->> 'characters', after ->> 'characters', "
        "before::text || after::text FROM audit_log WHERE subject = %s ORDER BY id",
        first.document_id,
    )
    assert [row[:5] for row in rows] == [
        ("test", "create", "document", None, "12"),
        ("test", "change", "document", "12", "11"),
    ]
    assert "words" not in rows[1][5]


async def test_a_large_document_is_stored_in_one_go(shelf: Shelf) -> None:
    text = "\n\n".join(f"Paragraph {number} speaks of parcel{number}." * 12 for number in range(1500))
    done = await shelf.put("large.txt", text)
    assert done.chunks > 700
    assert len(await shelf.ask("parcel1234")) >= 1
    assert (await shelf.put("large.txt", text + ".")).outcome == "changed"


async def test_a_folder_is_imported_and_what_cannot_be_read_is_named(shelf: Shelf, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text("# A\nalpha")
    (docs / "b.txt").write_bytes(b"\xff\xff")
    (docs / "c.html").write_text("<nav>only</nav>")
    (docs / "d.txt").write_text("delta")
    (docs / "e.bin").write_bytes(b"\0")

    async def run() -> dict[str, str]:
        told: dict[str, str] = {}
        for found in import_files.find_files([docs]):
            try:
                draft = import_files.read_draft(found)
                done = await import_document(shelf.pool, shelf.account, shelf.id, draft, note=shelf.note)
            except (Unreadable, Invalid) as error:
                told[found.name] = error.reason
            else:
                told[found.name] = done.outcome
        return told

    told = await run()
    assert list(told) == ["docs/a.md", "docs/b.txt", "docs/c.html", "docs/d.txt", "docs/e.bin"]
    assert told["docs/b.txt"] == "is not UTF-8 (byte 0xff at 0)"
    assert told["docs/c.html"] == "holds no text"
    assert told["docs/a.md"] == "added"
    assert told["docs/d.txt"] == "added"
    again = await run()
    assert again["docs/a.md"] == "unchanged"
    assert again["docs/d.txt"] == "unchanged"
