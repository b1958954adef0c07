"""Deliveries are deleted after 30 days, unless they wait for an attempt at an enabled endpoint."""

import pytest

from runtime.postgres import Pool
from tests.notifier.conftest import World
from webhooks import endpoints, outbox

pytestmark = pytest.mark.requirement("WEBHOOK-KEPT")

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
