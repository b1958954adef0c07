"""The request as handlers and guards get it: Litestar's, whose body is read by the strict JSON reader."""

from collections.abc import Callable
from typing import Any, TypeVar

from litestar import Request
from litestar.datastructures import State

from directory.caller import Caller
from gateway.chat.idempotency_key import IdempotencyKey
from gateway.gateway_services import GatewayServices, services_of
from gateway.http import strict_json
from gateway.http.exchange import Exchange, of

T = TypeVar("T")


class GatewayRequest(Request[Any, Caller, State]):
    """`auth` is the caller that the guard of the key has found, `idempotency_key` what its guard has.

    A handler's `data` is decoded by the function `decode` of the handler's `opt`, which takes the type of
    `data` and the bytes; without one by `strict_json.decode`.
    """

    idempotency_key = IdempotencyKey(None)
    _received: bytes | None = None

    @property
    def exchange(self) -> Exchange:
        return of(self.scope)

    @property
    def services(self) -> GatewayServices:
        return services_of(self)

    async def body(self) -> bytes:
        """The body; b"" where the handler's `data` may be left out, and is.

        Raises Refusal: 415, 413, 400; ClientGone.
        """
        if self._received is None:
            data = self.route_handler.parsed_data_field
            if data is not None and data.is_optional and not self.exchange.unread:
                self._received = b""
            else:
                self._received = await strict_json.receive_json(
                    self.exchange, self.route_handler.opt.get("max_bytes", strict_json.MAX_BODY_BYTES)
                )
        return self._received

    async def json(self) -> Any:
        """The handler's `data`. Raises Refusal: 400, 413, 429; what its `decode` raises."""
        field, received = self.route_handler.parsed_data_field, await self.body()
        assert field is not None
        decode = self.route_handler.opt.get("decode", strict_json.decode)
        return await strict_json.in_turn(
            self.exchange, received, lambda: decode(field.annotation, received), counted=True
        )

    async def in_turn(self, work: Callable[[], T]) -> T:
        """What `work` returns, whose time grows with the body: a large one is worked on next to the loop."""
        return await strict_json.in_turn(self.exchange, await self.body(), work)
