"""Rows of the outbox: how long they are kept, what they hold, and those of a database of release 0.9.0."""

import msgspec
import psycopg
import pytest
from msgspec.structs import replace

from contracts import events
from contracts.examples import EVENT_EXAMPLES
from contracts.webhooks import EndpointChanges
from runtime.postgres import Pool
from tests.notifier.conftest import World, attempted, following
from webhooks import endpoints, migrations, outbox
from webhooks.notices import notice_of, rest_of, with_id

_ADD = """
INSERT INTO webhook_deliveries (delivery_id, endpoint_id, type, status, created_at, next_attempt_at)
VALUES (%s, %s, 'run.completed', %s, clock_timestamp() - make_interval(days => %s),
        clock_timestamp() + make_interval(secs => %s))
"""


async def test_what_waits_is_kept_as_long_as_its_endpoint_is_enabled(world: World, pool: Pool) -> None:
    live, disabled = [(await world.endpoint("https://hooks.example/x")).id for _ in range(2)]
    await world.execute(
        "UPDATE webhook_endpoints SET disabled_at = clock_timestamp() WHERE endpoint_id = %s", disabled
    )
    for endpoint_id in (live, disabled):
        for days in (29, 31):
            await world.execute(_ADD, f"waits {endpoint_id} {days}", endpoint_id, "waiting", days, 60)
            await world.execute(_ADD, f"done {endpoint_id} {days}", endpoint_id, "delivered", days, None)
    assert await outbox.delete_old(pool, 2) == 2
    assert await outbox.delete_old(pool, 2) == 1
    assert await outbox.delete_old(pool, 2) == 0
    left = {each.id for id_ in (live, disabled) for each in await world.deliveries(id_)}
    assert left == {
        *(f"{what} {id_} 29" for what in ("waits", "done") for id_ in (live, disabled)),
        f"waits {live} 31",
    }
    assert (await endpoints.get(pool, world.account_id, disabled)).disabled


_UNDO = """
DROP TRIGGER switch_webhook_endpoint ON webhook_endpoints;
DROP FUNCTION switch_webhook_endpoint();
DROP TABLE webhook_position;
ALTER TABLE webhook_cursors DROP COLUMN resend;
ALTER TABLE webhook_endpoints
    DROP COLUMN begins_after, DROP COLUMN stopped_at, DROP COLUMN leased_until, DROP COLUMN look_ups_failed;
DELETE FROM schema_migrations WHERE component = 'webhooks' AND version = 2;
UPDATE webhook_cursors SET position = (SELECT max(notification_id) FROM conversation_events);
"""


async def test_an_upgrade_sends_what_the_cursors_have_not_come_to(
    world: World, migrated_database_url: str
) -> None:
    enabled = await world.endpoint("/enabled", "run.completed")
    disabled = await world.endpoint("/disabled", "run.completed")
    await world.chat("sent by the release")
    async with await psycopg.AsyncConnection.connect(migrated_database_url) as owner:
        await owner.execute("TRUNCATE webhook_deliveries")
        await owner.execute(_UNDO)
        await owner.execute(
            "UPDATE webhook_endpoints SET disabled_at = now() WHERE endpoint_id = %s", [disabled.id]
        )
    missed = {await world.chat("missed")}
    await migrations.migrate(migrated_database_url)
    missed.add(await world.chat("after the migration"))
    async with following(world.pool):
        world.start()
        await world.until(enabled.id, attempted(2))
        assert world.receiver.at("/disabled") == []
        await endpoints.change(world.pool, world.account_id, disabled.id, EndpointChanges(disabled=False))
        await world.until(disabled.id, attempted(2))
    for path in ("/enabled", "/disabled"):
        got = [each.message["data"]["conversation_id"] for each in world.receiver.at(path)]
        assert len(got) == 2
        assert set(got) == missed


@pytest.mark.parametrize(
    ("kind", "type_", "more"),
    [
        (
            events.FeedbackGiven,
            "feedback.given",
            {
                "score": -1.0,
                "label": "wrong",
                "comment": "It has not left the warehouse.",
                "on_behalf_of": "ada@shop.example",
            },
        ),
        (events.FeedbackWithdrawn, "feedback.withdrawn", {"on_behalf_of": "ada@shop.example"}),
    ],
)
def test_feedback_is_told_with_its_content_in_full_alone(
    kind: type[events.Fact], type_: str, more: dict[str, object]
) -> None:
    (example,) = (each for each in EVENT_EXAMPLES if isinstance(each, kind))
    notice = notice_of(1, "conversation", 2, example)
    assert notice is not None
    assert notice.type == type_
    full = msgspec.json.decode(with_id("msg_1", rest_of(notice, "full")))["data"]
    thin = msgspec.json.decode(with_id("msg_1", rest_of(notice, "thin")))["data"]
    ids = {"position": 1, "conversation_id": "conversation", "version": 2}
    assert thin == ids | {"trace_id": example.trace_id, "message_id": full["message_id"]}
    assert {name: value for name, value in full.items() if name not in thin and name != "by"} == more
    assert full["by"]["kind"] == "account"


def test_what_a_tool_asks_is_told_in_full_without_the_servers_state() -> None:
    (example,) = (each for each in EVENT_EXAMPLES if isinstance(each, events.ElicitationRequested))
    asks = events.InputAsked(message="Why?", name="cancel", input={}, key="a", request_state="opaque")
    notice = notice_of(1, "conversation", 2, replace(example, asked=asks))
    assert notice is not None
    assert notice.type == "approval.requested"
    full = msgspec.json.decode(with_id("msg_1", rest_of(notice, "full")))["data"]
    thin = msgspec.json.decode(with_id("msg_1", rest_of(notice, "thin")))["data"]
    assert full["elicitation"] == {"message": "Why?"}
    assert thin.keys() & {"elicitation", "tool", "agent_id"} == set()
