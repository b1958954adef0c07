"""Define the `agentchat` command. Each command imports its needs when it runs, so `--help` is quick."""

import os
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from agentchat.ops.admin.options import LazyGroup
from agentchat.ops.errors import SetupError, StackError
from agentchat.ops.evals.eval_commands import app as evals
from agentchat.ops.export.export_commands import app as export
from agentchat.ops.replay.replay_commands import app as replay

app = typer.Typer(
    help="Run, administer and inspect Agent Chat Service.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
admin = typer.Typer(cls=LazyGroup, no_args_is_help=True)
app.add_typer(admin, name="admin")
app.add_typer(export, name="export")
app.add_typer(replay, name="replay")
app.add_typer(evals, name="eval")
Server = Literal["nats", "redis", "all"]
_Count = Annotated[int, typer.Option(min=1, max=32, help="Number of processes.")]


def _print_version(wanted: bool) -> None:
    from importlib import metadata

    if wanted:
        typer.echo(f"agentchat {metadata.version('agentchat')}")
        raise typer.Exit


@app.callback()
def options(
    _version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version.")
    ] = False,
) -> None:
    """Run, administer and inspect Agent Chat Service.

    Commands find a running stack by AGENTCHAT_RUN_DIR (default: .run). Results go to stdout, messages to
    stderr. Exit code 2: the command or a setting is wrong; 1: the command failed.
    """


@admin.callback()
def admin_options(
    url: Annotated[
        str | None,
        typer.Option(envvar="AGENTCHAT_ADMIN_URL", help="A gateway's URL; the running stack's if unset."),
    ] = None,
) -> None:
    """Administer a system: everyday commands, and `admin METHOD PATH KEY=VALUE…` for any operation.

    Commands call the admin API of the running stack, or of the gateway at --url with the token in
    AGENTCHAT_ADMIN_TOKEN. Every change adds an audit row. `knowledge embed` and `secrets reseal` work on the
    database directly: the running stack's, or AGENTCHAT_DATABASE_URL with the services' AGENTCHAT_SECRET_KEY.
    """
    if url:
        os.environ["AGENTCHAT_ADMIN_URL"] = url


@app.command()
def up(
    gateways: _Count = 1,
    orchestrators: _Count = 1,
    tool_runners: _Count = 1,
    projectors: _Count = 1,
    rehearsal: Annotated[
        bool,
        typer.Option("--rehearsal", help="Only read: no webhooks, no runs continue, no changes."),
    ] = False,
) -> None:
    """Start the complete system with embedded servers and run it until Ctrl-C.

    Set AGENTCHAT_PORT (8080; 0: any free port), AGENTCHAT_MCP_PORT and AGENTCHAT_RUN_DIR (.run) to run
    several stacks. Set AGENTCHAT_DATABASE_URL, AGENTCHAT_NATS_URL or AGENTCHAT_REDIS_URL to use your own
    servers. With ANTHROPIC_API_KEY or OPENAI_API_KEY the demo agents use that provider, otherwise an offline
    model.
    """
    from agentchat.ops.settings import ProcessCounts
    from agentchat.ops.up import run_stack as run

    run(
        ProcessCounts(
            gateways=gateways,
            orchestrators=orchestrators,
            tool_runners=tool_runners,
            projectors=projectors,
        ),
        rehearsal=rehearsal,
    )


@app.command()
def status(
    watch: Annotated[bool, typer.Option(help="Repeat every 2 seconds, until Ctrl-C.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON; with --watch one line each time.")
    ] = False,
) -> None:
    """Show the state of the running stack: processes, runs, queues, lags, approvals, webhooks, last errors.

    Exit code 1 if a process is not ready.
    """
    from agentchat.ops.status.status_command import show_status as show

    raise typer.Exit(0 if show(as_json=as_json, watch=watch) else 1)


@app.command()
def migrate() -> None:
    """Create or update the tables of the database at AGENTCHAT_DATABASE_URL.

    Run it before you start services of a new version. Databases from before 0.10.0 are refused.
    """
    from agentchat.ops.prepare import DatabaseSettings, run_migrations
    from agentchat.runtime.settings import load_or_exit

    run_migrations(load_or_exit(DatabaseSettings, os.environ).database_url)


@app.command()
def backup(
    to: Annotated[Path, typer.Argument(help="The backup folder; created if missing.")],
    follow: Annotated[
        bool, typer.Option(help="Archive the write-ahead log until Ctrl-C, to restore to any time.")
    ] = False,
    keep: Annotated[int, typer.Option(min=1, help="Number of base backups to keep.")] = 7,
    as_json: Annotated[bool, typer.Option("--json", help="The result as JSON.")] = False,
) -> None:
    """Back up Postgres, which stores everything that must not be lost, while the system runs.

    Backs up the running stack, or the server of AGENTCHAT_BACKUP_DATABASE_URL, whose login needs the
    REPLICATION right.
    """
    from agentchat.ops.backup.backup_command import back_up as run

    run(to, follow=follow, keep=keep, as_json=as_json)


@app.command()
def restore(
    backup_folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder of `agentchat backup`.")],
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="ISO 8601, UTC; the latest state if unset.")
    ] = None,
    replace: Annotated[bool, typer.Option(help="Rename existing data and restore.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The result as JSON.")] = False,
) -> None:
    """Restore a backup into the run folder of a stopped stack, and report what was lost.

    EVENTS, counters and positions are adjusted to the restored log. A damaged or incomplete backup changes
    nothing.
    """
    from datetime import datetime

    from agentchat.ops.admin.arguments import parse_time_option
    from agentchat.ops.backup.restore_command import restore as run

    time = parse_time_option("--at", at)
    run(backup_folder, at=datetime.fromisoformat(time) if time else None, replace=replace, as_json=as_json)


@app.command()
def repair(
    seen: Annotated[
        int,
        typer.Option(
            min=0, help="Last position that consumers have seen; needed only if EVENTS was lost too."
        ),
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="The result as JSON.")] = False,
) -> None:
    """Repair a system whose Postgres has lost its last events, and list them.

    Run it as the database's owner, before the services start, after you promoted an asynchronous standby or
    restored a backup by other means. New events get unused positions, and EVENTS is filled from the log.
    """
    from agentchat.ops.repair_command import repair as run

    run(seen, as_json=as_json)


@app.command()
def credentials(
    server: Annotated[Server, typer.Argument(help="The server, or all.")],
    to: Annotated[Path | None, typer.Option(help="With `all`: a new folder.")] = None,
    kubernetes: Annotated[
        bool, typer.Option("--kubernetes", help="With `all`: for the servers of deploy/kubernetes.")
    ] = False,
) -> None:
    """Print a server's users and their rights as lines for its settings file, with new passwords.

    Append them to a copy of deploy/nats.conf or deploy/valkey.conf. `all` writes the files that
    deploy/compose.yaml mounts to a new folder: users, addresses, certificates, keys. With --kubernetes,
    `kubectl apply -k FOLDER` makes Secrets of them.
    """
    from datetime import UTC, datetime

    from agentchat.ops.credentials import COMPOSE, KUBERNETES, render_users, write_all

    if server != "all":
        sys.stdout.write(render_users(server))
    elif to is None:
        raise SetupError("`credentials all` needs --to, a new folder")
    else:
        write_all(to, KUBERNETES if kubernetes else COMPOSE, datetime.now(UTC))


@app.command()
def chat(
    message: Annotated[
        str | None,
        typer.Option("--message", "-m", help="Send one message and exit; `-` reads it from stdin."),
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(help="An agent's id, or shop, policies, openai, starter, load."),
    ] = None,
    conversation: Annotated[
        str | None, typer.Option("--conversation", "-c", help="Continue this conversation.")
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(help="The service's URL; AGENTCHAT_BASE_URL if unset.")
    ] = None,
    form: Annotated[
        int | None,
        typer.Option(
            min=1, max=2, help="Stream form: 1 shows sources, 2 shows tool calls (default on a terminal)."
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each complete reply as a line of JSON.")
    ] = False,
) -> None:
    """Chat with an agent: each line is a message of one conversation.

    Uses the running stack, or the service at AGENTCHAT_BASE_URL with the key in AGENTCHAT_API_KEY. On a
    terminal, Ctrl-C stops a reply and Ctrl-D ends the chat. Replies to piped lines are plain text on stdout.
    """
    from agentchat.ops.chat_command import chat as run

    raise typer.Exit(
        run(
            message=message,
            base_url=base_url,
            agent=agent,
            conversation=conversation,
            form=None if form is None else 1 if form == 1 else 2,
            as_json=as_json,
        )
    )


def main() -> None:
    """Run the command; an error is one line on stderr."""
    try:
        app()
    except StackError as error:
        sys.stderr.write(f"agentchat: {' '.join(str(error).split())}\n")
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
