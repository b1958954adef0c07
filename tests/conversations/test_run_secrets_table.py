"""Secrets whose request became no run are deleted later; those of a run that waits stay."""

from agentchat.conversations.run_secrets_table import forget_secrets_without_run
from tests.conversations.given import build_run_started, build_user_message, trace
from tests.conversations.read_models import Storage

_SAVE = (
    "INSERT INTO run_secrets (trace_id, account_id, sealed, created_at)"
    " VALUES (%s, 'a', '', clock_timestamp() - make_interval(mins => %s)) RETURNING trace_id"
)


async def test_secrets_without_a_run_are_deleted_later(storage: Storage) -> None:
    await storage.told(build_user_message("s"), build_run_started("s"))
    for trace_id, minutes in ((trace("s"), 600), ("refused", 16), ("arriving", 1)):
        await storage.rows(_SAVE, trace_id, minutes)
    await forget_secrets_without_run(storage.pool)
    left = {trace_id for (trace_id,) in await storage.rows("SELECT trace_id FROM run_secrets")}
    assert left == {trace("s"), "arriving"}
