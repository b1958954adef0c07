"""Knowledge bases and documents: what both doors share beyond what HTTP shows."""

from pathlib import Path

import pytest

from administration import Admin, documents, knowledge
from administration.errors import Invalid, NotFound
from administration.values import Account, DocumentBody, KnowledgeBase, NewDocument, NewKnowledgeBase
from knowledge.files import find

pytestmark = pytest.mark.requirement("RETRIEVAL", "ADMIN-API")


@pytest.fixture
async def base(admin: Admin, account: Account) -> KnowledgeBase:
    return await knowledge.create(admin, NewKnowledgeBase(account_id=account.id, name="Policies"))


async def test_files_are_imported_and_those_that_are_gone_pruned(
    admin: Admin, base: KnowledgeBase, tmp_path: Path
) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.md").write_text("# A\n\nApples are returned within a week.")
    (folder / "b.txt").write_text("Bananas are not returned.")
    (folder / "c.txt").write_bytes(b"\xff\x00\xff")
    told = [progress async for progress in documents.import_files(admin, base.id, find([folder]))]
    assert [(each.name, each.reason is None) for each in told] == [
        ("docs/a.md", True),
        ("docs/b.txt", True),
        ("docs/c.txt", False),
    ]
    assert (await knowledge.get(admin, base.id)).documents == 2
    [gone] = await documents.gone(admin, base.id, {"docs/a.md", "docs/c.txt"})
    assert gone.name == "docs/b.txt"
    assert (await documents.delete(admin, base.id, gone.id, dry_run=True)).goes[0].count == 1
    await documents.delete(admin, base.id, gone.id)
    with pytest.raises(NotFound):
        await documents.get(admin, base.id, gone.id)
    assert await knowledge.search(admin, base.id, "bananas") == ()
    [found] = await knowledge.search(admin, base.id, "apples")
    assert found.source.title == "A"


async def test_a_document_that_cannot_be_one_is_named(admin: Admin, base: KnowledgeBase) -> None:
    for new, field in (
        (NewDocument(name=" ", text="a"), "name"),
        (NewDocument(name="n", text=" \n"), "text"),
        (NewDocument(name="n", text="a", url="javascript:alert(1)"), "url"),
        (NewDocument(name="n", text="a", kind="pdf"), "kind"),  # type: ignore[arg-type]
    ):
        with pytest.raises(Invalid) as refused:
            await documents.put(admin, base.id, new)
        assert [each.field for each in refused.value.fields] == [field]
    with pytest.raises(NotFound, match="no such document"):
        await documents.replace(admin, base.id, base.id, DocumentBody(text="a"))
    other = NewKnowledgeBase(account_id=base.account_id, name="B", language="klingon")
    with pytest.raises(Invalid, match="language"):
        await knowledge.create(admin, other)
    with pytest.raises(Invalid, match="top_k"):
        await knowledge.search(admin, base.id, "a", top_k=51)


async def test_pages_of_documents_go_by_name(admin: Admin, base: KnowledgeBase) -> None:
    for name in ("c", "a", "B", "b/d", "é"):
        await documents.put(admin, base.id, NewDocument(name=name, text=name))
    seen: list[str] = []
    after = None
    while True:
        page = await documents.page(admin, base.id, after=after, limit=2)
        seen += [each.name for each in page.items]
        if (after := page.after) is None:
            break
    assert sorted(seen) == sorted(["c", "a", "B", "b/d", "é"])
