"""A month's tokens in the command line are those of the API."""

import re

import psycopg

from tests.admin_cli.conftest import Cli

KINDS = ("input", "cache_read", "cache_creation", "output")
ROWS = (
    ("2026-10-01", "m-1", 100, 20, 7, 3),
    ("2026-10-01", "m-2", 1, 0, 0, 2),
    ("2026-10-31", "m-1", 0, 5, 0, 0),
)
INSERT = """
INSERT INTO usage_by_day (account_id, day, agent_id, agent_version, model, runs, failed, cancelled, rounds,
    milliseconds, input_tokens, cache_read_tokens, cache_creation_tokens, output_tokens)
VALUES (%s, %s, 'a', 1, %s, 1, 0, 0, 1, 1, %s, %s, %s, %s)"""


def test_tokens_of_the_cli_add_up(cli: Cli, migrated_database_url: str) -> None:
    account = cli.account("Counting")
    with psycopg.connect(migrated_database_url) as conn:
        conn.cursor().executemany(INSERT, [(account, *row) for row in ROWS])
    kinds = [sum(counts) for counts in zip(*(row[2:] for row in ROWS), strict=True)]
    month = cli.json("usage", "--account", account, "--month", "2026-10")
    for shown in (month, *month["lines"]):
        assert shown["tokens"] == sum(shown[f"{kind}_tokens"] for kind in KINDS)
    assert [month[f"{kind}_tokens"] for kind in KINDS] == kinds
    listed = cli("usage", "--account", account, "--month", "2026-10").out
    assert re.search(rf"^tokens +{sum(kinds):,}$", listed, re.MULTILINE), listed
    assert re.search(r"m-1 +1 +0 +0 +1 +100 +3 +20 +7 +130 +0 +0$", listed, re.MULTILINE), listed
