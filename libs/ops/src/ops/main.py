"""The `agentchat` command. Each command imports what it needs when it runs, so that `--help` stays quick."""

import os
import sys
from typing import Annotated

import typer

from ops.errors import StackError

app = typer.Typer(
    help="Agent Chat Service: run it, and look at what runs.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
_Count = Annotated[int, typer.Option(min=1, max=32, help="How many of this service.")]


@app.callback()
def options() -> None:
    """Agent Chat Service: run it, and look at what runs.

    Commands find a running stack by AGENTCHAT_RUN_DIR (default: .run). Results are on stdout, messages on
    stderr. Exit code 2: something has to be set up differently; 1: it failed.
    """


@app.command()
def up(gateways: _Count = 1, orchestrators: _Count = 1, tool_runners: _Count = 1) -> None:
    """Start the whole system on embedded servers, until Ctrl-C.

    AGENTCHAT_PORT (8080; 0: any free port), AGENTCHAT_MCP_PORT and AGENTCHAT_RUN_DIR (.run) let several run
    side by side. AGENTCHAT_DATABASE_URL, AGENTCHAT_NATS_URL and AGENTCHAT_REDIS_URL name servers to use
    instead of embedded ones. With ANTHROPIC_API_KEY the demo agents use Anthropic, else an offline model.
    """
    from ops.settings import Counts
    from ops.up import up as run

    run(Counts(gateways=gateways, orchestrators=orchestrators, tool_runners=tool_runners))


@app.command()
def status() -> None:
    """List the running processes and their health.

    Exit code 1 if one is not ready.
    """
    from ops.status import status as show

    raise typer.Exit(0 if show() else 1)


@app.command()
def migrate() -> None:
    """Bring the database's tables up to date.

    Run it on AGENTCHAT_DATABASE_URL before services of a new version start.
    """
    from ops.prepare import DatabaseSettings, run_migrations
    from runtime.settings import load_or_exit

    run_migrations(load_or_exit(DatabaseSettings, os.environ).database_url)


@app.command()
def bench() -> None:
    """Measure idle memory, time to the first delta and many paced streams; takes about 30 s.

    Measures the running stack with its offline model, or starts one for the time.
    """
    from ops.bench.run import bench as measure

    measure()


def main() -> None:
    """Run the command; what is wrong is one line on stderr."""
    try:
        app()
    except StackError as error:
        sys.stderr.write(f"agentchat: {' '.join(str(error).split())}\n")
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
