"""`agentchat admin knowledge import` and `embed`: files into a knowledge base, and the outcome of each."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
import typer

from administration import Admin, admin_knowledge
from administration.admin_values import Document, PutDocument
from administration.routes import BY_NAME
from contracts.admin_errors import Invalid
from knowledge.embedding import vectors
from knowledge.errors import Unreadable
from knowledge.importing import import_files, importer
from knowledge.importing.import_files import FoundFile
from ops import printing
from ops.admin import api, direct
from ops.admin.options import AsJson, Yes, confirm
from ops.environment import given
from ops.errors import RefusedError, SetupError
from ops.output import one_line
from ops.printing import progress, warn

T = TypeVar("T")

_BASE = "/knowledge_bases/{knowledge_base_id}"
Base = Annotated[str, typer.Argument(metavar="KB", help="A knowledge base's id.")]


class Skipped(msgspec.Struct, frozen=True):
    name: str
    reason: str


class ImportReport(msgspec.Struct, kw_only=True):
    """The outcomes of the files. `lacking` counts documents that are not, or not completely, embedded yet."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    lacking: int = 0
    skipped: list[Skipped] = []
    pruned: list[str] = []
    dry_run: bool = False


def import_(
    base: Base,
    paths: Annotated[list[Path], typer.Argument(metavar="FILE|FOLDER|-", help="`-` is standard input.")],
    name: Annotated[
        str | None, typer.Option(help="The name of the document on `-`; its ending is its kind: guide.md.")
    ] = None,
    prune: Annotated[
        bool, typer.Option("--prune", help="Then delete the documents that are not among these files.")
    ] = False,
    within: Annotated[
        Path | None,
        typer.Option(
            "--within", metavar="FOLDER", help="Names begin with this folder, which holds all files."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be imported and pruned; change nothing.")
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Import text, Markdown, HTML, PDF and DOCX: files, folders, or standard input.

    A document's name is its file's path, such as docs/guide.md, relative to the folder that is imported, to
    the folder of a single file, or to --within. A document of the same name is replaced; the same content
    changes nothing. A file that cannot be read is named, skipped and counted; exit code 1 if nothing could be
    imported. Works on the database itself, with the embedder that AGENTCHAT_EMBEDDER sets; with
    AGENTCHAT_ADMIN_URL (or --url) over HTTP, with the gateway's embedder.
    """
    if (Path("-") in paths) != (name is not None):
        raise SetupError("`-` needs --name, the name of the document on standard input, and --name needs `-`")
    found = [*import_files.find((path for path in paths if path != Path("-")), within)]
    found += [] if name is None else [import_files.piped(sys.stdin.buffer, name)]
    report = ImportReport(dry_run=dry_run)
    _session(lambda call: _import(call, base, found, report))
    complete = not prune or _prune(base, paths, found, report, yes=yes)
    if as_json:
        printing.as_json(report)
    else:
        sys.stdout.writelines(_lines(report))
    if not complete or (report.skipped and not report.added + report.changed + report.unchanged):
        sys.exit(1)


def embed(
    base: Annotated[
        str | None, typer.Argument(metavar="[KB]", help="One knowledge base; all if unset.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Embed the passages that have no vector of the current model yet. Works on the database itself."""

    async def work(admin: Admin) -> int:
        if admin.embedder is None:
            raise SetupError("no embedder is set (AGENTCHAT_EMBEDDER), or the database has no pgvector")
        own = None if base is None else (await admin_knowledge.get(admin, base)).id
        with progress("embedding") as bar:
            task = bar.add_task("", total=None)
            return await vectors.embed_missing(
                admin.pool,
                admin.embedder,
                knowledge_base_id=own,
                progress=lambda done, total: bar.update(task, completed=done, total=total),
            )

    count = direct.run(work)
    if as_json:
        printing.as_json({"embedded": count})
    else:
        sys.stdout.write(f"{count:,} passages embedded\n")


def _session(work: Callable[[api.Call], Awaitable[T]]) -> T:
    """At the gateway that the environment names, else on the database."""
    if given(os.environ, api.ADMIN_URL) is not None:
        return api.session(work)
    return direct.run(lambda admin: work(partial(direct.call, admin)))


async def _import(call: api.Call, base: str, found: Sequence[FoundFile], report: ImportReport) -> None:
    """One at a time; imported documents stay when it is interrupted. Raises RefusedError."""
    await call(BY_NAME[f"GET {_BASE}"], {"knowledge_base_id": base})
    with progress("importing") as bar:
        task = bar.add_task("", total=len(found))
        for done, file in enumerate(found, start=1):
            bar.update(task, completed=done, description=one_line(file.name, 40))
            if reason := await _not_put(call, base, file, report):
                report.skipped.append(Skipped(file.name, reason))
                warn(bar, f"skipped {file.name}: {reason}")
    if report.lacking:
        printing.note(f"{report.lacking} documents are not embedded yet; `knowledge embed` does that")


async def _not_put(call: api.Call, base: str, file: FoundFile, report: ImportReport) -> str | None:
    """Import the document, or in a dry run read it; the reason if that failed."""
    try:
        draft = await asyncio.to_thread(import_files.draft_of, file)
        if report.dry_run:
            await importer.read(draft)
            report.added += 1
            return None
        body = {"knowledge_base_id": base, "new": msgspec.to_builtins(draft)}
        put: PutDocument = await call(BY_NAME[f"POST {_BASE}/documents"], body)
    except Unreadable as error:
        return error.reason
    except Invalid as error:
        return error.reason
    except RefusedError as error:
        if error.exit_code != 2:  # 2: the document is not accepted
            raise
        return str(error).removeprefix("text: ").removeprefix("content: ")
    setattr(report, put.outcome, getattr(report, put.outcome) + 1)
    report.lacking += put.lacking is not None
    return None


def _prune(
    base: str, paths: Sequence[Path], found: Sequence[FoundFile], report: ImportReport, *, yes: bool
) -> bool:
    """False where it was not done: files in a folder that cannot be read may still exist."""
    unseen = [path for path in paths if path != Path("-") and not path.exists()]
    unseen += [Path(file.name) for file in found if file.path is None and Path(file.name).is_dir()]
    if unseen:
        printing.note(f"nothing is pruned: {', '.join(map(str, unseen))} cannot be read")
        return False
    kept = {file.name for file in found}
    documents = {"knowledge_base_id": base}
    listed: Sequence[Document] = _session(
        lambda call: api.pages(call, f"GET {_BASE}/documents", None, documents)
    )
    gone = [document for document in listed if document.name not in kept]
    if gone and not report.dry_run:
        names = ", ".join(document.name for document in gone[:5]) + (", …" if len(gone) > 5 else "")
        confirm(f"Delete {len(gone)} documents that are not among the files ({names})?", yes=yes)
        _session(lambda call: _delete(call, gone))
    report.pruned = [document.name for document in gone]
    return True


async def _delete(call: api.Call, gone: Sequence[Document]) -> None:
    for document in gone:
        ids = {"knowledge_base_id": document.knowledge_base_id, "document_id": document.id}
        await call(BY_NAME[f"DELETE {_BASE}/documents/{{document_id}}"], ids)


def _lines(report: ImportReport) -> Iterator[str]:
    skipped, pruned = f"{len(report.skipped):,} skipped", f"{len(report.pruned):,} pruned"
    if report.dry_run:
        yield f"{report.added:,} would be imported, {skipped}, {pruned}\n"
    else:
        yield f"{report.added:,} added, {report.changed:,} changed, {report.unchanged:,} unchanged, "
        yield f"{skipped}, {pruned}\n"
    for name in report.pruned:
        yield f"  {'would be pruned' if report.dry_run else 'pruned'}: {printing.cell(name)}\n"
