"""Secrets go with the end of their run, or later if their request became none; those of open runs stay."""

import pytest

from agentchat.contracts.events import Event
from agentchat.conversations.run_secrets_table import forget_secrets_without_run
from tests.conversations.given import begin, build_answer, build_run_cancelled, build_run_failed, trace
from tests.conversations.read_models import Storage

_SAVE = (
    "INSERT INTO run_secrets (trace_id, account_id, sealed, created_at)"
    " VALUES (%s, 'a', '', clock_timestamp() - make_interval(mins => %s)) RETURNING trace_id"
)


async def test_secrets_without_a_run_are_deleted_later(storage: Storage) -> None:
    await storage.add(*begin("s"))
    for trace_id, minutes in ((trace("s"), 600), ("refused", 16), ("arriving", 1)):
        await storage.rows(_SAVE, trace_id, minutes)
    await forget_secrets_without_run(storage.pool)
    left = {trace_id for (trace_id,) in await storage.rows("SELECT trace_id FROM run_secrets")}
    assert left == {trace("s"), "arriving"}


@pytest.mark.parametrize(
    ("word", "ended"),
    [("x", (build_run_failed("x"),)), ("y", (build_run_cancelled("y"),)), ("z", build_answer("Hi", "z"))],
)
async def test_the_end_of_a_run_deletes_its_secrets(
    storage: Storage, word: str, ended: tuple[Event, ...]
) -> None:
    run = await storage.add(*begin(word))
    for trace_id in (trace(word), f"not {word}"):
        await storage.rows(_SAVE, trace_id, 0)
    await storage.store.append(run, ended)
    left = {trace_id for (trace_id,) in await storage.rows("SELECT trace_id FROM run_secrets")}
    assert trace(word) not in left
    assert f"not {word}" in left
