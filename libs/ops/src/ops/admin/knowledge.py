"""`agentchat admin knowledge`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ops.admin.options import AsJson, DryRun, Force, Most, Yes, group
from ops.errors import SetupError

if TYPE_CHECKING:
    from administration.values import KnowledgeBase

app = group("Knowledge bases, and the documents in them.")

Base = Annotated[str, typer.Argument(metavar="KB", help="A knowledge base's id.")]
_Document = Annotated[str, typer.Argument(metavar="DOCUMENT", help="A document's id.")]
_COLUMNS = {
    "ID": "id",
    "NAME": "name",
    "LANGUAGE": "language",
    "DISABLED": "disabled",
    "DOCUMENTS": "documents",
    "CHUNKS": "chunks",
    "ACCOUNT ID": "account_id",
}
_DOCUMENTS = {
    "ID": "id",
    "NAME": "name",
    "TITLE": "title",
    "KIND": "kind",
    "CHUNKS": "chunks",
    "IMPORTED": "imported_at",
}


@app.command()
def create(
    account: Annotated[str, typer.Argument(metavar="ACCOUNT", help="An account's id.")],
    name: Annotated[str, typer.Argument(metavar="NAME")],
    language: Annotated[str, typer.Option(help="Stems its words; `simple` stems none.")] = "english",
    own_id: Annotated[
        str | None, typer.Option("--id", help="A UUID of your own, for set-ups that are repeated.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make an empty one; `agents change --knowledge-base` lets an agent answer from it."""
    from administration import knowledge
    from administration.values import NewKnowledgeBase
    from ops.admin.show import thing
    from ops.admin.working import run

    new = NewKnowledgeBase(account_id=account, name=name, language=language, id=own_id)
    thing(run(lambda admin: knowledge.create(admin, new)), json_too=as_json)


@app.command("list")
def list_(
    account: Annotated[str | None, typer.Option(metavar="ACCOUNT")] = None,
    limit: Most = None,
    as_json: AsJson = False,
) -> None:
    """List them, those of one account or all."""
    from administration import knowledge
    from ops.admin.show import things
    from ops.admin.working import pages, run

    found = run(
        lambda admin: pages(
            lambda after, size: knowledge.page(admin, account, after=after, limit=size), limit
        )
    )
    things(found, _COLUMNS, json_too=as_json)


@app.command()
def show(base: Base, as_json: AsJson = False) -> None:
    """Show one, with the number of its documents."""
    from administration import knowledge
    from ops.admin.show import thing
    from ops.admin.working import run

    thing(run(lambda admin: knowledge.get(admin, base)), json_too=as_json)


@app.command()
def rename(base: Base, name: Annotated[str, typer.Argument(metavar="NAME")], as_json: AsJson = False) -> None:
    """Give it another name."""
    from ops.admin.show import thing

    thing(_changed(base, name=name), json_too=as_json)


@app.command()
def disable(base: Base, as_json: AsJson = False) -> None:
    """Let agents find nothing in it, from their next run on; documents can be changed meanwhile."""
    from ops.admin.show import thing

    thing(_changed(base, disabled=True), json_too=as_json)


@app.command()
def enable(base: Base, as_json: AsJson = False) -> None:
    """Undo `disable`."""
    from ops.admin.show import thing

    thing(_changed(base, disabled=False), json_too=as_json)


@app.command()
def delete(
    base: Base, force: Force = False, dry_run: DryRun = False, yes: Yes = False, as_json: AsJson = False
) -> None:
    """Delete it with its documents. With --force agents that answer from it do without from then on."""
    from administration import knowledge
    from ops.admin.removal import remove

    remove(
        lambda admin, dry: knowledge.delete(admin, base, force=force, dry_run=dry),
        force=force,
        dry_run=dry_run,
        yes=yes,
        json_too=as_json,
    )


@app.command("import")
def import_(
    base: Base,
    paths: Annotated[list[Path], typer.Argument(metavar="FILE|FOLDER|-", help="`-` is standard input.")],
    name: Annotated[
        str | None, typer.Option(help="The document that `-` is; its ending says which kind: guide.md.")
    ] = None,
    prune: Annotated[
        bool, typer.Option("--prune", help="Then delete the documents that are not among these files.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be read, and pruned; change nothing.")
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Import text, Markdown and HTML: files, whole folders, or standard input.

    A document's name is its file's, with the folder that was named: docs/guide.md. The same name again is
    replaced, the same content changes nothing. What cannot be read is named, skipped and counted; exit code 1
    if nothing at all could be imported. The embedder is the one that AGENTCHAT_EMBEDDER sets.
    """
    from ops.admin.importing import Wanted, import_documents

    if (Path("-") in paths) != (name is not None):
        raise SetupError("`-` and --name go together: the name says which document standard input is")
    wanted = Wanted(base=base, paths=tuple(paths), name=name, prune=prune)
    if not import_documents(wanted, dry_run=dry_run, yes=yes, json_too=as_json):
        sys.exit(1)


@app.command()
def documents(base: Base, limit: Most = None, as_json: AsJson = False) -> None:
    """List a knowledge base's documents, by name."""
    from administration import documents as library
    from ops.admin.show import things
    from ops.admin.working import pages, run

    found = run(
        lambda admin: pages(lambda after, size: library.page(admin, base, after=after, limit=size), limit)
    )
    things(found, _DOCUMENTS, json_too=as_json)


@app.command()
def forget(
    base: Base, document: _Document, dry_run: DryRun = False, yes: Yes = False, as_json: AsJson = False
) -> None:
    """Delete one document, with its passages."""
    from administration import documents as library
    from ops.admin.removal import remove

    remove(
        lambda admin, dry: library.delete(admin, base, document, dry_run=dry),
        dry_run=dry_run,
        yes=yes,
        json_too=as_json,
    )


@app.command()
def search(
    base: Base,
    query: Annotated[str, typer.Argument(metavar="QUERY")],
    top: Annotated[int, typer.Option(min=1, max=50, help="How many passages.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Show the passages that an agent would be given for a message, in a disabled base too."""
    from administration import knowledge
    from ops.admin import show
    from ops.admin.working import run

    found = run(lambda admin: knowledge.search(admin, base, query, top), embedder=True)
    if as_json:
        show.as_json(found)
        return
    rows = [
        [passage.source.index, f"{passage.source.score:.3f}", passage.source.title, passage.source.snippet]
        for passage in found
    ]
    show.table(["", "SCORE", "TITLE", "SNIPPET"], rows)
    if not rows:
        show.note("nothing is found")


@app.command()
def embed(
    base: Annotated[str | None, typer.Argument(metavar="[KB]", help="One; all if unset.")] = None,
    as_json: AsJson = False,
) -> None:
    """Embed the passages that have no vector of the present model yet."""
    from ops.admin.importing import embed_missing
    from ops.admin.show import as_json as print_json

    count = embed_missing(base)
    if as_json:
        print_json({"embedded": count})
    else:
        sys.stdout.write(f"{count:,} passages embedded\n")


def _changed(base: str, **changes: Any) -> "KnowledgeBase":
    from administration import knowledge
    from administration.values import KnowledgeBaseChanges
    from ops.admin.working import run

    return run(lambda admin: knowledge.change(admin, base, KnowledgeBaseChanges(**changes)))
