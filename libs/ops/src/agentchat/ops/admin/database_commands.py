"""`agentchat admin usage`, `secrets reseal` and `knowledge embed`, which work on the database itself."""

import sys
from functools import partial
from typing import Annotated

import msgspec
import typer
from rich.progress import Progress, TaskID

from agentchat.administration import Admin, admin_knowledge
from agentchat.administration.secret_key_rotation import Resealed
from agentchat.administration.secret_key_rotation import reseal as seal_again
from agentchat.contracts.text_checks import format_count
from agentchat.knowledge.embedding import vectors
from agentchat.ops import printing
from agentchat.ops.admin.admin_client import find_api
from agentchat.ops.admin.options import AsJson
from agentchat.ops.connections import run_on_database
from agentchat.ops.errors import SetupError
from agentchat.ops.printing import build_progress


def show_usage(
    account: Annotated[str | None, typer.Option(metavar="ACCOUNT", help="One account, in detail.")] = None,
    month: Annotated[
        str | None, typer.Option(metavar="YYYY-MM", help="The current month (UTC) if unset.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the tokens and runs of a month, and the storage used: of every account, or of one in detail."""
    path, api = "/usage" if account is None else f"/accounts/{account}/usage", find_api()
    found = api.call("GET", path, query={"month": month})
    if as_json:
        printing.print_json(found if account else found["data"])
    elif account is None:
        names = {each["id"]: each["name"] for each in api.list_all("/accounts")}
        printing.print_rows([{"account": names.get(each["account_id"])} | each for each in found["data"]])
    else:
        printing.print_rows(found.pop("lines"))
        printing.print_record(found)


def reseal(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count the secrets that would be sealed again.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Seal every secret again with the current secret key, after the key was changed.

    AGENTCHAT_SECRET_KEY is the new key, AGENTCHAT_SECRET_KEY_PREVIOUS a comma-separated list of the earlier
    keys. Services may keep running. If it is interrupted, run it again. Exit code 1 if a secret could not be
    opened.
    """
    found = run_on_database(lambda admin: _reseal(admin, dry_run=dry_run))
    for value in found.unopened:
        printing.print_note(f"{' '.join(map(str, value.key))}: its {value.secret} {value.reason}")
    if as_json:
        printing.print_json(found)
    else:
        printing.print_record(msgspec.to_builtins(found))
    if found.unopened:
        sys.exit(1)


def _advance(bar: Progress, task: TaskID, done: int, total: int) -> None:
    bar.update(task, completed=done, total=total)


async def _reseal(admin: Admin, *, dry_run: bool) -> Resealed:
    with build_progress("sealing") as bar:
        bar.add_task("agents and webhook endpoints", total=None)
        return await seal_again(admin.pool, admin.sealer, actor=admin.actor, dry_run=dry_run)


def embed(
    base: Annotated[
        str | None, typer.Argument(metavar="[KB]", help="A knowledge base; all of them if unset.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Embed passages that have no vector of the current model. Works on the database directly."""

    async def work(admin: Admin) -> int:
        if admin.embedder is None:
            raise SetupError("no embedder is set (AGENTCHAT_EMBEDDER), or the database has no pgvector")
        own = None if base is None else (await admin_knowledge.get(admin, base)).id
        with build_progress("embedding") as bar:
            advance = partial(_advance, bar, bar.add_task("", total=None))
            return await vectors.embed_missing(
                admin.pool, admin.embedder, knowledge_base_id=own, progress=advance
            )

    count = run_on_database(work)
    if as_json:
        printing.print_json({"embedded": count})
    else:
        sys.stdout.write(f"{format_count(count, 'passage')} embedded\n")
