"""`agentchat admin audit`, and `agentchat admin usage`."""

import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from ops.admin.options import AsJson
from ops.errors import SetupError

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from administration.usage import MonthUsage, Verified

_Month = Annotated[str | None, typer.Option(metavar="YYYY-MM", help="This one (UTC) if unset.")]
_LINES = {
    "DAY": "day",
    "AGENT ID": "agent_id",
    "MODEL": "model",
    "RUNS": "runs",
    "FAILED": "failed",
    "CANCELLED": "cancelled",
    "ROUNDS": "rounds",
    "INPUT": "input_tokens",
    "OUTPUT": "output_tokens",
    "CACHE READ": "cache_read_tokens",
    "CACHE WRITTEN": "cache_creation_tokens",
}
_ACCOUNTS = {
    "ACCOUNT ID": "account_id",
    "TOKENS": "tokens",
    "OF": "limit",
    "RUNS": "runs",
    "FAILED": "failed",
    "CANCELLED": "cancelled",
}
_VERIFIED = {
    "ACCOUNT ID": "account_id",
    "IN THE LOG": "logged",
    "READ MODEL": "projected",
    "LIMITER": "cached",
    "RUNS": "runs",
    "MENDED": "mended",
}


def audit(
    kind: Annotated[str | None, typer.Option(help="account, key, plan, agent, knowledge_base, …")] = None,
    subject: Annotated[str | None, typer.Option(help="The id of what was changed.")] = None,
    actor: Annotated[str | None, typer.Option(help="Who: `ada@cli`, `admin-api`, …")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 50,
    as_json: AsJson = False,
) -> None:
    """Who changed what, from what, to what, when; the newest first. --json has all of it."""
    from administration import audit as library
    from ops.admin import show
    from ops.admin.working import pages, run

    found = run(
        lambda admin: pages(
            lambda after, size: library.page(
                admin, kind=kind, subject=subject, actor=actor, after=after, limit=size
            ),
            limit,
        )
    )
    if as_json:
        show.as_json(found)
        return
    rows = [
        [row.at, row.actor, f"{row.action} {row.kind}", row.subject, _change(row.before, row.after)]
        for row in found
    ]
    show.table(["WHEN", "WHO", "WHAT", "SUBJECT", "CHANGE"], rows)


def usage(
    account: Annotated[
        str | None, typer.Option(metavar="ACCOUNT", help="One, by day, agent and model.")
    ] = None,
    month: _Month = None,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Count again from the log and compare. Exit code 1 if it differs."),
    ] = False,
    mend: Annotated[
        bool, typer.Option("--mend", help="With --verify: set the limiter's count right (this month's).")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the tokens and runs of a month: of every account, or of one in detail."""
    import msgspec

    from ops.admin import show

    if mend and not verify:
        raise SetupError("--mend goes with --verify")
    if not verify:
        _print_usage(account, month, json_too=as_json)
        return
    found = _verify(account, month, mend=mend)
    if as_json:
        show.as_json([msgspec.structs.asdict(one) | {"ok": one.ok} for one in found])
    else:
        show.things(found, _VERIFIED, json_too=False)
    for one in found:
        for difference in one.differences:
            show.note(
                f"run {difference.trace_id}: {show.cell(difference.logged)} tokens in the log, "
                f"{show.cell(difference.projected)} in the read model"
            )
    if not all(one.ok for one in found):
        sys.exit(1)


def _print_usage(account: str | None, month: str | None, *, json_too: bool) -> None:
    from administration import usage as library
    from ops.admin import show
    from ops.admin.working import run

    if account is None:
        show.things(run(lambda admin: library.all_accounts(admin, month)), _ACCOUNTS, json_too=json_too)
        return
    found: MonthUsage = run(lambda admin: library.of_month(admin, account, month))
    if json_too:
        show.as_json(found)
        return
    show.things(found.lines, _LINES, json_too=False)
    limit = "no limit" if found.limit is None else f"of {found.limit:,}"
    sys.stdout.write(f"{found.month}: {found.tokens:,} tokens ({limit}) in {found.runs:,} runs\n")


def _verify(account: str | None, month: str | None, *, mend: bool) -> "list[Verified]":
    from administration import Admin
    from administration import usage as library
    from administration.errors import NotFound
    from ops.admin.importing import progress
    from ops.admin.working import run

    async def work(admin: Admin) -> "list[Verified]":
        with progress("reading the log") as bar:
            if account is not None:
                return [await verified(admin, account, bar)]
            spent = await library.all_accounts(admin, month)
            return [one for each in spent if (one := await of_present(admin, each.account_id, bar))]

    async def of_present(admin: Admin, account_id: str, bar: "Progress") -> "Verified | None":
        try:
            return await verified(admin, account_id, bar)
        except NotFound:
            return None  # deleted since: nothing limits it any more

    async def verified(admin: Admin, account_id: str, bar: "Progress") -> "Verified":
        task = bar.add_task(account_id, total=None)
        try:
            advance = partial(_advance, bar, task)
            return await library.verify(admin, account_id, month, mend=mend, on_progress=advance)
        finally:
            bar.remove_task(task)

    return run(work, limiter=True)


def _advance(bar: "Progress", task: "TaskID", done: int, total: int) -> None:
    bar.update(task, completed=done, total=total)


def _change(before: object, after: object) -> str:
    """The fields that differ, or the whole row where it came or went."""
    from ops.admin.show import cell

    if not (isinstance(before, dict) and isinstance(after, dict)):
        return cell(after if before is None else before)
    names = [name for name in before | after if before.get(name) != after.get(name)]
    return "; ".join(f"{name}: {cell(before.get(name))} → {cell(after.get(name))}" for name in names)
