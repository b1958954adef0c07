"""`agentchat admin knowledge import`: import files into a knowledge base and report the outcomes."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import msgspec
import typer

from agentchat.contracts.admin_errors import Invalid
from agentchat.contracts.text_checks import format_count
from agentchat.knowledge.errors import Unreadable
from agentchat.knowledge.importing import import_files, importer
from agentchat.knowledge.importing.import_files import FoundFile
from agentchat.ops import printing
from agentchat.ops.admin.admin_client import AdminApi, find_api
from agentchat.ops.admin.options import AsJson, Yes, confirm
from agentchat.ops.errors import RefusedError, SetupError
from agentchat.ops.printing import build_progress, warn
from agentchat.ops.terminal_text import shorten


class Skipped(msgspec.Struct, frozen=True):
    """A file that was not imported."""

    name: str
    reason: str


class ImportReport(msgspec.Struct, kw_only=True):
    """Counts of outcomes by kind. `lacking` counts documents that are not completely embedded yet."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    lacking: int = 0
    skipped: list[Skipped] = []
    warnings: list[Skipped] = []
    pruned: list[str] = []
    dry_run: bool = False

    def add_warnings(self, file: FoundFile, warnings: Sequence[str]) -> None:
        """Report what of a file was not read."""
        self.warnings += [Skipped(file.name, each) for each in warnings]


def import_(
    base: Annotated[str, typer.Argument(metavar="KB", help="A knowledge base's id.")],
    paths: Annotated[list[Path], typer.Argument(metavar="FILE|FOLDER|-", help="`-` is standard input.")],
    name: Annotated[
        str | None,
        typer.Option(help="Document name for standard input; its ending gives the kind: guide.md."),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            help="Address of the document, which sources link to; of several documents with {name} in it: "
            "https://help.example.com/{name}."
        ),
    ] = None,
    prune: Annotated[
        bool, typer.Option("--prune", help="Afterwards delete documents that are not among these files.")
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
    imported.
    """
    if (Path("-") in paths) != (name is not None):
        raise SetupError("use `-` and --name together: --name is the document name for standard input")
    found = [*import_files.find_files((path for path in paths if path != Path("-")), within)]
    found += [] if name is None else [import_files.read_piped(sys.stdin.buffer, name)]
    if url is not None and "{name}" not in url and len(found) > 1:
        raise SetupError(f"--url is the address of one document, and these are {len(found)}: add {{name}}")
    report, api = ImportReport(dry_run=dry_run), find_api()
    api.call("GET", f"/knowledge_bases/{base}")
    with build_progress("importing") as bar:
        task = bar.add_task("", total=len(found))
        for done, file in enumerate(found, start=1):
            bar.update(task, completed=done, description=shorten(file.name, 40))
            if reason := _import_file(api, base, file, url, report):
                report.skipped.append(Skipped(file.name, reason))
                warn(bar, f"skipped {file.name}: {reason}")
    for warning in report.warnings:
        printing.print_note(f"{warning.name}: {warning.reason}")
    if report.lacking:
        printing.print_note(
            f"not embedded yet: {format_count(report.lacking, 'document')}; `knowledge embed` does that"
        )
    is_complete = not prune or _prune(api, base, paths, found, report, yes=yes)
    if as_json:
        printing.print_json(report)
    else:
        _print(report)
    if not is_complete or (report.skipped and not report.added + report.changed + report.unchanged):
        sys.exit(1)


def _import_file(
    api: AdminApi, base: str, file: FoundFile, url: str | None, report: ImportReport
) -> str | None:
    """Import the document, or in a dry run only read it. Return the reason if that failed."""
    try:
        draft = import_files.read_draft(file)
        if url is not None:
            draft = msgspec.structs.replace(draft, url=url.replace("{name}", quote(file.name)))
        if report.dry_run:
            report.add_warnings(file, asyncio.run(importer.read_text(draft)).warnings)
            report.added += 1
            return None
        body = {name: value for name, value in msgspec.to_builtins(draft).items() if name != "warnings"}
        put = api.call("POST", f"/knowledge_bases/{base}/documents", body=body)
    except (Invalid, Unreadable) as error:
        return error.reason
    except RefusedError as error:
        if error.exit_code != 2:  # 2: the document is not accepted
            raise
        return str(error).removeprefix("text: ").removeprefix("content: ")
    report.add_warnings(file, (*draft.warnings, *put.get("warnings", ())))
    setattr(report, put["outcome"], getattr(report, put["outcome"]) + 1)
    report.lacking += put.get("lacking") is not None
    return None


def _prune(
    api: AdminApi,
    base: str,
    paths: Sequence[Path],
    found: Sequence[FoundFile],
    report: ImportReport,
    *,
    yes: bool,
) -> bool:
    """Delete other documents. Return False if files may exist in a folder that cannot be read."""
    unseen = [path for path in paths if path != Path("-") and not path.exists()]
    unseen += [Path(file.name) for file in found if file.path is None and Path(file.name).is_dir()]
    if unseen:
        printing.print_note(f"nothing is pruned: {', '.join(map(str, unseen))} cannot be read")
        return False
    kept = {file.name for file in found}
    listed = api.list_all(f"/knowledge_bases/{base}/documents")
    gone = [document for document in listed if document["name"] not in kept]
    report.pruned = [document["name"] for document in gone]
    if gone and not report.dry_run:
        names = ", ".join(report.pruned[:5]) + (", …" if len(gone) > 5 else "")
        confirm(f"Delete {format_count(len(gone), 'document')} not among the files ({names})?", yes=yes)
        for document in gone:
            api.call("DELETE", f"/knowledge_bases/{base}/documents/{document['id']}")
    return True


def _print(report: ImportReport) -> None:
    outcome = f"{report.added:,} added, {report.changed:,} changed, {report.unchanged:,} unchanged"
    if report.dry_run:
        outcome = f"{report.added:,} would be imported"
    sys.stdout.write(f"{outcome}, {len(report.skipped):,} skipped, {len(report.pruned):,} pruned\n")
    for name in report.pruned:
        sys.stdout.write(
            f"  {'would be pruned' if report.dry_run else 'pruned'}: {printing.format_cell(name)}\n"
        )
