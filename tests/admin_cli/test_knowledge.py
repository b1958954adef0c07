"""Knowledge bases from the command line."""

from pathlib import Path

import pytest

from contracts import ids
from tests.admin_cli.conftest import Cli
from tests.knowledge.made_files import docx, pdf


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    (folder / "more").mkdir(parents=True)
    (folder / "returns.md").write_text("# Returns\n\nTents may be returned within 14 days.")
    (folder / "more" / "page.html").write_text("<title>Shipping</title><p>Parcels are free over 50 euro.</p>")
    (folder / "broken.txt").write_bytes(b"\xff\xfe\x00\xd8")
    (folder / "picture.png").write_bytes(b"png")
    return folder


def test_pdf_and_docx_are_imported_and_what_is_wrong_with_one_is_said(
    cli: Cli, base: str, tmp_path: Path
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "terms.pdf").write_bytes(pdf("Stoves are not returned.", title="Terms"))
    (folder / "letter.docx").write_bytes(docx(("Heading1", "Letter"), ("Normal", "Kayaks are rented out.")))
    (folder / "locked.pdf").write_bytes(pdf("x", password="y"))
    (folder / "broken.docx").write_bytes(b"PK")
    tried = cli.json("knowledge", "import", base, str(folder), "--dry-run")
    done = cli.json("knowledge", "import", base, str(folder))
    assert (tried["added"], done["added"]) == (2, 2)
    assert (
        tried["skipped"]
        == done["skipped"]
        == [
            {"name": "files/broken.docx", "reason": "is broken, or of another kind than its name says"},
            {"name": "files/locked.pdf", "reason": "is encrypted: it opens with a password only"},
        ]
    )
    (best,) = cli.json("knowledge", "search", base, "returning stoves", "--top-k", "1")
    assert best["source"]["title"] == "Terms \N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} page 1"


@pytest.fixture
def base(cli: Cli) -> str:
    return str(cli.json("knowledge", "create", cli.account(), "Docs")["id"])


def test_folders_are_imported_and_what_cannot_be_read_is_named_and_counted(
    cli: Cli, base: str, docs: Path
) -> None:
    first = cli("knowledge", "import", base, str(docs), str(docs / "gone.md"))
    assert (first.code, first.out) == (0, "2 added, 0 changed, 0 unchanged, 3 skipped, 0 pruned\n")
    for name in ("docs/broken.txt", "docs/picture.png", "docs/gone.md"):
        assert f"skipped {name}: " in first.err
    (docs / "returns.md").write_text("# Returns\n\nTents may be returned within 30 days.")
    again = cli.json("knowledge", "import", base, str(docs))
    assert (again["added"], again["changed"], again["unchanged"]) == (0, 1, 1)
    assert len(again["skipped"]) == 2
    (best,) = cli.json("knowledge", "search", base, "returning a tent", "--top-k", "1")
    assert "30 days" in best["source"]["snippet"]
    assert "30 days" in cli("knowledge", "search", base, "returning a tent").out
    assert cli.json("knowledge", "show", base)["documents"] == 2
    why = cli("knowledge", "why", base, "returning a tent", "--top-k", "1").out
    for part in ("WORD", "return", "found: 1 by full text, no embedder", "place 1, ", "holds: "):
        assert part in why, part
    (reasons,) = cli.json("knowledge", "why", base, "returning a tent")["found"]
    assert reasons["passage"] == best
    nothing = cli("knowledge", "import", base, str(docs / "picture.png.md"))
    assert nothing.code == 1


@pytest.mark.parametrize("direct", [False, True], ids=["over HTTP", "on the database"])
def test_prune_deletes_what_is_gone_but_not_what_cannot_be_seen(
    cli: Cli, base: str, docs: Path, *, direct: bool
) -> None:
    importing = Cli(cli.environ | ({"AGENTCHAT_ADMIN_URL": ""} if direct else {}))
    importing.json("knowledge", "import", base, str(docs))
    piped = importing.json(
        "knowledge", "import", base, "-", "--name", "kayaks.txt", stdin="Kayaks are rented out."
    )
    assert piped["added"] == 1
    (docs / "returns.md").unlink()
    prune = ("knowledge", "import", base, str(docs), "--prune")
    missed = importing("knowledge", "import", base, str(docs.with_name("doc")), "--prune", "--yes")
    assert missed.code == 1
    assert "nothing is pruned" in missed.err
    tried = importing.json(*prune, "--dry-run")
    assert tried["pruned"] == ["docs/returns.md", "kayaks.txt"]
    assert cli.json("knowledge", "show", base)["documents"] == 3
    assert importing.json(*prune)["pruned"] == ["docs/returns.md", "kayaks.txt"]
    (left,) = cli.json("knowledge", "documents", base)
    assert left["name"] == "docs/more/page.html"
    assert cli.json("knowledge", "delete-document", base, left["id"])["kind"] == "document"
    assert importing("knowledge", "import", base, "-").code == 2
    assert importing("knowledge", "import", ids.new_id(), str(docs)).code == 1


def test_a_base_that_an_agent_answers_from_needs_force(cli: Cli, docs: Path) -> None:
    account = cli.account()
    base = cli.json("knowledge", "create", account, "Docs")["id"]
    agent = cli.json(
        "agents", "create", "--account", account, "--name", "Guide", "--model", "demo-echo",
        "--knowledge-base", base, "--top-k", "3",
    )  # fmt: skip
    assert agent["retrieval"] == {"knowledge_base_id": base, "top_k": 3}
    refused = cli("knowledge", "delete", base)
    assert refused.code == 1
    assert "agents: Guide" in refused.err
    tried = cli("knowledge", "delete", base, "--dry-run")
    assert tried.code == 0
    assert "used by 1 agent\n    Guide\n" in tried.out
    assert cli.json("knowledge", "disable", base)["disabled"] is True
    assert cli.json("knowledge", "enable", base)["disabled"] is False
    cli.json("knowledge", "delete", base, "--force")
    assert cli.json("agents", "show", agent["id"])["retrieval"] is None
    assert base not in [each["id"] for each in cli.json("knowledge", "list")]


def test_an_embedder_that_is_set_embeds_what_is_imported(cli: Cli, base: str, docs: Path) -> None:
    assert cli("knowledge", "embed", base).code == 2
    cli.json("knowledge", "import", base, str(docs))
    with_embedder = {"AGENTCHAT_EMBEDDER": "hashing"}
    assert cli.json("knowledge", "embed", base, **with_embedder)["embedded"] == 2
    assert cli.json("knowledge", "embed", base, **with_embedder)["embedded"] == 0
    assert cli.json("knowledge", "rename", base, "New")["name"] == "New"
