"""Knowledge bases from the command line."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agentchat.contracts import ids
from tests.admin_cli.conftest import Cli
from tests.knowledge.embedding_server import answer, run_embedding_server


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    (folder / "more").mkdir(parents=True)
    (folder / "returns.md").write_text("# Returns\n\nTents may be returned within 14 days.")
    (folder / "more" / "page.html").write_text("<title>Shipping</title><p>Parcels are free over 50 euro.</p>")
    (folder / "broken.txt").write_bytes(b"\xff\xfe\x00\xd8")
    (folder / "picture.png").write_bytes(b"png")
    return folder


@pytest.fixture
def base(cli: Cli) -> str:
    return str(cli.json("POST", "/knowledge_bases", f"account_id={cli.account()}", "name=Docs")["id"])


def test_import_reports_unreadable_files(cli: Cli, base: str, docs: Path) -> None:
    first = cli("knowledge", "import", base, str(docs), str(docs / "gone.md"))
    assert (first.code, first.out) == (0, "2 added, 0 changed, 0 unchanged, 3 skipped, 0 pruned\n")
    for name in ("docs/broken.txt", "docs/picture.png", "docs/gone.md"):
        assert f"skipped {name}: " in first.err
    (docs / "returns.md").write_text("# Returns\n\nTents may be returned within 30 days.")
    again = cli.json("knowledge", "import", base, str(docs))
    assert (again["added"], again["changed"], again["unchanged"]) == (0, 1, 1)
    assert len(again["skipped"]) == 2
    search = ("GET", f"/knowledge_bases/{base}/search", "query=returning a tent", "top_k=1")
    (best,) = cli.json(*search)["data"]
    assert "30 days" in best["source"]["snippet"]
    assert cli.json("GET", f"/knowledge_bases/{base}")["documents"] == 2
    linked = ("knowledge", "import", base, str(docs), "--url")
    assert cli(*linked, "https://help.example/").code == 2, "one address for several documents"
    assert cli.json(*linked, "https://help.example/{name}")["changed"] == 2
    (best,) = cli.json(*search)["data"]
    assert best["source"]["url"] == "https://help.example/docs/returns.md"
    nothing = cli("knowledge", "import", base, str(docs / "picture.png.md"))
    assert nothing.code == 1


def test_prune_deletes_what_is_gone_but_not_what_cannot_be_seen(cli: Cli, base: str, docs: Path) -> None:
    cli.json("knowledge", "import", base, str(docs))
    piped = cli.json("knowledge", "import", base, "-", "--name", "kayaks.txt", stdin="Kayaks are rented out.")
    assert piped["added"] == 1
    (docs / "returns.md").unlink()
    prune = ("knowledge", "import", base, str(docs), "--prune")
    missed = cli("knowledge", "import", base, str(docs.with_name("doc")), "--prune", "--yes")
    assert missed.code == 1
    assert "nothing is pruned" in missed.err
    tried = cli.json(*prune, "--dry-run")
    assert tried["pruned"] == ["docs/returns.md", "kayaks.txt"]
    assert cli.json("GET", f"/knowledge_bases/{base}")["documents"] == 3
    assert cli.json(*prune)["pruned"] == ["docs/returns.md", "kayaks.txt"]
    (left,) = cli.json("GET", f"/knowledge_bases/{base}/documents")["data"]
    assert left["name"] == "docs/more/page.html"
    assert cli("knowledge", "import", base, "-").code == 2
    assert cli("knowledge", "import", ids.make_id(), str(docs)).code == 1


async def test_an_embedder_that_is_set_embeds_what_is_imported(cli: Cli, base: str, docs: Path) -> None:
    async with run_embedding_server(lambda texts: answer([[1.0, 0.0] for _ in texts])) as server:
        embedder = {
            "AGENTCHAT_EMBEDDER": "http",
            "AGENTCHAT_EMBEDDINGS_URL": server.url,
            "AGENTCHAT_EMBEDDINGS_MODEL": "m",
            "AGENTCHAT_EMBEDDINGS_DIMENSIONS": "2",
        }

        def embed(**more: str) -> Any:
            return cli.json("knowledge", "embed", base, **more)["embedded"]

        assert (await asyncio.to_thread(cli, "knowledge", "embed", base)).code == 2
        await asyncio.to_thread(cli.json, "knowledge", "import", base, str(docs))
        assert await asyncio.to_thread(embed, **embedder) == 2
        assert await asyncio.to_thread(embed, **embedder) == 0
