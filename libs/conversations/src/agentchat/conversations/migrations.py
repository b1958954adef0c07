"""Create the tables of this package, as the database's owner, before any service starts.

The event table is as the eventsourcing library's recorder would create it. The rights of services on each
table are granted here: they may read events, append them by `append_events`, and remove those of erased
conversations by `remove_content` (`erasures`).
"""

from pathlib import Path

from agentchat.conversations import erasures, run_secrets_table, user_deletion_requests
from agentchat.conversations.idempotency import idempotency_keys
from agentchat.conversations.leases import abandoned_runs
from agentchat.conversations.projections import read_model_follower
from agentchat.conversations.projections.read_models import PROJECTIONS
from agentchat.conversations.queries import analytics_views, what_if_runs
from agentchat.runtime import migrations

_STORE = Path(__file__).parent / "event_store"

BASELINE = "\n".join(
    (
        *((_STORE / name).read_text() for name in ("schema.sql", "append_events.sql")),
        abandoned_runs.TABLES,
        erasures.TABLES,
        run_secrets_table.TABLES,
        user_deletion_requests.TABLES,
        (_STORE / "remove_content.sql").read_text(),
        what_if_runs.TABLES,
        idempotency_keys.TABLES,
        read_model_follower.TABLES,
        *(each.tables for each in PROJECTIONS),
        analytics_views.build_views(),
    )
)

STEPS = (BASELINE,)


async def migrate(database_url: str) -> None:
    """Bring the tables up to date, as the database's owner.

    Safe to repeat, also from several processes. Raises agentchat.runtime.migrations.MigrationError,
    psycopg.Error.
    """
    async with migrations.open_migration(database_url) as conn:
        await migrations.apply(conn, "conversations", STEPS)
