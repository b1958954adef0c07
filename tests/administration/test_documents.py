"""Knowledge bases and documents: what the admin API and the commands share beyond what HTTP shows."""

import pytest
from msgspec.structs import replace

from agentchat.administration import Admin, admin_documents, admin_knowledge
from agentchat.administration.admin_values import (
    Account,
    DocumentBody,
    KnowledgeBase,
    NewDocument,
    NewKnowledgeBase,
)
from agentchat.contracts.admin_errors import Invalid, NotFound
from tests.knowledge.made_files import make_pdf


@pytest.fixture
async def base(admin: Admin, account: Account) -> KnowledgeBase:
    return await admin_knowledge.create(admin, NewKnowledgeBase(account_id=account.id, name="Policies"))


async def test_what_is_deleted_is_found_no_more(admin: Admin, base: KnowledgeBase) -> None:
    apples = NewDocument(name="docs/a.md", kind="markdown", text="# A\n\nApples are returned within a week.")
    bananas = NewDocument(name="docs/b.txt", text="Bananas are not returned.")
    await admin_documents.put(admin, base.id, apples)
    gone = (await admin_documents.put(admin, base.id, bananas)).document
    assert (await admin_knowledge.get(admin, base.id)).documents == 2
    assert gone.name == "docs/b.txt"
    assert (await admin_documents.delete(admin, base.id, gone.id, dry_run=True)).goes[0].count == 1
    await admin_documents.delete(admin, base.id, gone.id)
    with pytest.raises(NotFound):
        await admin_documents.get(admin, base.id, gone.id)
    assert await admin_knowledge.search(admin, base.id, "bananas") == ()
    [found] = await admin_knowledge.search(admin, base.id, "apples")
    assert found.source.title == "A"


async def test_a_document_that_cannot_be_one_is_named(admin: Admin, base: KnowledgeBase) -> None:
    for new, field in (
        (NewDocument(name=" ", text="a"), "name"),
        (NewDocument(name="n", text=" \n"), "text"),
        (NewDocument(name="n", text="a", url="javascript:alert(1)"), "url"),
        (NewDocument(name="n", text="a", kind="rtf"), "kind"),  # type: ignore[arg-type]
        (NewDocument(name="n", text="a", kind="pdf"), "content"),
        (NewDocument(name="n", text="a", content=b"a"), "content"),
        (NewDocument(name="n", text="a", kind="pdf", content=make_pdf("a")), "text"),
        (NewDocument(name="n", kind="pdf", content=make_pdf("a", password="b")), "content"),
        (NewDocument(name="n", kind="pdf", content=make_pdf("")), "content"),
    ):
        with pytest.raises(Invalid) as refused:
            await admin_documents.put(admin, base.id, new)
        assert refused.value.field == field
    with pytest.raises(NotFound, match="no such document"):
        await admin_documents.replace(admin, base.id, base.id, DocumentBody(text="a"))
    other = NewKnowledgeBase(account_id=base.account_id, name="B", language="klingon")
    with pytest.raises(Invalid, match="language"):
        await admin_knowledge.create(admin, other)
    with pytest.raises(Invalid, match="top_k"):
        await admin_knowledge.search(admin, base.id, "a", top_k=51)


async def test_file_is_searchable_by_page_and_a_broken_one_is_refused(
    admin: Admin, base: KnowledgeBase
) -> None:
    content = make_pdf("Welcome.", "Apples are returned within a week.", title="Handbook")
    new = NewDocument(name="docs/handbook.pdf", kind="pdf", content=content)
    made = await admin_documents.put(admin, base.id, new)
    assert (made.outcome, made.document.kind, made.document.title) == ("added", "pdf", "Handbook")
    assert (await admin_documents.put(admin, base.id, new)).outcome == "unchanged"
    [found] = await admin_knowledge.search(admin, base.id, "returned apples")
    title = "Handbook \N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} page 2"
    assert (found.source.title, found.source.source_type) == (title, "pdf")
    with pytest.raises(Invalid, match="is broken"):
        await admin_documents.put(admin, base.id, replace(new, content=content[:300]))
    assert await admin_knowledge.search(admin, base.id, "returned apples") == (found,)


async def test_pages_of_documents_go_by_name(admin: Admin, base: KnowledgeBase) -> None:
    for name in ("c", "a", "B", "b/d", "é"):
        await admin_documents.put(admin, base.id, NewDocument(name=name, text=name))
    seen: list[str] = []
    after = None
    while True:
        page = await admin_documents.page(admin, base.id, after=after, limit=2)
        seen += [each.name for each in page.items]
        if (after := page.after) is None:
            break
    assert sorted(seen) == sorted(["c", "a", "B", "b/d", "é"])
