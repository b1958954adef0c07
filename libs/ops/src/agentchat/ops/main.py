"""The `agentchat` command. Each command imports what it needs when it runs, so that `--help` stays quick."""

import os
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from agentchat.ops.admin.options import LazyGroup
from agentchat.ops.errors import SetupError, StackError
from agentchat.ops.evals.eval_commands import app as evals
from agentchat.ops.replay.replay_commands import app as replay

app = typer.Typer(
    help="Agent Chat Service: run it, and look at what runs.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
admin = typer.Typer(cls=LazyGroup, no_args_is_help=True)
app.add_typer(admin, name="admin")
app.add_typer(replay, name="replay")
app.add_typer(evals, name="eval")
Server = Literal["nats", "redis", "all"]
_Count = Annotated[int, typer.Option(min=1, max=32, help="How many of this service.")]


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
    """Agent Chat Service: run it, and look at what runs.

    Commands find a running stack by AGENTCHAT_RUN_DIR (default: .run). Results are on stdout, messages on
    stderr. Exit code 2: the command or its settings are wrong; 1: it failed.
    """


@admin.callback()
def admin_options(
    url: Annotated[
        str | None, typer.Option(envvar="AGENTCHAT_ADMIN_URL", help="A gateway; else the running stack's.")
    ] = None,
) -> None:
    """Administer a system: `admin METHOD PATH KEY=VALUE…` for any operation, and commands for every day.

    Calls the admin API of the running stack, or of the gateway at --url with the token in
    AGENTCHAT_ADMIN_TOKEN. Every change leaves an audit row. `knowledge embed` and `secrets reseal` work
    on the database itself: the running stack's, or AGENTCHAT_DATABASE_URL with AGENTCHAT_SECRET_KEY as the
    services have it.
    """
    if url:
        os.environ["AGENTCHAT_ADMIN_URL"] = url


@app.command()
def up(
    gateways: _Count = 1,
    orchestrators: _Count = 1,
    tool_runners: _Count = 1,
    projectors: _Count = 1,
) -> None:
    """Start the whole system on embedded servers, until Ctrl-C.

    AGENTCHAT_PORT (8080; 0: any free port), AGENTCHAT_MCP_PORT and AGENTCHAT_RUN_DIR (.run) let several run
    side by side. AGENTCHAT_DATABASE_URL, AGENTCHAT_NATS_URL and AGENTCHAT_REDIS_URL name servers to use
    instead of embedded ones. With ANTHROPIC_API_KEY or OPENAI_API_KEY the demo agents use
    that provider, else an offline model.
    """
    from agentchat.ops.settings import Counts
    from agentchat.ops.up import run_stack as run

    run(
        Counts(
            gateways=gateways,
            orchestrators=orchestrators,
            tool_runners=tool_runners,
            projectors=projectors,
        )
    )


@app.command()
def status(
    watch: Annotated[bool, typer.Option(help="Repeat every 2 seconds, until Ctrl-C.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON; with --watch a line each time.")] = False,
) -> None:
    """Show the state of the running stack: processes, runs, queues, lags, approvals, webhooks, last errors.

    Exit code 1 if a process is not ready.
    """
    from agentchat.ops.status.status_command import show_status as show

    raise typer.Exit(0 if show(as_json=as_json, watch=watch) else 1)


@app.command()
def migrate() -> None:
    """Create or update the tables of the database at AGENTCHAT_DATABASE_URL.

    Run it before services of a new version start. Databases from before 0.10.0 are refused.
    """
    from agentchat.ops.prepare import DatabaseSettings, run_migrations
    from agentchat.runtime.settings import load_or_exit

    run_migrations(load_or_exit(DatabaseSettings, os.environ).database_url)


@app.command()
def backup(
    to: Annotated[Path, typer.Argument(help="The backup folder; it is made.")],
    follow: Annotated[
        bool, typer.Option(help="Then keep the write-ahead log too, until Ctrl-C: for any point in time.")
    ] = False,
    keep: Annotated[int, typer.Option(min=1, help="Keep so many base backups.")] = 7,
    as_json: Annotated[bool, typer.Option("--json", help="The result as JSON.")] = False,
) -> None:
    """Back up Postgres, which has all that must not be lost, while the system runs.

    It is the running stack's, or the one of AGENTCHAT_BACKUP_DATABASE_URL, with a login that may replicate.
    """
    from agentchat.ops.backup.backup_command import back_up as run

    run(to, follow=follow, keep=keep, as_json=as_json)


@app.command()
def restore(
    backup_folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder of `agentchat backup`.")],
    at: Annotated[
        str | None, typer.Option(help="A time (ISO 8601) or an age (15m, 2h); else the end.")
    ] = None,
    replace: Annotated[bool, typer.Option(help="Keep the data that is there under another name.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The result as JSON.")] = False,
) -> None:
    """Restore a backup into the run folder, whose stack is down, and report what was lost.

    EVENTS, counters and positions are made to fit the restored log. A backup that is damaged or incomplete
    changes nothing.
    """
    from agentchat.ops.backup.restore_command import restore as run
    from agentchat.ops.times import parse_time

    when = parse_time(at, "--at") if at else None
    run(backup_folder, at=when, replace=replace, as_json=as_json)


@app.command()
def repair(
    seen: Annotated[
        int, typer.Option(min=0, help="The last position that consumers have seen, if EVENTS was lost too.")
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="The result as JSON.")] = False,
) -> None:
    """Repair a system whose Postgres has lost its last events, and list these.

    Run it after an asynchronous standby was promoted, or a backup was restored by other means, before the
    services start, as the database's owner. New events get positions that no event had, and EVENTS is made
    as the log is.
    """
    from agentchat.ops.repair_command import repair as run

    run(seen, as_json=as_json)


@app.command()
def credentials(
    server: Annotated[Server, typer.Argument(help="Which server.")],
    to: Annotated[Path | None, typer.Option(help="With `all`: a new folder.")] = None,
    kubernetes: Annotated[
        bool, typer.Option("--kubernetes", help="With `all`: for the servers of deploy/kubernetes.")
    ] = False,
) -> None:
    """Print the users of a server and what each may do, as part of its settings, with new passwords.

    Append it to a copy of deploy/nats.conf or deploy/valkey.conf. `agentchat up` has the same users. `all`
    writes what deploy/compose.yaml mounts to a new folder: the users of all servers, their addresses for each
    service, certificates, keys. With --kubernetes `kubectl apply -k FOLDER` makes Secrets of them.
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
        typer.Option("--message", "-m", help="Send this, write the reply, end; `-`: all of stdin."),
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(help="Its id, or shop, policies, openai, starter, load."),
    ] = None,
    conversation: Annotated[
        str | None, typer.Option("--conversation", "-c", help="Continue the conversation of this id.")
    ] = None,
    base_url: Annotated[str | None, typer.Option(help="The service; else AGENTCHAT_BASE_URL.")] = None,
    form: Annotated[
        int | None,
        typer.Option(min=1, max=2, help="Stream form: 1 has sources, 2 tools (default on a terminal)."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Complete replies, a line of JSON each.")] = False,
) -> None:
    """Chat with an agent: each line is a message of one conversation.

    It uses the running stack, or the service at AGENTCHAT_BASE_URL with the key in AGENTCHAT_API_KEY. On a
    terminal Ctrl-C stops a reply and Ctrl-D ends the chat; replies to piped lines are plain text on stdout.
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
