"""More conversations, agents and accounts in a database, as if they had come one by one."""

import psycopg

from bench import histories
from ops import demo

MESSAGES = 2
"""Of each conversation that is made."""

_AGENTS = (
    """
INSERT INTO agents (agent_id, account_id, current_version)
SELECT 'bench-agent-' || number, %(account)s, 1 FROM generate_series(%(have)s + 1, %(want)s) AS number
""",
    """
INSERT INTO agent_versions (agent_id, version, config)
SELECT 'bench-agent-' || number, 1, found.config
  FROM generate_series(%(have)s + 1, %(want)s) AS number,
       (SELECT config FROM agent_versions WHERE agent_id = %(agent)s ORDER BY version DESC LIMIT 1) AS found
""",
)
_ACCOUNTS = (
    """
INSERT INTO accounts (account_id, name, plan)
SELECT 'bench-account-' || number, 'Bench', found.plan
  FROM generate_series(%(have)s + 1, %(want)s) AS number,
       (SELECT plan FROM accounts WHERE account_id = %(account)s) AS found
""",
    """
INSERT INTO api_keys (key_id, account_id, name, key_hash, last4)
SELECT 'bench-key-' || number, 'bench-account-' || number, 'bench',
       sha256(convert_to('bench-key-' || number, 'UTF8')), '0000'
  FROM generate_series(%(have)s + 1, %(want)s) AS number
""",
)


def more_conversations(owner_url: str, have: int, want: int) -> None:
    """Of the account that is measured. Raises psycopg.Error."""
    histories.fill(owner_url, want - have, MESSAGES)
    _analyse(owner_url)


def more_agents(owner_url: str, have: int, want: int) -> None:
    """Of the account that is measured, each with one version. Raises psycopg.Error."""
    _insert(owner_url, _AGENTS, have, want)


def more_accounts(owner_url: str, have: int, want: int) -> None:
    """Each with a key. Raises psycopg.Error."""
    _insert(owner_url, _ACCOUNTS, have, want)


def _insert(owner_url: str, statements: tuple[str, ...], have: int, want: int) -> None:
    named = {"have": have, "want": want, "account": demo.LOAD_ACCOUNT_ID, "agent": demo.LOAD_AGENT_ID}
    with psycopg.connect(owner_url) as conn:
        for statement in statements:
            conn.execute(statement.encode(), named)
    _analyse(owner_url)


def _analyse(owner_url: str) -> None:
    """As autovacuum does a minute later."""
    with psycopg.connect(owner_url, autocommit=True) as conn:
        conn.execute("ANALYZE")
