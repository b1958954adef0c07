"""Agents and their secrets from the command line."""

import base64
import json
from pathlib import Path

import pytest

from agentchat.contracts.ids import make_id
from tests.admin_cli.conftest import SECRET_KEY, Cli

_KEY = "sk-provider-canary-0001"
_HEADER = "Bearer canary-0002"


def _agent(cli: Cli) -> str:
    made = cli.json(
        "agents", "create", f"account_id={cli.account()}", "name=Bot", "model=demo-echo",
        "provider_key=@env:PROVIDER", PROVIDER=_KEY,
    )  # fmt: skip
    return str(made["id"])


def test_an_agent_is_made_of_a_file_and_of_pairs(cli: Cli, tmp_path: Path) -> None:
    given = {"account_id": cli.account(), "name": "Bot", "model": "demo-echo", "max_tool_rounds": 3}
    made = cli.json(
        "agents", "create", "@-", "name=Other", "parameters.max_tokens=64", stdin=json.dumps(given)
    )
    assert (made["name"], made["model"], made["max_tool_rounds"]) == ("Other", "demo-echo", 3)
    assert made["parameters"] == {"max_tokens": 64}
    assert made["provider_key"]["set"] is False
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("Be brief.\nAlways.")
    changed = cli.json("agents", "change", made["id"], f"system_prompt=@file:{prompt}")
    assert (changed["version"], changed["system_prompt"]) == (2, "Be brief.\nAlways.")
    assert "Be brief." in cli("agents", "show", made["id"]).out
    assert cli.json("agents", "show", made["id"], "--version", "1")["system_prompt"] != "Be brief.\nAlways."
    assert cli.json("POST", f"/agents/{made['id']}/versions/1/restore")["version"] == 3


@pytest.mark.parametrize(
    ("words", "stdin", "message"),
    [
        (("@-",), '{"nam": "x"}', "nam: is not known"),
        (("@-",), "{", "@- is not valid JSON"),
        (("@-",), "[]", "@- must be a JSON object"),
        (("@no-such-file",), "", "no-such-file cannot be read"),
        (("name",), "", "'name' is neither KEY=VALUE nor @FILE"),
        (("provider_key=@env:NOT_SET",), "", "the variable NOT_SET is not set"),
        (("provider_key=sk-in-the-open",), "", "list of processes"),
    ],
)
def test_what_is_wrong_is_said_by_its_name(
    cli: Cli, words: tuple[str, ...], stdin: str, message: str
) -> None:
    done = cli("agents", "create", f"account_id={cli.account()}", *words, stdin=stdin)
    assert done.code == 2
    assert message in done.err
    assert "in-the-open" not in done.err


def test_secrets_come_in_unseen_and_never_go_out(cli: Cli, tmp_path: Path) -> None:
    agent = _agent(cli)
    server = tmp_path / "server.json"
    server.write_text('{"url": "https://shop.example/mcp"}')
    added = cli.json(
        "PUT",
        f"/agents/{agent}/mcp_servers/shop",
        f"@{server}",
        "headers.Authorization=@env:TOKEN",
        TOKEN=_HEADER,
    )
    assert added["header_names"] == ["Authorization"]
    refused = cli("PUT", f"/agents/{agent}/mcp_servers/shop", f"headers.A={_HEADER}")
    assert (refused.code, "@env:NAME" in refused.err) == (2, True)
    assert cli.json("agents", "show", agent)["provider_key"]["set"] is True
    cli("GET", "/audit")
    assert "canary" not in cli.printed.replace(f"headers.A={_HEADER}", "")


def test_comparison_of_versions_ends_with_its_verdict(cli: Cli) -> None:
    agent = _agent(cli)
    cli.json("agents", "change", agent, "model=demo-load")
    cli("PUT", f"/agents/{agent}/canary", 'versions={"1": 95, "2": 5}')
    compared = cli("GET", f"/agents/{agent}/canary", "--json")
    assert (compared.code, json.loads(compared.out)["decision"]) == (2, "undecided")
    assert cli("GET", f"/agents/{make_id()}/canary").code == 2
    assert cli.json("POST", f"/agents/{agent}/versions/1/promote")["version"] == 3


def test_secrets_are_sealed_again_under_another_key(cli: Cli) -> None:
    agent = _agent(cli)
    new = base64.b64encode(bytes(32)).decode()
    lost = cli("secrets", "reseal", "--json", AGENTCHAT_SECRET_KEY=new)
    assert lost.code == 1
    assert json.loads(lost.out)["resealed"] == 0
    assert agent in lost.err
    both = {"AGENTCHAT_SECRET_KEY": new, "AGENTCHAT_SECRET_KEY_PREVIOUS": SECRET_KEY}
    would = cli.json("secrets", "reseal", "--dry-run", **both)["resealed"]
    assert would == cli.json("secrets", "reseal", **both)["resealed"] > 0
    assert cli.json("secrets", "reseal", AGENTCHAT_SECRET_KEY=new)["resealed"] == 0
