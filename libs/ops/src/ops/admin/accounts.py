"""`agentchat admin accounts`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ops.admin.options import AsJson, DryRun, Force, Most, Yes, given, group

if TYPE_CHECKING:
    from administration.values import Account

app = group("Accounts: whose agents, keys and conversations these are.")

Id = Annotated[str, typer.Argument(metavar="ACCOUNT", help="An account's id.")]
_COLUMNS = {"ID": "id", "NAME": "name", "PLAN": "plan", "DISABLED": "disabled", "CREATED": "created_at"}


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    plan: Annotated[str, typer.Option(help="Its plan, see `plans list`.")] = "Starter",
    own_id: Annotated[
        str | None, typer.Option("--id", help="A UUID of your own, for set-ups that are repeated.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make an account."""
    from administration import accounts
    from administration.values import NewAccount
    from ops.admin.show import thing
    from ops.admin.working import run

    new = NewAccount(name=name, plan=plan, id=own_id)
    thing(run(lambda admin: accounts.create(admin, new)), json_too=as_json)


@app.command("list")
def list_(limit: Most = None, as_json: AsJson = False) -> None:
    """List accounts, in the order in which they were made."""
    from administration import accounts
    from ops.admin.show import things
    from ops.admin.working import pages, run

    found = run(lambda admin: pages(lambda after, size: accounts.page(admin, after=after, limit=size), limit))
    things(found, _COLUMNS, json_too=as_json)


@app.command()
def show(account: Id, as_json: AsJson = False) -> None:
    """Show one."""
    from administration import accounts
    from ops.admin.show import thing
    from ops.admin.working import run

    thing(run(lambda admin: accounts.get(admin, account)), json_too=as_json)


@app.command()
def change(
    account: Id,
    name: Annotated[str | None, typer.Option()] = None,
    plan: Annotated[str | None, typer.Option(help="Counts from its next request on.")] = None,
    as_json: AsJson = False,
) -> None:
    """Change its name or its plan."""
    from ops.admin.show import thing

    thing(_changed(account, **given(name=name, plan=plan)), json_too=as_json)


@app.command()
def disable(account: Id, as_json: AsJson = False) -> None:
    """Let its keys open nothing, from their next request on."""
    from ops.admin.show import thing

    thing(_changed(account, disabled=True), json_too=as_json)


@app.command()
def enable(account: Id, as_json: AsJson = False) -> None:
    """Undo `disable`."""
    from ops.admin.show import thing

    thing(_changed(account, disabled=False), json_too=as_json)


@app.command()
def delete(
    account: Id, force: Force = False, dry_run: DryRun = False, yes: Yes = False, as_json: AsJson = False
) -> None:
    """Delete it. With --force also its keys, agents, knowledge bases and conversations.

    Should that break off, the same command goes on from there.
    """
    from administration import accounts
    from ops.admin.removal import remove

    remove(
        lambda admin, dry: accounts.delete(admin, account, force=force, dry_run=dry),
        force=force,
        dry_run=dry_run,
        yes=yes,
        json_too=as_json,
        bus="if told" if force else "no",
    )


def _changed(account: str, **changes: Any) -> "Account":
    from administration import accounts
    from administration.values import AccountChanges
    from ops.admin.working import run

    return run(lambda admin: accounts.change(admin, account, AccountChanges(**changes)))
