"""Manage the endpoints of an account: create, list, change, delete, rotate the secret."""

import base64
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, LiteralString
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import asdict

from agentchat.contracts.admin_errors import Conflict, Invalid, NotFound
from agentchat.contracts.ids import is_uuid, make_id
from agentchat.contracts.webhooks import (
    MAX_ENDPOINTS,
    ROTATION_SECONDS,
    Endpoint,
    EndpointChanges,
    IssuedEndpoint,
    NewEndpoint,
    OwnedEndpoint,
)
from agentchat.directory.secret_encryption import Sealer
from agentchat.net_guard import Guard
from agentchat.net_guard.permitted_addresses import check_saved_url
from agentchat.runtime.postgres import Connection, Pool, acquire_connection

_SECRET_BYTES = 32

Note = Callable[[Connection, Any, Any], Awaitable[None]]
"""Called in the transaction of a change with the state before, if there was one, and after."""


def build_seal_owner(account_id: str, endpoint_id: str) -> str:
    """Return the owner that an endpoint's secret is bound to: its bytes do not open elsewhere."""
    return f"{account_id}/{endpoint_id}/webhook_secret"


async def check_url(guard: Guard, url: str, account_id: str) -> None:
    """Check an address as a delivery would now. Raises Invalid, AddressRefused."""
    try:
        parts = urlsplit(url)
        well_formed = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        well_formed = False
    if not well_formed or not url.isascii() or not url.isprintable() or " " in url:
        raise Invalid("url", "must be an https URL")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise Invalid("url", "must have no credentials and no fragment")
    await check_saved_url(guard, url, account_id)


async def create_endpoint(pool: Pool, sealer: Sealer, account_id: str, new: NewEndpoint) -> IssuedEndpoint:
    """Create an endpoint, which gets the events from now on.

    Raises Conflict, DatabaseUnavailable.
    """
    endpoint_id, secret = make_id(), _generate_secret()
    sealed = sealer.seal(secret, owner=build_seal_owner(account_id, endpoint_id))
    async with acquire_connection(pool) as conn, conn.transaction():
        # Lock the account, so that concurrent requests do not exceed the limit.
        await conn.execute("SELECT FROM accounts WHERE account_id = %s FOR NO KEY UPDATE", [account_id])
        row = await (await conn.execute(_COUNT, [account_id])).fetchone()
        if row is None or row[0] >= MAX_ENDPOINTS:
            raise Conflict(f"the account has {MAX_ENDPOINTS} endpoints, which is the limit; delete one first")
        given = {"id": endpoint_id, "account": account_id, "secret": sealed, "last4": secret[-4:]}
        await conn.execute(_INSERT, {**given, **asdict(new), "events": _drop_repeated(new.events)})
        made = await load_endpoint(conn, account_id, endpoint_id)
    return IssuedEndpoint(**asdict(made), secret=secret)


async def list_endpoints(pool: Pool, account_id: str, *, after: str | None, limit: int) -> list[Endpoint]:
    """List up to `limit` endpoints after the id `after`, in order of creation."""
    async with acquire_connection(pool) as conn:
        cursor = await conn.execute(_PAGE, {"account": account_id, "after": after or "", "limit": limit})
        return [_build_endpoint(row) for row in await cursor.fetchall()]


async def list_all_endpoints(
    pool: Pool,
    account_id: str | None,
    *,
    account_ids: Sequence[str] | None = None,
    after: str | None,
    limit: int,
) -> list[OwnedEndpoint]:
    """List endpoints of every account, of one or of `account_ids`, with their accounts.

    Raises DatabaseUnavailable.
    """
    limited = None if account_ids is None else list(account_ids)
    asked = {"account": account_id, "limited": limited, "after": after or "", "limit": limit}
    async with acquire_connection(pool) as conn:
        return [_build_owned(row) for row in await (await conn.execute(_PAGE_OF_ALL, asked)).fetchall()]


async def find_endpoint(pool: Pool, endpoint_id: str) -> OwnedEndpoint:
    """Find an endpoint of any account. Raises NotFound, DatabaseUnavailable."""
    endpoint_id = _check_id(endpoint_id)
    async with acquire_connection(pool) as conn:
        row = await (await conn.execute(_OF_ANY, [endpoint_id])).fetchone()
    if row is None:
        raise NotFound("webhook endpoint", endpoint_id)
    return _build_owned(row)


async def get_endpoint(pool: Pool, account_id: str, endpoint_id: str) -> Endpoint:
    """Return an endpoint of the account. Raises NotFound, DatabaseUnavailable."""
    async with acquire_connection(pool) as conn:
        return await load_endpoint(conn, account_id, endpoint_id)


async def change_endpoint(
    pool: Pool, account_id: str, endpoint_id: str, changes: EndpointChanges, *, note: Note | None = None
) -> Endpoint:
    """Change the given fields.

    An endpoint that is enabled again has no failures, and gets what waits for it.

    `note` records the state before and after in the same transaction. Raises NotFound, DatabaseUnavailable.
    """
    given = {name: value for name, value in asdict(changes).items() if value is not msgspec.UNSET}
    async with acquire_connection(pool) as conn, conn.transaction():
        present = await load_endpoint(conn, account_id, endpoint_id, lock=True)
        wanted = {**asdict(present), **given}
        wanted["events"] = _drop_repeated(wanted["events"])
        await conn.execute(_UPDATE, {name: wanted[name] for name in ("id", "url", "events", "payload")})
        if wanted["url"] != present.url:
            await conn.execute(_FORGET_FAILURES, [present.id])
        if wanted["disabled"] != present.disabled:
            await conn.execute(_DISABLE if wanted["disabled"] else _ENABLE, [present.id])
        changed = await load_endpoint(conn, account_id, present.id)
        if note is not None:
            await note(conn, present, changed)
        return changed


async def delete_endpoint(pool: Pool, account_id: str, endpoint_id: str) -> None:
    """Delete an endpoint with its deliveries. Raises NotFound, DatabaseUnavailable."""
    async with acquire_connection(pool) as conn, conn.transaction():
        found = await load_endpoint(conn, account_id, endpoint_id, lock=True)
        await conn.execute("DELETE FROM webhook_endpoints WHERE endpoint_id = %s", [found.id])


async def rotate_secret(pool: Pool, sealer: Sealer, account_id: str, endpoint_id: str) -> IssuedEndpoint:
    """Give an endpoint a new secret; the old one signs next to it for a day.

    Raises NotFound, DatabaseUnavailable.
    """
    secret = _generate_secret()
    async with acquire_connection(pool) as conn, conn.transaction():
        found = await load_endpoint(conn, account_id, endpoint_id, lock=True)
        sealed = sealer.seal(secret, owner=build_seal_owner(account_id, found.id))
        await conn.execute(_ROTATE, [ROTATION_SECONDS, sealed, secret[-4:], found.id])
        rotated = await load_endpoint(conn, account_id, found.id)
    return IssuedEndpoint(**asdict(rotated), secret=secret)


async def load_endpoint(
    conn: Connection, account_id: str, endpoint_id: str, *, lock: bool = False
) -> Endpoint:
    """Load the account's endpoint; with `lock` its row is locked by the open transaction.

    Raises NotFound.
    """
    endpoint_id = _check_id(endpoint_id)
    cursor = await conn.execute(_LOCKED if lock else _ONE, [endpoint_id, account_id])
    row = await cursor.fetchone()
    if row is None:
        raise NotFound("webhook endpoint", endpoint_id)
    return _build_endpoint(row)


def _check_id(endpoint_id: str) -> str:
    endpoint_id = endpoint_id.lower()
    if not is_uuid(endpoint_id):
        raise NotFound("webhook endpoint", endpoint_id[:100])
    return endpoint_id


def _build_owned(row: tuple[Any, ...]) -> OwnedEndpoint:
    return OwnedEndpoint(account_id=row[-1], **asdict(_build_endpoint(row)))


def _build_endpoint(row: tuple[Any, ...]) -> Endpoint:
    """Build an endpoint from a row of `_SHOWN`, whose last column is the account's id."""
    return msgspec.convert(dict(zip(Endpoint.__struct_fields__, row[:-1], strict=True)), Endpoint)


def _generate_secret() -> str:
    """Generate a secret in the form of Standard Webhooks."""
    return f"whsec_{base64.b64encode(os.urandom(_SECRET_BYTES)).decode()}"


def _drop_repeated(events: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(events))


_SHOWN: LiteralString = """
SELECT e.endpoint_id, url, events, payload, disabled_at IS NOT NULL,
       CASE WHEN disabled_at IS NOT NULL THEN disabled_reason END, secret_last4,
       coalesce((SELECT d.position FROM webhook_deliveries d
                  WHERE d.endpoint_id = e.endpoint_id AND d.position IS NOT NULL
                  ORDER BY place DESC LIMIT 1), 0), failing_since, created_at, account_id
  FROM webhook_endpoints e
"""
_OF_ANY = f"{_SHOWN} WHERE e.endpoint_id = %s"
_PAGE_OF_ALL = f"""{_SHOWN} WHERE (%(account)s::text IS NULL OR account_id = %(account)s)
   AND (%(limited)s::text[] IS NULL OR account_id = ANY (%(limited)s))
   AND e.endpoint_id > %(after)s
 ORDER BY e.endpoint_id LIMIT %(limit)s"""
_ONE = f"{_SHOWN} WHERE e.endpoint_id = %s AND account_id = %s"
_LOCKED = f"{_ONE} FOR NO KEY UPDATE OF e"
_PAGE = f"""{_SHOWN} WHERE account_id = %(account)s AND e.endpoint_id > %(after)s
 ORDER BY e.endpoint_id LIMIT %(limit)s"""
_COUNT = "SELECT count(*) FROM webhook_endpoints WHERE account_id = %s"

_INSERT = """
INSERT INTO webhook_endpoints
       (endpoint_id, account_id, url, events, payload, secret, secret_last4, begins_after)
VALUES (%(id)s, %(account)s, %(url)s, %(events)s, %(payload)s, %(secret)s, %(last4)s, settled_position())
"""

_UPDATE = """
UPDATE webhook_endpoints SET url = %(url)s, events = %(events)s, payload = %(payload)s
 WHERE endpoint_id = %(id)s
"""

_ENABLE = """
UPDATE webhook_endpoints
   SET disabled_at = NULL, disabled_reason = NULL, failing_since = NULL, failures = 0, not_before = NULL
 WHERE endpoint_id = %s
"""

# Failures of the address before say nothing about a new one.
_FORGET_FAILURES = """
UPDATE webhook_endpoints SET failing_since = NULL, failures = 0, not_before = NULL WHERE endpoint_id = %s
"""

_DISABLE = """
UPDATE webhook_endpoints SET disabled_at = clock_timestamp(), disabled_reason = 'account'
 WHERE endpoint_id = %s
"""

_ROTATE = """
UPDATE webhook_endpoints
   SET previous_secret = secret, previous_until = clock_timestamp() + make_interval(secs => %s),
       secret = %s, secret_last4 = %s
 WHERE endpoint_id = %s
"""
