"""The commands, run in this process, at one gateway for the session and on its database."""

import base64
import json
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from typer.testing import CliRunner

from agentchat.ops.errors import StackError
from agentchat.ops.main import app
from agentchat.ops.service_processes import Servers
from tests.gateway.admin import TOKEN
from tests.gateway.embedded import GatewayProcess
from tests.harness import new_database
from tests.support.file_folder import FILES_URL

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
    """`agentchat admin ...` with this environment; other variables of the product are unset."""

    def __init__(self, environ: dict[str, str]) -> None:
        self.environ = environ
        self.printed = ""

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
        self.printed += done.out + done.err
        return done

    def json(self, *arguments: str, stdin: str | None = None, **environ: str) -> Any:
        """What the command prints with --json; it has to end well."""
        return self(*arguments, "--json", stdin=stdin, **environ).json

    def account(self, name: str = "Ada") -> str:
        return str(self.json("accounts", "create", name)["id"])


@pytest.fixture(scope="session")
def migrated_database_url(servers: Servers, migrated_template: str) -> Iterator[str]:
    yield from new_database(servers, migrated_template)


@pytest.fixture(scope="session")
async def gateway_url(
    migrated_database_url: str, nats_url: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[str]:
    """A gateway with the admin API."""
    environ = {
        "AGENTCHAT_FILES_URL": FILES_URL,
        "AGENTCHAT_DATABASE_URL": migrated_database_url,
        "AGENTCHAT_NATS_URL": nats_url,
        "AGENTCHAT_REDIS_URL": redis_url,
        "AGENTCHAT_SECRET_KEY": SECRET_KEY,
        "AGENTCHAT_ADMIN_TOKEN": TOKEN,
    }
    process = GatewayProcess(tmp_path_factory.mktemp("gateway"), environ)
    await process.start()
    yield process.url
    await process.stop()


@pytest.fixture
def cli(gateway_url: str, migrated_database_url: str) -> Cli:
    """At the gateway; some commands work on its database."""
    return Cli(
        {
            "AGENTCHAT_ADMIN_URL": gateway_url,
            "AGENTCHAT_ADMIN_TOKEN": TOKEN,
            "AGENTCHAT_DATABASE_URL": migrated_database_url,
            "AGENTCHAT_SECRET_KEY": SECRET_KEY,
        }
    )
