"""A request for a run, and the guards that it passes: after that of its key, and before its body is read."""

from typing import Any

from litestar.handlers.base import BaseRouteHandler

from gateway.access.admission import RATE_LIMIT_HEADERS, Slot, admission
from gateway.chat.idempotency_key import IDEMPOTENCY_KEY, key_of
from gateway.gateway_request import GatewayRequest
from gateway.http.exchange import Connection
from gateway.openapi.described import described


class AdmittedRequest(GatewayRequest):
    """`agent_id` is the agent's that the headers or the address name, once it is known to be the account's.

    `slot` is the request's place among the account's runs, held until it has been answered.
    """

    agent_id: str
    slot: Slot

    async def body(self) -> bytes:
        """The body, unless this process stops meanwhile. Raises as GatewayRequest has it; Stopping."""
        if self._received is not None:
            return self._received
        async with self.services.runs.receiving():
            return await super().body()

    async def json(self) -> Any:
        """The handler's `data`, likewise."""
        async with self.services.runs.receiving():
            return await super().json()


@described("idempotency_conflict", parameters=[IDEMPOTENCY_KEY])
async def has_idempotency_key(connection: Connection, _: BaseRouteHandler) -> None:
    """Guard, after that of the key: the header Idempotency-Key is right, if it is there.

    Raises Refusal: 400; DatabaseUnavailable.
    """
    assert isinstance(connection, GatewayRequest)
    await _read_idempotency_key(connection)
    connection.idempotency_key.check()


run_limits = described(
    *("rate_limited", "quota_exceeded", "storage_full", "idempotency_conflict"),
    headers=RATE_LIMIT_HEADERS,
    parameters=[IDEMPOTENCY_KEY],
)
"""What guards that `admit` are described by."""


@run_limits
async def within_run_limits(connection: Connection, _: BaseRouteHandler) -> None:
    """Guard, after that of the key: hold a place for a run. Raises Refusal: 429, 403; DatabaseUnavailable."""
    await admit(connection)


async def admit(connection: Connection, *, is_retry: bool = False) -> None:
    """As `within_run_limits`; `is_retry`: a client says that it has sent this before.

    Raises Refusal: 400 too, for the header Idempotency-Key.
    """
    request = admitted_request(connection)
    await _read_idempotency_key(request)
    services, exchange = request.services, request.exchange
    repeats = is_retry or request.idempotency_key.repeats
    request.slot = await exchange.enter(
        admission(exchange, services.limiter, services.storage, request.auth, repeats=repeats)
    )
    request.idempotency_key.check()


def admitted_request(connection: Connection) -> AdmittedRequest:
    """The connection of a guard or a hook of a chat."""
    assert isinstance(connection, AdmittedRequest)
    return connection


async def _read_idempotency_key(request: GatewayRequest) -> None:
    request.idempotency_key = await key_of(request.exchange, request.services.pool, request.auth.account_id)
