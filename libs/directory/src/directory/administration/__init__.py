"""Every write to the directory, each one transaction with its audit row. Secrets are in no audit row.

The functions take an open connection and the `actor` (who asks); they raise DirectoryError.
"""

from directory.administration.accounts import (
    Account,
    change_account,
    create_account,
    find_account,
    set_account_disabled,
)
from directory.administration.agents import change_agent, create_agent, set_agent_disabled
from directory.administration.keys import IssuedKey, create_key, revoke_key, rotate_key
from directory.administration.plans import change_plan, put_plan

__all__ = [
    "Account",
    "IssuedKey",
    "change_account",
    "change_agent",
    "change_plan",
    "create_account",
    "create_agent",
    "create_key",
    "find_account",
    "put_plan",
    "revoke_key",
    "rotate_key",
    "set_account_disabled",
    "set_agent_disabled",
]
