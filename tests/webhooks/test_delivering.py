"""Endpoints receive signed deliveries, repeated under the same id, whatever fails on either side."""

import asyncio
import json
from typing import Any

import anthropic
import msgspec
import openai
import psycopg
import pytest
from standardwebhooks import Webhook

from agentchat.contracts.webhooks import EVENT_TYPES, WEBHOOKS, EndpointChanges, EventType, derive_webhook_id
from agentchat.runtime.postgres import Pool, acquire_connection
from agentchat.webhooks import deliveries, delivery_queue, endpoints, retry_schedule
from agentchat.webhooks import webhook_sender as sender_module
from tests.administrator import SEALER
from tests.webhooks.conftest import World, have_attempts
from tests.webhooks.receiver import Received, build_status

_BREAK = """
UPDATE conversation_events SET state = '{' WHERE originator_id = %s AND topic = 'message_saved.v1'
"""


async def test_thin_run_event_verifies_with_standardwebhooks(world: World) -> None:
    endpoint = await world.create_endpoint("/hook", "run.completed")
    conversation_id = await world.chat()
    [got] = await world.receiver.wait_until("/hook", 1)
    data = got.message["data"]
    assert got.message["type"] == "run.completed"
    assert got.message["id"] == got.id == derive_webhook_id(endpoint.id, str(data["position"]))
    assert data == {
        "position": data["position"],
        "conversation_id": conversation_id,
        "version": 7,
        "trace_id": data["trace_id"],
    }
    assert Webhook(endpoint.secret).verify(got.body, got.headers) == got.message
    client = openai.OpenAI(api_key="none", webhook_secret=endpoint.secret)
    assert client.webhooks.unwrap(got.body, got.headers).id == got.id
    found = anthropic.Anthropic(api_key="none").beta.webhooks.unwrap(
        got.body, headers=got.headers, key=endpoint.secret
    )
    assert found.id == got.id
    [delivery] = await world.wait_until(endpoint.id, have_attempts(1))
    assert (delivery.id, delivery.status, delivery.attempts[0].status) == (got.id, "delivered", 204)


async def test_full_payloads_hold_the_reply(world: World) -> None:
    await world.create_endpoint("/full", "run.completed", payload="full")
    await world.chat(text="Your parcel is in Kraków.")
    [got] = await world.receiver.wait_until("/full", 1)
    message = got.message["data"]["message"]
    assert (message["role"], message["content"], message["token_count"]) == (
        "assistant",
        "Your parcel is in Kraków.",
        15,
    )
    assert got.message["data"]["usage"]["input_tokens"] == 15


async def test_a_reply_that_cannot_be_read_is_left_out_and_holds_nothing(
    world: World, migrated_database_url: str
) -> None:
    await world.create_endpoint("/full", "run.completed", payload="full")
    async with await psycopg.AsyncConnection.connect(migrated_database_url) as owner:
        await owner.execute("LOCK TABLE webhook_endpoints IN ACCESS EXCLUSIVE MODE")  # nothing is inserted
        broken = await world.chat("broken")
        await owner.execute(_BREAK, [broken])
    whole = await world.chat("whole")
    got = {
        each.message["data"]["conversation_id"]: each.message["data"]
        for each in await world.receiver.wait_until("/full", 2)
    }
    assert "message" not in got[broken]
    assert got[whole]["message"]["content"] == "It has shipped."


async def test_an_endpoint_gets_its_types_of_its_account_alone(world: World) -> None:
    await world.create_endpoint("/starts", "conversation.started")
    await world.chat(account="someone-else")
    own = await world.chat()
    [got] = await world.receiver.wait_until("/starts", 1)
    assert (got.message["type"], got.message["data"]["conversation_id"]) == ("conversation.started", own)
    assert len(world.receiver.received) == 1


async def test_an_endpoint_gets_nothing_of_before_it_was_created(world: World) -> None:
    """Also where the projection has not read that yet, and where it is enabled again at once."""
    await world.chat("before")
    made = await world.create_endpoint("/new", "run.completed")
    for disabled in (True, False):
        changes = EndpointChanges(disabled=disabled)
        await endpoints.change_endpoint(world.pool, world.account_id, made.id, changes)
    later = await world.chat("later")
    await world.receiver.wait_until("/new", 1)
    await world.wait_until(made.id, have_attempts(1))
    assert [each.message["data"]["conversation_id"] for each in world.receiver.list_at("/new")] == [later]
    assert len(await world.list_deliveries(made.id)) == 1


async def test_a_delivery_whose_sender_died_is_claimed_again(world: World, pool: Pool) -> None:
    endpoint = await world.create_endpoint("https://hooks.example/x", "run.completed")
    await world.stop_sending()
    await world.chat()
    await world.wait_until(endpoint.id, lambda found: len(found) == 1)
    [first] = await delivery_queue.claim_due(pool, [], limit=1, batch=1)
    assert await delivery_queue.claim_due(pool, [], limit=1, batch=1) == [], "it is claimed"
    await world.execute("UPDATE webhook_deliveries SET next_attempt_at = clock_timestamp()")
    [second] = await delivery_queue.claim_due(pool, [], limit=1, batch=1)
    assert (first.due[0].id, first.due[0].body) == (second.due[0].id, second.due[0].body)


async def test_a_failure_is_tried_again_under_its_id_until_it_succeeds(world: World) -> None:
    world.receiver.answer_with("/flaky", build_status(500), build_status(503), build_status(200))
    endpoint = await world.create_endpoint("/flaky", "run.completed")
    await world.chat()
    got = await world.receiver.wait_until("/flaky", 3)
    assert len({each.id for each in got}) == 1
    [delivery] = await world.wait_until(endpoint.id, lambda found: found[0].status == "delivered")
    assert [attempt.status for attempt in delivery.attempts] == [500, 503, 200]
    assert [attempt.error for attempt in delivery.attempts] == ["status", "status", None]
    assert (await endpoints.get_endpoint(world.pool, world.account_id, endpoint.id)).failing_since is None


async def test_after_the_last_attempt_it_has_failed_and_can_be_sent_again(world: World) -> None:
    world.receiver.answer_with("/down", *[build_status(500)] * 10, build_status(204))
    endpoint = await world.create_endpoint("/down", "run.completed")
    await world.chat()
    [failed] = await world.wait_until(endpoint.id, lambda found: bool(found) and found[0].status == "failed")
    assert (len(failed.attempts), failed.next_attempt_at) == (10, None)
    assert (await endpoints.get_endpoint(world.pool, world.account_id, endpoint.id)).failing_since is not None
    await deliveries.resend_delivery(world.pool, world.account_id, failed.id)
    got = await world.receiver.wait_until("/down", 11)
    assert len({each.id for each in got}) == 1
    await world.wait_until(endpoint.id, lambda found: found[0].status == "delivered")


async def test_retry_after_is_heeded_for_the_whole_endpoint(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender_module, "AT_ONCE", 1)
    world.receiver.answer_with("/busy", build_status(429, "Retry-After: 3600"))
    endpoint = await world.create_endpoint("/busy", "run.completed")
    await world.hold()
    await world.chat("one")
    await world.chat("two")
    await world.release(endpoint.id, 2)
    second, delivery = await world.wait_until(endpoint.id, have_attempts(1))
    assert (second.attempts, second.status) == ((), "waiting")
    assert delivery.next_attempt_at is not None
    assert (delivery.next_attempt_at - delivery.attempts[0].at).total_seconds() > 3590
    later = await world.create_endpoint("/other", "run.completed")
    await world.chat("three")
    await world.receiver.wait_until("/other", 1)
    assert len(world.receiver.list_at("/busy")) == 1, "the second one waits"
    assert later.id != endpoint.id


async def test_410_disables_the_endpoint_and_notifies_the_others(world: World) -> None:
    world.receiver.answer_with("/gone", build_status(410))
    watcher = await world.create_endpoint("/watcher", "endpoint.disabled")
    endpoint = await world.create_endpoint("/gone", "run.completed")
    await world.chat()
    found = await world.wait_until_disabled(endpoint.id)
    assert found.disabled_reason == "gone"
    [got] = await world.receiver.wait_until("/watcher", 1)
    assert got.message["data"] == {"endpoint_id": endpoint.id, "url": endpoint.url, "reason": "gone"}
    Webhook(watcher.secret).verify(got.body, got.headers)


@pytest.mark.parametrize("code", [410, 500])
async def test_answers_of_the_old_address_do_not_count(world: World, code: int) -> None:
    async def move_meanwhile(_: Received) -> bytes:
        changes = EndpointChanges(url=world.receiver.build_url("/new"))
        await endpoints.change_endpoint(world.pool, world.account_id, endpoint.id, changes)
        return build_status(code)

    world.receiver.answer_by("/old", move_meanwhile)
    endpoint = await world.create_endpoint("/old", "run.completed")
    await world.execute(
        "UPDATE webhook_endpoints SET failing_since = clock_timestamp() - interval '5 days', failures = 4"
    )
    await world.chat("one")
    await world.wait_until(endpoint.id, have_attempts(1))
    found = await endpoints.get_endpoint(world.pool, world.account_id, endpoint.id)
    assert (found.disabled, found.disabled_reason, found.failing_since) == (False, None, None)
    await world.chat("two")
    await world.receiver.wait_until("/new", 1)


@pytest.mark.parametrize("type_", EVENT_TYPES)
async def test_test_event_has_the_required_fields_of_its_type(world: World, type_: EventType) -> None:
    endpoint = await world.create_endpoint("/tests", type_)
    await deliveries.send_test(world.pool, world.account_id, endpoint.id, type_)
    [got] = await world.receiver.wait_until("/tests", 1)
    message: Any = msgspec.json.decode(got.body, type=WEBHOOKS[type_.partition(".")[0]])
    assert message.type == type_


async def test_five_days_without_success_disable_and_drop_nothing(world: World) -> None:
    world.receiver.answer_with("/dead", build_status(500), build_status(500), build_status(204))
    endpoint = await world.create_endpoint("/dead", "run.completed")
    await world.execute(
        "UPDATE webhook_endpoints SET failing_since = clock_timestamp() - interval '5 days'"
        " WHERE endpoint_id = %s",
        endpoint.id,
    )
    first = await world.chat("first")
    found = await world.wait_until_disabled(endpoint.id)
    assert found.disabled_reason == "failing"
    meanwhile = [await world.chat(word) for word in ("second", "third")]
    asked = len(world.receiver.list_at("/dead"))
    enabled = await endpoints.change_endpoint(
        world.pool, world.account_id, endpoint.id, EndpointChanges(disabled=False)
    )
    assert (enabled.disabled, enabled.failing_since) == (False, None)
    await world.wait_until(endpoint.id, lambda found: [each.status for each in found] == ["delivered"] * 3)
    told = {each.message["data"]["conversation_id"] for each in world.receiver.list_at("/dead")[asked:]}
    assert told == {first, *meanwhile}


async def test_a_hanging_endpoint_holds_no_other(world: World) -> None:
    async def hang(_: Received) -> bytes | None:
        await world.wait_until(quick.id, have_attempts(20))
        return None

    world.receiver.answer_by("/hangs", hang)
    slow = await world.create_endpoint("/hangs", "run.completed")
    quick = await world.create_endpoint("/quick", "run.completed")
    for number in range(20):
        await world.chat(str(number))
    await world.receiver.wait_until("/quick", 20)
    assert {(each.status, each.attempts) for each in await world.list_deliveries(slow.id)} == {
        ("waiting", ())
    }
    # Nothing is dropped.
    await world.receiver.wait_until("/hangs", 20)


async def test_what_was_erased_meanwhile_is_not_sent_again(world: World) -> None:
    endpoint = await world.create_endpoint("/erased", "run.completed", "conversation.deleted")
    conversation_id = await world.chat()
    [delivery] = await world.wait_until(endpoint.id, have_attempts(1))
    await world.erase(conversation_id)
    await world.wait_until(endpoint.id, have_attempts(2))
    await deliveries.resend_delivery(world.pool, world.account_id, delivery.id)
    await world.wait_until(endpoint.id, lambda found: found[1].status == "erased")
    told = [each.message["type"] for each in world.receiver.list_at("/erased")]
    assert told == ["run.completed", "conversation.deleted"]


async def test_a_deletion_that_nobody_is_told_of_erases_bodies(world: World) -> None:
    endpoint = await world.create_endpoint("/erased", "run.completed")
    await world.hold()
    conversation_id = await world.chat()
    await world.wait_until(endpoint.id, lambda found: len(found) == 1)
    await world.erase(conversation_id)
    await world.wait_until(endpoint.id, lambda found: [each.status for each in found] == ["erased"])


async def test_what_is_erased_before_it_was_sent_is_not_sent(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is claimed by then, and waits for the endpoint."""
    monkeypatch.setattr(sender_module, "AT_ONCE", 1)
    await world.create_endpoint("/deleted", "conversation.deleted")
    endpoint = await world.create_endpoint("/slow", "run.completed", "conversation.deleted")
    await world.hold()
    first, second = await world.chat("first"), await world.chat("second")

    async def erase_the_second(got: Received) -> bytes:
        if got.message["data"]["conversation_id"] == first:
            await world.erase(second)
            await world.receiver.wait_until("/deleted", 1)
        return build_status(204)

    world.receiver.answer_by("/slow", erase_the_second)
    await world.release(endpoint.id, 2)
    await world.wait_until(
        endpoint.id, lambda found: len(found) == 3 and all(each.status != "waiting" for each in found)
    )
    told = [
        (each.message["type"], each.message["data"]["conversation_id"])
        for each in world.receiver.list_at("/slow")
    ]
    assert told == [("run.completed", first), ("conversation.deleted", second)]


async def test_for_a_day_both_secrets_sign(world: World) -> None:
    endpoint = await world.create_endpoint("/rotated", "run.completed")
    rotated = await endpoints.rotate_secret(world.pool, SEALER, world.account_id, endpoint.id)
    await world.chat("both")
    [got] = await world.receiver.wait_until("/rotated", 1)
    assert len(got.headers["webhook-signature"].split(" ")) == 2
    for secret in (endpoint.secret, rotated.secret):
        assert Webhook(secret).verify(got.body, got.headers) == json.loads(got.body)
    await world.wait_until(endpoint.id, have_attempts(1))
    await world.execute("UPDATE webhook_endpoints SET previous_until = clock_timestamp()")
    await deliveries.send_test(world.pool, world.account_id, endpoint.id, "run.failed")
    _, tested = await world.receiver.wait_until("/rotated", 2)
    assert len(tested.headers["webhook-signature"].split(" ")) == 1
    Webhook(rotated.secret).verify(tested.body, tested.headers)
    assert tested.message["type"] == "run.failed"


async def test_what_fails_together_is_one_failure_to_the_pause_that_doubles(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An endpoint that restarts, with requests under way, is asked again within seconds."""
    all_here = asyncio.Barrier(20)

    async def fail(_: Received) -> bytes:
        await all_here.wait()
        return build_status(503)

    world.receiver.answer_by("/restarts", fail)
    endpoint = await world.create_endpoint("/restarts", "run.completed")
    await world.hold()
    for number in range(20):
        await world.chat(str(number))
    monkeypatch.setattr(retry_schedule, "RETRY_SECONDS", (3600.0,))
    await world.release(endpoint.id, 20)
    await world.wait_until(endpoint.id, have_attempts(20))
    async with acquire_connection(world.pool) as conn:
        row = await (await conn.execute("SELECT failures FROM webhook_endpoints")).fetchone()
    assert row == (retry_schedule.FAILURES_IN_A_ROW,)


async def test_an_answer_whose_body_never_ends_counts_by_its_status(world: World) -> None:
    world.receiver.answer_with("/endless", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{")
    endpoint = await world.create_endpoint("/endless", "run.completed")
    await world.chat()
    [delivery] = await world.wait_until(
        endpoint.id, lambda found: bool(found) and found[0].status != "waiting"
    )
    assert delivery.status == "delivered"


async def test_what_is_resent_while_it_is_sent_is_sent_again(world: World) -> None:
    async def resend_it_meanwhile(got: Received) -> bytes:
        if len(world.receiver.list_at("/meanwhile")) == 1:
            await deliveries.resend_delivery(world.pool, world.account_id, got.id)
        return build_status(204)

    world.receiver.answer_by("/meanwhile", resend_it_meanwhile)
    endpoint = await world.create_endpoint("/meanwhile", "run.completed")
    await world.chat()
    first, second = await world.receiver.wait_until("/meanwhile", 2)
    assert first.id == second.id
    [delivery] = await world.wait_until(endpoint.id, lambda found: found[0].status == "delivered")
    assert len(delivery.attempts) == 2
