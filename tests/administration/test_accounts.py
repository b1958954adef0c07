"""Accounts, keys and plans: what the admin API and the commands share beyond what HTTP shows."""

import pytest

from agentchat.administration import (
    Admin,
    admin_accounts,
    admin_audit,
    admin_conversations,
    admin_keys,
    admin_plans,
)
from agentchat.administration.admin_values import Account, AccountChanges, NewAccount, NewPlan, PlanChanges
from agentchat.administration.key_values import KeyChanges, KeyRotation, NewKey
from agentchat.contracts import events
from agentchat.contracts.admin_errors import Conflict, Invalid, NotFound, Unavailable
from agentchat.contracts.ids import make_id
from agentchat.conversations.event_store.conversation_store import open_store
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.projections import conversations_table as threads
from agentchat.conversations.projections.read_model_follower import Follower
from agentchat.runtime.postgres import Pool


async def test_every_change_leaves_one_row_and_none_a_secret(admin: Admin, account: Account) -> None:
    changes = AccountChanges(name="Acme 2", plan="Starter")
    await admin_accounts.change(admin, account.id, changes)
    await admin_accounts.change(admin, account.id, changes)  # changes nothing
    await admin_accounts.change(admin, account.id, AccountChanges(disabled=True))
    await admin_accounts.change(admin, account.id, AccountChanges(disabled=True))
    rows = (await admin_audit.page(admin, subject=account.id)).items[::-1]
    assert [(row.action, row.actor) for row in rows] == [
        ("create", "ada@cli"),
        ("change", "ada@cli"),
        ("disable", "ada@cli"),
    ]
    assert rows[1].before["plan"] == "Pro"
    assert rows[1].after["plan"] == "Starter"
    assert rows[1].at.utcoffset() is not None
    issued = await admin_keys.create(admin, account.id, NewKey(name="one"))
    rotated = await admin_keys.rotate(admin, issued.id, KeyRotation())
    await admin_keys.change(admin, issued.id, KeyChanges(name="two"))
    await admin_keys.revoke(admin, issued.id)
    await admin_keys.revoke(admin, issued.id)
    told = (await admin_audit.page(admin, subject=issued.id)).items
    assert [row.action for row in told] == ["revoke", "change", "rotate", "create"]
    for secret in (issued.key, rotated.key):
        assert secret not in str(told)
        assert secret not in repr((issued, rotated))
    await admin_plans.create(admin, NewPlan(name="Once", concurrent_runs=1))
    await admin_plans.change(admin, "Once", PlanChanges(concurrent_runs=None))
    await admin_plans.change(admin, "Once", PlanChanges(concurrent_runs=None))
    await admin_plans.delete(admin, "Once")
    told = (await admin_audit.page(admin, kind="plan", subject="Once")).items
    assert [(row.action, row.before, row.after)[:1] for row in told] == [
        ("delete",),
        ("change",),
        ("create",),
    ]
    assert told[1].before["concurrent_runs"] == 1
    assert told[1].after["concurrent_runs"] is None


async def test_structs_that_a_program_made_are_checked_too(admin: Admin, account: Account) -> None:
    with pytest.raises(Invalid, match=r"^name: must be str of length >= 1"):
        await admin_accounts.create(admin, NewAccount(name=""))
    with pytest.raises(Invalid, match=r"^concurrent_runs: "):
        await admin_plans.create(admin, NewPlan(name="Odd", concurrent_runs=-1))
    with pytest.raises(Invalid, match="there is no such plan; there are Enterprise, Pro, Starter, Unlimited"):
        await admin_accounts.change(admin, account.id, AccountChanges(plan="Gold"))
    for limit in (0, 101):
        with pytest.raises(Invalid, match="limit"):
            await admin_accounts.page(admin, limit=limit)


async def test_an_id_of_ones_own_makes_a_set_up_repeatable(admin: Admin) -> None:
    own = make_id()
    made = await admin_accounts.create(admin, NewAccount(name="Mine", id=own.upper()))
    assert made.id == own
    with pytest.raises(Conflict, match="exists already"):
        await admin_accounts.create(admin, NewAccount(name="Mine", id=own))


async def test_pages_of_accounts_hold_each_one_once(admin: Admin) -> None:
    made = {(await admin_accounts.create(admin, NewAccount(name=f"N{n}"))).id for n in range(5)}
    seen: list[str] = []
    after = None
    while True:
        page = await admin_accounts.page(admin, after=after, limit=3)
        seen += [each.id for each in page.items]
        after = page.after
        if after is None:
            break
    assert seen == sorted(set(seen))
    assert made <= set(seen)


async def test_a_key_is_disabled_and_enabled_until_it_is_revoked(admin: Admin, account: Account) -> None:
    issued = await admin_keys.create(admin, account.id, NewKey(name="one"))
    changed = await admin_keys.change(admin, issued.id, KeyChanges(name="two", disabled=True))
    assert (changed.name, changed.disabled) == ("two", True)
    await admin_keys.change(admin, issued.id, KeyChanges(disabled=True))  # changes nothing
    assert (await admin_keys.page(admin, account.id)).items == (changed,)
    assert not (await admin_keys.change(admin, issued.id, KeyChanges(disabled=False))).disabled
    await admin_keys.revoke(admin, issued.id)
    with pytest.raises(Conflict, match="the key is revoked"):
        await admin_keys.change(admin, issued.id, KeyChanges(name="three", disabled=False))
    assert (await admin_keys.get(admin, issued.id)).name == "two"
    rows = (await admin_audit.page(admin, subject=issued.id)).items[::-1]
    assert [row.action for row in rows] == ["create", "change", "disable", "enable", "revoke"]
    assert rows[2].before == {"disabled": False}
    assert rows[2].after == {"disabled": True}


async def test_conversations_are_not_left_behind(
    admin: Admin, account: Account, pool: Pool, migrated_database_url: str
) -> None:
    started = events.ConversationStarted(trace_id="a" * 32, at="2026-11-21T09:30:00Z", account_id=account.id)
    thread = make_id()
    async with open_store(migrated_database_url) as opened:
        await opened.append(await opened.load(thread), [started])
    await Follower(pool, Log(pool), [threads.PROJECTION]).step()
    with pytest.raises(Conflict, match="still has 1 conversation"):
        await admin_accounts.delete(admin, account.id)
    assert (await admin_accounts.delete(admin, account.id, force=True)).pending
    assert (await admin_accounts.get(admin, account.id)).disabled
    assert (await admin_conversations.delete(admin, thread.upper(), dry_run=True)).id == thread
    with pytest.raises(Unavailable, match="needs NATS"):
        await admin_conversations.delete(admin, thread)
    for unknown in (make_id(), "x"):
        with pytest.raises(NotFound, match="no such conversation"):
            await admin_conversations.delete(admin, unknown)
