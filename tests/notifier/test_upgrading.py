"""A database of release 0.9.0, which sent by cursors over the log: what it has not sent is sent."""

import psycopg
import pytest

from contracts.webhooks import EndpointChanges
from tests.notifier.conftest import StartNotifier, World, attempted, following
from tests.notifier.receiver import Receiver
from webhooks import endpoints, migrations

pytestmark = pytest.mark.requirement("WEBHOOK-DELIVERY")

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
    world: World, receiver: Receiver, notifiers: StartNotifier, migrated_database_url: str
) -> None:
    enabled = await world.endpoint(receiver.url("/enabled"), "run.completed")
    disabled = await world.endpoint(receiver.url("/disabled"), "run.completed")
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
        notifiers()
        await world.until(enabled.id, attempted(2))
        assert receiver.at("/disabled") == []
        await endpoints.change(world.pool, world.account_id, disabled.id, EndpointChanges(disabled=False))
        await world.until(disabled.id, attempted(2))
    for path in ("/enabled", "/disabled"):
        got = [each.message["data"]["conversation_id"] for each in receiver.at(path)]
        assert len(got) == 2
        assert set(got) == missed
