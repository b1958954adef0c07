"""Accounts, plans and keys from the command line."""

import hashlib

import psycopg

from tests.admin_cli.conftest import Cli


def test_an_account_from_its_making_to_its_end(cli: Cli) -> None:
    made = cli.json("accounts", "create", "Ada", "--plan", "Pro")
    assert (made["name"], made["plan"], made["disabled"]) == ("Ada", "Pro", False)
    account = made["id"]
    assert account in [each["id"] for each in cli.json("accounts", "list")]
    changed = cli.json("accounts", "change", account, "--plan", "Enterprise", "--name", "Ada & Co")
    assert (changed["name"], changed["plan"]) == ("Ada & Co", "Enterprise")
    assert cli.json("accounts", "disable", account)["disabled"] is True
    assert cli.json("accounts", "enable", account)["disabled"] is False
    assert cli.json("accounts", "delete", account)["goes"] == []
    gone = cli("accounts", "show", account)
    assert gone.code == 1
    assert gone.err == f"no such account: {account}"
    assert "\x1b" not in cli.printed


def test_tables_are_for_people_and_hold_the_same(cli: Cli) -> None:
    accounts = [cli.account(f"name {number} " * 3) for number in range(3)]
    done = cli("accounts", "list")
    heading, *lines = done.out.splitlines()
    assert heading.split() == ["ID", "NAME", "PLAN", "DISABLED", "CREATED"]
    for account in accounts:
        assert [line for line in lines if line.startswith(account)], "an id is never cut"
    assert "\x1b" not in done.out
    assert len(cli.json("accounts", "list", "--limit", "2")) == 2
    assert accounts[0] in cli("accounts", "show", accounts[0]).out


def test_a_plans_numbers_change_one_by_one(cli: Cli) -> None:
    made = cli.json("plans", "create", "Team", "--requests-per-minute", "5", "--form2-streaming")
    assert (made["requests_per_minute"], made["concurrent_runs"]) == (5, None)
    changed = cli.json("plans", "change", "Team", "--concurrent-runs", "3", "--no-form2-streaming")
    assert (changed["requests_per_minute"], changed["concurrent_runs"]) == (5, 3)
    assert changed["form2_streaming"] is False
    assert cli.json("plans", "change", "Team", "--requests-per-minute", "none")["requests_per_minute"] is None
    wrong = cli("plans", "change", "Team", "--concurrent-runs", "many")
    assert wrong.code == 2
    assert "neither a whole number nor" in wrong.err
    account = cli.json("accounts", "create", "On a team", "--plan", "Team")["id"]
    refused = cli("plans", "delete", "Team")
    assert refused.code == 1
    assert "On a team" in refused.err or account in refused.err
    cli.json("accounts", "delete", account)
    assert cli.json("plans", "delete", "Team", "--dry-run")["dry_run"] is True
    assert cli.json("plans", "delete", "Team")["dry_run"] is False
    assert "Team" not in [plan["name"] for plan in cli.json("plans", "list")]


def test_a_key_is_on_stdout_alone_and_once(cli: Cli) -> None:
    account = cli.account()
    made = cli("keys", "create", account, "--name", "web")
    key = made.out.strip()
    assert made.out == f"{key}\n"
    assert key.startswith("sk-ac-")
    assert key not in made.err
    (listed,) = cli.json("keys", "list", account)
    assert (listed["name"], listed["last4"]) == ("web", key[-4:])
    assert cli.printed.count(key) == 1


def test_a_key_is_renamed_disabled_and_enabled(cli: Cli) -> None:
    key_id, _ = _key(cli)
    assert cli.json("keys", "rename", key_id, "site")["name"] == "site"
    assert cli.json("keys", "disable", key_id)["disabled"] is True
    assert cli.json("keys", "enable", key_id)["disabled"] is False


def test_a_rotated_key_is_shown_once_and_kept_as_a_hash(cli: Cli, migrated_database_url: str) -> None:
    key_id, key = _key(cli)
    rotated = cli.json("keys", "rotate", key_id)
    assert rotated["key"] != key
    with psycopg.connect(migrated_database_url) as conn:
        row = conn.execute("SELECT * FROM api_keys WHERE key_id = %s", (key_id,)).fetchone()
    assert hashlib.sha256(rotated["key"].encode()).digest() in (row or ())
    cli("keys", "show", key_id)
    assert cli.printed.count(rotated["key"]) == 1
    assert cli.printed.count(key) == 1


def test_a_revoked_key_is_neither_rotated_nor_enabled(cli: Cli) -> None:
    key_id, _ = _key(cli)
    assert cli.json("keys", "revoke", key_id, "--dry-run")["dry_run"] is True
    assert cli.json("keys", "show", key_id)["revoked_at"] is None
    cli.json("keys", "revoke", key_id)
    assert cli.json("keys", "show", key_id)["revoked_at"] is not None
    assert cli("keys", "rotate", key_id).code == 1
    assert cli("keys", "enable", key_id).code == 1


def _key(cli: Cli) -> tuple[str, str]:
    """The id of a new key of a new account, and the key."""
    account = cli.account()
    key = cli("keys", "create", account, "--name", "web").out.strip()
    (listed,) = cli.json("keys", "list", account)
    return listed["id"], key


def test_what_would_be_orphaned_is_named_and_needs_force(cli: Cli) -> None:
    account = cli.account()
    cli("keys", "create", account, "--name", "web")
    refused = cli("accounts", "delete", account)
    assert refused.code == 1
    assert "--force" in refused.err
    assert "keys: web" in refused.err
    tried = cli("accounts", "delete", account, "--dry-run")
    assert tried.code == 0
    assert "would be deleted" in tried.out
    assert "--force" in tried.err
    assert cli.json("accounts", "show", account)["id"] == account


def test_every_change_names_the_user_in_the_audit(cli: Cli) -> None:
    account = cli.account("Before")
    cli.json("accounts", "change", account, "--name", "After")
    changed, made = cli.json("audit", "--subject", account)
    assert made["action"] == "create"
    assert changed["action"] == "change"
    assert changed["actor"].endswith("@cli")
    assert changed["before"]["name"] == "Before"
    assert changed["after"]["name"] == "After"
    assert len(cli.json("audit", "--limit", "1")) == 1
    assert "name: Before → After" in cli("audit", "--subject", account).out
