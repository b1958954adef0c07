"""What endpoints are sent: signed, once or known as sent before, whatever fails on either side."""

import asyncio
import json

import anthropic
import openai
import psycopg
from standardwebhooks import Webhook

from contracts import events
from contracts.ids import new_id
from contracts.webhooks import EndpointChanges, message_id
from conversations.event_store import mapper
from conversations.event_store.log import Log
from conversations.event_store.owners import Owners
from runtime.postgres import connection
from tests.administrator import SEALER
from tests.conversations.given import AT, trace, turn
from tests.conversations.turns import appending
from tests.notifier.conftest import World, attempted
from tests.notifier.receiver import Received, status
from webhooks import deliveries, endpoints
from webhooks.delivery_projection import insert_ranges

_BREAK = """
UPDATE conversation_events SET state = '{' WHERE originator_id = %s AND topic = 'message_saved.v1'
"""


async def test_a_run_is_told_thinly_and_verifies_with_the_libraries_of_others(world: World) -> None:
    endpoint = await world.endpoint("/hook", "run.completed")
    world.start()
    conversation_id = await world.chat()
    [got] = await world.receiver.until("/hook", 1)
    data = got.message["data"]
    assert got.message["type"] == "run.completed"
    assert got.message["id"] == got.id == message_id(endpoint.id, str(data["position"]))
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
    [delivery] = await world.until(endpoint.id, attempted(1))
    assert (delivery.id, delivery.status, delivery.attempts[0].status) == (got.id, "delivered", 204)


async def test_full_payloads_hold_the_reply(world: World) -> None:
    await world.endpoint("/full", "run.completed", payload="full")
    world.start()
    await world.chat(text="Your parcel is in Kraków.")
    [got] = await world.receiver.until("/full", 1)
    message = got.message["data"]["message"]
    assert (message["role"], message["content"], message["token_count"]) == (
        "assistant",
        "Your parcel is in Kraków.",
        15,
    )
    assert got.message["data"]["usage"]["input_tokens"] == 15


async def test_replies_that_are_asked_for_together_are_each_in_their_own_message(world: World) -> None:
    for path in ("/one", "/two"):
        await world.endpoint(path, "run.completed", payload="full")
    said = {
        await world.chat(str(number), text=f"Answer {number}."): f"Answer {number}." for number in range(20)
    }
    world.start()
    for path in ("/one", "/two"):
        data = [each.message["data"] for each in await world.receiver.until(path, 20)]
        assert {each["conversation_id"]: each["message"]["content"] for each in data} == said


async def test_a_reply_that_cannot_be_read_is_left_out_and_holds_nothing(
    world: World, migrated_database_url: str
) -> None:
    await world.endpoint("/full", "run.completed", payload="full")
    broken = await world.chat("broken")
    async with await psycopg.AsyncConnection.connect(migrated_database_url) as owner:
        await owner.execute(_BREAK, [broken])
    whole = await world.chat("whole")
    world.start()
    got = {
        each.message["data"]["conversation_id"]: each.message["data"]
        for each in await world.receiver.until("/full", 2)
    }
    assert "message" not in got[broken]
    assert got[whole]["message"]["content"] == "It has shipped."


async def test_an_endpoint_gets_its_types_of_its_account_alone(world: World) -> None:
    await world.endpoint("/starts", "conversation.started")
    world.start()
    await world.chat(account="someone-else")
    own = await world.chat()
    [got] = await world.receiver.until("/starts", 1)
    assert (got.message["type"], got.message["data"]["conversation_id"]) == ("conversation.started", own)
    assert len(world.receiver.received) == 1


async def test_an_endpoint_gets_nothing_of_before_it_was_created(world: World) -> None:
    """Also where the projection has not read that yet, and where it is enabled again at once."""
    await world.chat("before")
    made = await world.endpoint("/new", "run.completed")
    for disabled in (True, False):
        changes = EndpointChanges(disabled=disabled)
        await endpoints.change(world.pool, world.account_id, made.id, changes)
    later = await world.chat("later")
    world.start()
    await world.receiver.until("/new", 1)
    await world.until(made.id, attempted(1))
    async with connection(world.pool) as conn:
        left = "SELECT count(*) FROM webhook_cursors WHERE cursor_id <> endpoint_id"
        while await (await conn.execute(left)).fetchone() != (0,):  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.02)
    assert [each.message["data"]["conversation_id"] for each in world.receiver.at("/new")] == [later]
    assert len(await world.deliveries(made.id)) == 1


async def test_a_notifier_killed_between_sending_and_recording_sends_it_again_under_its_id(
    world: World,
) -> None:
    """Another takes the endpoint when the lease of the one that was killed has ended."""
    endpoint = await world.endpoint("/crash", "run.completed")
    process = world.start(
        hurry={"webhooks.outbox.LEASE_SECONDS": 1.0, "notifier.endpoint_batch.BEGIN_SECONDS": 1.0}
    )

    async def kill_the_first_time(_: Received) -> bytes | None:
        if len(world.receiver.at("/crash")) == 1:
            await process.kill()
            return None
        return status(204)

    world.receiver.does("/crash", kill_the_first_time)
    await world.chat()
    await world.receiver.until("/crash", 1)
    world.start("notifier-2")
    first, second = await world.receiver.until("/crash", 2)
    assert (first.id, first.body) == (second.id, second.body)
    [delivery] = await world.until(endpoint.id, attempted(1))
    assert [attempt.status for attempt in delivery.attempts] == [204]


async def test_a_failure_is_tried_again_under_its_id_until_it_succeeds(world: World) -> None:
    world.receiver.says("/flaky", status(500), status(503), status(200))
    endpoint = await world.endpoint("/flaky", "run.completed")
    world.start()
    await world.chat()
    got = await world.receiver.until("/flaky", 3)
    assert len({each.id for each in got}) == 1
    [delivery] = await world.until(endpoint.id, lambda found: found[0].status == "delivered")
    assert [attempt.status for attempt in delivery.attempts] == [500, 503, 200]
    assert [attempt.error for attempt in delivery.attempts] == ["status", "status", None]
    assert (await endpoints.get(world.pool, world.account_id, endpoint.id)).failing_since is None


async def test_after_the_last_attempt_it_has_failed_and_can_be_sent_again(world: World) -> None:
    world.receiver.says("/down", *[status(500)] * 10, status(204))
    endpoint = await world.endpoint("/down", "run.completed")
    world.start()
    await world.chat()
    [failed] = await world.until(endpoint.id, lambda found: bool(found) and found[0].status == "failed")
    assert (len(failed.attempts), failed.next_attempt_at) == (10, None)
    assert (await endpoints.get(world.pool, world.account_id, endpoint.id)).failing_since is not None
    await deliveries.resend(world.pool, world.account_id, failed.id)
    got = await world.receiver.until("/down", 11)
    assert len({each.id for each in got}) == 1
    await world.until(endpoint.id, lambda found: found[0].status == "delivered")


async def test_retry_after_is_heeded_for_the_whole_endpoint(world: World) -> None:
    world.receiver.says("/busy", status(429, "Retry-After: 3600"))
    endpoint = await world.endpoint("/busy", "run.completed")
    await world.chat("one")
    await world.chat("two")
    world.start(hurry={"notifier.endpoint_batch.AT_ONCE": 1})
    second, delivery = await world.until(endpoint.id, attempted(1))
    assert (second.attempts, second.status) == ((), "waiting")
    assert delivery.next_attempt_at is not None
    assert (delivery.next_attempt_at - delivery.attempts[0].at).total_seconds() > 3590
    later = await world.endpoint("/other", "run.completed")
    await world.chat("three")
    await world.receiver.until("/other", 1)
    assert len(world.receiver.at("/busy")) == 1, "the second one waits"
    assert later.id != endpoint.id


async def test_410_disables_it_and_the_other_endpoints_are_told(world: World) -> None:
    world.receiver.says("/gone", status(410))
    watcher = await world.endpoint("/watcher", "endpoint.disabled")
    endpoint = await world.endpoint("/gone", "run.completed")
    world.start()
    await world.chat()
    found = await world.until_disabled(endpoint.id)
    assert found.disabled_reason == "gone"
    [got] = await world.receiver.until("/watcher", 1)
    assert got.message["data"] == {"endpoint_id": endpoint.id, "url": endpoint.url, "reason": "gone"}
    Webhook(watcher.secret).verify(got.body, got.headers)


async def test_410_disables_it_though_another_answer_is_200(world: World) -> None:
    both_here = asyncio.Event()

    async def gone_then_well(_: Received) -> bytes:
        if len(world.receiver.at("/mixed")) == 1:
            await both_here.wait()
            return status(410)
        both_here.set()
        await asyncio.sleep(0.5)  # this answer comes after the other
        return status(200)

    world.receiver.does("/mixed", gone_then_well)
    endpoint = await world.endpoint("/mixed", "run.completed")
    await world.chat("one")
    await world.chat("two")
    world.start()
    found = await world.until_disabled(endpoint.id)
    assert found.disabled_reason == "gone"


async def test_five_days_without_a_success_disable_it_and_nothing_is_dropped(world: World) -> None:
    world.receiver.says("/dead", status(500), status(500), status(204))
    endpoint = await world.endpoint("/dead", "run.completed")
    world.start()
    await world.execute(
        "UPDATE webhook_endpoints SET failing_since = clock_timestamp() - interval '5 days'"
        " WHERE endpoint_id = %s",
        endpoint.id,
    )
    first = await world.chat("first")
    found = await world.until_disabled(endpoint.id)
    assert found.disabled_reason == "failing"
    meanwhile = [await world.chat(word) for word in ("second", "third")]
    asked = len(world.receiver.at("/dead"))
    enabled = await endpoints.change(
        world.pool, world.account_id, endpoint.id, EndpointChanges(disabled=False)
    )
    assert (enabled.disabled, enabled.failing_since) == (False, None)
    await world.until(endpoint.id, lambda found: [each.status for each in found] == ["delivered"] * 3)
    told = {each.message["data"]["conversation_id"] for each in world.receiver.at("/dead")[asked:]}
    assert told == {first, *meanwhile}


async def test_a_success_among_failures_begins_the_five_days_again(world: World) -> None:
    world.receiver.says("/shaky", status(204), status(500))
    endpoint = await world.endpoint("/shaky", "run.completed")
    for word in ("first", "second"):
        await world.chat(word)
    await world.execute(
        "UPDATE webhook_endpoints SET failing_since = clock_timestamp() - interval '5 days'"
        " WHERE endpoint_id = %s",
        endpoint.id,
    )
    world.start(hurry={"notifier.endpoint_batch.AT_ONCE": 1, "notifier.schedule.RETRY_SECONDS": [3600.0]})
    await world.until(endpoint.id, attempted(2))
    found = await endpoints.get(world.pool, world.account_id, endpoint.id)
    assert found.failing_since is not None
    assert (found.disabled, found.failing_since > endpoint.created_at) == (False, True)


async def test_a_hanging_endpoint_holds_no_other(world: World) -> None:
    async def hang(_: Received) -> bytes | None:
        await world.until(quick.id, attempted(20))
        return None

    world.receiver.does("/hangs", hang)
    slow = await world.endpoint("/hangs", "run.completed")
    quick = await world.endpoint("/quick", "run.completed")
    world.start()
    for number in range(20):
        await world.chat(str(number))
    await world.receiver.until("/quick", 20)
    assert {(each.status, each.attempts) for each in await world.deliveries(slow.id)} == {("waiting", ())}
    # Nothing is dropped.
    await world.receiver.until("/hangs", 20)


async def test_a_range_of_the_log_is_replayed_under_the_same_ids(world: World) -> None:
    endpoint = await world.endpoint("/again", "run.completed")
    world.start()
    for number in range(4):
        await world.chat(str(number))
    first = await world.receiver.until("/again", 4)
    positions = sorted(each.message["data"]["position"] for each in first)
    await world.until(endpoint.id, attempted(4))
    await deliveries.replay(world.pool, world.account_id, endpoint.id, positions[1], positions[2])
    again = (await world.receiver.until("/again", 6))[4:]
    assert sorted(each.message["data"]["position"] for each in again) == positions[1:3]
    assert {each.id for each in again} <= {each.id for each in first}
    found = await world.until(
        endpoint.id, lambda found: sorted(len(each.attempts) for each in found) == [1, 1, 2, 2]
    )
    assert {each.status for each in found} == {"delivered"}


async def test_a_replay_does_not_end_before_an_append_that_is_under_way_in_its_range(
    world: World, migrated_database_url: str
) -> None:
    endpoint = await world.endpoint("/range", "run.completed")
    log = Log(world.pool)
    first = await log.head() + 1
    began = events.ConversationStarted(trace_id=trace("slow"), at=AT, account_id=world.account_id)
    async with appending(migrated_database_url) as slow:
        facts = mapper.stored([began, *turn("slow", "Where is it?", "There.")])
        await slow.append(new_id(), facts=facts)
        await world.chat("fast")
        await deliveries.replay(world.pool, world.account_id, endpoint.id, first, await log.head())
        for _ in range(3):
            assert await insert_ranges(world.pool, log, Owners(log)), "the range has not ended"
        assert await world.deliveries(endpoint.id) == []
        await slow.commit()
    async with asyncio.timeout(20):
        while await insert_ranges(world.pool, log, Owners(log)):
            pass
    assert len(await world.deliveries(endpoint.id)) == 2


async def test_what_was_erased_meanwhile_is_not_sent_again(world: World) -> None:
    endpoint = await world.endpoint("/erased", "run.completed")
    process = world.start()
    conversation_id = await world.chat()
    await world.receiver.until("/erased", 1)
    [delivery] = await world.until(endpoint.id, attempted(1))
    await world.erase(conversation_id)
    await deliveries.resend(world.pool, world.account_id, delivery.id)
    await world.until(endpoint.id, lambda found: found[0].status == "erased")
    assert len(world.receiver.at("/erased")) == 1, process.text()


async def test_what_is_erased_before_it_was_sent_is_not_sent(world: World) -> None:
    """The notifier has read it by then, and waits for the endpoint."""
    await world.endpoint("/deleted", "conversation.deleted")
    endpoint = await world.endpoint("/slow", "run.completed", "conversation.deleted")
    first, second = await world.chat("first"), await world.chat("second")

    async def erase_the_second(got: Received) -> bytes:
        if got.message["data"]["conversation_id"] == first:
            await world.erase(second)
            await world.receiver.until("/deleted", 1)
        return status(204)

    world.receiver.does("/slow", erase_the_second)
    world.start(hurry={"notifier.endpoint_batch.AT_ONCE": 1})
    await world.until(
        endpoint.id, lambda found: len(found) == 3 and all(each.status != "waiting" for each in found)
    )
    told = [
        (each.message["type"], each.message["data"]["conversation_id"]) for each in world.receiver.at("/slow")
    ]
    assert told == [("run.completed", first), ("conversation.deleted", second)]


async def test_for_a_day_both_secrets_sign(world: World) -> None:
    endpoint = await world.endpoint("/rotated", "run.completed")
    world.start()
    rotated = await endpoints.rotate_secret(world.pool, SEALER, world.account_id, endpoint.id)
    await world.chat("both")
    [got] = await world.receiver.until("/rotated", 1)
    assert len(got.headers["webhook-signature"].split(" ")) == 2
    for secret in (endpoint.secret, rotated.secret):
        assert Webhook(secret).verify(got.body, got.headers) == json.loads(got.body)
    await world.until(endpoint.id, attempted(1))
    await world.execute("UPDATE webhook_endpoints SET previous_until = clock_timestamp()")
    await deliveries.test(world.pool, world.account_id, endpoint.id, "run.failed")
    _, tested = await world.receiver.until("/rotated", 2)
    assert len(tested.headers["webhook-signature"].split(" ")) == 1
    Webhook(rotated.secret).verify(tested.body, tested.headers)
    assert tested.message["type"] == "run.failed"
