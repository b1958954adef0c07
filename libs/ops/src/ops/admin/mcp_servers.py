"""`agentchat admin agents mcp-servers`."""

from typing import Annotated, Any

import typer

from ops.admin.options import AsJson, DryRun, Yes, group
from ops.errors import SetupError

app = group("An agent's tool servers; each change makes a version of the agent.")

_Agent = Annotated[str, typer.Argument(metavar="AGENT", help="An agent's id.")]
_Name = Annotated[str, typer.Argument(metavar="NAME", help="The server's name within the agent.")]
_Headers = Annotated[
    list[str] | None,
    typer.Option("--header", metavar="'Name: @env:VARIABLE'", help="Or 'Name: @file:PATH'. May be repeated."),
]
_Tools = Annotated[
    list[str] | None, typer.Option("--allow", metavar="TOOL", help="Only this tool. May be repeated.")
]
_COLUMNS = {
    "NAME": "name",
    "URL": "url",
    "HEADERS": "header_names",
    "TOOLS ALLOWED": "allowed_tools",
    "DISABLED": "disabled",
}


@app.command("list")
def list_(agent: _Agent, as_json: AsJson = False) -> None:
    """List them; headers by their names."""
    from administration import mcp_servers
    from ops.admin.show import things
    from ops.admin.working import run

    things(run(lambda admin: mcp_servers.all(admin, agent)), _COLUMNS, json_too=as_json)


@app.command()
def add(
    agent: _Agent,
    name: _Name,
    url: Annotated[str, typer.Argument(metavar="URL")],
    header: _Headers = None,
    allow: _Tools = None,
    disabled: Annotated[bool, typer.Option("--disabled", help="Not to be used yet.")] = False,
    as_json: AsJson = False,
) -> None:
    """Add one. Values of headers come from variables or files: arguments can be seen by others."""
    from administration import mcp_servers
    from administration.values import NewServer
    from ops.admin.hidden import headers
    from ops.admin.show import thing
    from ops.admin.working import run

    new = NewServer(
        name=name,
        url=url,
        headers=headers(header or ()),
        allowed_tools=None if allow is None else tuple(allow),
        disabled=disabled,
    )
    thing(run(lambda admin: mcp_servers.add(admin, agent, new), seals=True), json_too=as_json)


@app.command()
def change(
    agent: _Agent,
    name: _Name,
    url: Annotated[str | None, typer.Option()] = None,
    header: _Headers = None,
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Take them all away.")] = False,
    allow: _Tools = None,
    allow_all: Annotated[bool, typer.Option("--allow-all", help="Every tool.")] = False,
    disabled: Annotated[bool | None, typer.Option("--disabled/--enabled")] = None,
    as_json: AsJson = False,
) -> None:
    """Change what is given. Headers stay unless some are given, which then replace them all.

    A URL of another scheme, host or port needs them anew, or --no-headers.
    """
    from administration import mcp_servers
    from administration.values import ServerChanges
    from ops.admin.hidden import headers
    from ops.admin.show import thing
    from ops.admin.working import run

    if (header and no_headers) or (allow and allow_all):
        raise SetupError("give headers or --no-headers, and --allow or --allow-all")
    changes: dict[str, Any] = {}
    if url is not None:
        changes["url"] = url
    if header or no_headers:
        changes["headers"] = headers(header or ())
    if allow or allow_all:
        changes["allowed_tools"] = tuple(allow) if allow else None
    if disabled is not None:
        changes["disabled"] = disabled
    if not changes:
        raise SetupError("nothing to change: give an option")
    thing(
        run(lambda admin: mcp_servers.change(admin, agent, name, ServerChanges(**changes)), seals=True),
        json_too=as_json,
    )


@app.command()
def remove(
    agent: _Agent, name: _Name, dry_run: DryRun = False, yes: Yes = False, as_json: AsJson = False
) -> None:
    """Take one away."""
    from administration import mcp_servers
    from ops.admin.removal import remove as run

    run(
        lambda admin, dry: mcp_servers.remove(admin, agent, name, dry_run=dry),
        dry_run=dry_run,
        yes=yes,
        json_too=as_json,
    )
