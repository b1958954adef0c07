"""One request to an endpoint: signed, to a judged address, bounded, and no redirect followed."""

import asyncio
import contextlib
import ssl
import time
from collections.abc import Sequence
from email.utils import parsedate_to_datetime

import httpx2
import msgspec
from standardwebhooks import Webhook

from contracts.webhooks import Attempt, AttemptError
from net_guard import AddressRefused, Guard, Unresolved
from net_guard.transport import GuardedTransport
from notifier.clock import Clock
from notifier.schedule import LONGEST_WISH

ATTEMPT_SECONDS = 15.0
"""Until the answer is there, from the look-up of the name on."""

_KEEPALIVE_SECONDS = 15.0
_ANSWER_BYTES = 4096
_GONE = 410


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a request. `wish` is Retry-After in seconds."""

    attempt: Attempt
    wish: float | None = None

    @property
    def is_success(self) -> bool:
        return self.attempt.error is None

    @property
    def is_gone(self) -> bool:
        """The receiver wants nothing more."""
        return self.attempt.status == _GONE


class _Failure(Exception):  # noqa: N818 - an outcome
    """No answer came."""

    def __init__(self, error: AttemptError, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


class Courier:
    """Sends requests to one endpoint: what a request costs the pool grows with the connections in it."""

    def __init__(self, guard: Guard, tls: ssl.SSLContext, clock: Clock) -> None:
        self._clock = clock
        self._transport = GuardedTransport(guard, tls, keepalive_seconds=_KEEPALIVE_SECONDS)

    async def send(self, url: str, signers: Sequence[Webhook], message_id: str, body: bytes) -> Answered:
        """Post a message, signed by each of `signers`. Whatever goes wrong is in the answer."""
        at, began = self._clock.now(), time.monotonic()
        signatures = (signer.sign(message_id, at, body.decode()) for signer in signers)
        headers = {
            "content-type": "application/json",
            "user-agent": "agentchat-webhooks/1",
            "webhook-id": message_id,
            "webhook-timestamp": str(int(at.timestamp())),
            "webhook-signature": " ".join(signatures),
        }
        status, wish, failure = None, None, None
        try:
            status, retry_after = await self._post(url, headers, body)
            wish = self._wish_of(retry_after)
            failure = _failure_of(status)
        except _Failure as found:
            failure = found
        return Answered(
            attempt=Attempt(
                at=at,
                ms=round((time.monotonic() - began) * 1000),
                status=status,
                error=failure.error if failure else None,
                message=failure.message if failure else None,
            ),
            wish=wish,
        )

    async def aclose(self) -> None:
        await self._transport.aclose()

    async def _post(self, url: str, headers: dict[str, str], body: bytes) -> tuple[int, str | None]:
        try:
            async with asyncio.timeout(ATTEMPT_SECONDS):
                request = httpx2.Request("POST", url, headers=headers, content=body)
                response = await self._transport.handle_async_request(request)
                try:
                    await _read(response)
                finally:
                    await response.aclose()
                return response.status_code, response.headers.get("retry-after")
        except (TimeoutError, httpx2.TimeoutException):
            raise _Failure("timeout", f"No answer came within {ATTEMPT_SECONDS:.0f} s.") from None
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            raise _explained(error) from None
        except UnicodeError:  # of a name that only looks like one in Punycode
            raise _unresolved() from None

    def _wish_of(self, retry_after: str | None) -> float | None:
        """Seconds, or a date, as RFC 9110 has it."""
        if retry_after is None:
            return None
        with contextlib.suppress(ValueError, TypeError, OverflowError):
            if retry_after.isascii() and retry_after.isdigit():
                seconds = float(retry_after)
            else:
                seconds = (parsedate_to_datetime(retry_after) - self._clock.now()).total_seconds()
            return min(max(seconds, 0.0), LONGEST_WISH)
        return None


async def _read(response: httpx2.Response) -> None:
    """As much as lets the connection be used again, and no more."""
    read = 0
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    with contextlib.suppress(httpx2.TransportError):  # the status is all that counts
        async for part in response.stream:
            read += len(part)
            if read > _ANSWER_BYTES:
                return


def _failure_of(status: int) -> _Failure | None:
    if 200 <= status < 300:
        return None
    if 300 <= status < 400:
        return _Failure("redirect_refused", f"The endpoint answered {status}, and no redirect is followed.")
    return _Failure("status", f"The endpoint answered {status}.")


def _explained(error: Exception) -> _Failure:
    cause = error.__cause__
    if isinstance(cause, AddressRefused):
        return _Failure("address_refused", f"The address may not be called: {cause}.")
    if isinstance(cause, Unresolved):
        return _unresolved()
    return _Failure("connection_failed", "No connection with the endpoint came about, or it broke.")


def _unresolved() -> _Failure:
    return _Failure("unresolved", "The name of the endpoint has no address.")
