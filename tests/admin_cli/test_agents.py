"""Agents, their tool servers and their secrets from the command line."""

import base64
import json
from pathlib import Path

import pytest

from contracts.ids import new_id
from tests.admin_cli.conftest import SECRET_KEY, Cli

_KEY = "sk-provider-canary-0001"
_HEADER = "Bearer canary-0002"


def _agent(cli: Cli, *arguments: str) -> str:
    made = cli.json(
        "agents", "create", "--account", cli.account(), "--name", "Bot", "--model", "demo-echo",
        "--provider-key", "@env:PROVIDER", *arguments, PROVIDER=_KEY,
    )  # fmt: skip
    return str(made["id"])


def test_an_agent_is_made_of_options_and_json_together(cli: Cli, tmp_path: Path) -> None:
    given = {"account_id": cli.account(), "name": "Bot", "model": "demo-echo", "max_tool_rounds": 3}
    made = cli.json(
        "agents", "create", "--from", "-", "--name", "Other", "--parameters", '{"max_tokens": 64}',
        "--compaction", '{"context_window": 32000}', stdin=json.dumps(given),
    )  # fmt: skip
    assert (made["compaction"]["context_window"], made["compaction"]["keep_runs"]) == (32_000, 4)
    assert (made["name"], made["model"], made["max_tool_rounds"]) == ("Other", "demo-echo", 3)
    assert made["parameters"] == {"max_tokens": 64}
    assert made["provider_key"]["set"] is False
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("Be brief.\nAlways.")
    changed = cli.json(
        "agents", "change", made["id"], "--system-prompt", f"@file:{prompt}", "--compaction", "none"
    )
    assert (changed["compaction"], changed["version"]) == (None, 2)
    assert changed["system_prompt"] == "Be brief.\nAlways."
    assert "Be brief." in cli("agents", "show", made["id"]).out


@pytest.mark.parametrize(
    ("arguments", "stdin", "message"),
    [
        (("--from", "-"), '{"nam": "x"}', "nam: is not known"),
        (("--from", "-"), "{", "--from is not valid JSON"),
        (("--from", "-"), "[]", "--from must be a JSON object"),
        (("--from", "no-such-file"), "", "no-such-file cannot be read"),
        (("--name", "x", "--model", "demo-echo", "--parameters", '{"temperature": 9}'), "", "temperature"),
        (("--provider-key", "@env:NOT_SET"), "", "the variable NOT_SET is not set"),
        (("--provider-key", "@ask"), "", "there is no terminal"),
        (("--provider-key", "sk-in-the-open"), "", "list of processes"),
        (("--top-k", "3"), "", "--knowledge-base"),
    ],
)
def test_what_is_wrong_is_said_by_its_name(
    cli: Cli, arguments: tuple[str, ...], stdin: str, message: str
) -> None:
    done = cli("agents", "create", "--account", cli.account(), *arguments, stdin=stdin)
    assert done.code == 2
    assert message in done.err
    assert cli.json("agents", "list", "--limit", "1000") == [] or "x" not in done.out


def test_secrets_come_in_unseen_and_never_go_out(cli: Cli, tmp_path: Path) -> None:
    agent = _agent(cli)
    file = tmp_path / "header"
    file.write_text(_HEADER + "\n")
    added = cli.json(
        "agents", "mcp-servers", "add", agent, "shop", "https://shop.example/mcp",
        "--header", "Authorization: @env:TOKEN", "--header", f"X-Other: @file:{file}", "--allow", "get_order",
        TOKEN=_HEADER,
    )  # fmt: skip
    assert added["header_names"] == ["Authorization", "X-Other"]
    refused = cli(
        "agents", "mcp-servers", "add", agent, "two", "https://a.example", "--header", f"A: {_HEADER}"
    )
    assert refused.code == 2
    assert "@env:VARIABLE" in refused.err
    change = ("agents", "mcp-servers", "change", agent, "shop")
    kept = cli.json(*change, "--url", "https://shop.example/new", "--allow", "all", "--disabled")
    assert (kept["header_names"], kept["allowed_tools"]) == (["Authorization", "X-Other"], None)
    assert (kept["url"], kept["disabled"]) == ("https://shop.example/new", True)
    refused = cli(*change, "--url", "https://new.example/mcp")
    assert refused.code == 2
    assert "must be given again" in refused.err
    bare = cli.json(*change, "--url", "https://new.example/mcp", "--header", "none")
    assert (bare["url"], bare["header_names"]) == ("https://new.example/mcp", [])
    assert cli.json(*change, "--enabled")["disabled"] is False
    assert cli(*change).code == 2
    shown = cli.json("agents", "show", agent)
    assert shown["provider_key"]["set"] is True
    cli("agents", "show", agent)
    cli("audit", "--json")
    assert cli.json("agents", "mcp-servers", "remove", agent, "shop", "--dry-run")["dry_run"] is True
    cli.json("agents", "mcp-servers", "remove", agent, "shop")
    assert cli.json("agents", "mcp-servers", "list", agent) == []
    assert cli.json("agents", "change", agent, "--provider-key", "none")["provider_key"]["set"] is False
    assert "canary" not in cli.printed


def test_an_old_version_is_shown_and_restored(cli: Cli) -> None:
    agent = _agent(cli)
    cli.json("agents", "change", agent, "--model", "demo-load", "--provider-key", "none")
    assert cli.json("agents", "show", agent, "--version", "1")["model"] == "demo-echo"
    restored = cli.json("agents", "restore", agent, "1")
    assert (restored["version"], restored["model"]) == (3, "demo-echo")
    assert restored["provider_key"]["set"] is True
    listed = cli.json("agents", "versions", agent)
    assert [(each["version"], each["current"]) for each in listed] == [(3, True), (2, False), (1, False)]
    assert cli.json("agents", "disable", agent)["disabled"] is True
    assert cli.json("agents", "enable", agent)["version"] == 3
    assert cli.json("agents", "delete", agent, "--force", "--dry-run")["used_by"] == []
    assert cli.json("agents", "delete", agent)["kind"] == "agent"
    assert cli("agents", "show", agent).code == 1


def test_versions_share_the_conversations_until_one_is_promoted(cli: Cli, tmp_path: Path) -> None:
    agent = _agent(cli)
    cli.json("agents", "change", agent, "--model", "demo-load")
    shared = cli.json("agents", "canary", "set", agent, "--versions", '{"1": 95, "2": 5}')
    assert [(each["version"], each["share"], each["runs"]) for each in shared] == [(1, 95, 0), (2, 5, 0)]
    compared = cli("agents", "canary", "compare", agent, "--json")
    assert compared.code == 2
    assert json.loads(compared.out)["versions"] == shared
    assert json.loads(compared.out)["decision"] == "undecided"
    table = tmp_path / "prices.json"
    table.write_text('{"models": {"demo-load": {"input": 1, "output": 2}}}')
    shown = cli("agents", "canary", "compare", agent, "--prices", str(table))
    assert "95" in shown.out
    assert "version 2 against 1: undecided" in shown.err
    table.write_text("[]")
    unfit = cli("agents", "canary", "compare", agent, "--prices", str(table))
    assert (unfit.code, "prices: is no price table" in unfit.err) == (2, True)
    assert cli("agents", "canary", "compare", new_id()).code == 2
    unknown = cli("agents", "canary", "set", agent, "--versions", '{"9": 1}')
    assert unknown.code == 2
    assert "versions.9: is no version of the agent" in unknown.err
    assert cli.json("agents", "promote", agent, "1")["version"] == 3
    ended = cli("agents", "canary", "compare", agent, "--json")
    assert (ended.code, json.loads(ended.out)["versions"]) == (2, [])


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
