"""Accounts, plans and keys from the command line."""

import hashlib

import psycopg

from tests.admin_cli.conftest import Cli


def test_any_operation_is_called_by_method_and_path(cli: Cli) -> None:
    made = cli.json("POST", "/plans", "name=Team", "requests_per_minute=5", "form2_streaming=true")
    assert (made["requests_per_minute"], made["form2_streaming"]) == (5, True)
    changed = cli.json("PATCH", "/plans/Team", "requests_per_minute=null", "concurrent_runs=3")
    assert (changed["requests_per_minute"], changed["concurrent_runs"]) == (None, 3)
    wrong = cli("PATCH", "plans/Team", "concurrent_runs=many")
    assert (wrong.code, "concurrent_runs" in wrong.err) == (2, True)
    assert cli.json("DELETE", "/plans/Team", "dry_run=true")["dry_run"] is True
    assert cli("DELETE", "/plans/Team").code == 0
    gone = cli("GET", "/plans/Team")
    assert (gone.code, gone.out) == (1, "")
    unknown = cli("GET", "/nothing")
    assert "`agentchat admin routes` lists them" in unknown.err
    assert "/plans/{name}" in cli("routes").out


def test_accounts_are_made_and_listed(cli: Cli) -> None:
    made = cli.json("accounts", "create", "Ada", "--plan", "Pro")
    assert (made["name"], made["plan"], made["disabled"]) == ("Ada", "Pro", False)
    others = [cli.account(f"name {number} " * 3) for number in range(2)]
    assert {made["id"], *others} <= {each["id"] for each in cli.json("accounts", "list")}
    assert len(cli.json("accounts", "list", "--limit", "2")) == 2
    heading, *lines = cli("accounts", "list").out.splitlines()
    assert heading.split()[:2] == ["ID", "NAME"]
    assert [line for line in lines if line.startswith(made["id"])], "an id is never cut"
    assert "\x1b" not in cli.printed


def test_a_key_is_on_stdout_alone_and_once(cli: Cli, migrated_database_url: str) -> None:
    account = cli.account()
    made = cli("keys", "create", account, "--name", "web")
    key = made.out.strip()
    assert made.out == f"{key}\n"
    assert key.startswith("sk-ac-")
    assert key not in made.err
    (listed,) = cli.json("keys", "list", account)
    assert (listed["name"], listed["last4"]) == ("web", key[-4:])
    rotated = cli.json("keys", "rotate", listed["id"])["key"]
    with psycopg.connect(migrated_database_url) as conn:
        row = conn.execute("SELECT * FROM api_keys WHERE key_id = %s", (listed["id"],)).fetchone()
    assert hashlib.sha256(rotated.encode()).digest() in (row or ())
    assert cli.printed.count(key) == 1
    assert cli("keys", "revoke", listed["id"]).code == 0
    assert cli("keys", "rotate", listed["id"]).code == 1


def test_tokens_are_listed_with_their_accounts(cli: Cli) -> None:
    account = cli.account("Limited")
    assert cli("tokens", "create", "ada-list", "--role", "viewer", "--account", account).code == 0
    assert cli("tokens", "create", "bob-list", "--role", "owner").code == 0
    ada, bob = cli("tokens", "list").out.splitlines()[-2:]
    assert ada.endswith(account)
    assert bob.endswith("all")


def test_every_change_names_the_user_in_the_audit(cli: Cli) -> None:
    account = cli.account("Before")
    cli.json("PATCH", f"/accounts/{account}", "name=After")
    changed, made = cli.json("GET", "/audit", f"subject={account}")["data"]
    assert (made["action"], changed["action"]) == ("create", "change")
    assert changed["actor"].endswith("@cli")
    assert (changed["before"]["name"], changed["after"]["name"]) == ("Before", "After")
