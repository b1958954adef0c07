"""The commands, run in this process on a migrated database."""

import base64
import json
import os
from dataclasses import dataclass
from typing import Any

import pytest
from typer.testing import CliRunner

from ops.errors import StackError
from ops.main import app

SECRET_KEY = base64.b64encode(bytes(range(32))).decode()


@dataclass(frozen=True)
class Done:
    """How a command ended; `err` holds the line that `agentchat` would have ended it with."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)


class Cli:
    """`agentchat admin ...` on one database; whatever is not given stays unset."""

    def __init__(self, database_url: str) -> None:
        self.environ: dict[str, str] = {
            "AGENTCHAT_DATABASE_URL": database_url,
            "AGENTCHAT_SECRET_KEY": SECRET_KEY,
        }
        self.said = ""

    def __call__(self, *arguments: str, stdin: str | None = None, **environ: str) -> Done:
        kept = {name: None for name in os.environ if name.startswith("AGENTCHAT_")}
        result = CliRunner().invoke(
            app, ["admin", *arguments], input=stdin, env=kept | self.environ | environ
        )
        if isinstance(result.exception, StackError):
            done = Done(result.exception.exit_code, result.stdout, result.stderr + str(result.exception))
        elif result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        else:
            done = Done(result.exit_code, result.stdout, result.stderr)
        self.said += done.out + done.err
        return done

    def json(self, *arguments: str, stdin: str | None = None, **environ: str) -> Any:
        """What the command prints with --json; it has to end well."""
        return self(*arguments, "--json", stdin=stdin, **environ).json

    def account(self, name: str = "Ada") -> str:
        return str(self.json("accounts", "create", name)["id"])


@pytest.fixture
def cli(migrated_database_url: str) -> Cli:
    return Cli(migrated_database_url)
