"""`agentchat admin keys`."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ops.admin.accounts import Id as Account
from ops.admin.options import AsJson, DryRun, Most, Yes, group

if TYPE_CHECKING:
    from administration.values import IssuedKey, Key

app = group("API keys. A key is shown once, when it is made, and on stdout alone.")

Id = Annotated[str, typer.Argument(metavar="KEY_ID", help="A key's id, not the key itself.")]
_COLUMNS = {
    "ID": "id",
    "NAME": "name",
    "ENDS IN": "last4",
    "DISABLED": "disabled",
    "CREATED": "created_at",
    "LAST USED": "last_used_at",
    "ROTATED": "rotated_at",
    "REVOKED": "revoked_at",
}


@app.command()
def create(
    account: Account,
    name: Annotated[str, typer.Option(help="For people, such as where it is used.")] = "",
    as_json: AsJson = False,
) -> None:
    """Make a key: it alone is on stdout, what is about it on stderr. --json has both."""
    from administration import keys
    from administration.values import NewKey
    from ops.admin.working import run

    _issued(run(lambda admin: keys.create(admin, account, NewKey(name=name))), json_too=as_json)


@app.command("list")
def list_(account: Account, limit: Most = None, as_json: AsJson = False) -> None:
    """List an account's keys, without the keys themselves."""
    from administration import keys
    from ops.admin.show import things
    from ops.admin.working import pages, run

    found = run(
        lambda admin: pages(lambda after, size: keys.page(admin, account, after=after, limit=size), limit)
    )
    things(found, _COLUMNS, json_too=as_json)


@app.command()
def show(key: Id, as_json: AsJson = False) -> None:
    """Show what is known of one."""
    from administration import keys
    from ops.admin.show import thing
    from ops.admin.working import run

    thing(run(lambda admin: keys.get(admin, key)), json_too=as_json)


@app.command()
def rename(key: Id, name: Annotated[str, typer.Argument(metavar="NAME")], as_json: AsJson = False) -> None:
    """Give it another name."""
    from ops.admin.show import thing

    thing(_changed(key, name=name), json_too=as_json)


@app.command()
def disable(key: Id, as_json: AsJson = False) -> None:
    """Let it open nothing, from its next request on."""
    from ops.admin.show import thing

    thing(_changed(key, disabled=True), json_too=as_json)


@app.command()
def enable(key: Id, as_json: AsJson = False) -> None:
    """Undo `disable`."""
    from ops.admin.show import thing

    thing(_changed(key, disabled=False), json_too=as_json)


@app.command()
def rotate(key: Id, yes: Yes = False, as_json: AsJson = False) -> None:
    """Replace the key by a new one; the old one opens nothing from its next request on."""
    from administration import keys
    from ops.admin.removal import confirm
    from ops.admin.working import run

    confirm(f"Rotate {key}? Whoever uses the old key is shut out at once.", yes=yes)
    _issued(run(lambda admin: keys.rotate(admin, key)), json_too=as_json)


@app.command()
def revoke(key: Id, dry_run: DryRun = False, yes: Yes = False, as_json: AsJson = False) -> None:
    """Shut it for good, from its next request on."""
    from administration import keys
    from ops.admin.removal import remove

    remove(
        lambda admin, dry: keys.revoke(admin, key, dry_run=dry), dry_run=dry_run, yes=yes, json_too=as_json
    )


def _changed(key: str, **changes: Any) -> "Key":
    from administration import keys
    from administration.values import KeyChanges
    from ops.admin.working import run

    return run(lambda admin: keys.change(admin, key, KeyChanges(**changes)))


def _issued(issued: "IssuedKey", *, json_too: bool) -> None:
    from ops.admin.show import as_json, note

    if json_too:
        as_json(issued)
        return
    note(f"key {issued.id} {issued.name!r} of account {issued.account_id}; it is shown this once:")
    sys.stdout.write(issued.key + "\n")
    sys.stdout.flush()
