"""`agentchat admin usage` and `secrets reseal`, which are more than a route."""

import contextlib
import sys
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

import msgspec
import typer
from rich.progress import Progress, TaskID

from administration import Admin
from administration import admin_usage as library
from administration.admin_usage import MonthUsage, VerifiedUsage
from administration.reseal import Resealed
from administration.reseal import reseal as seal_again
from contracts.admin_errors import NotFound
from ops import printing
from ops.admin.api import ask
from ops.admin.direct import run
from ops.admin.options import AsJson
from ops.admin.printed_answers import show_answer, show_lines
from ops.errors import SetupError
from ops.printing import progress

_Month = Annotated[str | None, typer.Option(metavar="YYYY-MM", help="This one (UTC) if unset.")]


def usage(
    account: Annotated[
        str | None, typer.Option(metavar="ACCOUNT", help="One, by day, agent and model.")
    ] = None,
    month: _Month = None,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Count again from the log and compare. Exit code 1 if it differs."),
    ] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="With --verify: correct the limiter's count of this month.")
    ] = False,
    mend: Annotated[bool, typer.Option("--mend", hidden=True)] = False,
    as_json: AsJson = False,
) -> None:
    """Show the tokens and runs of a month, and the storage used: of every account, or of one in detail.

    --verify works on the database itself.
    """
    repair = repair or mend
    if repair and not verify:
        raise SetupError("--repair needs --verify")
    if not verify:
        _print_usage(account, month, as_json=as_json)
        return
    found = run(lambda admin: _verify(admin, account, month, repair=repair))
    if as_json:
        printing.as_json([msgspec.structs.asdict(one) | {"ok": one.ok} for one in found])
    else:
        show_verified(found)
    for one in found:
        for difference in one.differences:
            printing.note(
                f"run {difference.trace_id}: {printing.cell(difference.logged)} tokens in the log, "
                f"{printing.cell(difference.projected)} in the read model"
            )
    if not all(one.ok for one in found):
        sys.exit(1)


def show_verified(found: Sequence[VerifiedUsage]) -> None:
    printing.things(found, "account_id logged projected cached runs repaired")


def _print_usage(account: str | None, month: str | None, *, as_json: bool) -> None:
    asked: dict[str, Any] = {} if month is None else {"month": month}
    if account is None:
        show_answer(MonthUsage, ask("GET /usage", **asked), json_too=as_json)
        return
    found: MonthUsage = ask("GET /accounts/{account_id}/usage", account_id=account, **asked)
    if as_json:
        printing.as_json(found)
        return
    show_lines(found.lines)
    limit = "no limit" if found.limit is None else f"of {found.limit:,}"
    sys.stdout.write(f"{found.month}: {found.tokens:,} tokens ({limit}) in {found.runs:,} runs\n")
    limit = "no limit" if found.storage_limit is None else f"of {found.storage_limit:,}"
    sys.stdout.write(
        f"stored: {found.stored_bytes:,} bytes ({limit})"
        f" in {found.stored_events:,} events of {found.conversations:,} conversations\n"
    )


async def _verify(
    admin: Admin, account: str | None, month: str | None, *, repair: bool
) -> list[VerifiedUsage]:
    """One account, or each that has spent something; one that was deleted meanwhile is left out."""
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
        verb = "would be sealed" if dry_run else "sealed"
        unopened = len(found.unopened) + len(found.unopened_endpoints)
        sys.stdout.write(
            f"{found.resealed:,} of {found.values:,} secrets of {found.agents:,} agents and "
            f"{found.endpoints:,} webhook endpoints {verb} again, {unopened:,} did not open\n"
        )
    if found.unopened or found.unopened_endpoints:
        sys.exit(1)


async def _reseal(admin: Admin, *, dry_run: bool) -> Resealed:
    with progress("sealing") as bar:
        task = bar.add_task("agents", total=None)
        return await seal_again(
            admin.pool,
            admin.sealer,
            actor=admin.actor,
            dry_run=dry_run,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
