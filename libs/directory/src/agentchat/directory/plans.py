"""Load plans: the limits of an account. Plans are rows that the migrations seed."""

import msgspec

from agentchat.runtime.postgres import Pool, acquire_connection


class Plan(msgspec.Struct, frozen=True):
    """The limits of an account; None means no limit.

    `user_…` are the limits of each end user. With `form2_streaming`, the stream endpoint may answer in form 2
    of the interface specification.
    """

    name: str
    requests_per_minute: int | None
    concurrent_runs: int | None
    tokens_per_month: int | None
    form2_streaming: bool
    max_message_bytes: int | None
    storage_bytes: int | None = None
    user_requests_per_minute: int | None = None
    user_concurrent_runs: int | None = None
    user_tokens_per_month: int | None = None

    def drop_rates(self) -> "Plan":
        """Return the plan for a request that has taken its token of the rate."""
        return msgspec.structs.replace(self, requests_per_minute=None, user_requests_per_minute=None)

    def drop_limits(self) -> "Plan":
        """Return the plan for a run within another, which has taken a token and a slot."""
        return msgspec.structs.replace(self.drop_rates(), concurrent_runs=None, user_concurrent_runs=None)


async def load_plan(pool: Pool, account_id: str) -> Plan | None:
    """Return the account's present plan; None for an unknown account.

    Raises DatabaseUnavailable.
    """
    async with acquire_connection(pool) as conn:
        row = await (await conn.execute(_PLAN_OF, [account_id])).fetchone()
    return None if row is None else Plan(*row)


COLUMNS = ", ".join(f"p.{name}" for name in Plan.__struct_fields__)
"""SQL for the fields of a `Plan`, of a row of the table `plans AS p`."""

_PLAN_OF = f"SELECT {COLUMNS} FROM accounts a JOIN plans p ON p.name = a.plan WHERE a.account_id = %s"  # noqa: S608
