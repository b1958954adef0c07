"""Files into a knowledge base, with a bar on a terminal, and what became of each."""

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from administration import Admin, documents, knowledge
from administration.values import Document
from knowledge import embeddings, files
from knowledge.errors import Unreadable
from knowledge.files import Found
from ops.admin import show
from ops.admin.removal import confirm
from ops.admin.working import run
from ops.chat.safe import one_line
from ops.errors import SetupError


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What to import. `name` is the document that standard input is."""

    base: str
    paths: tuple[Path, ...]
    name: str | None
    prune: bool


class Skipped(msgspec.Struct, frozen=True):
    name: str
    reason: str


class Report(msgspec.Struct, kw_only=True):
    """What became of the files. `lacking` counts documents that are not embedded, or not wholly, yet."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    lacking: int = 0
    skipped: list[Skipped] = []
    pruned: list[str] = []
    dry_run: bool = False


def import_documents(wanted: Wanted, *, dry_run: bool, yes: bool, json_too: bool) -> bool:
    """False where nothing could be imported, or not be pruned. Raises StackError."""
    found = _found(wanted)
    if dry_run:
        report = _tried(wanted, found)
    else:
        report = run(lambda admin: _imported(admin, wanted, found), embedder=True)
    complete = True
    if wanted.prune:
        complete = _prune(wanted, found, report, yes=yes)
    _tell(report, json_too=json_too)
    return complete and not (report.skipped and not report.added + report.changed + report.unchanged)


def embed_missing(base: str | None) -> int:
    """How many passages were embedded. Raises StackError where no embedder is set."""

    async def work(admin: Admin) -> int:
        if admin.embedder is None:
            raise SetupError("no embedder is set (AGENTCHAT_EMBEDDER), or the database has no pgvector")
        own = None if base is None else (await knowledge.get(admin, base)).id
        with progress("embedding") as bar:
            task = bar.add_task("", total=None)
            return await embeddings.embed_missing(
                admin.pool,
                admin.embedder,
                knowledge_base_id=own,
                progress=lambda done, total: bar.update(task, completed=done, total=total),
            )

    return run(work, embedder=True)


def _found(wanted: Wanted) -> list[Found]:
    named = [path for path in wanted.paths if path != Path("-")]
    piped = [] if wanted.name is None else [files.piped(sys.stdin.buffer, wanted.name)]
    return [*files.find(named), *piped]


async def _imported(admin: Admin, wanted: Wanted, found: Sequence[Found]) -> Report:
    report = Report()
    with progress("importing") as bar:
        task = bar.add_task("", total=len(found))
        async for step in documents.import_files(admin, wanted.base, found):
            bar.update(task, completed=step.done, description=one_line(step.name, 40))
            if step.imported is None:
                report.skipped.append(Skipped(step.name, step.reason or ""))
                _warn(bar, f"skipped {step.name}: {step.reason}")
                continue
            outcome = step.imported.outcome
            setattr(report, outcome, getattr(report, outcome) + 1)
            if step.imported.lacking:
                report.lacking += 1
    if report.lacking:
        show.note(f"{report.lacking} documents are not embedded yet; `knowledge embed` goes on with them")
    return report


def _tried(wanted: Wanted, found: Sequence[Found]) -> Report:
    """What an import would read."""
    report = Report(dry_run=True)
    run(lambda admin: knowledge.get(admin, wanted.base))
    for file in found:
        try:
            files.draft_of(file)
        except Unreadable as error:
            report.skipped.append(Skipped(file.name, error.reason))
            show.note(f"skipped {file.name}: {error.reason}")
        else:
            report.added += 1
    return report


def _prune(wanted: Wanted, found: Sequence[Found], report: Report, *, yes: bool) -> bool:
    """False where it was not done: what could not be looked at may be there still."""
    unseen = [path for path in wanted.paths if path != Path("-") and not path.exists()]
    unseen += [Path(file.name) for file in found if file.path is None and Path(file.name).is_dir()]
    if unseen:
        show.note(f"nothing is pruned: {', '.join(map(str, unseen))} cannot be looked into")
        return False
    kept = {file.name for file in found}
    gone = run(lambda admin: documents.gone(admin, wanted.base, kept))
    if gone and not report.dry_run:
        names = ", ".join(document.name for document in gone[:5]) + (", …" if len(gone) > 5 else "")
        confirm(f"Delete {len(gone)} documents that are not among the files ({names})?", yes=yes)
        run(lambda admin: _delete(admin, gone))
    report.pruned = [document.name for document in gone]
    return True


async def _delete(admin: Admin, gone: Sequence[Document]) -> None:
    for document in gone:
        await documents.delete(admin, document.knowledge_base_id, document.id)


def _tell(report: Report, *, json_too: bool) -> None:
    if json_too:
        show.as_json(report)
        return
    if report.dry_run:
        sys.stdout.write(f"{report.added:,} would be imported, {len(report.skipped):,} skipped")
        sys.stdout.write(f", {len(report.pruned):,} pruned\n")
    else:
        counts = Counter(added=report.added, changed=report.changed, unchanged=report.unchanged)
        told = ", ".join(f"{count:,} {word}" for word, count in counts.items())
        sys.stdout.write(f"{told}, {len(report.skipped):,} skipped, {len(report.pruned):,} pruned\n")
    for name in report.pruned:
        sys.stdout.write(f"  {'would be pruned' if report.dry_run else 'pruned'}: {show.cell(name)}\n")


def progress(verb: str) -> Progress:
    """Drawn on a terminal only."""
    console = show.console(stderr=True)
    return Progress(
        TextColumn(verb),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def _warn(bar: Progress, text: str) -> None:
    """Above the bar where there is one."""
    line: Any = f"agentchat: {one_line(text, 1000)}"
    bar.console.print(line, soft_wrap=True)
