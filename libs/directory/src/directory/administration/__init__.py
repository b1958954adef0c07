"""Every write to the directory, each one transaction with its audit row. Secrets are in no audit row.

The functions take an open connection and the `actor` (who asks); they raise DirectoryError.
"""

from directory.administration.accounts import (
    Account,
    change_account,
    create_account,
    delete_account,
    find_account,
    list_accounts,
    lock_account,
    set_account_disabled,
)
from directory.administration.agents import (
    change_agent,
    change_servers,
    create_agent,
    delete_agent,
    restore_agent,
    set_agent_disabled,
)
from directory.administration.keys import (
    IssuedKey,
    Key,
    create_key,
    find_key,
    list_keys,
    rename_key,
    revoke_key,
    rotate_key,
    set_key_disabled,
)
from directory.administration.plans import (
    accounts_on,
    change_plan,
    create_plan,
    delete_plan,
    find_plan,
    list_plans,
    put_plan,
)

__all__ = [
    "Account",
    "IssuedKey",
    "Key",
    "accounts_on",
    "change_account",
    "change_agent",
    "change_plan",
    "change_servers",
    "create_account",
    "create_agent",
    "create_key",
    "create_plan",
    "delete_account",
    "delete_agent",
    "delete_plan",
    "find_account",
    "find_key",
    "find_plan",
    "list_accounts",
    "list_keys",
    "list_plans",
    "lock_account",
    "put_plan",
    "rename_key",
    "restore_agent",
    "revoke_key",
    "rotate_key",
    "set_account_disabled",
    "set_agent_disabled",
    "set_key_disabled",
]
