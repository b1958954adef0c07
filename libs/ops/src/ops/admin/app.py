"""The groups and commands of `agentchat admin`: those of the table, and those that are none of its routes."""

import typer

from ops.admin import files, usage
from ops.admin.commands import AUDIT, GROUPS
from ops.admin.making import add
from ops.admin.options import group
from ops.admin.secrets import reseal

app = group("")


def _grown() -> dict[str, typer.Typer]:
    """A group for each of the table, within the one that its name begins with."""
    grown: dict[str, typer.Typer] = {}
    for name, row in GROUPS.items():
        grown[name] = made = group(row.help)
        within, _, last = name.rpartition(" ")
        grown.get(within, app).add_typer(made, name=last)
        for command_name, command in row.commands.items():
            add(made, command_name, command)
    return grown


_groups = _grown()
_groups["knowledge"].command("import")(files.import_)
_groups["knowledge"].command("embed")(files.embed)
secrets = group("Secrets that are kept sealed: provider keys and the headers of tool servers.")
secrets.command()(reseal)
app.add_typer(secrets, name="secrets")
add(app, "audit", AUDIT)
app.command()(usage.usage)
