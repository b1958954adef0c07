"""`agentchat replay audit` and `agentchat replay audit head`."""

import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from conversations.chain import auditing, day_heads
from conversations.chain.auditing import Audit, Scope
from conversations.chain.day_heads import HeadDifference
from conversations.compacted_erasures import LEAVES_KEPT_DAYS
from conversations.event_store.log import Log
from ops import printing
from ops.admin.options import AsJson
from ops.connections import run
from ops.errors import SetupError
from ops.output import counted
from ops.printing import progress
from ops.replay import signed_heads
from ops.replay.export_command import chosen_ids
from ops.replay.signed_heads import AUDIT_KEY, SignedHead
from runtime.postgres import Pool

_MOST_NAMED = 20

app = typer.Typer(
    add_completion=False,
    invoke_without_command=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


class _Report(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` prints."""

    audit: Audit
    days: list[date]
    differences: list[HeadDifference]

    @property
    def ok(self) -> bool:
        return not self.audit.broken and not any(each.changed for each in self.differences)


@app.callback()
def audit(
    context: typer.Context,
    conversations: Annotated[
        list[str] | None, typer.Option("--conversation", metavar="ID", help="These conversations alone.")
    ] = None,
    account: Annotated[
        str | None, typer.Option(metavar="ACCOUNT", help="The conversations of this account alone.")
    ] = None,
    first: Annotated[int, typer.Option("--from", min=1, help="The log position to begin at.")] = 1,
    last: Annotated[int | None, typer.Option("--to", min=1, help="The log position to end with.")] = None,
    against: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A head of a day that `audit head` printed; may be repeated."),
    ] = None,
    public_keys: Annotated[
        list[str] | None,
        typer.Option(
            "--public-key", metavar="KEY", help=f"Who may have signed it, in base64; or {AUDIT_KEY}."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Prove that no event was changed, moved, removed or inserted: verify the hash of each over its content
    and the event before it in its conversation. Changes nothing.

    Reports the first broken place of each conversation. With --against, also that the log matches the signed
    hashes of those days, so that a rewritten or truncated log is found. Exit code 1: something was changed.
    Exit code 2: a conversation or account is unknown, or a file is no signed hash of a day.
    """
    if context.invoked_subcommand is not None:
        return
    chosen = tuple(dict.fromkeys(each.lower() for each in conversations or ()))
    of_some = bool(chosen) or account is not None
    heads = _heads(against or (), public_keys or ())
    if of_some and (heads or first > 1 or last is not None):
        raise SetupError(
            "--against, --from and --to audit the complete log: not with --conversation or --account"
        )
    if chosen and account is not None:
        raise SetupError("choose what to audit: conversations, or an account, or the log")

    async def scope(pool: Pool, log: Log) -> Scope:
        end = min(await log.settled(), await log.head())
        if not of_some:
            return Scope(first=first, last=min(end, last or end))
        ids = await chosen_ids(pool, log, chosen, account)
        return Scope(last=end, conversations=tuple([each async for each in ids]))

    report = run(lambda _, pool: _audited(pool, scope, heads))
    if as_json:
        printing.as_json(report)
    else:
        _print(report, each_erased=of_some)
    raise typer.Exit(0 if report.ok else 1)


@app.command()
def head(
    day: Annotated[
        str | None, typer.Option(metavar="YYYY-MM-DD", help="A day in UTC; yesterday if unset.")
    ] = None,
    leaves: Annotated[
        bool, typer.Option("--leaves", help="With a line a conversation, so that an audit can name them.")
    ] = False,
) -> None:
    """Print one signed hash over the last events of all conversations that a day has changed, as JSON, to be
    kept where nobody who can write the database can write. AGENTCHAT_AUDIT_KEY signs it.
    """
    wanted = _day(day)
    key = signed_heads.private_key()
    if key is None:
        raise SetupError(
            f"{AUDIT_KEY} is not set: 32 bytes in base64, as `openssl rand -base64 32` makes them"
        )
    found, its_leaves = run(lambda _, pool: day_heads.head_of(pool, Log(pool), wanted))
    signed = signed_heads.signed(found, its_leaves if leaves else (), key)
    sys.stdout.write(msgspec.json.encode(signed).decode() + "\n")


def _day(text: str | None) -> date:
    """Raises SetupError."""
    today = datetime.now(UTC).date()
    if text is None:
        return today - timedelta(days=1)
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise SetupError("--day: write it as 2026-11-21") from None
    if day > today:
        raise SetupError(f"--day: {day} has not begun")
    return day


def _heads(against: Sequence[Path], public_keys: Sequence[str]) -> list[SignedHead]:
    """Raises SetupError, StackError."""
    if not against:
        return []
    keys = [signed_heads.public_key(each) for each in public_keys]
    own = None if keys else signed_heads.private_key()
    if own is not None:
        keys = [own.public_key()]
    if not keys:
        raise SetupError(f"no key to check the signature with: give --public-key, or set {AUDIT_KEY}")
    return [signed_heads.read(path, keys) for path in against]


async def _audited(
    pool: Pool, scope: Callable[[Pool, Log], Awaitable[Scope]], heads: Sequence[SignedHead]
) -> _Report:
    log = Log(pool)
    wanted = await scope(pool, log)
    with progress("audit") as bar:
        task = bar.add_task("events", total=wanted.last, completed=wanted.first - 1)
        audited = await auditing.audit(
            pool, log, wanted, on_position=lambda position: bar.update(task, completed=position)
        )
    before = datetime.now(UTC).date() - timedelta(days=LEAVES_KEPT_DAYS)
    compared = [
        await day_heads.compare(pool, log, each.head, each.leaves, dropped_before=before) for each in heads
    ]
    return _Report(
        audit=audited,
        days=[each.head.day for each in heads],
        differences=[each for each in compared if each is not None],
    )


def _print(report: _Report, *, each_erased: bool) -> None:
    """With `each_erased` every conversation that was erased; else their number."""
    found = report.audit
    parts = [f"{counted(found.events, 'event')} up to position {found.last:,}"]
    parts.append(f"{counted(len(found.erased), 'conversation')} erased")
    if unproved := sum(not each.proved for each in found.erased):
        parts.append(f"{unproved:,} of them without proof of what was erased")
    parts.append("the chain is broken" if found.broken else "hash chain OK")
    _line("; ".join(parts))
    if each_erased:
        for each in found.erased:
            proof = "" if each.proved else ", without proof of what was erased"
            _line(f"conversation {each.conversation_id}: erased at {each.at} by trace {each.trace_id}{proof}")
    for broken in found.broken:
        place = f"version {broken.version:,} (position {broken.position:,})"
        _line(f"conversation {broken.conversation_id}: broken at {place}: {broken.reason}")
    different = {each.day: each for each in report.differences}
    for day in report.days:
        _print_day(day, different.get(day))


def _print_day(day: date, difference: HeadDifference | None) -> None:
    if difference is None:
        _line(f"{day}: OK: the log matches the signed hash of the day")
        return
    _line(f"{day}: {difference.reason}")
    for conversation_id in difference.conversations[:_MOST_NAMED]:
        _line(f"{day}: conversation {conversation_id} is not what it was")
    left = len(difference.conversations) - _MOST_NAMED
    if left > 0:
        _line(f"{day}: nor are {left:,} more")


def _line(text: str) -> None:
    sys.stdout.write(printing.cell(text) + "\n")
