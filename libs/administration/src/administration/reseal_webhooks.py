"""The secrets of webhook endpoints anew under the current secret key, as `reseal` does those of agents."""

from collections import Counter
from collections.abc import AsyncIterator

import msgspec

from administration.rows import record
from directory.errors import SealBroken
from directory.secrets import Sealer
from runtime.postgres import Connection, Pool, connection
from webhooks.rows import seal_owner

_SECONDS = 30.0
_ENDPOINTS = 100


class UnopenedEndpoint(msgspec.Struct, frozen=True):
    """An endpoint with a secret that no key at hand opens; `reason` says why, and nothing of the value."""

    account_id: str
    endpoint_id: str
    reason: str


class ResealedEndpoints(msgspec.Struct, frozen=True, kw_only=True):
    """What was looked at, sealed anew, and left as it was."""

    endpoints: int
    values: int
    resealed: int
    unopened: tuple[UnopenedEndpoint, ...] = ()


async def reseal_endpoints(
    pool: Pool, sealer: Sealer, *, actor: str, dry_run: bool
) -> AsyncIterator[ResealedEndpoints]:
    """All endpoints in the order of their ids, each batch committed as it is given.

    Raises DatabaseUnavailable.
    """
    after = ""
    while True:
        async with connection(pool, seconds=_SECONDS) as conn, conn.transaction():
            rows = await (await conn.execute(_LOCKED, [after, _ENDPOINTS])).fetchall()
            if not rows:
                return
            done = await _batch(conn, sealer, rows, dry_run=dry_run)
            if done.resealed and not dry_run:
                shown = {"webhook_endpoints": done.endpoints, "values": done.resealed}
                await record(conn, actor, "reseal", "secret key", sealer.key_id, after=shown)
        yield done
        after = rows[-1][0]


async def _batch(
    conn: Connection,
    sealer: Sealer,
    rows: list[tuple[str, str, bytes, bytes | None]],
    *,
    dry_run: bool,
) -> ResealedEndpoints:
    counts = Counter[str]()
    unopened: list[UnopenedEndpoint] = []
    for endpoint_id, account_id, *sealed in rows:
        owner = seal_owner(account_id, endpoint_id)
        present = [value for value in sealed if value is not None]
        counts["values"] += len(present)
        try:
            plain = {value: sealer.open(value, owner=owner) for value in present}
        except SealBroken as error:
            unopened.append(UnopenedEndpoint(account_id, endpoint_id, str(error)))
            continue
        old = [value for value in present if not sealer.is_current(value)]
        counts["resealed"] += len(old)
        if old and not dry_run:
            anew = [value and sealer.seal(plain[value], owner=owner) for value in sealed]
            await conn.execute(_UPDATE, [*anew, endpoint_id])
    return ResealedEndpoints(
        endpoints=len(rows),
        values=counts["values"],
        resealed=counts["resealed"],
        unopened=tuple(unopened),
    )


_LOCKED = """
SELECT endpoint_id, account_id, secret, previous_secret FROM webhook_endpoints
 WHERE endpoint_id > %s ORDER BY endpoint_id LIMIT %s FOR NO KEY UPDATE
"""

_UPDATE = "UPDATE webhook_endpoints SET secret = %s, previous_secret = %s WHERE endpoint_id = %s"
