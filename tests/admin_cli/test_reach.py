"""Where the commands work, and what they say where they cannot."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.admin_cli.conftest import Cli
from tests.terminal.terminal import Terminal

_RESEAL = ("secrets", "reseal", "--dry-run")


@pytest.mark.parametrize(
    ("environ", "code", "message"),
    [
        ({"AGENTCHAT_SECRET_KEY": ""}, 2, "AGENTCHAT_SECRET_KEY is not set"),
        ({"AGENTCHAT_SECRET_KEY": "short"}, 2, "AGENTCHAT_SECRET_KEY"),
        ({"AGENTCHAT_DATABASE_URL": ""}, 1, "set AGENTCHAT_DATABASE_URL"),
        ({"AGENTCHAT_DATABASE_URL": "postgresql://nobody@127.0.0.1:9/x"}, 1, "cannot be reached"),
        ({"AGENTCHAT_DATABASE_URL": "nonsense"}, 2, "AGENTCHAT_DATABASE_URL cannot be used"),
        ({"AGENTCHAT_EMBEDDER": "nonsense"}, 2, "AGENTCHAT_EMBEDDER"),
    ],
)
def test_a_database_that_cannot_be_used_is_one_line(
    cli: Cli, tmp_path: Path, environ: dict[str, str], code: int, message: str
) -> None:
    done = cli(*_RESEAL, **{"AGENTCHAT_ADMIN_URL": "", "AGENTCHAT_RUN_DIR": str(tmp_path)} | environ)
    assert (done.code, done.out) == (code, "")
    assert message in done.err
    assert "short" not in done.err


def test_the_command_line_is_there_before_anything_heavy_is_loaded() -> None:
    heavy = {"anthropic", "httpx", "msgspec", "nats", "psycopg", "redis", "rich"}
    code = f"import sys, agentchat.ops.main; print(sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("environ", "code", "message"),
    [
        ({"AGENTCHAT_ADMIN_TOKEN": ""}, 2, "AGENTCHAT_ADMIN_TOKEN is not set"),
        ({"AGENTCHAT_ADMIN_TOKEN": "canary-of-a-token"}, 2, "refused the token"),
        ({"AGENTCHAT_ADMIN_URL": "http://127.0.0.1:9"}, 1, "http://127.0.0.1:9 does not answer"),
        ({"AGENTCHAT_ADMIN_URL": "nonsense"}, 2, "AGENTCHAT_ADMIN_URL cannot be used"),
        ({"AGENTCHAT_ADMIN_URL": ""}, 1, "for another system set AGENTCHAT_ADMIN_URL"),
    ],
)
def test_a_gateway_that_cannot_be_used_is_one_line(
    cli: Cli, tmp_path: Path, environ: dict[str, str], code: int, message: str
) -> None:
    done = cli("accounts", "list", **{"AGENTCHAT_RUN_DIR": str(tmp_path)} | environ)
    assert (done.code, done.out) == (code, "")
    assert message in done.err
    assert "canary" not in done.err


def test_url_option_reaches_another_gateway_without_a_database(cli: Cli, tmp_path: Path) -> None:
    url = cli.environ.pop("AGENTCHAT_ADMIN_URL")
    cli.environ |= {
        "AGENTCHAT_DATABASE_URL": "", "AGENTCHAT_SECRET_KEY": "", "AGENTCHAT_RUN_DIR": str(tmp_path)
    }  # fmt: skip
    account = cli.json("--url", url, "accounts", "create", "Elsewhere")
    assert account["name"] == "Elsewhere"
    pairs = (f"account_id={account['id']}", "name=Docs")
    base = cli.json("--url", url, "POST", "/knowledge_bases", *pairs)["id"]
    large = tmp_path / "large.txt"
    large.write_text("word " * 1024 * 1024)
    (tmp_path / "small.txt").write_text("Tents may be returned.")
    imported = cli.json("--url", url, "knowledge", "import", base, str(large), str(tmp_path / "small.txt"))
    assert imported["added"] == 1
    assert [each["name"].rpartition("/")[2] for each in imported["skipped"]] == ["large.txt"]
    direct = cli("--url", url, "secrets", "reseal")
    assert direct.code == 2
    assert "set AGENTCHAT_DATABASE_URL" in direct.err


def test_deleting_asks_on_a_terminal(cli: Cli, tmp_path: Path) -> None:
    cli.json("POST", "/plans", "name=Doomed")
    environ = cli.environ
    with Terminal(tmp_path, environ, ("admin", "DELETE", "/plans/Doomed")) as terminal:
        terminal.see("Delete /plans/Doomed? [y/N]")
        terminal.type("n\r")
        assert terminal.end() == 1
    assert cli("GET", "/plans/Doomed").code == 0
    with Terminal(tmp_path, environ, ("admin", "DELETE", "/plans/Doomed")) as terminal:
        terminal.see("[y/N]")
        terminal.type("y\r")
        assert terminal.end() == 0
    assert cli("GET", "/plans/Doomed").code == 1
