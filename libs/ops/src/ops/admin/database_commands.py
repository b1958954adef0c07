"""`agentchat admin usage`, `secrets reseal` and `knowledge embed`, which work on the database itself."""

import contextlib
import sys
from functools import partial
from typing import Annotated, Any

import msgspec
import typer
from rich.progress import Progress, TaskID

from administration import Admin, admin_knowledge
from administration import admin_usage as library
from administration.admin_usage import VerifiedUsage
from administration.reseal import Resealed
from administration.reseal import reseal as seal_again
from contracts.admin_errors import NotFound
from knowledge.embedding import vectors
from ops import printing
from ops.admin.api import find_api
from ops.admin.direct import run
from ops.admin.options import AsJson
from ops.errors import SetupError
from ops.printing import progress


def usage(
    account: Annotated[str | None, typer.Option(metavar="ACCOUNT", help="One, with its lines.")] = None,
    month: Annotated[str | None, typer.Option(metavar="YYYY-MM", help="This one (UTC) if unset.")] = None,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Count again from the log and compare. Exit code 1 if it differs."),
    ] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="With --verify: correct the limiter's count of this month.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the tokens and runs of a month, and the storage used: of every account, or of one in detail.

    --verify works on the database itself.
    """
    if repair and not verify:
        raise SetupError("--repair needs --verify")
    if verify:
        _show_verified(run(lambda admin: _verify(admin, account, month, repair=repair)), as_json=as_json)
        return
    path = "/usage" if account is None else f"/accounts/{account}/usage"
    found = find_api().call("GET", path, query={"month": month})
    if as_json:
        printing.as_json(found if account else found["data"])
    elif account is None:
        printing.rows(found["data"])
    else:
        printing.rows(found.pop("lines"))
        printing.record(found)


def _show_verified(found: list[VerifiedUsage], *, as_json: bool) -> None:
    rows: list[dict[str, Any]] = [msgspec.to_builtins(one) | {"ok": one.ok} for one in found]
    if as_json:
        printing.as_json(rows)
    else:
        printing.rows(rows)
    for difference in (each for one in found for each in one.differences):
        printing.note(
            f"run {difference.trace_id}: {printing.cell(difference.logged)} tokens in the log, "
            f"{printing.cell(difference.projected)} in the read model"
        )
    if not all(one.ok for one in found):
        sys.exit(1)


async def _verify(
    admin: Admin, account: str | None, month: str | None, *, repair: bool
) -> list[VerifiedUsage]:
    """Count one account, or each that has spent something; one that was deleted meanwhile is left out."""
    spent = [] if account else await library.all_accounts(admin, month)
    found: list[VerifiedUsage] = []
    with progress("reading the log") as bar:
        for account_id in [account] if account else [each.account_id for each in spent]:
            task = bar.add_task(account_id, total=None)
            with contextlib.nullcontext() if account else contextlib.suppress(NotFound):
                advance = partial(_advance, bar, task)
                found.append(
                    await library.verify(admin, account_id, month, repair=repair, on_progress=advance)
                )
            bar.remove_task(task)
    return found


def _advance(bar: Progress, task: TaskID, done: int, total: int) -> None:
    bar.update(task, completed=done, total=total)


def reseal(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count what would be sealed again.")] = False,
    as_json: AsJson = False,
) -> None:
    """Seal every secret again with the present secret key, after that was changed.

    AGENTCHAT_SECRET_KEY is the new key, AGENTCHAT_SECRET_KEY_PREVIOUS (a comma list) has the earlier ones.
    Services may run meanwhile; a second run completes an interrupted one. Exit code 1 if a secret did not
    open.
    """
    found = run(lambda admin: _reseal(admin, dry_run=dry_run))
    for value in found.unopened:
        printing.note(f"agent {value.agent_id} version {value.version}: its {value.secret} {value.reason}")
    for endpoint in found.unopened_endpoints:
        printing.note(f"webhook endpoint {endpoint.endpoint_id}: its secret {endpoint.reason}")
    if as_json:
        printing.as_json(found)
    else:
        printing.record(msgspec.to_builtins(found))
    if found.unopened or found.unopened_endpoints:
        sys.exit(1)


async def _reseal(admin: Admin, *, dry_run: bool) -> Resealed:
    with progress("sealing") as bar:
        advance = partial(_advance, bar, bar.add_task("agents", total=None))
        return await seal_again(
            admin.pool, admin.sealer, actor=admin.actor, dry_run=dry_run, progress=advance
        )


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
            advance = partial(_advance, bar, bar.add_task("", total=None))
            return await vectors.embed_missing(
                admin.pool, admin.embedder, knowledge_base_id=own, progress=advance
            )

    count = run(work)
    if as_json:
        printing.as_json({"embedded": count})
    else:
        sys.stdout.write(f"{count:,} passages embedded\n")
